//! Rotation of pairs of columns: `(a, b) → (a · cos - b · sin, b · cos + a · sin)`.
//!
//! Two products and one sum, each rounded, on every unit: no multiply-add, so that the fused and the unfused class give
//! the same bits, those of the plain formula.

use crate::error::{Error, check_capacity, check_length};
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd};

/// Which two columns of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// Columns 2i and 2i + 1.
    Interleaved,
    /// Columns i and i + width / 2.
    Halves,
}

/// The positions of tokens. Where tables are applied, a position is a row of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions<'a> {
    /// Token t has the position of the first one + t.
    From(usize),
    /// One for each token.
    Each(&'a [i64]),
    /// All tokens have the same: turns what has been turned before by some more.
    Same(usize),
}

impl Positions<'_> {
    pub(crate) fn check_count(&self, tokens: usize) -> Result<(), Error> {
        match self {
            Self::Each(positions) => check_length("positions", tokens, positions.len()),
            _ => Ok(()),
        }
    }

    /// Whether each of the tokens has one of `rows` rows.
    fn check_rows(&self, tokens: usize, rows: usize) -> Result<(), Error> {
        self.check_count(tokens)?;
        let needed = match *self {
            _ if tokens == 0 => 0,
            Self::From(first) => first.saturating_add(tokens),
            Self::Same(row) => row.saturating_add(1),
            Self::Each(positions) => {
                if positions.iter().any(|&p| p < 0) {
                    return Err(Error::Value {
                        what: "positions",
                        must: "rows of the table, 0 or more",
                    });
                }
                let last = positions.iter().max().map_or(0, |&p| p);
                usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1)
            }
        };
        check_capacity("rotary table", rows, needed)
    }

    pub(crate) fn value(&self, token: usize) -> f64 {
        match *self {
            Self::From(first) => first as f64 + token as f64,
            Self::Each(positions) => positions[token] as f64,
            Self::Same(position) => position as f64,
        }
    }

    #[inline(always)]
    fn row(&self, token: usize) -> usize {
        match *self {
            Self::From(first) => first + token,
            Self::Each(positions) => positions[token] as usize,
            Self::Same(position) => position,
        }
    }
}

/// Where the heads of tokens stand: head h of token t begins at `t · token_stride + h · head_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLayout {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of heads.
    pub heads: usize,
    /// From a token to the next one.
    pub token_stride: usize,
    /// From a head to the next one.
    pub head_stride: usize,
}

impl HeadLayout {
    /// `[tokens][heads][d_k]`.
    pub const fn token_major(tokens: usize, heads: usize, d_k: usize) -> Self {
        Self { tokens, heads, token_stride: heads.saturating_mul(d_k), head_stride: d_k }
    }

    /// `[heads][tokens][d_k]`.
    pub const fn head_major(heads: usize, tokens: usize, d_k: usize) -> Self {
        Self { tokens, heads, token_stride: d_k, head_stride: tokens.saturating_mul(d_k) }
    }

    #[inline(always)]
    fn start(&self, token: usize, head: usize) -> usize {
        token * self.token_stride + head * self.head_stride
    }

    /// Whether all heads are inside of a slice and, to be `written`, no two of them overlap.
    fn check(
        &self,
        what: &'static str,
        d_k: usize,
        len: usize,
        written: bool,
    ) -> Result<(), Error> {
        if self.tokens == 0 || self.heads == 0 {
            return Ok(());
        }
        let mut axes = [(self.token_stride, self.tokens), (self.head_stride, self.heads)];
        axes.sort_unstable();
        let mut span = d_k;
        for (stride, count) in axes.into_iter().filter(|&(_, count)| count > 1) {
            if written && stride < span {
                return Err(Error::Value { what, must: "laid out without overlap of heads" });
            }
            span = span.saturating_add(stride.saturating_mul(count - 1));
        }
        check_capacity(what, len, span)
    }
}

/// Cosines and sines that turn rows. [`Rotary::view`](crate::Rotary::view) and
/// [`RotaryTable::view`](crate::RotaryTable::view) make it.
///
/// All units give the same bits, those of the formula with each operation rounded, in the fused class as well.
#[derive(Clone, Copy, Debug)]
pub struct RotaryView<'a> {
    pub(crate) pairing: Pairing,
    pub(crate) d_k: usize,
    /// Columns `first_column..first_column + 2 * half` turn.
    pub(crate) first_column: usize,
    pub(crate) half: usize,
    /// The values of position p: `[p * stride..][..half]`.
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) inverse: bool,
}

impl<'a> RotaryView<'a> {
    /// Positions that the tables hold.
    pub fn positions(&self) -> usize {
        let rest = self.cos.len().checked_sub(self.half);
        rest.map_or(0, |rest| rest / self.stride + 1)
    }

    /// The same angles the other way round: takes a rotation back.
    ///
    /// ```
    /// use dhyan::{Isa, Positions, Rotary, RotaryTable};
    /// let (isa, rotary) = (Isa::detect(), Rotary::interleaved(4));
    /// let mut table = RotaryTable::<10, 2>::new();
    /// table.fill(rotary, Positions::From(0))?;
    /// let table = table.view(rotary)?;
    ///
    /// // Keys of the positions 3.. of which the first two are dropped: each one goes back by 2.
    /// let (mut keys, mut moved) = ([[1.0, 2.0, 3.0, 4.0]; 5], [[1.0, 2.0, 3.0, 4.0]; 5]);
    /// table.apply_rows(isa, Positions::From(3), &mut moved)?;
    /// table.inverse().apply_rows(isa, Positions::Same(2), &mut moved)?;
    /// table.apply_rows(isa, Positions::From(1), &mut keys)?;
    /// let near = |x: &f32, y: &f32| (x - y).abs() < 1e-5;
    /// assert!(keys.as_flattened().iter().zip(moved.as_flattened()).all(|(x, y)| near(x, y)));
    /// # Ok::<(), dhyan::Error>(())
    /// ```
    pub const fn inverse(mut self) -> Self {
        self.inverse = !self.inverse;
        self
    }

    /// Turns `rows` in place.
    ///
    /// Errors: a position that the tables do not hold; a layout beyond `rows`, or with heads that overlap.
    pub fn apply(
        &self,
        isa: Isa,
        positions: Positions<'_>,
        layout: HeadLayout,
        rows: &mut [f32],
    ) -> Result<(), Error> {
        self.run(isa, Rotate { table: *self, positions, rows, layout, from: None })
    }

    /// Turns tokens of heads side by side, `[tokens][heads * d_k]`, in place.
    ///
    /// Errors: a position that the tables do not hold; a width that is no multiple of d_k.
    pub fn apply_rows<const WIDTH: usize>(
        &self,
        isa: Isa,
        positions: Positions<'_>,
        rows: &mut [[f32; WIDTH]],
    ) -> Result<(), Error> {
        let heads = WIDTH / self.d_k;
        check_length("width of rows", heads * self.d_k, WIDTH)?;
        let layout = HeadLayout::token_major(rows.len(), heads, self.d_k);
        self.apply(isa, positions, layout, rows.as_flattened_mut())
    }

    /// Writes the turned heads of `from` to `out`, with the columns that stay; each has its own layout.
    ///
    /// Errors: as [`apply`](Self::apply), for both (but in `from`, heads may overlap); other tokens or heads.
    pub fn apply_to(
        &self,
        isa: Isa,
        positions: Positions<'_>,
        from: (&[f32], HeadLayout),
        (rows, layout): (&mut [f32], HeadLayout),
    ) -> Result<(), Error> {
        check_length("tokens of out", from.1.tokens, layout.tokens)?;
        check_length("heads of out", from.1.heads, layout.heads)?;
        from.1.check("from", self.d_k, from.0.len(), false)?;
        self.run(isa, Rotate { table: *self, positions, rows, layout, from: Some(from) })
    }

    fn run(&self, isa: Isa, rotate: Rotate<'_>) -> Result<(), Error> {
        let layout = rotate.layout;
        rotate.positions.check_rows(layout.tokens, self.positions())?;
        layout.check("rows", self.d_k, rotate.rows.len(), true)?;
        if layout.heads > 0 {
            isa.run(rotate);
        }
        Ok(())
    }

    /// `[half]` cosines, and as many sines.
    #[inline(always)]
    fn row(&self, position: usize) -> (&'a [f32], &'a [f32]) {
        let start = position * self.stride;
        (&self.cos[start..][..self.half], &self.sin[start..][..self.half])
    }
}

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
        let table = self.table;
        // a · cos - b · (-sin) is a · cos + b · sin to the last bit.
        let sign = if table.inverse { -1.0 } else { 1.0 };
        for token in 0..self.layout.tokens {
            let (cos, sin) = table.row(self.positions.row(token));
            for head in 0..self.layout.heads {
                let row = &mut self.rows[self.layout.start(token, head)..][..table.d_k];
                if let Some((from, layout)) = self.from {
                    row.copy_from_slice(&from[layout.start(token, head)..][..table.d_k]);
                }
                let row = &mut row[table.first_column..][..2 * table.half];
                match table.pairing {
                    Pairing::Halves => halves(simd, row, cos, sin, sign),
                    Pairing::Interleaved => interleaved(row, cos, sin, sign),
                }
            }
        }
    }
}

/// `row`: `[2][half]`; `cos` and `sin`: `[half]`.
#[inline(always)]
fn halves<S: Simd>(simd: S, row: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    let signs = simd.splat(sign);
    let (a, b) = row.split_at_mut(cos.len());
    let (a, a_rest) = a.as_chunks_mut::<LANES>();
    let (b, b_rest) = b.as_chunks_mut::<LANES>();
    let (cos, cos_rest) = cos.as_chunks::<LANES>();
    let (sin, sin_rest) = sin.as_chunks::<LANES>();
    for ((a, b), (cos, sin)) in a.iter_mut().zip(b).zip(cos.iter().zip(sin)) {
        let (cos, sin) = (simd.load(cos), simd.mul(simd.load(sin), signs));
        let (x, y) = (simd.load(a), simd.load(b));
        simd.store(simd.sub(simd.mul(x, cos), simd.mul(y, sin)), a);
        simd.store(simd.add(simd.mul(y, cos), simd.mul(x, sin)), b);
    }
    for ((a, b), (cos, sin)) in a_rest.iter_mut().zip(b_rest).zip(cos_rest.iter().zip(sin_rest)) {
        turn(a, b, *cos, *sin * sign);
    }
}

/// `row`: `[half][2]`; `cos` and `sin`: `[half]`. The compiler makes vectors and shuffles of it (and not of the halves,
/// whose rows it would have to tell apart).
#[inline(always)]
fn interleaved(row: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    for ([a, b], (cos, sin)) in row.as_chunks_mut().0.iter_mut().zip(cos.iter().zip(sin)) {
        turn(a, b, *cos, *sin * sign);
    }
}

#[inline(always)]
fn turn(a: &mut f32, b: &mut f32, cos: f32, sin: f32) {
    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
}
