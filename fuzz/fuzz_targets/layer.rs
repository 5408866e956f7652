//! A layer called in any way: at once, in chunks, token by token, on every unit: the same bits.
#![no_main]

use dhyan::{Causal, Isa, KvCache, MultiHeadAttention, Workspace};
use libfuzzer_sys::fuzz_target;

const N: usize = 40;
type Layer = MultiHeadAttention<12, 3>;

fuzz_target!(|input: (Vec<i8>, Vec<u8>)| {
    let mut given = input.0.iter().cycle().map(|&v| f32::from(v) / 64.0);
    let mut take = |count| (0..count).map(|_| given.next().unwrap_or(0.5)).collect::<Vec<f32>>();
    let mut layer = Layer::ZERO;
    for linear in [&mut layer.query, &mut layer.key, &mut layer.value, &mut layer.output] {
        linear.load(&take(144)).unwrap();
        linear.load_bias(&take(12)).unwrap();
    }
    let tokens = take(12 * (input.0.len() % (N + 1)));
    let x: &[[f32; 12]] = tokens.as_chunks().0;
    let mut of_class: [Option<Vec<[f32; 12]>>; 2] = [None, None];
    for isa in Isa::available() {
        let mut workspace = Workspace::<N, 12>::with_isa(isa);
        let mut whole = vec![[f32::NAN; 12]; x.len()];
        layer.self_attention(x, &Causal::top_left(), &mut workspace, &mut whole).unwrap();

        let (mut cache, mut parts) = (KvCache::<N, 12>::new(), vec![[f32::NAN; 12]; x.len()]);
        let mut chunks = input.1.iter().cycle().map(|&c| 1 + usize::from(c) % 9);
        while cache.len() < x.len() {
            let first = cache.len();
            let last = x.len().min(first + chunks.next().unwrap_or(1));
            layer.append(&x[first..last], &mut cache, &mut workspace).unwrap();
            let (x, y) = (&x[first..last], &mut parts[first..last]);
            layer.attend(x, &cache, &Causal::bottom_right(), &mut workspace, y).unwrap();
        }
        let bits = |rows: &[[f32; 12]]| {
            rows.as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&whole), bits(&parts), "{isa:?}: in chunks");
        let known = of_class[usize::from(isa.is_fused())].get_or_insert_with(|| whole.clone());
        assert_eq!(bits(known), bits(&whole), "{isa:?}");
    }
});
