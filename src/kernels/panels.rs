//! The one format of a matrix that stands on the right of a product: vertical strips 16 columns wide, each strip row
//! after row, the last strip as wide as what is left. Nothing is padded.

use crate::error::{Error, check_length};
use crate::simd::LANES;

/// Where element (row, column) of a `rows` × `columns` matrix stands in its panels.
///
/// ```
/// use dhyan::kernels::panel_index;
/// // 3 rows of 18 columns: a strip of 16, then a strip of 2.
/// assert_eq!(panel_index(3, 18, 1, 0), 16);
/// assert_eq!(panel_index(3, 18, 0, 16), 3 * 16);
/// assert_eq!(panel_index(3, 18, 2, 17), 3 * 16 + 2 * 2 + 1);
/// ```
pub const fn panel_index(rows: usize, columns: usize, row: usize, column: usize) -> usize {
    let start = column - column % LANES;
    start * rows + row * strip_width(columns, start) + column % LANES
}

/// The width of the strip that begins at column `start`.
#[inline(always)]
pub(crate) const fn strip_width(columns: usize, start: usize) -> usize {
    if columns - start < LANES { columns - start } else { LANES }
}

/// Writes a row-major matrix (`[rows][columns]`) as panels.
pub fn pack(matrix: &[f32], rows: usize, columns: usize, panels: &mut [f32]) -> Result<(), Error> {
    check_length("matrix", rows * columns, matrix.len())?;
    check_length("panels", rows * columns, panels.len())?;
    let mut rest = panels;
    for start in (0..columns).step_by(LANES) {
        let width = strip_width(columns, start);
        let (strip, after) = rest.split_at_mut(rows * width);
        for (to, from) in strip.chunks_exact_mut(width).zip(matrix.chunks_exact(columns)) {
            to.copy_from_slice(&from[start..start + width]);
        }
        rest = after;
    }
    Ok(())
}

/// A `rows` × `columns` matrix in panels.
#[derive(Clone, Copy, Debug)]
pub struct Panels<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
}

impl<'a> Panels<'a> {
    /// Reads `data` as a `rows` × `columns` matrix.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Result<Self, Error> {
        check_length("panels", rows.saturating_mul(columns), data.len())?;
        Ok(Self { data, rows, columns })
    }

    /// The same for a slice that is known to fit.
    #[inline(always)]
    pub(crate) fn part(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self { data, rows, columns }
    }

    /// Rows of the matrix.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Rows `first..last` of the strip that begins at column `start`, and its width.
    #[inline(always)]
    pub(crate) fn strip(&self, start: usize, first: usize, last: usize) -> (&'a [f32], usize) {
        let width = strip_width(self.columns, start);
        let strip = &self.data[start * self.rows..];
        (&strip[first * width..last * width], width)
    }
}
