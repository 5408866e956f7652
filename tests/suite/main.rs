//! The tests that call layers, in one crate: each crate that does compiles the kernels anew.

#[path = "../common/mod.rs"]
mod common;

mod accuracy;
mod attention;
mod errors;
mod exp2;
mod memory;
mod poison;
mod same_bits;
mod softmax;
mod ways;
