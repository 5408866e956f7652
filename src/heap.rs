//! Where large things begin, and how they get on the heap without passing over the stack.

#[cfg(feature = "alloc")]
use crate::error::Error;
use core::ops::{Deref, DerefMut};

/// A layer (or the bytes of one) that begins with a cache line, so that no vector load spans two: a product of one row
/// is a third faster for it.
///
/// ```
/// use dhyan::{Aligned, Linear, from_bytes};
/// static WEIGHTS: &Aligned<[u8]> = &Aligned([0; 16]); // include_bytes!("weights.bin")
/// assert_eq!(from_bytes::<Linear<1, 2>>(&WEIGHTS.0)?, &Linear::ZERO);
/// # Ok::<(), dhyan::Error>(())
/// ```
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aligned<T: ?Sized>(pub T);

impl<T: ?Sized> Deref for Aligned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A layer of zeros on the heap, which never passes over the stack.
#[cfg(feature = "alloc")]
pub fn boxed<T: bytemuck::Zeroable>() -> Result<alloc::boxed::Box<T>, Error> {
    bytemuck::allocation::try_zeroed_box().map_err(|()| Error::Capacity {
        what: "heap",
        capacity: 0,
        needed: size_of::<T>(),
    })
}
