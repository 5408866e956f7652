//! The algorithms, each on plain slices with a chosen unit: for engines that want one piece, and for people who measure.

pub(crate) mod panels;
pub(crate) mod product;

pub use panels::{Panels, pack, panel_index};
pub use product::product;
