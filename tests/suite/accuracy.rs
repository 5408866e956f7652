//! Against f64, within bounds that are derived (`common/reference.rs`), not measured.

use crate::common::units;
use crate::common::{AnyLayer, Case, MODES, MaskOf, Mode, Parameters, Random, Reference};
use dhyan::kernels::{Panels, layer_norm, pack, product, softmax};
use proptest::prelude::*;

fn check_product(random: &mut Random, mode: Mode, (rows, inner, columns): (usize, usize, usize)) {
    let left = random.left(mode, rows, inner);
    let right = random.right(mode, inner, columns);
    let bias: Vec<f32> = (0..columns).map(|_| random.value(mode)).collect();
    let mut panels = vec![0.0; inner * columns];
    pack(&right, inner, columns, &mut panels).unwrap();
    let panels = Panels::new(&panels, inner, columns).unwrap();
    let reference = Reference::product(&left[..].into(), &right[..].into(), &bias);
    for isa in units() {
        let mut out = vec![f32::NAN; rows * columns];
        product(isa, &left, panels, Some(&bias), &mut out).unwrap();
        // (inner + 2) u Σ|a||b| against the result: cancelling leaves little of it.
        let tolerance = if mode == Mode::Cancelling { f64::INFINITY } else { 1e-2 };
        reference.check(&format!("{isa:?}, {mode:?}"), &out, tolerance);
    }
}

fn check_softmax(random: &mut Random, columns: usize, scale: f32) {
    let row: Vec<f32> = (0..columns).map(|_| random.unit() * scale).collect();
    let reference = Reference::softmax(&row);
    for isa in units() {
        let mut found = row.clone();
        softmax(isa, &mut found, columns).unwrap();
        reference.check(&format!("{isa:?}, {columns} columns, up to {scale}"), &found, 1e-4);
    }
}

fn check_layer_norm(random: &mut Random, width: usize, offset: f32) {
    let row: Vec<f32> = (0..width).map(|_| random.unit() + offset).collect();
    let [weight, bias] = [(); 2].map(|()| (0..width).map(|_| random.unit()).collect::<Vec<f32>>());
    let reference = Reference::layer_norm(&row, &weight, &bias, 1e-5);
    for isa in units() {
        let mut found = vec![f32::NAN; width];
        layer_norm(isa, &row, &weight, &bias, 1e-5, &mut found).unwrap();
        // What is left of x - mean has lost the digits that a large mean takes.
        let tolerance = if offset < 2.0 && width > 1 { 1e-2 } else { f64::INFINITY };
        reference.check(&format!("{isa:?}, {width}, {offset}"), &found, tolerance);
    }
}

fn check_layer(
    layer: &mut dyn AnyLayer,
    random: &mut Random,
    mode: Mode,
    (queries, keys): (usize, usize),
    mask: &MaskOf,
    tolerance: f64,
) {
    let sizes = layer.sizes();
    let parameters = Parameters::random(random, mode, sizes);
    let x = random.left(mode, queries, sizes.d_model);
    let source = random.left(mode, keys, sizes.d_source);
    layer.load(&parameters);
    let sees = |i, j| mask.sees(queries, keys, i, j);
    let (outputs, weights) = Reference::layer(sizes, &parameters, &x, &source, sees);
    // Wide scores are thousands: what they may be off by is a large factor of a weight.
    let tolerance = if mode == Mode::Wide { f64::INFINITY } else { tolerance };
    for isa in units() {
        let what = format!("{isa:?}, {sizes:?}, {mode:?}, {queries} x {keys}, {mask:?}");
        let found = layer.outputs(isa, &x, &source, mask).unwrap();
        outputs.check(&what, &found, tolerance);
        let found = layer.weights(isa, &x, &source, mask, false).unwrap();
        weights.check(&format!("weights, {what}"), &found, tolerance);
    }
}

/// More than one key tile, and a layer of a real model's width.
#[test]
fn large_layers() {
    let mut random = Random::new(1);
    for (mut layer, queries, keys, tolerance) in [
        (Case::<64, 4, 32, 64, 1100>::boxed(), 20, 1100, 1e-2),
        // That all of 512 roundings go the same way, three times in a row, is what a bound must think of.
        (Case::<512, 8, 512, 512, 33>::boxed(), 16, 33, 0.25),
    ] {
        for kind in 0..MaskOf::KINDS {
            let mask = MaskOf::random(&mut random, kind, queries, keys);
            check_layer(
                &mut *layer,
                &mut random,
                MODES[kind % 3],
                (queries, keys),
                &mask,
                tolerance,
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn products(seed: u64, mode in 0..3usize, rows in 1..50usize, inner in 1..600usize, columns in 1..50usize) {
        check_product(&mut Random::new(seed), MODES[mode], (rows, inner, columns));
    }

    #[test]
    fn softmaxes(seed: u64, columns in 1..3000usize, scale in 0.001..200f32) {
        check_softmax(&mut Random::new(seed), columns, scale);
    }

    #[test]
    fn layer_norms(seed: u64, width in 1..2000usize, offset in 0..1000u32) {
        check_layer_norm(&mut Random::new(seed), width, offset as f32 / 50.0);
    }

    #[test]
    fn layers(
        seed: u64,
        mode in 0..3usize,
        layer in 0..LAYERS.len(),
        kind in 0..MaskOf::KINDS,
        queries in 0..100usize,
        keys in 0..100usize,
    ) {
        let random = &mut Random::new(seed);
        let mask = MaskOf::random(random, kind, queries, keys);
        check_layer(&mut *LAYERS[layer](), random, MODES[mode], (queries, keys), &mask, 1e-2);
    }
}

const LAYERS: [fn() -> Box<dyn AnyLayer>; 5] = [
    Case::<1, 1, 1, 1, 100>::boxed,
    Case::<6, 2, 3, 5, 100>::boxed,
    Case::<21, 7, 21, 2, 100>::boxed,
    Case::<36, 4, 18, 36, 100>::boxed,
    Case::<64, 8, 64, 64, 100>::boxed,
];
