//! The plain model of the arithmetic in f32: the definition of every bit that the library computes.
//!
//! Textbook loops over row-major matrices. Nothing here knows of tiles of registers, panels, blocks or bounds.

use super::{Parameters, Sizes};

/// Keys of a tile, cut at multiples of this from the first key on.
const KEY_TILE: usize = 512;
/// Sums over a row run in this many lanes: index mod 16.
const LANES: usize = 16;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// The arithmetic of one class: a multiply-add rounds once (fused) or twice (unfused).
#[derive(Clone, Copy)]
pub struct Model {
    pub fused: bool,
}

/// A softmax that is not yet divided by its sum, over some of the keys.
struct Partial {
    max: f32,
    sum: f32,
    /// Σ p_j v_j, `[d]`.
    context: Vec<f32>,
}

impl Model {
    pub fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        if self.fused { a.mul_add(b, c) } else { a * b + c }
    }

    /// One chain of multiply-adds in index order.
    fn chain(self, start: f32, pairs: impl Iterator<Item = (f32, f32)>) -> f32 {
        pairs.fold(start, |sum, (a, b)| self.mul_add(a, b, sum))
    }

    /// `[rows][inner] · [inner][columns] + bias`.
    pub fn product(self, left: &[f32], right: &[f32], bias: &[f32], inner: usize) -> Vec<f32> {
        let columns = bias.len();
        let rows = left.len() / inner;
        let mut out = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            for j in 0..columns {
                let pairs = (0..inner).map(|k| (left[i * inner + k], right[k * columns + j]));
                out.push(self.chain(bias[j], pairs));
            }
        }
        out
    }

    /// 2^x for x ≤ 0: 0 below -126, else a polynomial in the distance to the nearest integer.
    pub fn exp2(self, x: f32) -> f32 {
        const C: [f32; 6] =
            [0.693_147_2, 0.240_226_5, 0.055_504_1, 0.009_618_1, 0.001_333_36, 0.000_154_035];
        const ROUND: f32 = 12_582_912.0 + 127.0;
        if x < -126.0 {
            return 0.0;
        }
        let rounded = x + ROUND;
        let f = x - (rounded - ROUND);
        let mut power = C[5];
        for c in [C[4], C[3], C[2], C[1], C[0], 1.0] {
            power = self.mul_add(power, f, c);
        }
        power * f32::from_bits(rounded.to_bits() << 23)
    }

    /// The sum of a row in sixteen lanes, folded: lane i with i + 8, then 4, 2, 1.
    fn sum(self, row: impl Iterator<Item = (usize, f32)>) -> f32 {
        let mut lanes = [0.0; LANES];
        for (i, x) in row {
            lanes[i % LANES] += x;
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    /// The free-standing softmax of one row.
    pub fn softmax(self, row: &[f32]) -> Vec<f32> {
        let max = maximum(row.iter().copied());
        let powers: Vec<f32> = row.iter().map(|x| self.exp2((x - finite(max)) * LOG2_E)).collect();
        let sum = self.sum(powers.iter().copied().enumerate());
        let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        powers.iter().map(|p| p * factor).collect()
    }

    /// Two partial results become one. One that has seen nothing has the sum 0, and the other is taken as it is.
    fn merge(self, old: Partial, new: Partial) -> Partial {
        if new.sum == 0.0 {
            return old;
        }
        if old.sum == 0.0 {
            return new;
        }
        let max = maximum([old.max, new.max].into_iter());
        let (old_factor, new_factor) = (self.exp2(old.max - max), self.exp2(new.max - max));
        let merged = |old: f32, new: f32| self.mul_add(new, new_factor, old * old_factor);
        let context = old.context.iter().zip(&new.context).map(|(&o, &n)| merged(o, n)).collect();
        Partial { max, sum: merged(old.sum, new.sum), context }
    }

    /// One query (`[d]`) of one head over the keys that it sees: its context (`[d]`) and its weights (`[keys]`).
    /// `key(j)` and `value(j)` are the vectors of key j.
    pub fn attend<'a>(
        self,
        query: &[f32],
        key: impl Fn(usize) -> &'a [f32],
        value: impl Fn(usize) -> &'a [f32],
        keys: usize,
        sees: impl Fn(usize) -> bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let d = query.len();
        let scale = 1.0 / (d as f32).sqrt() * LOG2_E;
        let query: Vec<f32> = query.iter().map(|q| q * scale).collect();
        let mut all = Partial { max: f32::NEG_INFINITY, sum: 0.0, context: vec![0.0; d] };
        let mut scores = vec![f32::NEG_INFINITY; keys];
        let mut powers = vec![0.0; keys];
        let mut maxima = Vec::new();
        for first in (0..keys).step_by(KEY_TILE) {
            let tile = first..keys.min(first + KEY_TILE);
            let seen: Vec<usize> = tile.clone().filter(|&j| sees(j)).collect();
            for &j in &seen {
                scores[j] = self.chain(0.0, (0..d).map(|l| (query[l], key(j)[l])));
            }
            let max = maximum(scores[tile].iter().copied());
            for &j in &seen {
                powers[j] = self.exp2(scores[j] - finite(max));
            }
            let sum = self.sum(seen.iter().map(|&j| (j, powers[j])));
            let weighted = |l| self.chain(0.0, seen.iter().map(|&j| (powers[j], value(j)[l])));
            let context = (0..d).map(weighted).collect();
            all = self.merge(all, Partial { max, sum, context });
            maxima.push(max);
        }
        if all.sum == 0.0 {
            return (vec![0.0; d], vec![0.0; keys]);
        }
        let factor = 1.0 / all.sum;
        let context = all.context.iter().map(|&c| self.mul_add(c, factor, 0.0)).collect();
        let rescale = |j: usize| self.exp2(maxima[j / KEY_TILE] - all.max);
        let weight = |j| match scores[j] {
            f32::NEG_INFINITY => 0.0,
            _ => powers[j] * rescale(j) * factor,
        };
        (context, (0..keys).map(weight).collect())
    }

    /// The layer: `x` (`[queries][d_model]`) over `source` (`[keys][d_source]`) gives the output
    /// (`[queries][d_model]`) and the weights (`[heads][queries][keys]`).
    pub fn layer(
        self,
        sizes: Sizes,
        parameters: &Parameters,
        x: &[f32],
        source: &[f32],
        sees: impl Fn(usize, usize) -> bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let Sizes { d_model, heads, d_kv, d_source, .. } = sizes;
        let d_k = d_model / heads;
        let [query, key, value, output] = &parameters.0;
        let q = self.product(x, &query.weights, &query.bias, d_model);
        let k = self.product(source, &key.weights, &key.bias, d_source);
        let v = self.product(source, &value.weights, &value.bias, d_source);
        let (queries, keys) = (x.len() / d_model, source.len() / d_source);
        let mut context = vec![0.0; queries * d_model];
        let mut weights = Vec::with_capacity(heads * queries * keys);
        for h in 0..heads {
            let kv_head = h / (heads / (d_kv / d_k));
            for i in 0..queries {
                let place = i * d_model + h * d_k;
                let (row, row_weights) = self.attend(
                    &q[place..place + d_k],
                    |j| &k[j * d_kv + kv_head * d_k..][..d_k],
                    |j| &v[j * d_kv + kv_head * d_k..][..d_k],
                    keys,
                    |j| sees(i, j),
                );
                context[place..place + d_k].copy_from_slice(&row);
                weights.extend(row_weights);
            }
        }
        (self.product(&context, &output.weights, &output.bias, d_model), weights)
    }

    /// The mean of the weights over the heads.
    pub fn mean(self, heads: usize, weights: &[f32]) -> Vec<f32> {
        let each = weights.len() / heads;
        let share = 1.0 / heads as f32;
        (0..each)
            .map(|i| (0..heads).fold(0.0, |sum, h| sum + weights[h * each + i] * share))
            .collect()
    }
}

/// The largest; where one is NaN, any (the sum will be NaN).
fn maximum(values: impl Iterator<Item = f32>) -> f32 {
    values.fold(f32::NEG_INFINITY, |max, x| if x > max { x } else { max })
}

/// The maximum of a row that sees nothing but -Inf: anything finite, so that its powers are 0.
fn finite(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}
