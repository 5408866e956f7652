//! [guide]: guide
//! [bits]: guide::bits
#![doc = include_str!("../README.md")]
#![no_std]
#![deny(unsafe_code, missing_docs)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bytes;
mod cache;
mod error;
pub mod guide;
mod heap;
mod isa;
pub mod kernels;
mod linear;
mod mask;
mod multi_head;
mod norm;
mod position;
#[allow(unsafe_code)]
mod simd;
mod workspace;

pub use bytes::{from_bytes, to_bytes};
pub use cache::KvCache;
pub use error::Error;
pub use heap::Aligned;
#[cfg(feature = "alloc")]
pub use heap::boxed;
pub use isa::Isa;
pub use kernels::rotary::{HeadLayout, Positions, RotaryView};
pub use linear::Linear;
pub use mask::{Causal, Hide, Keep, KeyLength, Mask, NoMask, Row, Shape};
pub use multi_head::{MultiHeadAttention, Weights};
pub use norm::LayerNorm;
pub use position::{Rotary, RotaryTable, add_sinusoidal, sinusoidal};
pub use workspace::{Tokens, Workspace};
