//! The product, of which everything is made: rows of a row-major matrix times panels.
//!
//! `[rows][inner] × [inner][columns] → [rows][columns]`. Every result is one chain of multiply-adds over `inner` in
//! order, starting from the bias (or +0); how the work is cut does not change it.

use super::panels::Panels;
use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Rows, Simd, array};

/// Rows that are taken through all strips before the next ones, so that they stay in the first two caches:
/// 48 rows of 768 floats are 147 KB.
const ROW_BLOCK: usize = 48;

/// Steps that are asked for ahead of use, so that strips stream from the second cache.
const AHEAD: usize = 8;

/// Up to this many steps the next strips are asked for instead, which follow in memory: a short strip is over before
/// its own end could be asked for in time.
const SHORT: usize = 128;

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
        let rows = end - start;
        // A single strip has half the sums of two: taller tiles hide their latency.
        let narrow = self.columns.1 - self.columns.0 <= LANES;
        let tallest = if narrow { S::ROWS_OF_ONE } else { S::ROWS };
        let (tall, rest) = match rows.div_ceil(tallest) {
            0 | 1 => (rows, 0),
            count => {
                let tall = rows.div_ceil(count);
                (tall, rows % tall)
            }
        };
        let strips = strips_at_once::<S>(tall);
        let (mut column, last) = self.columns;
        while column < last {
            let full = (last.min(self.right.columns()) - column) / LANES;
            let mut at_once = strips;
            while at_once > full && at_once > 1 {
                at_once /= 2;
            }
            let wide = |this: &mut Self, rows, tiles| match at_once {
                8 if fits::<S>(1, 8) => this.column::<S, 8>(simd, rows, tiles, column),
                4 if fits::<S>(1, 4) => this.column::<S, 4>(simd, rows, tiles, column),
                2 if fits::<S>(1, 2) => this.column::<S, 2>(simd, rows, tiles, column),
                _ if full > 0 => this.column::<S, 1>(simd, rows, tiles, column),
                _ => this.column::<S, 0>(simd, rows, tiles, column),
            };
            wide(self, tall, (start, end - rest));
            if rest > 0 {
                wide(self, rest, (end - rest, end));
            }
            column += at_once * LANES;
        }
    }

    /// Rows `first..last` in tiles of `rows`, times `C` full strips (the narrow last one for `C` = 0).
    #[inline(always)]
    fn column<S: Simd, const C: usize>(
        &mut self,
        simd: S,
        rows: usize,
        (first, last): (usize, usize),
        column: usize,
    ) {
        let tiles = Tiles { product: self, first, last, column };
        match rows {
            1 => tiles.run_on::<S, 1, C>(simd),
            2 if fits::<S>(2, C) => tiles.run_on::<S, 2, C>(simd),
            3 if fits::<S>(3, C) => tiles.run_on::<S, 3, C>(simd),
            4 if fits::<S>(4, C) => tiles.run_on::<S, 4, C>(simd),
            5 if fits::<S>(5, C) => tiles.run_on::<S, 5, C>(simd),
            6 if fits::<S>(6, C) => tiles.run_on::<S, 6, C>(simd),
            7 if fits::<S>(7, C) => tiles.run_on::<S, 7, C>(simd),
            8 if fits::<S>(8, C) => tiles.run_on::<S, 8, C>(simd),
            9 if fits::<S>(9, C) => tiles.run_on::<S, 9, C>(simd),
            10 if fits::<S>(10, C) => tiles.run_on::<S, 10, C>(simd),
            11 if fits::<S>(11, C) => tiles.run_on::<S, 11, C>(simd),
            12 if fits::<S>(12, C) => tiles.run_on::<S, 12, C>(simd),
            13 if fits::<S>(13, C) => tiles.run_on::<S, 13, C>(simd),
            14 if fits::<S>(14, C) => tiles.run_on::<S, 14, C>(simd),
            15 if fits::<S>(15, C) => tiles.run_on::<S, 15, C>(simd),
            16 if fits::<S>(16, C) => tiles.run_on::<S, 16, C>(simd),
            _ => {}
        }
    }
}

/// Tiles of equal height, one below the other.
struct Tiles<'a, 'b> {
    product: &'a mut Product<'b>,
    first: usize,
    last: usize,
    column: usize,
}

/// The same, of a size that the compiler knows: a function of its own, so that a call sets up no other size's loop.
struct TilesOf<'a, 'b, const R: usize, const C: usize>(Tiles<'a, 'b>);

impl<'a, 'b> Tiles<'a, 'b> {
    #[inline(always)]
    fn run_on<S: Simd, const R: usize, const C: usize>(self, simd: S) {
        simd.run(TilesOf::<'a, 'b, R, C>(self));
    }
}

impl<const R: usize, const C: usize> Kernel for TilesOf<'_, '_, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Tiles { product, first, last, column } = self.0;
        let (top, bottom) = product.inner;
        let (inner, to) = (bottom - top, column - product.columns.0);
        let wanted = if C == 0 { (product.columns.1 - column).min(LANES) } else { C * LANES };
        let bias = match product.bias {
            [] => &[],
            bias => &bias[to..to + wanted],
        };
        let (left_stride, out_stride) = (product.left_stride, product.out_stride);
        if C == 0 {
            let (strip, width) = product.right.strip(column, top, bottom);
            let bias = [simd.load_part(bias); R];
            for row in (first..last).step_by(R) {
                let left = Rows::<R>::new(&product.left[row * left_stride..], left_stride, inner);
                let sums = narrow_tile(simd, left, strip, width, bias);
                let out = &mut product.out[row * out_stride + to..];
                for (r, &sum) in sums.iter().enumerate() {
                    simd.store_part(sum, &mut out[r * out_stride..][..wanted]);
                }
            }
        } else {
            let strips: [&[[f32; LANES]]; C] = array!(C, c => {
                product.right.strip(column + c * LANES, top, bottom).0.as_chunks().0
            });
            let bias = bias.as_chunks().0;
            let bias = array!(C, c => match bias.get(c) {
                Some(bias) => simd.load(bias),
                None => simd.splat(0.0),
            });
            for row in (first..last).step_by(R) {
                let left = Rows::<R>::new(&product.left[row * left_stride..], left_stride, inner);
                let sums = full_tile(simd, left, strips, [bias; R]);
                let out = &mut product.out[row * out_stride + to..];
                for (r, sums) in sums.iter().enumerate() {
                    let out = &mut out[r * out_stride..][..C * LANES];
                    for (out, &sum) in out.as_chunks_mut().0.iter_mut().zip(sums) {
                        simd.store(sum, out);
                    }
                }
            }
        }
    }
}

/// Whether a tile of `rows` × `strips` has its sums, the strips of one step (of two, where there are many registers)
/// and a value in registers. One row reads a strip's values once, from memory.
const fn fits<S: Simd>(rows: usize, strips: usize) -> bool {
    let steps = if S::REGISTERS >= 32 { 2 } else { 1 };
    match rows {
        1 => strips <= 1 || 2 * strips <= S::REGISTERS,
        _ if strips <= 1 => rows <= S::ROWS_OF_ONE,
        _ => rows <= S::ROWS && rows * strips + steps * strips < S::REGISTERS,
    }
}

/// Strips that a tile of `rows` rows takes at once.
#[inline(always)]
fn strips_at_once<S: Simd>(rows: usize) -> usize {
    [8, 4, 2].into_iter().find(|&strips| fits::<S>(rows, strips)).unwrap_or(1)
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
    let ahead = if inner <= SHORT { C * inner } else { AHEAD };
    let strip_pairs: [&[[[f32; LANES]; 2]]; C] = array!(C, c => &strips[c].as_chunks().0[..pairs]);
    for p in 0..pairs {
        for strip in strip_pairs {
            let step = strip.as_ptr().cast::<[f32; LANES]>().wrapping_add(2 * p + ahead);
            simd.prefetch(step.cast());
            simd.prefetch(step.wrapping_add(1).cast());
        }
        let pair: [&[[f32; LANES]; 2]; C] = array!(C, c => &strip_pairs[c][p]);
        let even = array!(C, c => simd.load(&pair[c][0]));
        let odd = array!(C, c => simd.load(&pair[c][1]));
        if S::REGISTERS >= 32 && R > 1 {
            for r in 0..R {
                let values = left.pair(r, p);
                add_step(simd, &mut sums[r], values[0], &even);
                add_step(simd, &mut sums[r], values[1], &odd);
            }
        } else {
            for r in 0..R {
                add_step(simd, &mut sums[r], left.pair(r, p)[0], &even);
            }
            for r in 0..R {
                add_step(simd, &mut sums[r], left.pair(r, p)[1], &odd);
            }
        }
    }
    if inner % 2 == 1 {
        let right = array!(C, c => simd.load(&strips[c][inner - 1]));
        for r in 0..R {
            add_step(simd, &mut sums[r], left.at(r, inner - 1), &right);
        }
    }
    sums
}

/// One step of a row: its value times that step of each strip.
#[inline(always)]
fn add_step<S: Simd, const C: usize>(
    simd: S,
    sums: &mut [S::F32; C],
    value: f32,
    right: &[S::F32; C],
) {
    let value = simd.splat(value);
    for c in 0..C {
        sums[c] = simd.mul_add(value, right[c], sums[c]);
    }
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
    // Whole vectors while they are in the strip: the lanes beyond its width are never stored.
    let inner = left.len();
    let whole = if inner * width < LANES { 0 } else { (inner * width - LANES) / width + 1 };
    for k in 0..inner {
        let right = match k < whole {
            true => simd.load(strip[k * width..].first_chunk().unwrap_or(&[0.0; LANES])),
            false => simd.load_part(&strip[k * width..][..width]),
        };
        for r in 0..R {
            sums[r] = simd.mul_add(simd.splat(left.at(r, k)), right, sums[r]);
        }
    }
    sums
}
