//! Plain f64 in three passes (maximum, sum, weighted mean), with a bound of what f32 may differ from it.
//!
//! u = 2^-24 is the unit roundoff. To first order, and with 1 % on top for the rest:
//!
//! - **Chain** of n multiply-adds from a bias: each term passes at most n + 1 roundings, so the error is at most
//!   (n + 2) u (|b| + Σ |a||b|), plus what the errors of the factors bring: Σ (|a| + e_a)(|b| + e_b) - |a||b|.
//! - **Scores** in base 2: such a chain, and 5 u for the scale (a root, a quotient, two products, log2 e).
//! - **Weights**: with scores off by at most e and spread over D, a power is off by the factor
//!   exp(r), r = ln 2 · (e + 3 u D) + E + T (2 E + 4 u), where E = 4 u bounds exp2 and T is the number of key tiles
//!   (two factors and two roundings per merge); numerator and denominator both are, and the sum of 16 lanes adds
//!   min(n, 512) / 16 + 4 + 2 T roundings, the quotient 3: the relative error is at most exp(R) - 1,
//!   R = 2 r + (min(n, 512) / 16 + 7 + 2 T) u. Powers below 2^-126 are 0: n 2^-125 more, in absolute terms.
//! - **Context**: Σ w |v| with these errors, and a chain of min(n, 512) + 2 T + 2 roundings.
//! - **Output**: a chain.
//! - **Layer normalization** of n values: with l = n / 16 + 5 roundings of a sum in lanes, the mean is off by
//!   e_m = (l + 1) u mean|x|, x - mean by e_c = e_m + u |x - mean|, the variance by
//!   e_v = mean(2 |x - mean| e_c + e_c²) + (l + 3) u variance, the factor relatively by
//!   (1 - e_v / (variance + epsilon))^(-1/2) - 1 and 4 u, and two more roundings follow.

use super::{Parameters, Sizes};

const U: f64 = 1.01 / (1 << 24) as f64;
/// What a result below the normal numbers may lose.
const TINY: f64 = 1.5e-45;
const E: f64 = 4.0 * U;

/// Numbers, and how far f32 may be from each.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub value: Vec<f64>,
    pub error: Vec<f64>,
}

impl From<&[f32]> for Reference {
    fn from(exact: &[f32]) -> Self {
        let value: Vec<f64> = exact.iter().map(|&x| x.into()).collect();
        Self { error: vec![0.0; value.len()], value }
    }
}

impl Reference {
    fn zeros(n: usize) -> Self {
        Self { value: vec![0.0; n], error: vec![0.0; n] }
    }

    fn push(&mut self, (value, error): (f64, f64)) {
        self.value.push(value);
        self.error.push(error);
    }

    /// Panics where the bound is broken, and where it is so wide that hardly anything could break it: `tolerance` is the
    /// largest error that it may allow, relative to the largest value.
    #[track_caller]
    pub fn check(&self, what: &str, found: &[f32], tolerance: f64) {
        assert_eq!(self.value.len(), found.len(), "{what}: lengths");
        for (i, &x) in found.iter().enumerate() {
            let (value, error) = (self.value[i], self.error[i]);
            let off = (f64::from(x) - value).abs();
            assert!(
                off <= error,
                "{what}: {x:e} at {i} is {off:e} off {value:e}, the bound is {error:e}"
            );
        }
        let largest = |x: &[f64]| x.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        let (error, value) = (largest(&self.error), largest(&self.value));
        assert!(
            error == 0.0 || error <= tolerance * value,
            "{what}: a bound of {error:e} for {value:e}"
        );
    }

    /// `[rows][inner] · [inner][columns] + bias`.
    pub fn product(left: &Self, right: &Self, bias: &[f32]) -> Self {
        let columns = bias.len();
        let inner = right.value.len() / columns;
        let mut out = Self::default();
        for i in 0..left.value.len() / inner {
            for (j, &bias) in bias.iter().enumerate() {
                let places = (0..inner).map(|k| (i * inner + k, k * columns + j));
                out.push(chain(left, right, bias.into(), places, inner + 2));
            }
        }
        out
    }

    /// Softmax of one row of logits in base 2, of which only those that are `seen` count.
    fn weights(scores: &Self, seen: impl Fn(usize) -> bool) -> Self {
        let n = scores.value.len();
        let seen: Vec<usize> = (0..n).filter(|&j| seen(j)).collect();
        let fold =
            |f: fn(f64, f64) -> f64, start| seen.iter().fold(start, |x, &j| f(x, scores.value[j]));
        let (max, min) = (fold(f64::max, f64::NEG_INFINITY), fold(f64::min, f64::INFINITY));
        let e = seen.iter().fold(0.0, |e: f64, &j| e.max(scores.error[j]));
        let sum: f64 = seen.iter().map(|&j| (scores.value[j] - max).exp2()).sum();
        let tiles = n.div_ceil(512) as f64;
        let spread = (max - min).min(127.0) + 1.0;
        let r = 2f64.ln() * (e + 3.0 * U * spread) + E + tiles * (2.0 * E + 4.0 * U);
        let relative = (2.0 * r + (n.min(512) as f64 / 16.0 + 7.0 + 2.0 * tiles) * U).exp_m1();
        let mut out = Self::zeros(n);
        for j in seen {
            out.value[j] = (scores.value[j] - max).exp2() / sum;
            out.error[j] = out.value[j] * relative + n as f64 * 2f64.powi(-125);
        }
        out
    }

    /// The free-standing softmax of one row: logits x log2 e, off by 3 roundings.
    pub fn softmax(row: &[f32]) -> Self {
        let max = row.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(x.into()));
        let mut scores = Self::default();
        for &x in row {
            let score = (f64::from(x) - max) * std::f64::consts::LOG2_E;
            scores.push((score, 3.0 * U * score.abs().min(127.0)));
        }
        Self::weights(&scores, |j| row[j] != f32::NEG_INFINITY)
    }

    /// Layer normalization of one row.
    pub fn layer_norm(row: &[f32], weight: &[f32], bias: &[f32], epsilon: f32) -> Self {
        let n = row.len() as f64;
        let mean_of = |f: &dyn Fn(f64) -> f64| row.iter().map(|&x| f(x.into())).sum::<f64>() / n;
        let lanes = (row.len() / 16 + 5) as f64;
        let mean = mean_of(&|x| x);
        let mean_error = (lanes + 1.0) * U * mean_of(&f64::abs);
        let error_of = |c: f64| mean_error + U * (c.abs() + mean_error);
        let variance = mean_of(&|x| (x - mean).powi(2));
        let spread =
            mean_of(&|x| 2.0 * (x - mean).abs() * error_of(x - mean) + error_of(x - mean).powi(2));
        let variance_error = spread + (lanes + 3.0) * U * (variance + spread);
        let sum = variance + f64::from(epsilon);
        let relative = (1.0 - (variance_error / sum).min(1.0)).powf(-0.5) - 1.0 + 5.0 * U;
        let mut out = Self::default();
        for ((&x, &weight), &bias) in row.iter().zip(weight).zip(bias) {
            let (c, weight, bias) = (f64::from(x) - mean, f64::from(weight), f64::from(bias));
            let scaled = c * weight / sum.sqrt();
            let off =
                ((c.abs() + error_of(c)) * (1.0 + relative) - c.abs()) * weight.abs() / sum.sqrt();
            out.push((scaled + bias, off + 3.0 * U * (scaled.abs() + off + bias.abs()) + TINY));
        }
        out
    }

    /// Scaled dot-product attention: the context (`[queries][heads * d_v]`) and the weights (`[heads][queries][keys]`);
    /// arguments as in [`Model::attention`](super::Model::attention).
    pub fn attention(
        heads: usize,
        kv_heads: usize,
        [q, k, v]: [&Self; 3],
        [d_k, d_v]: [usize; 2],
        scale: f64,
        sees: impl Fn(usize, usize) -> bool,
    ) -> (Self, Self) {
        let (queries, keys) = (q.value.len() / (heads * d_k), k.value.len() / (kv_heads * d_k));
        let scale = scale * std::f64::consts::LOG2_E;
        let roundings = keys.min(512) + 2 * keys.div_ceil(512) + 2;
        let mut context = Self::zeros(queries * heads * d_v);
        let mut all_weights = Self::default();
        for h in 0..heads {
            let kv_head = h / (heads / kv_heads);
            for i in 0..queries {
                let query = (i * heads + h) * d_k;
                let mut scores = Self::default();
                for j in 0..keys {
                    let key = (j * kv_heads + kv_head) * d_k;
                    let places = (0..d_k).map(|l| (query + l, key + l));
                    let (score, error) = chain(q, k, 0.0, places, d_k + 2 + 5);
                    scores.push((score * scale, error * scale.abs()));
                }
                let weights = Self::weights(&scores, |j| sees(i, j));
                for l in 0..d_v {
                    let places = (0..keys).map(|j| (j, (j * kv_heads + kv_head) * d_v + l));
                    let places = places.filter(|&(j, _)| sees(i, j));
                    let place = (i * heads + h) * d_v + l;
                    (context.value[place], context.error[place]) =
                        chain(&weights, v, 0.0, places, roundings);
                }
                all_weights.value.extend(weights.value);
                all_weights.error.extend(weights.error);
            }
        }
        (context, all_weights)
    }

    /// The layer: output (`[queries][d_model]`) and weights (`[heads][queries][keys]`).
    pub fn layer(
        sizes: Sizes,
        parameters: &Parameters,
        x: &[f32],
        source: &[f32],
        sees: impl Fn(usize, usize) -> bool,
    ) -> (Self, Self) {
        let d_k = sizes.d_k();
        let [query, key, value, output] = &parameters.0;
        let project =
            |x: &[f32], p: &super::Matrix| Self::product(&x.into(), &p.weights[..].into(), &p.bias);
        let [q, k, v] = [project(x, query), project(source, key), project(source, value)];
        let scale = 1.0 / (d_k as f64).sqrt();
        let (context, weights) =
            Self::attention(sizes.heads, sizes.d_kv / d_k, [&q, &k, &v], [d_k; 2], scale, sees);
        (Self::product(&context, &output.weights[..].into(), &output.bias), weights)
    }
}

/// A chain of multiply-adds from `bias` over pairs of places, in which each term passes so many roundings.
fn chain(
    a: &Reference,
    b: &Reference,
    bias: f64,
    places: impl Iterator<Item = (usize, usize)>,
    roundings: usize,
) -> (f64, f64) {
    let (mut value, mut magnitude, mut largest) = (bias, bias.abs(), bias.abs());
    let mut count = 0.0;
    for (i, j) in places {
        value += a.value[i] * b.value[j];
        magnitude += (a.value[i] * b.value[j]).abs();
        largest += (a.value[i].abs() + a.error[i]) * (b.value[j].abs() + b.error[j]);
        count += 1.0;
    }
    (value, largest - magnitude + roundings as f64 * U * largest + count * TINY)
}
