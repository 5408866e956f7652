//! Positional encodings: rotary and sinusoidal.

use crate::error::{Error, check_capacity, check_length};
use crate::kernels::rotary::{Pairing, Positions, RotaryView};

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
    pairing: Pairing,
    d_k: usize,
    first_column: usize,
    width: usize,
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
    /// Angles, cosines and sines are computed in f64, by the plain Rust of `libm`, and rounded once: the tables have the
    /// same bits everywhere, and the angle of position p is off by about p · 2^-52 at most.
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
        // No frequency, where there is no position.
        for i in 0..half.min(cos.len()) {
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
        let Self { pairing, d_k, first_column, width, .. } = *self;
        Ok(RotaryView {
            pairing,
            d_k,
            first_column,
            half: width / 2,
            cos,
            sin,
            stride,
            inverse: false,
        })
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
        check_length("rotary width", HALF.saturating_mul(2), rotary.width)?;
        rotary.fill(positions, self.cos.as_flattened_mut(), self.sin.as_flattened_mut())
    }

    /// The table, to turn rows by. Errors: as [`Rotary::view`], or another rotary width than 2 · HALF.
    pub fn view(&self, rotary: Rotary) -> Result<RotaryView<'_>, Error> {
        check_length("rotary width", HALF.saturating_mul(2), rotary.width)?;
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
    for column in (0..d_model.min(rows.len())).step_by(2) {
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
