//! However a call is cut, cached or repeated, the bits are the same.

use crate::common::{AnyLayer, Case, MODES, MaskOf, Parameters, Random};
use crate::common::{assert_same, units};
use dhyan::{Causal, Isa, KvCache, MultiHeadAttention, Weights, Workspace};
use proptest::prelude::*;

/// A loaded layer, tokens for it, and what the layer computes of them at once.
struct Run {
    isa: Isa,
    layer: Box<dyn AnyLayer>,
    x: Vec<f32>,
    n: usize,
    mask: MaskOf,
    outputs: Vec<f32>,
    weights: Vec<f32>,
}

impl Run {
    /// Self-attention over `n` tokens, causal and with some keys hidden.
    fn new(isa: Isa, mut layer: Box<dyn AnyLayer>, random: &mut Random, n: usize) -> Self {
        let sizes = layer.sizes();
        let mode = MODES[random.below(3)];
        layer.load(&Parameters::random(random, mode, sizes));
        let x = random.left(mode, n, sizes.d_model);
        let hidden_of_16 = random.below(9);
        let mask = MaskOf::TopLeftAndHide(random.bools(n * n, hidden_of_16));
        let outputs = layer.outputs(isa, &x, &x, &mask).unwrap();
        let weights = layer.weights(isa, &x, &x, &mask, false).unwrap();
        Self { isa, layer, x, n, mask, outputs, weights }
    }

    fn rows(&self, first: usize, last: usize) -> &[f32] {
        let d_model = self.layer.sizes().d_model;
        &self.x[first * d_model..last * d_model]
    }

    /// The mask of tokens `first..last` over the tokens so far.
    fn mask_of(&self, first: usize, last: usize) -> MaskOf {
        let sees = |i, j| self.mask.sees(self.n, self.n, i, j);
        MaskOf::Keep((first..last).flat_map(|i| (0..last).map(move |j| sees(i, j))).collect())
    }

    /// Appends tokens `first..last` to the cache and compares their outputs and weights.
    fn step(&mut self, first: usize, last: usize) {
        let (isa, n) = (self.isa, self.n);
        let sizes = self.layer.sizes();
        let what = format!("{isa:?}, {sizes:?}, tokens {first}..{last} of {n}");
        let mask = self.mask_of(first, last);
        let x = self.rows(first, last).to_vec();
        self.layer.append(isa, &x).unwrap();
        let found = self.layer.attend(isa, &x, &mask).unwrap();
        assert_same(&what, &self.outputs[first * sizes.d_model..last * sizes.d_model], &found);
        let found = self.layer.cached_weights(isa, &x, &mask, false).unwrap();
        for (row, found) in found.chunks_exact(last.max(1)).enumerate() {
            let (head, i) = (row / (last - first), first + row % (last - first));
            let expected = &self.weights[(head * n + i) * n..][..n];
            assert_same(format!("weights, {what}"), &expected[..last], found);
            assert!(expected[last..].iter().all(|&w| w == 0.0));
        }
    }
}

fn large() -> Vec<Box<dyn AnyLayer>> {
    vec![
        Case::<4, 2, 2, 4, 1100>::boxed(),
        Case::<38, 2, 19, 38, 530>::boxed(),
        Case::<33, 3, 33, 33, 100>::boxed(),
    ]
}

/// Prefill at once, token by token, and everything appended before the first query.
#[test]
fn prefill_and_decoding() {
    let mut random = Random::new(1);
    for isa in units() {
        for layer in large() {
            let n = layer.sizes().n;
            let mut run = Run::new(isa, layer, &mut random, n);
            run.step(0, n);
            run.layer.rewind(0).unwrap();
            for token in 0..n {
                run.step(token, token + 1);
            }
            let mask = run.mask.clone();
            let found = run.layer.attend(isa, &run.x, &mask).unwrap();
            assert_same("all queries after all keys", &run.outputs, &found);
        }
    }
}

/// Causal by the mask's own bounds, which change with the number of queries.
#[test]
fn bottom_right_is_absolute() {
    let mut random = Random::new(2);
    for isa in units() {
        for mut layer in large() {
            let sizes = layer.sizes();
            layer.load(&Parameters::random(&mut random, MODES[0], sizes));
            let x = random.left(MODES[0], sizes.n, sizes.d_model);
            let expected = layer.outputs(isa, &x, &x, &MaskOf::TopLeft).unwrap();
            let at_once = layer.outputs(isa, &x, &x, &MaskOf::BottomRight).unwrap();
            assert_same("top left and bottom right", &expected, &at_once);
            let mut found = Vec::new();
            let mut rest = &x[..];
            while !rest.is_empty() {
                let tokens = 1 + random.below(rest.len() / sizes.d_model);
                let (chunk, after) = rest.split_at(tokens.min(200) * sizes.d_model);
                layer.append(isa, chunk).unwrap();
                found.extend(layer.attend(isa, chunk, &MaskOf::BottomRight).unwrap());
                rest = after;
            }
            assert_same("chunks", &expected, &found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Random chunks, with rubbish appended and taken back between them.
    #[test]
    fn chunks(seed: u64, grouped: bool, lengths in prop::collection::vec(0..30usize, 1..6)) {
        let random = &mut Random::new(seed);
        let n = lengths.iter().sum();
        for isa in units() {
            let layer = match grouped {
                true => Case::<12, 4, 6, 12, 180>::boxed(),
                false => Case::<17, 1, 17, 17, 180>::boxed(),
            };
            let mut run = Run::new(isa, layer, random, n);
            let mut first = 0;
            for &length in &lengths {
                let sizes = run.layer.sizes();
                run.layer.append(isa, &vec![f32::NAN; random.below(30) * sizes.d_source]).unwrap();
                run.layer.rewind(first).unwrap();
                run.step(first, first + length);
                first += length;
            }
        }
    }
}

/// The same call in workspaces and caches of other sizes, and with a workspace that has no room for keys and values.
#[test]
fn sizes_of_workspaces() {
    type Layer = MultiHeadAttention<20, 2, 10>;
    const TOKENS: usize = 37;

    fn load(random: &mut Random) -> (Layer, Vec<[f32; 20]>) {
        let mut layer = Layer::ZERO;
        layer.query.load(&random.right(MODES[0], 20, 20)).unwrap();
        layer.key.load(&random.right(MODES[0], 20, 10)).unwrap();
        layer.value.load(&random.right(MODES[0], 20, 10)).unwrap();
        layer.output.load(&random.right(MODES[0], 20, 20)).unwrap();
        (layer, random.left(MODES[0], TOKENS, 20).as_chunks().0.to_vec())
    }

    /// Outputs in a workspace of M and by a cache of C; weights of both.
    fn run<const M: usize, const C: usize>(
        isa: Isa,
        layer: &Layer,
        x: &[[f32; 20]],
    ) -> [Vec<f32>; 5] {
        let (mut out, mut cached, mut lean) =
            (vec![[0.0; 20]; TOKENS], vec![[0.0; 20]; TOKENS], vec![[0.0; 20]; TOKENS]);
        let [mut weights, mut cached_weights] = [(); 2].map(|()| vec![0.0; 2 * TOKENS * TOKENS]);
        let mut workspace = Workspace::<M, 20, 10>::with_isa(isa);
        let mask = Causal::top_left();
        layer.self_attention(x, &mask, &mut workspace, &mut out).unwrap();
        let to = Weights::PerHead(&mut weights);
        layer.attention_weights(x, x, &mask, &mut workspace, to).unwrap();
        let mut cache = KvCache::<C, 10>::new();
        layer.append(x, &mut cache, &mut workspace).unwrap();
        layer.attend(x, &cache, &mask, &mut workspace, &mut cached).unwrap();
        let to = Weights::PerHead(&mut cached_weights);
        layer.cached_attention_weights(x, &cache, &mask, &mut workspace, to).unwrap();
        let mut workspace = Workspace::<M, 20, 0>::with_isa(isa);
        let mut cache = KvCache::<C, 10>::new();
        layer.append(x, &mut cache, &mut workspace).unwrap();
        layer.attend(x, &cache, &mask, &mut workspace, &mut lean).unwrap();
        [
            out.into_flattened(),
            cached.into_flattened(),
            lean.into_flattened(),
            weights,
            cached_weights,
        ]
    }

    let (layer, x) = load(&mut Random::new(4));
    for isa in units() {
        let exact = run::<TOKENS, TOKENS>(isa, &layer, &x);
        assert_same("cached", &exact[0], &exact[1]);
        assert_same("no room for keys and values", &exact[0], &exact[2]);
        assert_same("weights of the cached", &exact[3], &exact[4]);
        for found in [
            run::<38, 37>(isa, &layer, &x),
            run::<37, 38>(isa, &layer, &x),
            run::<48, 64>(isa, &layer, &x),
            run::<200, 100>(isa, &layer, &x),
        ] {
            for (expected, found) in exact.iter().zip(&found) {
                assert_same("other sizes", expected, found);
            }
        }
    }
}

/// Asking for weights between two calls changes nothing, and neither does the order of the calls.
#[test]
fn calls_leave_nothing_behind() {
    let mut random = Random::new(5);
    for isa in units() {
        let mut run = Run::new(isa, Case::<24, 3, 8, 24, 50>::boxed(), &mut random, 50);
        let (x, mask) = (run.x.clone(), run.mask.clone());
        let again = run.layer.outputs(isa, &x, &x, &mask).unwrap();
        assert_same("outputs after weights", &run.outputs, &again);
        let mean = run.layer.weights(isa, &x, &x, &mask, true).unwrap();
        run.layer.outputs(isa, &x[..24], &x, &MaskOf::None).unwrap();
        assert_same("mean", &mean, &run.layer.weights(isa, &x, &x, &mask, true).unwrap());
        assert_same(
            "weights",
            &run.weights,
            &run.layer.weights(isa, &x, &x, &mask, false).unwrap(),
        );
    }
}
