//! Layers as bytes, and bytes as layers, without a copy. The one place where the layout of a type is vouched for.

use crate::cache::KvCache;
use crate::error::Error;
use crate::heap::Aligned;
use crate::linear::Linear;
use crate::multi_head::MultiHeadAttention;
use crate::norm::LayerNorm;
use crate::workspace::Workspace;
use bytemuck::{Pod, Zeroable};
use core::mem::{align_of, size_of};

// SAFETY: `repr(C)`, arrays of f32 only, so there is no padding and every bit pattern is a value.
#[allow(unsafe_code)]
unsafe impl<const IN: usize, const OUT: usize> Zeroable for Linear<IN, OUT> {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<const IN: usize, const OUT: usize> Pod for Linear<IN, OUT> {}

// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<const D: usize> Zeroable for LayerNorm<D> {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<const D: usize> Pod for LayerNorm<D> {}

// SAFETY: `repr(C)`, fields that are `Pod` with the alignment of f32, so there is no padding.
#[allow(unsafe_code)]
unsafe impl<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize> Zeroable
    for MultiHeadAttention<D_MODEL, H, D_KV, D_SOURCE>
{
}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize> Pod
    for MultiHeadAttention<D_MODEL, H, D_KV, D_SOURCE>
{
}

// SAFETY: floats and integers only; 0 is a value of each.
#[allow(unsafe_code)]
unsafe impl<const N: usize, const D_KV: usize> Zeroable for KvCache<N, D_KV> {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<const N: usize, const D_MODEL: usize, const D_KV: usize> Zeroable
    for Workspace<N, D_MODEL, D_KV>
{
}

// SAFETY: what is in it is zeroable; padding may be anything.
#[allow(unsafe_code)]
unsafe impl<T: Zeroable> Zeroable for Aligned<T> {}

/// Reads little-endian bytes (of a little-endian machine: nothing is converted) as a layer or a whole model of layers,
/// in place.
///
/// The bytes must be exactly as many as the layer has, and aligned to 4: [`Aligned`] around `include_bytes!` does it.
///
/// ```
/// use dhyan::{Error, Linear, from_bytes, to_bytes};
/// let linear = Linear::new(&[[1.0, 2.0]], &[3.0, 4.0]);
/// let bytes = to_bytes(&linear);
/// assert_eq!(from_bytes::<Linear<1, 2>>(bytes)?, &linear);
/// assert_eq!(
///     from_bytes::<Linear<1, 2>>(&bytes[..15]),
///     Err(Error::Length { what: "bytes", expected: 16, found: 15 })
/// );
/// # Ok::<(), Error>(())
/// ```
pub fn from_bytes<T: Pod>(bytes: &[u8]) -> Result<&T, Error> {
    crate::error::check_length("bytes", size_of::<T>(), bytes.len())?;
    let expected = align_of::<T>();
    bytemuck::try_from_bytes(bytes).map_err(|_| Error::Alignment {
        what: "bytes",
        expected,
        off_by: bytes.as_ptr() as usize % expected,
    })
}

/// The bytes of a layer, as [`from_bytes`] reads them.
pub fn to_bytes<T: Pod>(layer: &T) -> &[u8] {
    bytemuck::bytes_of(layer)
}
