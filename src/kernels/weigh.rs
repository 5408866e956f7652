//! Attention weights: what the outputs are weighted with, for people who want to look.

use super::attend::{Attention, Block, KEY_TILE};
use super::softmax::{Merge, reciprocal};
use crate::mask::{Mask, Shape};
use crate::simd::{Kernel, LANES, Simd};

/// Attention weights, `[heads][queries][keys]`, or their mean over the heads, `[queries][keys]`.
pub(crate) struct Weigh<'a, M> {
    pub attention: Attention<'a, M>,
    pub mean: bool,
    pub weights: &'a mut [f32],
}

impl<M: Mask> Kernel for Weigh<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        self.weights.fill(0.0);
        let rows = self.attention.shape.queries * self.attention.group();
        let step = self.attention.rows_at_once();
        for kv_head in 0..self.attention.key_values.heads {
            for first in (0..rows).step_by(step) {
                self.block(simd, kv_head, first, rows.min(first + step));
            }
        }
    }
}

impl<M: Mask> Weigh<'_, M> {
    /// Twice over the keys: the statistics of all tiles are merged before the first weight is known.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, kv_head: usize, first: usize, last: usize) {
        let (mut max, mut sum) = ([f32::NEG_INFINITY; LANES], [0.0; LANES]);
        let (low, high) = self.attention.bounds(first, last);
        for write in [false, true] {
            let mut tile = low - low % KEY_TILE;
            while tile < high {
                if let Some(block) = self.attention.block(kv_head, first, last, tile) {
                    self.attention.load_queries(simd, block);
                    self.attention.load_scores(simd, block);
                    let (tile_max, tile_sum) = self.attention.exponentials(simd, block);
                    if write {
                        self.write(simd, block, (&max, &sum), (&tile_max, &tile_sum));
                    } else {
                        let merge = Merge::new(simd, (&max, &sum), (&tile_max, &tile_sum));
                        (max, sum) = (merge.max, merge.sum);
                    }
                }
                tile += KEY_TILE;
            }
        }
    }

    #[inline(always)]
    fn write<S: Simd>(
        &mut self,
        simd: S,
        block: Block,
        (max, sum): (&[f32; LANES], &[f32; LANES]),
        (tile_max, tile_sum): (&[f32; LANES], &[f32; LANES]),
    ) {
        let Shape { heads, queries, keys } = self.attention.shape;
        let merge = Merge::new(simd, (max, sum), (tile_max, tile_sum));
        for r in 0..block.count {
            if tile_sum[r] == 0.0 {
                continue;
            }
            let (query, head) = self.attention.place(block.kv_head, block.first + r);
            let row = if self.mean { query } else { head * queries + query };
            let (mut start, mut factor, mut rescale) =
                (r * block.width, merge.new_factor[r], reciprocal(sum[r]));
            if sum[r].is_nan() {
                self.mark(simd, Block { first: block.first + r, count: 1, ..block });
                (start, factor, rescale) = (0, 1.0, 1.0);
            }
            let weights = &mut self.weights[row * keys..][block.keys.0..block.keys.1];
            let powers = &self.attention.scores[start..];
            let share = if self.mean { 1.0 / heads as f32 } else { 1.0 };
            for (weight, &power) in weights.iter_mut().zip(powers) {
                let own = power * factor * rescale;
                *weight = if self.mean { *weight + own * share } else { own };
            }
        }
    }

    /// The weights of a row that is NaN: NaN, but 0 where hidden.
    #[inline(always)]
    fn mark<S: Simd>(&mut self, simd: S, row: Block) {
        self.attention.load_queries(simd, row);
        self.attention.load_scores(simd, row);
        for score in &mut self.attention.scores[..row.width] {
            *score = if *score == f32::NEG_INFINITY { 0.0 } else { f32::NAN };
        }
    }
}
