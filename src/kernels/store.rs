//! Rows of keys and values into panels.

use super::panels::strip_width;
use crate::simd::{LANES, Simd, array};

/// Writes rows of keys and values, `[count][heads * d]`, as tokens `first..` of the panels.
pub(crate) struct Store<'a> {
    pub panels: &'a mut [f32],
    pub rows: &'a [f32],
    pub row_stride: usize,
    pub heads: usize,
    pub d: usize,
    pub capacity: usize,
    pub first: usize,
    pub count: usize,
}

impl Store<'_> {
    /// Values: a token is a row of each head's panels.
    #[inline(always)]
    pub fn values<S: Simd>(self, simd: S) {
        let Self { d, capacity, .. } = self;
        for (head, panels) in
            self.panels.chunks_exact_mut(d * capacity).take(self.heads).enumerate()
        {
            for start in (0..d).step_by(LANES) {
                let width = strip_width(d, start);
                let strip = &mut panels[start * capacity + self.first * width..];
                for (token, to) in strip.chunks_exact_mut(width).take(self.count).enumerate() {
                    let from = &self.rows[token * self.row_stride + head * d + start..][..width];
                    simd.store_part(simd.load_part(from), to);
                }
            }
        }
    }

    /// Keys: a token is a column of each head's panels.
    #[inline(always)]
    pub fn keys<S: Simd>(self, simd: S) {
        let Self { d, capacity, first, .. } = self;
        let last = first + self.count;
        for (head, panels) in
            self.panels.chunks_exact_mut(d * capacity).take(self.heads).enumerate()
        {
            let mut token = first;
            while token < last {
                let start = token - token % LANES;
                let width = strip_width(capacity, start);
                let strip = &mut panels[start * d..][..width * d];
                let end = last.min(start + LANES);
                let rows = &self.rows[(token - first) * self.row_stride + head * d..];
                let mut column = 0;
                if end - token == LANES {
                    while column + LANES <= d {
                        let rows = array!(LANES, r => &rows[r * self.row_stride + column..].as_chunks().0[0]);
                        let to = strip[column * LANES..].as_chunks_mut().0;
                        simd.transpose(rows, to);
                        column += LANES;
                    }
                }
                for (c, to) in strip.chunks_exact_mut(width).enumerate().skip(column) {
                    for (r, to) in to[token - start..end - start].iter_mut().enumerate() {
                        *to = rows[r * self.row_stride + c];
                    }
                }
                token = end;
            }
        }
    }
}
