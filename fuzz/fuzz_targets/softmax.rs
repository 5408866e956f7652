//! Rows of any floats: every unit of a class agrees to the bit, and with the f64 reference where that is finite.
#![no_main]

use dhyan::{Isa, kernels::softmax};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<f32>)| {
    let (columns, values) = (1 + input.0 as usize, input.1);
    let values = &values[..values.len() - values.len() % columns];
    let mut of_class: [Option<Vec<u32>>; 2] = [None, None];
    for isa in Isa::available() {
        let mut rows = values.to_vec();
        softmax(isa, &mut rows, columns).unwrap();
        for (row, weights) in values.chunks(columns).zip(rows.chunks(columns)) {
            check(row, weights);
        }
        let bits: Vec<u32> =
            rows.iter().map(|w| if w.is_nan() { u32::MAX } else { w.to_bits() }).collect();
        let known = &mut of_class[usize::from(isa.is_fused())];
        assert_eq!(known.get_or_insert_with(|| bits.clone()), &bits, "{isa:?}");
    }
});

fn check(row: &[f32], weights: &[f32]) {
    let max = row.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(x as f64));
    if row.iter().any(|x| x.is_nan()) || max == f64::INFINITY {
        return assert!(weights.iter().all(|w| w.is_nan() || *w == 0.0));
    }
    let sum: f64 = row.iter().map(|&x| (x as f64 - max).exp()).sum();
    for (&x, &weight) in row.iter().zip(weights) {
        let expected = if max == f64::NEG_INFINITY { 0.0 } else { (x as f64 - max).exp() / sum };
        // The argument of exp is rounded (relative 2^-23 of its size), the rest is a few units in the last place.
        let bound = expected * ((x as f64 - max).abs().min(200.0) + 20.0) * 2f64.powi(-23) + 1e-37;
        assert!((weight as f64 - expected).abs() <= bound, "{x} {weight} {expected}");
    }
}
