//! The left side of a product: a few rows of a row-major matrix, read value by value.

use core::marker::PhantomData;

/// `R` rows of `len` values each, `stride` apart. Checked once when made, so that a tile's loop has no bounds to check.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, const R: usize> {
    start: *const f32,
    stride: usize,
    len: usize,
    slice: PhantomData<&'a [f32]>,
}

impl<'a, const R: usize> Rows<'a, R> {
    /// The rows that begin at `slice[0]`, `slice[stride]`, and so on.
    #[inline(always)]
    pub fn new(slice: &'a [f32], stride: usize, len: usize) -> Self {
        assert!(R > 0 && (R - 1) * stride + len <= slice.len());
        Self { start: slice.as_ptr(), stride, len, slice: PhantomData }
    }

    /// Values of a row.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Value `k` of row `r`.
    #[inline(always)]
    pub fn at(&self, r: usize, k: usize) -> f32 {
        assert!(r < R && k < self.len); // Known where both are loop variables.
        // SAFETY: r * stride + k <= (R - 1) * stride + len - 1, which is in the slice.
        unsafe { *self.start.add(r * self.stride + k) }
    }

    /// Pairs of values of a row.
    #[inline(always)]
    pub fn pairs(&self) -> usize {
        self.len / 2
    }

    /// Values `2 p` and `2 p + 1` of row `r`.
    #[inline(always)]
    pub fn pair(&self, r: usize, p: usize) -> [f32; 2] {
        assert!(r < R && p < self.len / 2);
        // SAFETY: 2 p + 1 < len, and as above.
        let at = |k: usize| unsafe { *self.start.add(r * self.stride + k) };
        [at(2 * p), at(2 * p + 1)]
    }
}
