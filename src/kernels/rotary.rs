//! Rotation of pairs of columns: `(a, b) → (a · cos - b · sin, b · cos + a · sin)`.
//!
//! Two products and one sum, each rounded, on every unit: no multiply-add, so that the fused and the unfused class give
//! the same bits, those of the plain formula.

use crate::position::{HeadLayout, Pairing, Positions, RotaryView};
use crate::simd::{Kernel, LANES, Simd};
use core::array::from_fn;

/// Turns the rows of heads by the angles of their tokens' positions. All shapes are checked before.
pub(crate) struct Rotate<'a> {
    pub table: RotaryView<'a>,
    pub positions: Positions<'a>,
    /// `[tokens][heads][d_k]` by the strides of `layout`.
    pub rows: &'a mut [f32],
    pub layout: HeadLayout,
    /// Where the rows are copied from before, if they do not stand in place.
    pub from: Option<(&'a [f32], HeadLayout)>,
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rotary = self.table.rotary;
        // a · cos - b · (-sin) is a · cos + b · sin to the last bit.
        let sign = simd.splat(if self.table.inverse { -1.0 } else { 1.0 });
        for token in 0..self.layout.tokens {
            let (cos, sin) = self.table.row(self.positions.row(token));
            for head in 0..self.layout.heads {
                let row = &mut self.rows[self.layout.start(token, head)..][..rotary.d_k];
                if let Some((from, layout)) = self.from {
                    row.copy_from_slice(&from[layout.start(token, head)..][..rotary.d_k]);
                }
                let row = &mut row[rotary.first_column..][..rotary.width];
                match rotary.pairing {
                    Pairing::Halves => halves(simd, row, cos, sin, sign),
                    Pairing::Interleaved => interleaved(simd, row, cos, sin, sign),
                }
            }
        }
    }
}

#[inline(always)]
fn turn<S: Simd>(
    simd: S,
    (a, b): (S::F32, S::F32),
    (cos, sin): (S::F32, S::F32),
) -> (S::F32, S::F32) {
    let turned_a = simd.sub(simd.mul(a, cos), simd.mul(b, sin));
    let turned_b = simd.add(simd.mul(b, cos), simd.mul(a, sin));
    (turned_a, turned_b)
}

/// `row`: `[2][half]`; `cos` and `sin`: `[half]`.
#[inline(always)]
fn halves<S: Simd>(simd: S, row: &mut [f32], cos: &[f32], sin: &[f32], sign: S::F32) {
    let (a, b) = row.split_at_mut(cos.len());
    let (a, a_rest) = a.as_chunks_mut::<LANES>();
    let (b, b_rest) = b.as_chunks_mut::<LANES>();
    let (cos, cos_rest) = cos.as_chunks::<LANES>();
    let (sin, sin_rest) = sin.as_chunks::<LANES>();
    for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        let angle = (simd.load(cos), simd.mul(simd.load(sin), sign));
        let (turned_a, turned_b) = turn(simd, (simd.load(a), simd.load(b)), angle);
        simd.store(turned_a, a);
        simd.store(turned_b, b);
    }
    if !a_rest.is_empty() {
        let angle = (simd.load_part(cos_rest), simd.mul(simd.load_part(sin_rest), sign));
        let (turned_a, turned_b) =
            turn(simd, (simd.load_part(a_rest), simd.load_part(b_rest)), angle);
        simd.store_part(turned_a, a_rest);
        simd.store_part(turned_b, b_rest);
    }
}

/// `row`: `[half][2]`; `cos` and `sin`: `[half]`.
#[inline(always)]
fn interleaved<S: Simd>(simd: S, row: &mut [f32], cos: &[f32], sin: &[f32], sign: S::F32) {
    let (pairs, rest) = row.as_chunks_mut::<{ 2 * LANES }>();
    let (cos, cos_rest) = cos.as_chunks::<LANES>();
    let (sin, sin_rest) = sin.as_chunks::<LANES>();
    for ((pairs, cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
        let angle = (simd.load(cos), simd.mul(simd.load(sin), sign));
        turn_pairs(simd, pairs, angle);
    }
    if !rest.is_empty() {
        let angle = (simd.load_part(cos_rest), simd.mul(simd.load_part(sin_rest), sign));
        let mut pairs = [0.0; 2 * LANES];
        pairs[..rest.len()].copy_from_slice(rest);
        turn_pairs(simd, &mut pairs, angle);
        rest.copy_from_slice(&pairs[..rest.len()]);
    }
}

/// Sixteen pairs, taken apart and put together by plain moves of lanes.
#[inline(always)]
fn turn_pairs<S: Simd>(simd: S, pairs: &mut [f32; 2 * LANES], angle: (S::F32, S::F32)) {
    let mut a: [f32; LANES] = from_fn(|i| pairs[2 * i]);
    let mut b: [f32; LANES] = from_fn(|i| pairs[2 * i + 1]);
    let (turned_a, turned_b) = turn(simd, (simd.load(&a), simd.load(&b)), angle);
    simd.store(turned_a, &mut a);
    simd.store(turned_b, &mut b);
    for (pair, (&a, &b)) in pairs.as_chunks_mut().0.iter_mut().zip(a.iter().zip(&b)) {
        *pair = [a, b];
    }
}
