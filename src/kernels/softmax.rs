//! Stable softmax, in base 2, and the one place where partial results are merged.

use super::exp::exp2_of;
use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd};

pub(crate) const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// Softmax of each row of `[rows][columns]` in place: `exp(x_j - max) / Σ exp(x_j - max)`.
///
/// -Inf gets the weight 0; a row of -Inf only becomes zeros; a row with NaN or +Inf becomes NaN.
///
/// ```
/// use dhyan::{Isa, kernels::softmax};
/// let mut row = [4.0, 2.0, 5.0];
/// softmax(Isa::detect(), &mut row, 3)?;
/// assert!((row[0] - 0.2595).abs() < 1e-4 && (row[1] - 0.0351).abs() < 1e-4 && (row[2] - 0.7054).abs() < 1e-4);
/// # Ok::<(), dhyan::Error>(())
/// ```
pub fn softmax(isa: Isa, rows: &mut [f32], columns: usize) -> Result<(), Error> {
    let count = rows.len().checked_div(columns).unwrap_or(0);
    check_length("rows", count * columns, rows.len())?;
    if columns > 0 {
        isa.run(Softmax { rows, columns });
    }
    Ok(())
}

struct Softmax<'a> {
    rows: &'a mut [f32],
    columns: usize,
}

impl Kernel for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let log2_e = simd.splat(LOG2_E);
        for row in self.rows.chunks_exact_mut(self.columns) {
            let (vectors, rest) = row.as_chunks_mut::<LANES>();
            let mut tail = [f32::NEG_INFINITY; LANES];
            tail[..rest.len()].copy_from_slice(rest);
            let tail = core::slice::from_mut(&mut tail);
            let max = row_max(simd, tail, row_max(simd, vectors, simd.splat(f32::NEG_INFINITY)));
            // Base 2 only after the maximum is off: x · log2 e could overflow, and would round coarsely where x is large.
            let max = finite_max(simd, simd.splat(simd.largest(max)));
            let mut sum = simd.splat(0.0);
            for v in vectors.iter_mut().chain(&mut *tail) {
                let power = exp2_of(simd, simd.mul(simd.sub(simd.load(v), max), log2_e));
                sum = simd.add(sum, power);
                simd.store(power, v);
            }
            let sum = simd.sum(sum);
            let factor = simd.splat(reciprocal(sum));
            for v in vectors.iter_mut().chain(&mut *tail) {
                let weight = simd.mul(simd.load(v), factor);
                simd.store(weight, v);
            }
            rest.copy_from_slice(&tail[0][..rest.len()]);
        }
    }
}

/// 1 / sum, and 0 for the sum of a row that sees nothing.
#[inline(always)]
pub(crate) fn reciprocal(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { 1.0 / sum }
}

/// The largest scores of a row by lanes, and `max` (anything, where one is NaN: the sum will be NaN).
#[inline(always)]
pub(crate) fn row_max<S: Simd>(simd: S, row: &[[f32; LANES]], mut max: S::F32) -> S::F32 {
    for v in row {
        max = simd.max(max, simd.load(v));
    }
    max
}

/// What is taken off the scores: the maximum, or 0 for that of a row of -Inf only, so that its powers are 0 and not NaN.
#[inline(always)]
pub(crate) fn finite_max<S: Simd>(simd: S, max: S::F32) -> S::F32 {
    simd.select_less(max, simd.splat(f32::MIN), simd.splat(0.0), max)
}

/// Scores to 2^(score - max), and their sum by lanes onto `sum`.
#[inline(always)]
pub(crate) fn exponentials<S: Simd>(
    simd: S,
    row: &mut [[f32; LANES]],
    max: S::F32,
    mut sum: S::F32,
) -> S::F32 {
    for v in row {
        let power = exp2_of(simd, simd.sub(simd.load(v), max));
        sum = simd.add(sum, power);
        simd.store(power, v);
    }
    sum
}

/// How two partial results over different keys become one: the online softmax (Milakov and Gimelshein 2018,
/// arXiv:1805.02867). A partial result is a maximum, a sum of 2^(score - max), and outputs weighted the same way.
#[derive(Clone, Copy)]
pub(crate) struct Merge {
    pub max: [f32; LANES],
    pub sum: [f32; LANES],
    /// What the outputs so far, and the new ones, are multiplied by.
    pub old_factor: [f32; LANES],
    pub new_factor: [f32; LANES],
}

impl Merge {
    /// The first part of all rows.
    #[inline(always)]
    pub fn of_first(max: [f32; LANES], sum: [f32; LANES]) -> Self {
        Merge { max, sum, old_factor: [0.0; LANES], new_factor: [1.0; LANES] }
    }

    /// Merges (maxima, sums) of up to sixteen rows. Where one side has seen nothing (its sum is 0) the other one is
    /// taken as it is.
    #[inline(always)]
    pub fn new<S: Simd>(
        simd: S,
        (old_max, old_sum): (&[f32], &[f32]),
        (new_max, new_sum): (&[f32; LANES], &[f32; LANES]),
    ) -> Self {
        let (om, os) = (simd.load_part(old_max), simd.load_part(old_sum));
        let (nm, ns) = (simd.load(new_max), simd.load(new_sum));
        let max = simd.max(om, nm);
        let old_factor = exp2_of(simd, simd.sub(om, max));
        let new_factor = exp2_of(simd, simd.sub(nm, max));
        let sum = simd.mul_add(ns, new_factor, simd.mul(os, old_factor));
        let mut merge = Merge::of_first(*new_max, *new_sum);
        simd.store(max, &mut merge.max);
        simd.store(sum, &mut merge.sum);
        simd.store(old_factor, &mut merge.old_factor);
        simd.store(new_factor, &mut merge.new_factor);
        for (r, (&old_max, &old_sum)) in old_max.iter().zip(old_sum).enumerate() {
            if new_sum[r] == 0.0 {
                (merge.max[r], merge.sum[r]) = (old_max, old_sum);
                (merge.old_factor[r], merge.new_factor[r]) = (1.0, 0.0);
            } else if old_sum == 0.0 {
                (merge.max[r], merge.sum[r]) = (new_max[r], new_sum[r]);
                (merge.old_factor[r], merge.new_factor[r]) = (0.0, 1.0);
            }
        }
        merge
    }
}
