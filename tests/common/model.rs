//! The plain model of the arithmetic in f32: the definition of every bit that the library computes.
//!
//! Textbook loops over row-major matrices. Nothing here knows of tiles of registers, panels, blocks or bounds.

use super::{Parameters, Sizes};

/// Keys of a tile, cut at multiples of this from the first key on.
const KEY_TILE: usize = 512;
/// Sums over a row run in this many lanes: index mod 16.
const LANES: usize = 16;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// 1.5 · 2^23 + 127, and the coefficients of 2^f from the first power of f on.
const EXP2: [u32; 7] =
    [0x4b40007f, 0x3f317218, 0x3e75fdf0, 0x3d6357b8, 0x3c1d974d, 0x3aaf8abc, 0x391ff78d];

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
        let [round, c1, c2, c3, c4, c5, c6] = EXP2.map(f32::from_bits);
        if x < -126.0 {
            return 0.0;
        }
        let rounded = x + round;
        let f = x - (rounded - round);
        let power = [c5, c4, c3, c2, c1, 1.0].iter().fold(c6, |p, &c| self.mul_add(p, f, c));
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

    /// One query (`[d_k]`) of one head over the keys (`[keys][d_k]`) that it sees: its context (`[d_v]`) and its
    /// weights (`[keys]`).
    pub fn attend(
        self,
        query: &[f32],
        key: &[&[f32]],
        value: &[&[f32]],
        scale: f32,
        sees: impl Fn(usize) -> bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let (keys, d_k, d_v) = (key.len(), query.len(), value.first().map_or(0, |v| v.len()));
        let scale = scale * LOG2_E;
        let query: Vec<f32> = query.iter().map(|q| q * scale).collect();
        let mut all = Partial { max: f32::NEG_INFINITY, sum: 0.0, context: vec![0.0; d_v] };
        let mut scores = vec![f32::NEG_INFINITY; keys];
        let mut powers = vec![0.0; keys];
        let mut maxima = Vec::new();
        for first in (0..keys).step_by(KEY_TILE) {
            let tile = first..keys.min(first + KEY_TILE);
            let seen: Vec<usize> = tile.clone().filter(|&j| sees(j)).collect();
            for &j in &seen {
                scores[j] = self.chain(0.0, (0..d_k).map(|l| (query[l], key[j][l])));
            }
            let max = maximum(scores[tile].iter().copied());
            for &j in &seen {
                powers[j] = self.exp2(scores[j] - finite(max));
            }
            let sum = self.sum(seen.iter().map(|&j| (j, powers[j])));
            let weighted = |l| self.chain(0.0, seen.iter().map(|&j| (powers[j], value[j][l])));
            let context = (0..d_v).map(weighted).collect();
            all = self.merge(all, Partial { max, sum, context });
            maxima.push(max);
        }
        if all.sum == 0.0 {
            return (vec![0.0; d_v], vec![0.0; keys]);
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
        let kv_heads = d_kv / d_k;
        let scale = 1.0 / (d_k as f32).sqrt();
        let (context, weights) =
            self.attention(heads, kv_heads, [&q, &k, &v], [d_k; 2], scale, sees);
        (self.product(&context, &output.weights, &output.bias, d_model), weights)
    }

    /// All heads: queries (`[queries][heads * d_k]`), keys (`[keys][kv_heads * d_k]`) and values
    /// (`[keys][kv_heads * d_v]`) give the context (`[queries][heads * d_v]`) and the weights
    /// (`[heads][queries][keys]`).
    pub fn attention(
        self,
        heads: usize,
        kv_heads: usize,
        [q, k, v]: [&[f32]; 3],
        [d_k, d_v]: [usize; 2],
        scale: f32,
        sees: impl Fn(usize, usize) -> bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let queries = q.len() / (heads * d_k);
        let mut context = vec![0.0; queries * heads * d_v];
        let mut weights = Vec::new();
        for h in 0..heads {
            let kv_head = h / (heads / kv_heads);
            let key: Vec<&[f32]> = k.chunks_exact(d_k).skip(kv_head).step_by(kv_heads).collect();
            let value: Vec<&[f32]> = v.chunks_exact(d_v).skip(kv_head).step_by(kv_heads).collect();
            for i in 0..queries {
                let query = &q[(i * heads + h) * d_k..][..d_k];
                let (row, row_weights) = self.attend(query, &key, &value, scale, |j| sees(i, j));
                // Empty, where there is no key.
                context[(i * heads + h) * d_v..][..row.len()].copy_from_slice(&row);
                weights.extend(row_weights);
            }
        }
        (context, weights)
    }

    /// Layer normalization of one row.
    pub fn layer_norm(self, row: &[f32], weight: &[f32], bias: &[f32], epsilon: f32) -> Vec<f32> {
        let width = row.len() as f32;
        let mean = self.sum(row.iter().copied().enumerate()) / width;
        let mut lanes = [0.0; LANES];
        for (i, x) in row.iter().enumerate() {
            lanes[i % LANES] = self.mul_add(x - mean, x - mean, lanes[i % LANES]);
        }
        let variance = self.sum(lanes.into_iter().enumerate()) / width;
        let factor = 1.0 / (variance + epsilon).sqrt();
        let normal = |i: usize| (row[i] - mean) * factor;
        (0..row.len()).map(|i| self.mul_add(normal(i), weight[i], bias[i])).collect()
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
