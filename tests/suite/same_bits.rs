//! Every unit computes the bits of the plain model of its class.

use crate::common::{AnyLayer, Case, MODES, MaskOf, Mode, Model, Parameters, Random, power_of_two};
use crate::common::{assert_same, classes};
use dhyan::kernels::{Panels, layer_norm, pack, product, softmax};
use proptest::prelude::*;

const LENGTHS: [usize; 20] =
    [0, 1, 2, 15, 16, 17, 31, 33, 48, 49, 100, 127, 128, 129, 511, 512, 513, 600, 1025, 1100];

/// Multiply-adds that one call of a layer may take: the plain model is slow.
const WORK: usize = 30_000_000;

/// D_MODEL, H, D_KV, D_SOURCE, N: one-wide, odd and wide layers; as many kv heads as heads, fewer, one; other sources.
fn layers() -> Vec<Box<dyn AnyLayer>> {
    vec![
        Case::<1, 1, 1, 1, 1100>::boxed(),
        Case::<2, 2, 1, 5, 1100>::boxed(),
        Case::<8, 4, 4, 8, 1100>::boxed(),
        Case::<12, 3, 12, 3, 600>::boxed(),
        Case::<35, 7, 35, 35, 600>::boxed(),
        Case::<52, 4, 26, 52, 513>::boxed(),
        Case::<60, 5, 60, 60, 129>::boxed(),
        Case::<64, 4, 32, 64, 1100>::boxed(),
        Case::<99, 9, 33, 99, 128>::boxed(),
        Case::<104, 8, 13, 104, 100>::boxed(),
        Case::<130, 5, 26, 7, 49>::boxed(),
        Case::<512, 8, 512, 512, 17>::boxed(),
        Case::<520, 4, 260, 520, 16>::boxed(),
    ]
}

fn check_product(random: &mut Random, mode: Mode, (rows, inner, columns): (usize, usize, usize)) {
    let left = random.left(mode, rows, inner);
    let right = random.right(mode, inner, columns);
    let mut panels = vec![0.0; inner * columns];
    pack(&right, inner, columns, &mut panels).unwrap();
    let panels = Panels::new(&panels, inner, columns).unwrap();
    // Without a bias a chain starts from +0.
    let bias: Vec<f32> = match random.below(2) {
        0 => vec![0.0; columns],
        _ => (0..columns).map(|_| random.value(mode)).collect(),
    };
    let given = bias.iter().any(|&b| b != 0.0).then_some(&bias[..]);
    for (model, units) in classes() {
        let expected = model.product(&left, &right, &bias, inner);
        for isa in units {
            let mut out = vec![f32::NAN; rows * columns];
            product(isa, &left, panels, given, &mut out).unwrap();
            assert_same(
                format!("{isa:?}, {mode:?}, {rows} x {inner} x {columns}"),
                &expected,
                &out,
            );
        }
    }
}

fn check_softmax(random: &mut Random, mode: Mode, columns: usize) {
    let scale = power_of_two(random.below(8) as i32);
    let rows: Vec<f32> = random.left(mode, 3, columns).iter().map(|x| x * scale).collect();
    for (model, units) in classes() {
        let expected: Vec<f32> =
            rows.chunks_exact(columns).flat_map(|row| model.softmax(row)).collect();
        for isa in units {
            let mut found = rows.clone();
            softmax(isa, &mut found, columns).unwrap();
            assert_same(format!("{isa:?}, {mode:?}, {columns} columns"), &expected, &found);
        }
    }
}

fn check_layer_norm(random: &mut Random, mode: Mode, width: usize) {
    let rows = random.left(mode, 3, width);
    let [weight, bias] = [random.left(mode, 1, width), random.left(mode, 1, width)];
    for (model, units) in classes() {
        let expected: Vec<f32> = rows
            .chunks_exact(width)
            .flat_map(|row| model.layer_norm(row, &weight, &bias, 1e-5))
            .collect();
        for isa in units {
            let mut found = vec![f32::NAN; rows.len()];
            layer_norm(isa, &rows, &weight, &bias, 1e-5, &mut found).unwrap();
            assert_same(format!("{isa:?}, {mode:?}, {width} wide"), &expected, &found);
        }
    }
}

/// The classes differ, so that a unit which is in the wrong one cannot pass.
#[test]
fn classes_differ() {
    let random = &mut Random::new(1);
    let [left, right] = [random.left(Mode::Cancelling, 8, 8), random.right(Mode::Cancelling, 8, 8)];
    let [fused, unfused] =
        [true, false].map(|fused| Model { fused }.product(&left, &right, &[0.0; 8], 8));
    let differ = fused.iter().zip(&unfused).filter(|(a, b)| a != b).count();
    assert!(differ > 60, "{differ} of 64");
}

#[test]
fn small_products() {
    let mut random = Random::new(2);
    for rows in 1..=20 {
        for inner in 1..=20 {
            for columns in 1..=20 {
                let mode = MODES[(rows + inner + columns) % 3];
                check_product(&mut random, mode, (rows, inner, columns));
            }
        }
    }
}

/// One dimension at, before and behind each multiple of 16, the others small.
#[test]
fn products_at_the_edges() {
    let mut random = Random::new(3);
    for edge in (16..=520).step_by(16).chain([1024, 1104]).flat_map(|n| [n - 1, n, n + 1]) {
        let [a, b] = [1 + random.below(40), 1 + random.below(40)];
        for shape in [(edge, a, b), (a, edge, b), (a, b, edge)] {
            let mode = MODES[random.below(3)];
            check_product(&mut random, mode, shape);
        }
    }
}

#[test]
fn softmax_rows() {
    let mut random = Random::new(4);
    for columns in (1..=70).chain([127, 128, 129, 511, 512, 513, 1000, 4097, 10_000]) {
        for mode in MODES {
            check_softmax(&mut random, mode, columns);
        }
    }
}

#[test]
fn layer_norms() {
    let mut random = Random::new(5);
    for width in (1..=70).chain([127, 128, 129, 384, 512, 1000]) {
        for mode in MODES {
            check_layer_norm(&mut random, mode, width);
        }
    }
}

fn check_layer(
    layer: &mut dyn AnyLayer,
    random: &mut Random,
    mode: Mode,
    (queries, keys): (usize, usize),
    mask: &MaskOf,
) {
    let sizes = layer.sizes();
    let parameters = Parameters::random(random, mode, sizes);
    let mut x = random.left(mode, queries, sizes.d_model);
    let mut source = random.left(mode, keys, sizes.d_source);
    for tokens in [&mut x, &mut source] {
        let place = random.below(tokens.len().max(1));
        let special = [f32::NAN, 1e30, -0.0].get(random.below(16));
        if let (Some(x), Some(special)) = (tokens.get_mut(place), special) {
            *x = *special;
        }
    }
    layer.load(&parameters);
    for (model, units) in classes() {
        let sees = |i, j| mask.sees(queries, keys, i, j);
        let (out, weights) = model.layer(sizes, &parameters, &x, &source, sees);
        let mean = model.mean(sizes.heads, &weights);
        for isa in units {
            let what = |part| {
                format!("{part}, {isa:?}, {sizes:?}, {mode:?}, {queries} x {keys}, {mask:?}")
            };
            let found = layer.outputs(isa, &x, &source, mask).unwrap();
            assert_same(what("outputs"), &out, &found);
            let found = layer.weights(isa, &x, &source, mask, false).unwrap();
            assert_same(what("weights"), &weights, &found);
            let found = layer.weights(isa, &x, &source, mask, true).unwrap();
            assert_same(what("mean weights"), &mean, &found);
        }
    }
}

#[test]
fn layers_of_all_shapes() {
    let mut random = Random::new(1);
    let mut kind = 0;
    for mut layer in layers() {
        let sizes = layer.sizes();
        for keys in LENGTHS.into_iter().filter(|&n| n <= sizes.n) {
            let other = LENGTHS[random.below(LENGTHS.len())];
            for queries in [keys, other] {
                if queries > sizes.n || sizes.work(queries, keys) > WORK {
                    continue;
                }
                let masks = if sizes.work(queries, keys) < WORK / 100 { MaskOf::KINDS } else { 1 };
                for _ in 0..masks {
                    kind += 1;
                    let mask = MaskOf::random(&mut random, kind, queries, keys);
                    let mode = MODES[random.below(3)];
                    check_layer(&mut *layer, &mut random, mode, (queries, keys), &mask);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn products(seed: u64, mode in 0..3usize, rows in 1..1100usize, inner in 1..520usize, columns in 1..520usize) {
        // As large as the model can take, by giving up rows.
        let rows = rows.min(1 + 4_000_000 / (inner * columns));
        check_product(&mut Random::new(seed), MODES[mode], (rows, inner, columns));
    }

    #[test]
    fn softmaxes(seed: u64, mode in 0..3usize, columns in 1..1100usize) {
        check_softmax(&mut Random::new(seed), MODES[mode], columns);
    }

    #[test]
    fn layers_of_any_length(
        seed: u64,
        mode in 0..3usize,
        layer in 0..SMALL.len(),
        kind in 0..MaskOf::KINDS,
        queries in 0..70usize,
        keys in 0..70usize,
    ) {
        let random = &mut Random::new(seed);
        let mask = MaskOf::random(random, kind, queries, keys);
        check_layer(&mut *SMALL[layer](), random, MODES[mode], (queries, keys), &mask);
    }
}

/// Layers that fit any stack.
const SMALL: [fn() -> Box<dyn AnyLayer>; 6] = [
    Case::<1, 1, 1, 1, 70>::boxed,
    Case::<6, 2, 3, 5, 70>::boxed,
    Case::<16, 1, 16, 16, 70>::boxed,
    Case::<21, 7, 21, 2, 70>::boxed,
    Case::<36, 4, 18, 36, 70>::boxed,
    Case::<34, 2, 17, 34, 70>::boxed,
];
