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
    fn push(&mut self, (value, error): (f64, f64)) {
        self.value.push(value);
        self.error.push(error);
    }

    /// How much of the bound is used where most is; more than 1 breaks it.
    pub fn worst(&self, found: &[f32]) -> f64 {
        assert_eq!(self.value.len(), found.len());
        let used = |i: usize| match (f64::from(found[i]) - self.value[i]).abs() {
            0.0 => 0.0,
            off => off / self.error[i],
        };
        (0..found.len()).map(used).fold(0.0, |a, b| if b <= a { a } else { b })
    }

    /// The largest error allowed, relative to the largest value.
    pub fn tolerance(&self) -> f64 {
        let largest = |x: &[f64]| x.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        largest(&self.error) / largest(&self.value)
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
        let mut out = Self { value: vec![0.0; n], error: vec![0.0; n] };
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

    /// Scaled dot-product attention of one query of one head: its weights (`[keys]`) and its context (`[d]`).
    /// Row j of `k` and `v` begins at `j * stride + start`.
    fn attend(
        (q, query): (&Self, usize),
        (k, v, stride, start): (&Self, &Self, usize, usize),
        d: usize,
        seen: impl Fn(usize) -> bool,
    ) -> (Self, Self) {
        let scale = std::f64::consts::LOG2_E / (d as f64).sqrt();
        let keys = k.value.len() / stride;
        let mut scores = Self::default();
        for j in 0..keys {
            let places = (0..d).map(|l| (query + l, j * stride + start + l));
            let (score, error) = chain(q, k, 0.0, places, d + 2 + 5);
            scores.push((score * scale, error * scale));
        }
        let weights = Self::weights(&scores, seen);
        let roundings = keys.min(512) + 2 * keys.div_ceil(512) + 2;
        let mut context = Self::default();
        for l in 0..d {
            let places = (0..keys).map(|j| (j, j * stride + start + l));
            let places = places.filter(|&(j, _)| weights.error[j] > 0.0);
            context.push(chain(&weights, v, 0.0, places, roundings));
        }
        (weights, context)
    }

    /// The layer: output (`[queries][d_model]`) and weights (`[heads][queries][keys]`).
    pub fn layer(
        sizes: Sizes,
        parameters: &Parameters,
        x: &[f32],
        source: &[f32],
        sees: impl Fn(usize, usize) -> bool,
    ) -> (Self, Self) {
        let Sizes { d_model, heads, d_kv, .. } = sizes;
        let d_k = d_model / heads;
        let group = heads / (d_kv / d_k);
        let [query, key, value, output] = &parameters.0;
        let project =
            |x: &[f32], p: &super::Matrix| Self::product(&x.into(), &p.weights[..].into(), &p.bias);
        let (q, k, v) = (project(x, query), project(source, key), project(source, value));
        let queries = x.len() / d_model;
        let mut context = Self { value: vec![0.0; x.len()], error: vec![0.0; x.len()] };
        let mut weights = Self::default();
        for h in 0..heads {
            for i in 0..queries {
                let place = i * d_model + h * d_k;
                let kv = (&k, &v, d_kv, h / group * d_k);
                let (row, mean) = Self::attend((&q, place), kv, d_k, |j| sees(i, j));
                context.value[place..place + d_k].copy_from_slice(&mean.value);
                context.error[place..place + d_k].copy_from_slice(&mean.error);
                weights.value.extend(row.value);
                weights.error.extend(row.error);
            }
        }
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
