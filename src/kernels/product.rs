//! The product, of which everything is made: rows of a row-major matrix times panels.
//!
//! `[rows][inner] × [inner][columns] → [rows][columns]`. Every result is one chain of multiply-adds over `inner` in
//! order, starting from the bias (or +0); how the work is cut does not change it.

use super::panels::Panels;
use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Rows, Simd};
use core::array::from_fn;

/// Rows that are taken through all strips before the next ones, so that they stay in the first two caches:
/// 48 rows of 768 floats are 147 KB.
const AHEAD: usize = 4;
const ROW_BLOCK: usize = 48;

/// `out[rows][columns] = left[rows][inner] · right[inner][columns] (+ bias[columns])`.
///
/// `rows` follows from `left.len() / inner`.
///
/// ```
/// use dhyan::{Isa, kernels::{Panels, pack, product}};
/// let left = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 × 3
/// let mut panels = [0.0; 6];
/// pack(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 3, 2, &mut panels)?; // 3 × 2
/// let mut out = [0.0; 4];
/// product(Isa::detect(), &left, Panels::new(&panels, 3, 2)?, Some(&[10.0, 20.0]), &mut out)?;
/// assert_eq!(out, [14.0, 25.0, 20.0, 31.0]);
/// # Ok::<(), dhyan::Error>(())
/// ```
pub fn product(
    isa: Isa,
    left: &[f32],
    right: Panels<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    let rows = left.len().checked_div(right.rows()).unwrap_or(0);
    check_length("left", rows * right.rows(), left.len())?;
    check_length("out", rows * right.columns(), out.len())?;
    if let Some(bias) = bias {
        check_length("bias", right.columns(), bias.len())?;
    }
    isa.run(Product {
        left,
        left_stride: right.rows(),
        rows,
        right,
        inner: (0, right.rows()),
        columns: (0, right.columns()),
        bias: bias.unwrap_or(&[]),
        out_stride: right.columns(),
        out,
    });
    Ok(())
}

/// A product of a part of the right matrix.
pub(crate) struct Product<'a> {
    /// Row i is `left[i * left_stride..]`, as long as `inner`.
    pub left: &'a [f32],
    pub left_stride: usize,
    pub rows: usize,
    pub right: Panels<'a>,
    /// Rows of `right` that take part: first and last + 1.
    pub inner: (usize, usize),
    /// Columns of `right` that are wanted: first (a multiple of 16) and last + 1. The last may lie beyond the matrix,
    /// up to the end of its strip: what is written there is rubbish.
    pub columns: (usize, usize),
    /// One value per wanted column, or empty.
    pub bias: &'a [f32],
    /// Row i goes to `out[i * out_stride..]`.
    pub out: &'a mut [f32],
    pub out_stride: usize,
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut start = 0;
        while start < self.rows {
            let end = self.rows.min(start + ROW_BLOCK);
            self.block(simd, start, end);
            start = end;
        }
    }
}

impl Product<'_> {
    /// Rows `start..end`, strip after strip.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, start: usize, end: usize) {
        // Tiles as tall as the registers allow, evened out: 13 rows are 7 + 6, not 12 + 1.
        let count = (end - start).div_ceil(S::ROWS);
        let tall = (end - start).div_ceil(count.max(1));
        let strips = strips_at_once::<S>(tall);
        let (mut column, last) = self.columns;
        while column < last {
            let full = (last.min(self.right.columns()) - column) / LANES;
            let mut at_once = strips;
            while at_once > full && at_once > 1 {
                at_once /= 2;
            }
            let mut row = start;
            while row < end {
                let rows = tall.min(end - row);
                match at_once {
                    8 if S::SUMS >= 8 => self.rows::<S, 8>(simd, row, rows, column),
                    4 if S::SUMS >= 4 => self.rows::<S, 4>(simd, row, rows, column),
                    2 if S::SUMS >= 2 => self.rows::<S, 2>(simd, row, rows, column),
                    _ if full > 0 => self.rows::<S, 1>(simd, row, rows, column),
                    _ => self.rows::<S, 0>(simd, row, rows, column),
                }
                row += rows;
            }
            column += at_once * LANES;
        }
    }

    /// `C` full strips, or the narrow last one for `C` = 0.
    #[inline(always)]
    fn rows<S: Simd, const C: usize>(&mut self, simd: S, row: usize, rows: usize, column: usize) {
        match rows {
            1 => self.tile::<S, 1, C>(simd, row, column),
            2 if S::ROWS >= 2 && 2 * C <= S::SUMS => self.tile::<S, 2, C>(simd, row, column),
            3 if S::ROWS >= 3 && 3 * C <= S::SUMS => self.tile::<S, 3, C>(simd, row, column),
            4 if S::ROWS >= 4 && 4 * C <= S::SUMS => self.tile::<S, 4, C>(simd, row, column),
            5 if S::ROWS >= 5 && 5 * C <= S::SUMS => self.tile::<S, 5, C>(simd, row, column),
            6 if S::ROWS >= 6 && 6 * C <= S::SUMS => self.tile::<S, 6, C>(simd, row, column),
            7 if S::ROWS >= 7 && 7 * C <= S::SUMS => self.tile::<S, 7, C>(simd, row, column),
            8 if S::ROWS >= 8 && 8 * C <= S::SUMS => self.tile::<S, 8, C>(simd, row, column),
            9 if S::ROWS >= 9 && 9 * C <= S::SUMS => self.tile::<S, 9, C>(simd, row, column),
            10 if S::ROWS >= 10 && 10 * C <= S::SUMS => self.tile::<S, 10, C>(simd, row, column),
            11 if S::ROWS >= 11 && 11 * C <= S::SUMS => self.tile::<S, 11, C>(simd, row, column),
            12 if S::ROWS >= 12 && 12 * C <= S::SUMS => self.tile::<S, 12, C>(simd, row, column),
            _ => {}
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const C: usize>(&mut self, simd: S, row: usize, column: usize) {
        let (first, last) = self.inner;
        let left = &self.left[row * self.left_stride..];
        let left = Rows::<R>::new(left, self.left_stride, last - first);
        let to = column - self.columns.0;
        if C == 0 {
            let (strip, width) = self.right.strip(column, first, last);
            let wanted = (self.columns.1 - column).min(LANES);
            let bias = match self.bias.is_empty() {
                true => simd.splat(0.0),
                false => simd.load_part(&self.bias[to..to + wanted]),
            };
            let sums = narrow_tile(simd, left, strip, width, [bias; R]);
            for (r, &sum) in sums.iter().enumerate() {
                let out = &mut self.out[(row + r) * self.out_stride + to..];
                simd.store_part(sum, &mut out[..wanted]);
            }
        } else {
            let strips: [&[[f32; LANES]]; C] =
                from_fn(|c| self.right.strip(column + c * LANES, first, last).0.as_chunks().0);
            let bias: [S::F32; C] = match self.bias.is_empty() {
                true => [simd.splat(0.0); C],
                false => {
                    let bias = self.bias[to..].as_chunks::<LANES>().0;
                    from_fn(|c| simd.load(&bias[c]))
                }
            };
            let sums = full_tile(simd, left, strips, [bias; R]);
            for (r, sums) in sums.iter().enumerate() {
                let out = &mut self.out[(row + r) * self.out_stride + to..][..C * LANES];
                for (out, &sum) in out.as_chunks_mut().0.iter_mut().zip(sums) {
                    simd.store(sum, out);
                }
            }
        }
    }
}

/// Strips that `rows` rows leave registers for: their sums, and two steps of each strip. One row reads a strip's
/// values once, from memory.
#[inline(always)]
fn strips_at_once<S: Simd>(rows: usize) -> usize {
    let fits = |strips| rows * strips <= S::SUMS && (rows == 1 || (rows + 2) * strips <= S::SUMS + 4);
    [8, 4, 2].into_iter().find(|&strips| fits(strips)).unwrap_or(1)
}

/// `[R][inner] × C strips of [inner][16] → [R][C * 16]`, all sums in registers: by far the most time is spent here.
#[inline(always)]
fn full_tile<S: Simd, const R: usize, const C: usize>(
    simd: S,
    left: Rows<'_, R>,
    strips: [&[[f32; LANES]]; C],
    mut sums: [[S::F32; C]; R],
) -> [[S::F32; C]; R] {
    // Two steps at a time, so that the address of a row's value is made once for both.
    let (pairs, inner) = (left.pairs(), left.len());
    let strip_pairs: [&[[[f32; LANES]; 2]]; C] = from_fn(|c| &strips[c].as_chunks().0[..pairs]);
    for p in 0..pairs {
        for strip in strip_pairs {
            simd.prefetch(strip.as_ptr().wrapping_add(p + AHEAD).cast());
            simd.prefetch(strip.as_ptr().cast::<[f32; LANES]>().wrapping_add(2 * (p + AHEAD) + 1).cast());
        }
        let right: [[S::F32; C]; 2] = from_fn(|i| from_fn(|c| simd.load(&strip_pairs[c][p][i])));
        for r in 0..R {
            for (value, right) in left.pair(r, p).into_iter().zip(right) {
                let value = simd.splat(value);
                for c in 0..C {
                    sums[r][c] = simd.mul_add(value, right[c], sums[r][c]);
                }
            }
        }
    }
    if inner % 2 == 1 {
        for r in 0..R {
            let value = simd.splat(left.at(r, inner - 1));
            for c in 0..C {
                sums[r][c] = simd.mul_add(value, simd.load(&strips[c][inner - 1]), sums[r][c]);
            }
        }
    }
    sums
}

/// The same for the last strip, `width` columns wide.
#[inline(always)]
fn narrow_tile<S: Simd, const R: usize>(
    simd: S,
    left: Rows<'_, R>,
    strip: &[f32],
    width: usize,
    mut sums: [S::F32; R],
) -> [S::F32; R] {
    for (k, right) in strip.chunks_exact(width).take(left.len()).enumerate() {
        let right = simd.load_part(right);
        for r in 0..R {
            sums[r] = simd.mul_add(simd.splat(left.at(r, k)), right, sums[r]);
        }
    }
    sums
}
