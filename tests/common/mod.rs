//! What the tests share.
#![allow(dead_code, unused_imports)] // Each test file uses a part.

mod layers;
mod model;
mod random;
mod reference;
mod units;

pub(crate) use layers::with_mask;
pub use layers::{AnyLayer, Case, KeysFrom, MaskOf, Matrix, Parameters, Sizes};
pub use model::Model;
pub use random::{MODES, Mode, Random, power_of_two};
pub use reference::Reference;
pub use units::units;

use dhyan::Isa;
use std::fmt::Display;

/// The units by class, each class with its model.
pub fn classes() -> Vec<(Model, Vec<Isa>)> {
    let units: Vec<Isa> = units().collect();
    let class = |fused| units.iter().copied().filter(|isa| isa.is_fused() == fused).collect();
    let classes = [true, false].map(|fused| (Model { fused }, class(fused)));
    classes.into_iter().filter(|(_, units): &(_, Vec<Isa>)| !units.is_empty()).collect()
}

/// The bits, with one NaN for all: sign and payload of a NaN differ between processors.
pub fn bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

/// Panics with the first difference, unless all bits are the same.
#[track_caller]
pub fn assert_same(what: impl Display, expected: &[f32], found: &[f32]) {
    assert_eq!(expected.len(), found.len(), "{what}: lengths");
    let differs = |i: &usize| bits(expected[*i]) != bits(found[*i]);
    if let Some(i) = (0..found.len()).find(differs) {
        let (e, f) = (expected[i], found[i]);
        let count = (0..found.len()).filter(differs).count();
        panic!(
            "{what}: {count} of {} differ, the first at {i}: expected {e:e} ({:08x}), found {f:e} ({:08x})",
            found.len(),
            e.to_bits(),
            f.to_bits()
        );
    }
}
