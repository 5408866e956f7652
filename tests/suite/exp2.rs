//! The exponential of softmax, over all floats that it is made for.

use crate::common::{Random, assert_same, classes};
use dhyan::kernels::exp2;

/// Units in the last place that a result may be off, as its documentation says.
const FUSED: f64 = 0.78;
const UNFUSED: f64 = 1.06;

/// Floats from bit pattern `first` to `last`, one of `step`, a block at a time.
fn blocks(first: u32, last: u32, step: usize, mut visit: impl FnMut(&[f32])) {
    let mut block = Vec::with_capacity(4096);
    for bits in (first..=last).step_by(step) {
        block.push(f32::from_bits(bits));
        if block.len() == block.capacity() {
            visit(&block);
            block.clear();
        }
    }
    visit(&block);
}

/// All floats where `DHYAN_EXHAUSTIVE=1`, else one of 61.
fn step() -> usize {
    if std::env::var("DHYAN_EXHAUSTIVE").is_ok_and(|value| value == "1") { 1 } else { 61 }
}

/// How far a result is from the exact one, in units of the last place of that one.
fn ulps(exact: f64, found: f32) -> f64 {
    // Its exponent alone: where it is a power of two itself, the spacing above it.
    let unit = f64::from_bits((exact.to_bits() >> 52 << 52) - (23 << 52));
    (f64::from(found) - exact).abs() / unit
}

/// The best unit of a class against f64, the others against it.
fn check(first: u32, last: u32) {
    let classes = classes();
    // The largest error of each class, and where.
    let mut worst = vec![(0.0, 0.0); classes.len()];
    let mut exact = Vec::new();
    blocks(first, last, step(), |block| {
        exact.clear();
        exact.extend(block.iter().map(|&x| f64::from(x).exp2()));
        for ((_, units), worst) in classes.iter().zip(&mut worst) {
            let mut best = block.to_vec();
            exp2(units[0], &mut best);
            for ((&x, &exact), &found) in block.iter().zip(&exact).zip(&best) {
                let off = ulps(exact, found);
                if off > worst.0 || off.is_nan() {
                    *worst = (off, x);
                }
            }
            for &isa in &units[1..] {
                let mut other = block.to_vec();
                exp2(isa, &mut other);
                assert_same(isa.name(), &best, &other);
            }
        }
    });
    for ((model, _), (off, x)) in classes.iter().zip(worst) {
        let (class, bound) = if model.fused { ("fused", FUSED) } else { ("unfused", UNFUSED) };
        println!("{class}: at most {off} units in the last place, at {x:e}");
        assert!(off <= bound, "{class}: {off} units in the last place at {x:e}");
    }
}

/// From -0 to -126, where the result is a normal number.
#[test]
fn negative() {
    check((-0f32).to_bits(), (-126f32).to_bits());
}

/// From 0 to 127.
#[test]
fn positive() {
    check(0f32.to_bits(), 127f32.to_bits());
}

/// Below -126, to -Inf, it is +0.
#[test]
fn far_below() {
    for (_, units) in classes() {
        for isa in units {
            blocks((-126f32).to_bits() + 1, f32::NEG_INFINITY.to_bits(), step(), |block| {
                let mut found = block.to_vec();
                exp2(isa, &mut found);
                assert!(found.iter().all(|p| p.to_bits() == 0), "{isa:?}: {block:?}");
            });
        }
    }
}

/// Whole numbers are exact, and what is not a number stays none.
#[test]
fn exact() {
    for (_, units) in classes() {
        for isa in units {
            let mut found: Vec<f32> =
                (0..=126).map(|n| -(n as f32)).chain([-0.0, f32::NAN, -f32::NAN]).collect();
            exp2(isa, &mut found);
            for (n, &p) in found[..127].iter().enumerate() {
                assert_eq!(p.to_bits(), (127 - n as u32) << 23, "{isa:?}: 2^-{n}");
            }
            assert_eq!(found[127], 1.0);
            assert!(found[128].is_nan() && found[129].is_nan());
        }
    }
}

/// Slices of any length, against the model.
#[test]
fn lengths() {
    let mut random = Random::new(1);
    for n in 0..70 {
        let x: Vec<f32> = (0..n).map(|_| (random.unit() - 1.0) * 70.0).collect();
        for (model, units) in classes() {
            let expected: Vec<f32> = x.iter().map(|&x| model.exp2(x)).collect();
            for isa in units {
                let mut found = x.clone();
                exp2(isa, &mut found);
                assert_same(format!("{isa:?}, {n}"), &expected, &found);
            }
        }
    }
}
