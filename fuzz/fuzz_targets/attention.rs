//! Attention on plain slices of any shape: every unit agrees to the bit, hidden keys touch nothing, and the outputs are
//! those of the formula in f64.
#![no_main]

use arbitrary::Arbitrary;
use dhyan::{
    Hide, Isa,
    kernels::{Dimensions, attention, attention_scratch},
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    groups: u8,
    group: u8,
    d_k: u8,
    d_v: u8,
    queries: u8,
    keys: u8,
    values: Vec<i8>,
    hidden: Vec<bool>,
}

fuzz_target!(|input: Input| {
    let kv_heads = 1 + input.groups as usize % 3;
    let heads = kv_heads * (1 + input.group as usize % 3);
    let (d_k, d_v) = (1 + input.d_k as usize % 40, 1 + input.d_v as usize % 40);
    let (n, keys) = (input.queries as usize % 40, input.keys as usize % 70);
    let dimensions = Dimensions { heads, kv_heads, d_k, d_v };
    let mut given = input.values.iter().cycle().map(|&v| f32::from(v) / 32.0);
    let mut take = |count| (0..count).map(|_| given.next().unwrap_or(0.5)).collect::<Vec<f32>>();
    let (q, mut k, mut v) =
        (take(n * heads * d_k), take(keys * kv_heads * d_k), take(keys * kv_heads * d_v));
    let hidden: Vec<bool> = (0..n * keys)
        .map(|i| *input.hidden.get(i % input.hidden.len().max(1)).unwrap_or(&false))
        .collect();
    let run = |isa, k: &[f32], v: &[f32]| {
        let mut out = vec![f32::NAN; n * heads * d_v];
        let mut scratch = vec![f32::NAN; attention_scratch(dimensions, keys)];
        attention(isa, dimensions, &q, k, v, 0.25, &Hide(&hidden), &mut scratch, &mut out).unwrap();
        out
    };
    let mut of_class: [Option<Vec<f32>>; 2] = [None, None];
    for isa in Isa::available() {
        let out = run(isa, &k, &v);
        let known = of_class[usize::from(isa.is_fused())].get_or_insert_with(|| out.clone());
        assert!(known.iter().zip(&out).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa:?}");
    }
    let out = run(Isa::detect(), &k, &v);
    check(dimensions, (&q, &k, &v), &hidden, &out, n, keys);
    // Keys that nobody sees: NaN in them changes no bit.
    for key in 0..keys {
        if (0..n).all(|i| hidden[i * keys + key]) {
            k[key * kv_heads * d_k..][..kv_heads * d_k].fill(f32::NAN);
            v[key * kv_heads * d_v..][..kv_heads * d_v].fill(f32::NAN);
        }
    }
    let poisoned = run(Isa::detect(), &k, &v);
    assert!(out.iter().zip(&poisoned).all(|(a, b)| a.to_bits() == b.to_bits()), "poison");
});

fn check(
    Dimensions { heads, kv_heads, d_k, d_v }: Dimensions,
    (q, k, v): (&[f32], &[f32], &[f32]),
    hidden: &[bool],
    out: &[f32],
    n: usize,
    keys: usize,
) {
    for (i, head) in (0..n).flat_map(|i| (0..heads).map(move |h| (i, h))) {
        let kv_head = head / (heads / kv_heads);
        let score = |j: usize| -> f64 {
            let products = (0..d_k).map(|e| {
                q[(i * heads + head) * d_k + e] as f64
                    * k[(j * kv_heads + kv_head) * d_k + e] as f64
            });
            products.sum::<f64>() * 0.25
        };
        let seen: Vec<usize> = (0..keys).filter(|j| !hidden[i * keys + j]).collect();
        let max = seen.iter().map(|&j| score(j)).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = seen.iter().map(|&j| (score(j) - max).exp()).sum();
        for e in 0..d_v {
            let value = |j: usize| v[(j * kv_heads + kv_head) * d_v + e] as f64;
            let expected: f64 =
                seen.iter().map(|&j| (score(j) - max).exp() * value(j)).sum::<f64>()
                    / sum.max(1e-300);
            // Values are at most 4 and scores at most 160: an error of 160 · 40 · 2^-24 in a score, at worst.
            let found = out[(i * heads + head) * d_v + e] as f64;
            assert!((found - expected).abs() <= 4e-3, "{found} {expected}");
        }
    }
}
