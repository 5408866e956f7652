//! Positional encodings: rotary and sinusoidal.

use crate::error::{Error, check_capacity, check_length};
use crate::isa::Isa;
use crate::kernels::rotary::Rotate;

/// Which two columns of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Columns 2i and 2i + 1.
    Interleaved,
    /// Columns i and i + width / 2.
    Halves,
}

/// Rotary position embedding (Su et al. 2021, "RoFormer", section 3.2): pair i of a head's columns, at position p, turns
/// by the angle `p · theta^(-2i / width)`, so that a query times a key depends on the distance of the two only:
///
/// `(a, b) → (a · cos - b · sin, b · cos + a · sin)`
///
/// This value says what turns and how fast; [`fill`](Rotary::fill) computes cosines and sines once, and
/// [`view`](Rotary::view) turns rows by them. By name:
///
/// | | frequencies over the rotary width | frequencies over the head width |
/// |---|---|---|
/// | columns 2i, 2i + 1 | `interleaved(d_k).partial(width)` | `interleaved(d_k).partial_of_head(width)` |
/// | columns i, i + width / 2 | `halves(d_k).partial(width)` | `halves(d_k).partial_of_head(width)` |
///
/// ```
/// use dhyan::{HeadLayout, Isa, Positions, Rotary};
/// let rotary = Rotary::halves(6).partial(4).theta(100.0); // angles p and p / 10, two columns stay
/// let (mut cos, mut sin) = ([0.0; 8 * 2], [0.0; 8 * 2]); // [positions][width / 2]
/// rotary.fill(Positions::From(0), &mut cos, &mut sin)?;
///
/// let mut query = [1.0, 1.0, 0.0, 0.0, 5.0, 6.0, /* next head */ 0.0, 0.0, 1.0, 1.0, 7.0, 8.0];
/// let layout = HeadLayout::token_major(1, 2, 6);
/// rotary.view(&cos, &sin)?.apply(Isa::detect(), Positions::From(7), layout, &mut query)?;
/// let expected = [7f32.cos(), 0.7f32.cos(), 7f32.sin(), 0.7f32.sin(), 5.0, 6.0];
/// assert!(query.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6));
/// # Ok::<(), dhyan::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    pub(crate) pairing: Pairing,
    pub(crate) d_k: usize,
    pub(crate) first_column: usize,
    pub(crate) width: usize,
    exponent_width: usize,
    theta: f64,
    position_scale: f64,
}

impl Rotary {
    /// Columns 2i and 2i + 1 of heads `d_k` wide turn together (RoFormer, GPT-J, Llama as published); theta is 10000.
    pub const fn interleaved(d_k: usize) -> Self {
        Self::new(Pairing::Interleaved, d_k)
    }

    /// Columns i and i + d_k / 2 of heads `d_k` wide turn together (GPT-NeoX, most models of Hugging Face); theta is
    /// 10000.
    pub const fn halves(d_k: usize) -> Self {
        Self::new(Pairing::Halves, d_k)
    }

    const fn new(pairing: Pairing, d_k: usize) -> Self {
        let (theta, position_scale) = (1e4, 1.0);
        Self {
            pairing,
            d_k,
            first_column: 0,
            width: d_k,
            exponent_width: d_k,
            theta,
            position_scale,
        }
    }

    /// Only the first `width` columns turn, by `theta^(-2i / width)` (GPT-J, GPT-NeoX).
    pub const fn partial(mut self, width: usize) -> Self {
        (self.width, self.exponent_width) = (width, width);
        self
    }

    /// Only the first `width` columns turn, by `theta^(-2i / d_k)`: the fastest frequencies of the whole head.
    pub const fn partial_of_head(mut self, width: usize) -> Self {
        (self.width, self.exponent_width) = (width, self.d_k);
        self
    }

    /// The columns that turn begin at `column`.
    ///
    /// Two such make a 2-D encoding, where one half of a head turns by the row and the other one by the column:
    ///
    /// ```
    /// use dhyan::{HeadLayout, Isa, Positions, Rotary, RotaryTable};
    /// let by_row = Rotary::halves(8).partial(4);
    /// let by_column = by_row.first_column(4);
    /// let mut table = RotaryTable::<3, 2>::new(); // an image of 2 × 3 patches, angles of up to 3 places
    /// table.fill(by_row, Positions::From(0))?;
    ///
    /// let mut keys = [[1.0; 8]; 6];
    /// let (isa, layout) = (Isa::detect(), HeadLayout::token_major(6, 1, 8));
    /// let (rows, columns) = ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]);
    /// table.view(by_row)?.apply(isa, Positions::Each(&rows), layout, keys.as_flattened_mut())?;
    /// table.view(by_column)?.apply(isa, Positions::Each(&columns), layout, keys.as_flattened_mut())?;
    /// assert_eq!(keys[1][..4], [1.0; 4]); // row 0
    /// assert_eq!(keys[1][4..], keys[4][4..]); // column 1
    /// # Ok::<(), dhyan::Error>(())
    /// ```
    pub const fn first_column(mut self, column: usize) -> Self {
        self.first_column = column;
        self
    }

    /// The base of the frequencies.
    pub const fn theta(mut self, theta: f64) -> Self {
        self.theta = theta;
        self
    }

    /// Positions are multiplied by `scale` (position interpolation, Chen et al. 2023: 0.5 for twice the context).
    pub const fn position_scale(mut self, scale: f64) -> Self {
        self.position_scale = scale;
        self
    }

    /// Computes `cos` and `sin`, `[positions][width / 2]` each, as many positions as there is room for.
    ///
    /// Angles, cosines and sines are computed in f64, by the plain Rust of `libm`, and rounded once: large positions
    /// lose nothing, and the tables have the same bits everywhere.
    ///
    /// Errors: a width that is odd, 0 or beyond the head; slices of different lengths or of no whole number of
    /// positions; another count of positions; a theta that is not positive and finite, a scale that is not finite.
    pub fn fill(
        &self,
        positions: Positions<'_>,
        cos: &mut [f32],
        sin: &mut [f32],
    ) -> Result<(), Error> {
        self.check()?;
        let half = self.width / 2;
        let rows = cos.len() / half;
        check_length("cos", rows * half, cos.len())?;
        check_length("sin", cos.len(), sin.len())?;
        positions.check_count(rows)?;
        if !(self.theta > 0.0 && self.theta.is_finite()) {
            return Err(Error::Value { what: "theta", must: "positive and finite" });
        }
        if !self.position_scale.is_finite() {
            return Err(Error::Value { what: "position scale", must: "finite" });
        }
        for i in 0..half {
            let frequency = frequency(self.theta, i, self.exponent_width);
            for row in 0..rows {
                let (s, c) = libm::sincos(positions.value(row) * self.position_scale * frequency);
                (cos[row * half + i], sin[row * half + i]) = (c as f32, s as f32);
            }
        }
        Ok(())
    }

    /// Tables to turn rows by: `cos` and `sin`, `[positions][width / 2]` each, filled by [`fill`](Self::fill) or from
    /// elsewhere (the caches of ONNX's RotaryEmbedding; frequencies of another kind).
    ///
    /// Errors: a width that is odd, 0 or beyond the head; slices of different lengths, or of no whole number of positions.
    pub fn view<'a>(&self, cos: &'a [f32], sin: &'a [f32]) -> Result<RotaryView<'a>, Error> {
        self.check()?;
        let half = self.width / 2;
        check_length("cos", cos.len() / half * half, cos.len())?;
        self.view_strided(cos, sin, half)
    }

    /// The same where the values of position p begin at `p · stride`: `stride` is `width` for tables that hold
    /// all angles twice.
    pub fn view_strided<'a>(
        &self,
        cos: &'a [f32],
        sin: &'a [f32],
        stride: usize,
    ) -> Result<RotaryView<'a>, Error> {
        self.check()?;
        check_length("sin", cos.len(), sin.len())?;
        check_capacity("stride of cos and sin", stride, self.width / 2)?;
        Ok(RotaryView { rotary: *self, cos, sin, stride, inverse: false })
    }

    fn check(&self) -> Result<(), Error> {
        if self.width == 0 || !self.width.is_multiple_of(2) {
            return Err(Error::Value { what: "rotary width", must: "even, and at least 2" });
        }
        check_capacity(
            "head (rotary columns)",
            self.d_k,
            self.first_column.saturating_add(self.width),
        )
    }
}

/// `theta^(-2i / width)`.
fn frequency(theta: f64, i: usize, width: usize) -> f64 {
    libm::pow(theta, -2.0 * i as f64 / width as f64)
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
    fn check_count(&self, tokens: usize) -> Result<(), Error> {
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

    fn value(&self, token: usize) -> f64 {
        match *self {
            Self::From(first) => first as f64 + token as f64,
            Self::Each(positions) => positions[token] as f64,
            Self::Same(position) => position as f64,
        }
    }

    #[inline(always)]
    pub(crate) fn row(&self, token: usize) -> usize {
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
    pub(crate) fn start(&self, token: usize, head: usize) -> usize {
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

/// Cosines and sines that turn rows. It is made by [`Rotary::view`] or [`RotaryTable::view`].
///
/// All units give the same bits, those of the formula with each operation rounded, in the fused class as well.
#[derive(Clone, Copy, Debug)]
pub struct RotaryView<'a> {
    pub(crate) rotary: Rotary,
    cos: &'a [f32],
    sin: &'a [f32],
    stride: usize,
    pub(crate) inverse: bool,
}

impl<'a> RotaryView<'a> {
    /// Positions that the tables hold.
    pub fn positions(&self) -> usize {
        let rest = self.cos.len().checked_sub(self.rotary.width / 2);
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
        positions.check_rows(layout.tokens, self.positions())?;
        layout.check("rows", self.rotary.d_k, rows.len(), true)?;
        isa.run(Rotate { table: *self, positions, rows, layout, from: None });
        Ok(())
    }

    /// Turns tokens of heads side by side, `[tokens][heads · d_k]`, in place.
    ///
    /// Errors: a position that the tables do not hold; a width that is no multiple of d_k.
    pub fn apply_rows<const WIDTH: usize>(
        &self,
        isa: Isa,
        positions: Positions<'_>,
        rows: &mut [[f32; WIDTH]],
    ) -> Result<(), Error> {
        let (d_k, heads) = (self.rotary.d_k, WIDTH / self.rotary.d_k);
        check_length("width of rows", heads * d_k, WIDTH)?;
        let layout = HeadLayout::token_major(rows.len(), heads, d_k);
        self.apply(isa, positions, layout, rows.as_flattened_mut())
    }

    /// Writes the turned heads of `from` to `out`, with the columns that stay; each has its own layout.
    ///
    /// Errors: as [`apply`](Self::apply), for both; other tokens or heads. In `from`, heads may overlap.
    pub fn apply_to(
        &self,
        isa: Isa,
        positions: Positions<'_>,
        (from, from_layout): (&[f32], HeadLayout),
        (out, layout): (&mut [f32], HeadLayout),
    ) -> Result<(), Error> {
        positions.check_rows(layout.tokens, self.positions())?;
        check_length("tokens of out", from_layout.tokens, layout.tokens)?;
        check_length("heads of out", from_layout.heads, layout.heads)?;
        from_layout.check("from", self.rotary.d_k, from.len(), false)?;
        layout.check("out", self.rotary.d_k, out.len(), true)?;
        isa.run(Rotate {
            table: *self,
            positions,
            rows: out,
            layout,
            from: Some((from, from_layout)),
        });
        Ok(())
    }

    /// `[width / 2]` cosines, and as many sines.
    #[inline(always)]
    pub(crate) fn row(&self, position: usize) -> (&'a [f32], &'a [f32]) {
        let (start, half) = (position * self.stride, self.rotary.width / 2);
        (&self.cos[start..][..half], &self.sin[start..][..half])
    }
}

/// Cosines and sines of N positions for HALF pairs of columns, HALF = d_k / 2 where the whole head turns.
///
/// ```
/// use dhyan::{Isa, Positions, Rotary, RotaryTable};
/// const ROTARY: Rotary = Rotary::interleaved(8); // d_k = 8
/// let mut table = RotaryTable::<32, 4>::new();
/// table.fill(ROTARY, Positions::From(0))?;
///
/// let mut queries = [[1.0; 2 * 8]; 3]; // 3 tokens of 2 heads
/// table.view(ROTARY)?.apply_rows(Isa::detect(), Positions::From(0), &mut queries)?;
/// assert_eq!(queries[0], [1.0; 16]); // position 0 does not turn
/// assert_eq!(queries[2][..8], queries[2][8..]);
/// # Ok::<(), dhyan::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RotaryTable<const N: usize, const HALF: usize> {
    /// Cosines, one row per position.
    pub cos: [[f32; HALF]; N],
    /// Sines, one row per position.
    pub sin: [[f32; HALF]; N],
}

impl<const N: usize, const HALF: usize> RotaryTable<N, HALF> {
    /// A table of zeros, to be filled; it can be a `static`.
    pub const fn new() -> Self {
        Self { cos: [[0.0; HALF]; N], sin: [[0.0; HALF]; N] }
    }

    /// Computes the table for N positions. Errors: as [`Rotary::fill`], or another rotary width than 2 · HALF.
    pub fn fill(&mut self, rotary: Rotary, positions: Positions<'_>) -> Result<(), Error> {
        check_length("rotary width", 2 * HALF, rotary.width)?;
        rotary.fill(positions, self.cos.as_flattened_mut(), self.sin.as_flattened_mut())
    }

    /// The table, to turn rows by. Errors: as [`Rotary::view`], or another rotary width than 2 · HALF.
    pub fn view(&self, rotary: Rotary) -> Result<RotaryView<'_>, Error> {
        check_length("rotary width", 2 * HALF, rotary.width)?;
        rotary.view(self.cos.as_flattened(), self.sin.as_flattened())
    }
}

impl<const N: usize, const HALF: usize> Default for RotaryTable<N, HALF> {
    fn default() -> Self {
        Self::new()
    }
}

/// Sinusoidal encoding (Vaswani et al. 2017, section 3.5) of the positions from `first` on, to `out`
/// (`[tokens][d_model]`):
///
/// `PE(p, 2i) = sin(p / 10000^(2i / d_model))`, `PE(p, 2i + 1) = cos(p / 10000^(2i / d_model))`
///
/// It is computed in f64 and rounded once, with the same bits everywhere.
///
/// ```
/// let mut encoding = [0.0; 2 * 4];
/// dhyan::sinusoidal(1, 4, &mut encoding)?; // positions 1 and 2
/// let expected = [1f32.sin(), 1f32.cos(), 0.01f32.sin(), 0.01f32.cos()];
/// assert!(encoding.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6));
/// # Ok::<(), dhyan::Error>(())
/// ```
pub fn sinusoidal(first: usize, d_model: usize, out: &mut [f32]) -> Result<(), Error> {
    each_sinusoid(first, d_model, out, |x, encoding| *x = encoding)
}

/// Adds the [`sinusoidal`] encoding of the positions from `first` on to `x` (`[tokens][d_model]`).
///
/// A learned encoding is a plain addition too, of the rows of a trained table:
///
/// ```
/// let mut x = [[1.0, 2.0], [3.0, 4.0]]; // two tokens, the first at position 1
/// dhyan::add_sinusoidal(1, 2, x.as_flattened_mut())?;
/// assert!((x[0][0] - (1.0 + 1f32.sin())).abs() < 1e-6);
///
/// let learned = [[0.5, 0.0], [0.25, 1.0], [0.125, 2.0]]; // [positions][d_model]
/// let mut x = [[1.0, 2.0], [3.0, 4.0]];
/// for (x, encoding) in x.as_flattened_mut().iter_mut().zip(learned[1..].as_flattened()) {
///     *x += encoding;
/// }
/// assert_eq!(x, [[1.25, 3.0], [3.125, 6.0]]);
/// # Ok::<(), dhyan::Error>(())
/// ```
pub fn add_sinusoidal(first: usize, d_model: usize, x: &mut [f32]) -> Result<(), Error> {
    each_sinusoid(first, d_model, x, |x, encoding| *x += encoding)
}

fn each_sinusoid(
    first: usize,
    d_model: usize,
    rows: &mut [f32],
    write: impl Fn(&mut f32, f32),
) -> Result<(), Error> {
    let tokens = rows.len().checked_div(d_model).unwrap_or(0);
    check_length("rows", tokens * d_model, rows.len())?;
    // Pair after pair of columns: a frequency costs as much as a sine and a cosine.
    for column in (0..d_model).step_by(2) {
        let frequency = frequency(1e4, column / 2, d_model);
        for token in 0..tokens {
            let (sin, cos) = libm::sincos(Positions::From(first).value(token) * frequency);
            let end = (column + 2).min(d_model);
            let pair = &mut rows[token * d_model + column..token * d_model + end];
            for (x, encoding) in pair.iter_mut().zip([sin, cos]) {
                write(x, encoding as f32);
            }
        }
    }
    Ok(())
}
