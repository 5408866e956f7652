//! Which keys a query sees.
//!
//! A mask gives bounds, so that keys which no query of a block sees are never visited, and changes a row of scores.
//! Masks intersect as tuples: `(Causal::top_left(), KeyLength(5))`.

use crate::error::{Error, check_length};

/// The sizes of an attention call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Query heads.
    pub heads: usize,
    /// Query tokens.
    pub queries: usize,
    /// Key tokens.
    pub keys: usize,
}

/// The place of a row of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Query head.
    pub head: usize,
    /// Query token.
    pub query: usize,
    /// The key of the first score of the row.
    pub first_key: usize,
}

/// Hides keys, by loop bounds and by changing rows of scores.
///
/// A key is hidden by the score -Inf: its weight is then exactly 0, and no bit of any output depends on the key or its
/// value, whatever they hold.
pub trait Mask {
    /// Whether the mask fits the sizes of the call.
    fn check(&self, _shape: Shape) -> Result<(), Error> {
        Ok(())
    }

    /// First and last + 1 of the keys that some query of `first..last` may see: outside, all is hidden.
    fn bounds(&self, shape: Shape, _first: usize, _last: usize) -> (usize, usize) {
        (0, shape.keys)
    }

    /// Changes the scores of one row. They are in base 2: logits times log2 e.
    fn apply(&self, shape: Shape, row: Row, scores: &mut [f32]);
}

/// Every query sees every key.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMask;

impl Mask for NoMask {
    #[inline(always)]
    fn apply(&self, _: Shape, _: Row, _: &mut [f32]) {}
}

/// A query sees the keys up to its own place.
#[derive(Clone, Copy, Debug)]
pub struct Causal {
    bottom_right: bool,
}

impl Causal {
    /// Query i sees the keys j ≤ i: both sequences begin at the same token.
    pub const fn top_left() -> Self {
        Self { bottom_right: false }
    }

    /// Query i sees the keys j ≤ i + keys - queries: both sequences end at the same token. With a cache that holds
    /// the queries' own tokens last, this is causality by absolute position.
    pub const fn bottom_right() -> Self {
        Self { bottom_right: true }
    }

    /// How many keys `query` sees.
    #[inline(always)]
    fn seen(self, shape: Shape, query: usize) -> usize {
        let end = match self.bottom_right {
            true => (query + 1 + shape.keys).saturating_sub(shape.queries),
            false => query + 1,
        };
        end.min(shape.keys)
    }
}

impl Mask for Causal {
    #[inline(always)]
    fn bounds(&self, shape: Shape, _: usize, last: usize) -> (usize, usize) {
        (0, self.seen(shape, last - 1))
    }

    #[inline(always)]
    fn apply(&self, shape: Shape, row: Row, scores: &mut [f32]) {
        let seen = self.seen(shape, row.query).saturating_sub(row.first_key);
        if let Some(hidden) = scores.get_mut(seen..) {
            hidden.fill(f32::NEG_INFINITY);
        }
    }
}

/// Only the first keys are seen, as many as given (all, where there are fewer).
#[derive(Clone, Copy, Debug)]
pub struct KeyLength(pub usize);

impl Mask for KeyLength {
    #[inline(always)]
    fn bounds(&self, shape: Shape, _: usize, _: usize) -> (usize, usize) {
        (0, self.0.min(shape.keys))
    }
    #[inline(always)]
    fn apply(&self, _: Shape, _: Row, _: &mut [f32]) {}
}

/// A Boolean mask `[queries][keys]` where `true` means: attend (ONNX, PyTorch's `scaled_dot_product_attention`).
#[derive(Clone, Copy, Debug)]
pub struct Keep<'a>(pub &'a [bool]);

/// A Boolean mask `[queries][keys]` where `true` means: hidden (PyTorch's modules).
#[derive(Clone, Copy, Debug)]
pub struct Hide<'a>(pub &'a [bool]);

macro_rules! boolean {
    ($mask:ident, $hidden_is:literal) => {
        impl Mask for $mask<'_> {
            fn check(&self, shape: Shape) -> Result<(), Error> {
                check_length("mask", shape.queries.saturating_mul(shape.keys), self.0.len())
            }
            #[inline(always)]
            fn apply(&self, shape: Shape, row: Row, scores: &mut [f32]) {
                let mask = &self.0[row.query * shape.keys + row.first_key..];
                for (score, &mask) in scores.iter_mut().zip(mask) {
                    *score = if mask == $hidden_is { f32::NEG_INFINITY } else { *score };
                }
            }
        }
    };
}

boolean!(Keep, false);
boolean!(Hide, true);

/// Both masks: a key is seen where both let it through.
impl<A: Mask, B: Mask> Mask for (A, B) {
    fn check(&self, shape: Shape) -> Result<(), Error> {
        self.0.check(shape)?;
        self.1.check(shape)
    }

    #[inline(always)]
    fn bounds(&self, shape: Shape, first: usize, last: usize) -> (usize, usize) {
        let (a, b) = (self.0.bounds(shape, first, last), self.1.bounds(shape, first, last));
        (a.0.max(b.0), a.1.min(b.1))
    }

    #[inline(always)]
    fn apply(&self, shape: Shape, row: Row, scores: &mut [f32]) {
        self.0.apply(shape, row, scores);
        self.1.apply(shape, row, scores);
    }
}
