//! Scaled dot-product attention on plain slices.

use crate::common::{MODES, Mode, assert_same, classes, units, with_mask};
use crate::common::{MaskOf, Model, Random, Reference};
use dhyan::kernels::{Dimensions, attention, attention_scratch};
use dhyan::{Error, Isa, Keep, KeyLength, NoMask};
use proptest::prelude::*;

struct Inputs {
    dimensions: Dimensions,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    scale: f32,
}

impl Inputs {
    fn random(
        random: &mut Random,
        mode: Mode,
        dimensions: Dimensions,
        queries: usize,
        keys: usize,
    ) -> Self {
        let Dimensions { heads, kv_heads, d_k, d_v } = dimensions;
        let q = random.left(mode, queries, heads * d_k);
        let k = random.left(mode, keys, kv_heads * d_k);
        let v = random.right(mode, keys, kv_heads * d_v);
        Self { dimensions, q, k, v, scale: random.unit() }
    }

    /// With NaN beforehand in what the call works in and writes to.
    fn run(&self, isa: Isa, mask: &MaskOf) -> Vec<f32> {
        let Dimensions { heads, kv_heads, d_k, d_v } = self.dimensions;
        let keys = self.k.len() / (kv_heads * d_k);
        let mut scratch = vec![f32::NAN; attention_scratch(self.dimensions, keys)];
        let mut out = vec![f32::NAN; self.q.len() / d_k * d_v];
        assert_eq!(out.len() % (heads * d_v), 0);
        let Self { dimensions, q, k, v, scale } = self;
        with_mask!(mask, |m| attention(
            isa,
            *dimensions,
            q,
            k,
            v,
            *scale,
            m,
            &mut scratch,
            &mut out
        ))
        .unwrap();
        out
    }

    fn model(&self, model: Model, sees: impl Fn(usize, usize) -> bool) -> Vec<f32> {
        let Dimensions { heads, kv_heads, d_k, d_v } = self.dimensions;
        model
            .attention(heads, kv_heads, [&self.q, &self.k, &self.v], [d_k, d_v], self.scale, sees)
            .0
    }
}

fn dimensions(kv_heads: usize, group: usize, d_k: usize, d_v: usize) -> Dimensions {
    Dimensions { heads: kv_heads * group, kv_heads, d_k, d_v }
}

/// Widths of keys and values that differ, more than one key tile.
#[test]
fn shapes() {
    let mut random = Random::new(1);
    let mut kind = 0;
    for (kv_heads, group, d_k, d_v) in
        [(1, 1, 1, 1), (1, 5, 3, 20), (2, 2, 17, 5), (3, 1, 16, 33), (1, 2, 64, 48), (2, 1, 5, 1)]
    {
        let dimensions = dimensions(kv_heads, group, d_k, d_v);
        for (queries, keys) in
            [(0, 3), (3, 0), (1, 1), (1, 600), (17, 16), (40, 33), (150, 100), (9, 1100)]
        {
            for _ in 0..MaskOf::KINDS {
                kind += 1;
                let inputs =
                    Inputs::random(&mut random, MODES[kind % 3], dimensions, queries, keys);
                let mask = MaskOf::random(&mut random, kind, queries, keys);
                for (model, units) in classes() {
                    let expected = inputs.model(model, |i, j| mask.sees(queries, keys, i, j));
                    for isa in units {
                        let what = format!("{isa:?}, {dimensions:?}, {queries} x {keys}, {mask:?}");
                        assert_same(what, &expected, &inputs.run(isa, &mask));
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// The model reads visible keys and values alone: poison in some of them, and a large scale.
    #[test]
    fn poisoned(
        seed: u64,
        (kv_heads, group, d_k, d_v) in (1..3usize, 1..4usize, 1..40usize, 1..40usize),
        (queries, keys) in (0..40usize, 0..70usize),
        kind in 0..MaskOf::KINDS,
        poison in prop::sample::select(vec![f32::NAN, 1e30, f32::INFINITY, f32::NEG_INFINITY]),
    ) {
        let random = &mut Random::new(seed);
        let dimensions = dimensions(kv_heads, group, d_k, d_v);
        let mut inputs = Inputs::random(random, MODES[kind % 3], dimensions, queries, keys);
        inputs.scale *= 16.0;
        let mask = MaskOf::random(random, kind, queries, keys);
        let sees = |i, j| mask.sees(queries, keys, i, j);
        let poisoned = random.bools(keys, 3);
        for j in (0..keys).filter(|&j| poisoned[j]) {
            inputs.k[j * kv_heads * d_k..][..kv_heads * d_k].fill(poison);
            inputs.v[j * kv_heads * d_v..][..kv_heads * d_v].fill(poison);
        }
        // What an infinity does to a row that sees it depends on whether the mask hides keys (docs/BITS.md, "NaN").
        let compared = |i| !poison.is_infinite() || !(0..keys).any(|j| poisoned[j] && sees(i, j));
        for (model, units) in classes() {
            let expected = inputs.model(model, sees);
            for isa in units {
                let found = inputs.run(isa, &mask);
                let width = dimensions.heads * d_v;
                for i in (0..queries).filter(|&i| compared(i)) {
                    let row = i * width..(i + 1) * width;
                    assert_same(format!("{isa:?}, row {i}, {mask:?}"), &expected[row.clone()], &found[row]);
                }
            }
        }
    }

    #[test]
    fn against_f64(
        seed: u64,
        (kv_heads, group, d_k, d_v) in (1..3usize, 1..4usize, 1..80usize, 1..40usize),
        (queries, keys) in (1..20usize, 1..600usize),
        kind in 0..MaskOf::KINDS,
    ) {
        let random = &mut Random::new(seed);
        let dimensions = dimensions(kv_heads, group, d_k, d_v);
        let inputs = Inputs::random(random, Mode::Ordinary, dimensions, queries, keys);
        let mask = MaskOf::random(random, kind, queries, keys);
        let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|x| Reference::from(&x[..]));
        let sees = |i, j| mask.sees(queries, keys, i, j);
        let heads = dimensions.heads;
        let (reference, _) =
            Reference::attention(heads, kv_heads, [&q, &k, &v], [d_k, d_v], inputs.scale.into(), sees);
        for isa in units() {
            reference.check(&format!("{isa:?}, {dimensions:?}, {mask:?}"), &inputs.run(isa, &mask), 1e-2);
        }
    }
}

#[test]
fn errors() {
    let isa = Isa::detect();
    let good = Dimensions { heads: 4, kv_heads: 2, d_k: 3, d_v: 5 };
    let x = [1.0; 100];
    let call =
        |dimensions, [q, k, v]: [usize; 3], scratch: usize, out: usize, keep: Option<usize>| {
            let mut scratch = vec![0.0; scratch];
            let mut y = vec![7.5; out];
            let (q, k, v) = (&x[..q], &x[..k], &x[..v]);
            let keep = keep.map(|keep| vec![true; keep]);
            let result = match &keep {
                Some(keep) => {
                    attention(isa, dimensions, q, k, v, 1.0, &Keep(keep), &mut scratch, &mut y)
                }
                None => attention(isa, dimensions, q, k, v, 1.0, &NoMask, &mut scratch, &mut y),
            };
            assert!(result.is_ok() || y.iter().all(|&x| x == 7.5), "the output was written");
            result
        };
    let length = |what, expected, found| Err(Error::Length { what, expected, found });
    // Two queries over three keys.
    let scratch = attention_scratch(good, 3);
    assert_eq!(call(good, [24, 18, 30], scratch, 40, None), Ok(()));
    assert_eq!(call(good, [24, 18, 30], scratch + 9, 40, Some(6)), Ok(()));
    assert_eq!(call(good, [25, 18, 30], scratch, 40, None), length("queries", 24, 25));
    assert_eq!(call(good, [24, 20, 30], scratch, 40, None), length("keys", 18, 20));
    assert_eq!(call(good, [24, 18, 29], scratch, 40, None), length("values", 30, 29));
    assert_eq!(call(good, [24, 18, 40], scratch, 40, None), length("values", 30, 40));
    assert_eq!(call(good, [24, 18, 30], scratch, 39, None), length("out", 40, 39));
    assert_eq!(call(good, [24, 18, 30], scratch, 40, Some(5)), length("mask", 6, 5));
    let needed = Error::Capacity { what: "scratch", capacity: scratch - 1, needed: scratch };
    assert_eq!(call(good, [24, 18, 30], scratch - 1, 40, None), Err(needed));
    let must = "positive, and heads a multiple of kv_heads";
    for wrong in [
        Dimensions { heads: 0, ..good },
        Dimensions { kv_heads: 0, ..good },
        Dimensions { d_k: 0, ..good },
        Dimensions { d_v: 0, ..good },
        Dimensions { kv_heads: 3, ..good },
        Dimensions { kv_heads: 8, ..good },
    ] {
        let error = Err(Error::Value { what: "dimensions", must });
        assert_eq!(call(wrong, [24, 18, 30], scratch, 40, None), error);
    }
    // Sizes beyond any memory are an error as well.
    let huge = Dimensions { heads: usize::MAX, kv_heads: 1, d_k: usize::MAX, d_v: usize::MAX };
    assert_eq!(attention_scratch(huge, usize::MAX), usize::MAX);
    assert!(call(huge, [24, 18, 30], scratch, 40, None).is_err());
    assert_eq!(
        attention(isa, good, &[], &[], &[], 1.0, &KeyLength(0), &mut vec![0.0; 128], &mut []),
        Ok(())
    );
}
