//! Keys and values of the tokens so far, in the panels that attention reads.

use crate::error::{Error, check_capacity};
use crate::kernels::attend::KeyValues;
use crate::kernels::layer::KeyValueBuffer;

/// Room for the keys and values of N tokens, each D_KV wide over all kv heads.
///
/// A layer fills it ([`append`](crate::MultiHeadAttention::append)) and attends to it
/// ([`attend`](crate::MultiHeadAttention::attend)); one cache belongs to one layer.
#[repr(C, align(64))] // a cache line: no vector load then spans two
#[derive(Clone, Debug)]
pub struct KvCache<const N: usize, const D_KV: usize> {
    keys: [[f32; D_KV]; N],
    values: [[f32; D_KV]; N],
    len: usize,
}

impl<const N: usize, const D_KV: usize> KvCache<N, D_KV> {
    /// An empty cache, which can be a `static`.
    pub const fn new() -> Self {
        Self { keys: [[0.0; D_KV]; N], values: [[0.0; D_KV]; N], len: 0 }
    }

    /// An empty cache on the heap, which never passes over the stack.
    #[cfg(feature = "alloc")]
    pub fn boxed() -> Result<alloc::boxed::Box<Self>, Error> {
        crate::heap::boxed()
    }

    /// Tokens in the cache.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tokens that there is room for.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Forgets all tokens.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets all but the first `len` tokens.
    pub fn rewind(&mut self, len: usize) -> Result<(), Error> {
        check_capacity("cached tokens", self.len, len)?;
        self.len = len;
        Ok(())
    }

    /// Whether `count` more tokens fit.
    pub(crate) fn check_room(&self, count: usize) -> Result<(), Error> {
        check_capacity("cache", N - self.len, count)
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.len += count;
    }

    pub(crate) fn buffer(&mut self, d_k: usize) -> KeyValueBuffer<'_> {
        KeyValueBuffer {
            keys: self.keys.as_flattened_mut(),
            values: self.values.as_flattened_mut(),
            heads: D_KV / d_k,
            d: d_k,
            capacity: N,
        }
    }

    pub(crate) fn view(&self, d_k: usize) -> KeyValues<'_> {
        KeyValues {
            keys: self.keys.as_flattened(),
            values: self.values.as_flattened(),
            heads: D_KV / d_k,
            d_k,
            d_v: d_k,
            capacity: N,
        }
    }
}

impl<const N: usize, const D_KV: usize> Default for KvCache<N, D_KV> {
    fn default() -> Self {
        Self::new()
    }
}
