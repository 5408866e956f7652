//! Scaled dot-product attention over keys and values in panels, tile by tile of keys, never holding n² of anything.
//!
//! `softmax(Q_i K_i^T · scale, over the keys the mask lets through) V_i` for each head i. One routine serves prefill,
//! decoding and cross-attention: its rows are the (query, head of the group) pairs that read the same keys.

use super::exp::exp2_of;
use super::panels::Panels;
use super::product::Product;
use super::softmax::{LOG2_E, Merge, exponentials, finite_max, reciprocal, row_max};
use crate::mask::{Mask, Row, Shape};
use crate::simd::{Kernel, LANES, Simd};

/// Keys of a tile: cut at multiples of this from the first key on, so that every way of calling cuts alike. Keys and
/// values of a tile of width 64 are 256 KB and stay in the second cache while the rows of a group go by.
pub(crate) const KEY_TILE: usize = 512;

/// Rows that meet a key tile before the next one is taken.
const GROUP_ROWS: usize = 128;

/// Where the rows of a tensor stand: head h of token t begins at `t * token + h * head`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    pub token: usize,
    pub head: usize,
}

/// Keys and values of all kv heads in panels, with room for `capacity` tokens.
#[derive(Clone, Copy)]
pub(crate) struct KeyValues<'a> {
    /// Head after head: `d_k` × `capacity` panels.
    pub keys: &'a [f32],
    /// Head after head: `capacity` × `d_v` panels.
    pub values: &'a [f32],
    pub heads: usize,
    pub d_k: usize,
    pub d_v: usize,
    pub capacity: usize,
}

impl<'a> KeyValues<'a> {
    #[inline(always)]
    fn keys_of(&self, head: usize) -> Panels<'a> {
        let size = self.d_k * self.capacity;
        Panels::part(&self.keys[head * size..][..size], self.d_k, self.capacity)
    }

    #[inline(always)]
    fn values_of(&self, head: usize) -> Panels<'a> {
        let size = self.d_v * self.capacity;
        Panels::part(&self.values[head * size..][..size], self.capacity, self.d_v)
    }
}

/// What an attention call computes with, whether for outputs or for weights.
pub(crate) struct Attention<'a, M> {
    pub shape: Shape,
    pub scale: f32,
    pub queries: &'a [f32],
    pub query_strides: Strides,
    pub key_values: KeyValues<'a>,
    pub mask: &'a M,
    /// `[rows][keys of a tile]`: at least one row of the visible keys, rounded up to 16, or of a tile.
    pub scores: &'a mut [f32],
    /// `[16][d_k + d_v]`.
    pub rows: &'a mut [f32],
}

/// A block of rows of one kv head against a range of keys of one tile.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub kv_head: usize,
    pub first: usize,
    pub count: usize,
    /// First (a multiple of 16) and last + 1 of the keys.
    pub keys: (usize, usize),
    /// How many of them come before the first that may be seen.
    pub hidden: usize,
    /// Floats from one row of scores to the next: the keys, rounded up to 16.
    pub width: usize,
}

impl<M: Mask> Attention<'_, M> {
    #[inline(always)]
    pub fn reborrow(&mut self) -> Attention<'_, M> {
        Attention { scores: &mut *self.scores, rows: &mut *self.rows, ..*self }
    }

    #[inline(always)]
    pub fn group(&self) -> usize {
        self.shape.heads / self.key_values.heads
    }

    /// The query token and the head of a row.
    #[inline(always)]
    pub fn place(&self, kv_head: usize, row: usize) -> (usize, usize) {
        match self.group() {
            1 => (row, kv_head), // without the division
            group => (row / group, kv_head * group + row % group),
        }
    }

    /// Rows that the scratch has room for, at most 16.
    #[inline(always)]
    pub fn rows_at_once(&self) -> usize {
        let width = self.shape.keys.min(KEY_TILE).next_multiple_of(LANES);
        (self.scores.len() / width.max(1)).clamp(1, LANES)
    }

    /// The keys that rows `first..last` of a kv head may see.
    #[inline(always)]
    pub fn bounds(&self, first: usize, last: usize) -> (usize, usize) {
        let group = self.group();
        let (low, high) = self.mask.bounds(self.shape, first / group, last.div_ceil(group));
        (low, high.min(self.shape.keys))
    }

    /// The block of rows `first..last` against the tile that begins at key `tile`, if it sees any of it.
    #[inline(always)]
    pub fn block(&self, kv_head: usize, first: usize, last: usize, tile: usize) -> Option<Block> {
        let (low, high) = self.bounds(first, last);
        let low = low.max(tile);
        let keys = (low - low % LANES, high.min(tile + KEY_TILE));
        (low < keys.1).then(|| Block {
            kv_head,
            first,
            count: last - first,
            keys,
            hidden: low - keys.0,
            width: (keys.1 - keys.0).next_multiple_of(LANES),
        })
    }

    /// Copies the queries of a block, scaled so that their scores are in base 2.
    #[inline(always)]
    pub fn load_queries<S: Simd>(&mut self, simd: S, block: Block) {
        let d_k = self.key_values.d_k;
        let scale = simd.splat(self.scale * LOG2_E);
        for r in 0..block.count {
            let (query, head) = self.place(block.kv_head, block.first + r);
            let start = query * self.query_strides.token + head * self.query_strides.head;
            let from = &self.queries[start..][..d_k];
            let to = &mut self.rows[r * d_k..][..d_k];
            simd.map(
                from,
                to,
                #[inline(always)]
                |q| simd.mul(q, scale),
            );
        }
    }

    /// The masked scores of a block: `[count][width]`, -Inf where hidden.
    #[inline(always)]
    pub fn load_scores<S: Simd>(&mut self, simd: S, block: Block) {
        let Block { kv_head, first, count, keys: (low, high), hidden, width } = block;
        let d_k = self.key_values.d_k;
        simd.run(Product {
            left: &self.rows[..count * d_k],
            left_stride: d_k,
            rows: count,
            right: self.key_values.keys_of(kv_head),
            inner: (0, d_k),
            columns: (low, low + width),
            bias: &[],
            out: self.scores,
            out_stride: width,
        });
        for r in 0..count {
            let (query, head) = self.place(kv_head, first + r);
            let (scores, beyond) = self.scores[r * width..][..width].split_at_mut(high - low);
            self.mask.apply(self.shape, Row { head, query, first_key: low }, scores);
            scores[..hidden].fill(f32::NEG_INFINITY);
            beyond.fill(f32::NEG_INFINITY);
        }
    }

    /// Scores to 2^(score - maximum of the row): the maxima and the sums.
    #[inline(always)]
    pub fn exponentials<S: Simd>(&mut self, simd: S, block: Block) -> ([f32; LANES], [f32; LANES]) {
        let rows = self.scores[..block.count * block.width].chunks_exact_mut(block.width);
        let mut maxima = [simd.splat(f32::NEG_INFINITY); LANES];
        for (row, max) in rows.zip(&mut maxima) {
            *max = row_max(simd, row.as_chunks().0, *max);
        }
        let (mut max, mut finite, mut sum) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let maxima = simd.maxima(&maxima);
        simd.store(maxima, &mut max);
        simd.store(finite_max(simd, maxima), &mut finite);
        let rows = self.scores[..block.count * block.width].chunks_exact_mut(block.width);
        let mut sums = [simd.splat(0.0); LANES];
        for ((row, sum), &max) in rows.zip(&mut sums).zip(&finite) {
            *sum = exponentials(simd, row.as_chunks_mut().0, simd.splat(max), *sum);
        }
        simd.store(simd.sums(&sums), &mut sum);
        (max, sum)
    }
}

/// Attention outputs: each row is the weighted mean of the values it sees, or zeros.
pub(crate) struct Attend<'a, M> {
    pub attention: Attention<'a, M>,
    pub out: &'a mut [f32],
    pub out_strides: Strides,
}

impl<M: Mask> Kernel for Attend<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.attention.shape.queries * self.attention.group();
        for kv_head in 0..self.attention.key_values.heads {
            for first in (0..rows).step_by(GROUP_ROWS) {
                self.group(simd, kv_head, first, rows.min(first + GROUP_ROWS));
            }
        }
    }
}

impl<M: Mask> Attend<'_, M> {
    /// Rows `first..last` of a kv head against all keys.
    #[inline(always)]
    fn group<S: Simd>(&mut self, simd: S, kv_head: usize, first: usize, last: usize) {
        let (mut max, mut sum) = ([f32::NEG_INFINITY; GROUP_ROWS], [0.0; GROUP_ROWS]);
        let step = self.attention.rows_at_once();
        let (low, high) = self.attention.bounds(first, last);
        let start = low - low % KEY_TILE;
        for tile in (start..high).step_by(KEY_TILE) {
            for row in (first..last).step_by(step) {
                let end = last.min(row + step);
                if let Some(block) = self.attention.block(kv_head, row, end, tile) {
                    let rows = row - first..end - first;
                    self.tile(simd, block, &mut max[rows.clone()], &mut sum[rows]);
                }
            }
        }
        for (row, &sum) in (first..last).zip(&sum) {
            let out = self.out_row(kv_head, row);
            if sum == 0.0 {
                out.fill(0.0);
            } else {
                let factor = simd.splat(reciprocal(sum));
                // Adding 0 makes one zero of the two: the sign of a zero may come from a hidden value.
                simd.update(
                    out,
                    #[inline(always)]
                    |sum| simd.mul_add(sum, factor, simd.splat(0.0)),
                );
            }
        }
    }

    #[inline(always)]
    fn out_row(&mut self, kv_head: usize, row: usize) -> &mut [f32] {
        let (query, head) = self.attention.place(kv_head, row);
        let start = query * self.out_strides.token + head * self.out_strides.head;
        &mut self.out[start..][..self.attention.key_values.d_v]
    }

    /// One block against one key tile, merged into the outputs and statistics (of its rows) so far.
    #[inline(always)]
    fn tile<S: Simd>(&mut self, simd: S, block: Block, max: &mut [f32], sum: &mut [f32]) {
        let Block { kv_head, first, count, keys, hidden, width } = block;
        let attention = &mut self.attention;
        attention.load_queries(simd, block);
        attention.load_scores(simd, block);
        let (tile_max, tile_sum) = attention.exponentials(simd, block);
        let KeyValues { d_k, d_v, .. } = attention.key_values;
        simd.run(Product {
            left: &attention.scores[hidden..count * width],
            left_stride: width,
            rows: count,
            right: attention.key_values.values_of(kv_head),
            inner: (keys.0 + hidden, keys.1),
            columns: (0, d_v),
            bias: &[],
            out: &mut attention.rows[LANES * d_k..],
            out_stride: d_v,
        });
        let parts = &attention.rows[LANES * d_k..][..count * d_v];
        if !all_finite(simd, parts) {
            for r in 0..count {
                self.mend(simd, block, r, tile_max[r], tile_sum[r]);
            }
        }
        let first_tile = sum.iter().all(|&sum| sum == 0.0);
        let merge = match first_tile {
            true => Merge::of_first(tile_max, tile_sum),
            false => Merge::new(simd, (max, sum), (&tile_max, &tile_sum)),
        };
        for r in 0..count {
            let (query, head) = self.attention.place(kv_head, first + r);
            let start = query * self.out_strides.token + head * self.out_strides.head;
            let out = &mut self.out[start..][..d_v];
            let part = &self.attention.rows[LANES * d_k + r * d_v..][..d_v];
            if tile_sum[r] == 0.0 {
                continue;
            } else if sum[r] == 0.0 {
                out.copy_from_slice(part);
            } else {
                let (old, new) = (simd.splat(merge.old_factor[r]), simd.splat(merge.new_factor[r]));
                simd.combine(
                    part,
                    out,
                    #[inline(always)]
                    |part, out| simd.mul_add(part, new, simd.mul(out, old)),
                );
            }
        }
        max.copy_from_slice(&merge.max[..count]);
        sum.copy_from_slice(&merge.sum[..count]);
    }

    /// A hidden key has the weight 0, and 0 · NaN is NaN: where a row came out NaN it is computed again over its
    /// visible keys alone.
    #[inline(always)]
    fn mend<S: Simd>(&mut self, simd: S, block: Block, r: usize, max: f32, sum: f32) {
        let KeyValues { d_k, d_v, .. } = self.attention.key_values;
        let part = LANES * d_k + r * d_v;
        let is_nan = self.attention.rows[part..][..d_v].iter().any(|x| x.is_nan());
        if !is_nan || sum.is_nan() || sum == 0.0 {
            return;
        }
        let row = Block { first: block.first + r, count: 1, ..block };
        self.attention.load_queries(simd, row);
        self.attention.load_scores(simd, row);
        let values = self.attention.key_values.values_of(block.kv_head);
        let Attention { scores, rows, .. } = &mut self.attention;
        let part = &mut rows[part..][..d_v];
        part.fill(0.0);
        let max = simd.splat(max);
        for (i, scores) in scores[..block.width].as_chunks::<LANES>().0.iter().enumerate() {
            let mut weights = [0.0; LANES];
            simd.store(exp2_of(simd, simd.sub(simd.load(scores), max)), &mut weights);
            for lane in 0..LANES {
                if scores[lane] == f32::NEG_INFINITY {
                    continue;
                }
                let key = block.keys.0 + i * LANES + lane;
                for (s, part) in part.chunks_mut(LANES).enumerate() {
                    let (value, _) = values.strip(s * LANES, key, key + 1);
                    let weight = simd.splat(weights[lane]);
                    let sum = simd.mul_add(weight, simd.load_part(value), simd.load_part(part));
                    simd.store_part(sum, part);
                }
            }
        }
    }
}

/// Whether there is no NaN and no infinity among the values.
#[inline(always)]
fn all_finite<S: Simd>(simd: S, values: &[f32]) -> bool {
    let (vectors, rest) = values.as_chunks();
    let zero = simd.splat(0.0);
    let mut sum = simd.mul(simd.load_part(rest), zero);
    for v in vectors {
        sum = simd.mul_add(simd.load(v), zero, sum);
    }
    !simd.sum(sum).is_nan()
}
