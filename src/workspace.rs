//! What a call works in, and the sequences it works on: sizes known when the program is built.

use crate::cache::KvCache;
#[cfg(feature = "alloc")]
use crate::error::Error;
use crate::isa::Isa;
use crate::kernels::layer::Scratch;
use crate::simd::LANES;

/// A sequence of tokens that grows up to N, without a heap: what calls take and give are slices of it.
///
/// ```
/// use dhyan::Tokens;
/// let mut tokens = Tokens::<4, 8>::new();
/// tokens.push([0.5; 4]).expect("room for 8");
/// assert_eq!(tokens.len(), 1);
/// ```
pub type Tokens<const D_MODEL: usize, const N: usize> = heapless::Vec<[f32; D_MODEL], N>;

/// What a call works in: room for N tokens. It can be a `static`; what it holds before a call never matters.
///
/// `2 · N · D_KV + N · D_MODEL + 16 · (N + 2 · D_MODEL)` floats. Where keys and values always stand in a
/// [`KvCache`], `Workspace<N, D_MODEL, 0>` is enough, with N the capacity of the cache.
#[repr(C, align(64))] // a cache line: no vector load then spans two
#[derive(Clone, Debug)]
pub struct Workspace<const N: usize, const D_MODEL: usize, const D_KV: usize = D_MODEL> {
    key_values: KvCache<N, D_KV>,
    queries: [[f32; D_MODEL]; N],
    scores: [[f32; LANES]; N],
    rows: [[[f32; LANES]; 2]; D_MODEL],
    /// One more than the place of the unit that was chosen, or 0.
    isa: u8,
}

impl<const N: usize, const D_MODEL: usize, const D_KV: usize> Workspace<N, D_MODEL, D_KV> {
    /// A workspace for the best unit of the processor that runs it.
    pub const fn new() -> Self {
        Self {
            key_values: KvCache::new(),
            queries: [[0.0; D_MODEL]; N],
            scores: [[0.0; LANES]; N],
            rows: [[[0.0; LANES]; 2]; D_MODEL],
            isa: 0,
        }
    }

    /// A workspace whose calls run on that unit.
    pub const fn with_isa(isa: Isa) -> Self {
        let mut workspace = Self::new();
        workspace.set_isa(isa);
        workspace
    }

    /// A workspace on the heap, which never passes over the stack.
    #[cfg(feature = "alloc")]
    pub fn boxed() -> Result<alloc::boxed::Box<Self>, Error> {
        crate::heap::boxed()
    }

    pub(crate) fn parts(&mut self) -> (&mut KvCache<N, D_KV>, Scratch<'_>) {
        let scratch = Scratch {
            queries: self.queries.as_flattened_mut(),
            scores: self.scores.as_flattened_mut(),
            rows: self.rows.as_flattened_mut().as_flattened_mut(),
        };
        (&mut self.key_values, scratch)
    }

    /// The calls from now on run on that unit.
    pub const fn set_isa(&mut self, isa: Isa) {
        self.isa = isa.place() + 1;
    }

    /// The unit that the calls run on.
    pub fn isa(&self) -> Isa {
        self.isa.checked_sub(1).and_then(Isa::at).unwrap_or_else(Isa::detect)
    }
}

impl<const N: usize, const D_MODEL: usize, const D_KV: usize> Default
    for Workspace<N, D_MODEL, D_KV>
{
    fn default() -> Self {
        Self::new()
    }
}
