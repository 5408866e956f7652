//! Multi-head attention.
#![no_std]
#![deny(unsafe_code, missing_docs)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod error;
mod isa;
pub mod kernels;
#[allow(unsafe_code)]
mod simd;

pub use error::Error;
pub use isa::Isa;
