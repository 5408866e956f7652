//! The algorithms, each on plain slices with a chosen unit: for engines that want one piece, and for people who measure.

pub(crate) mod attend;
mod attention;
pub(crate) mod exp;
pub(crate) mod layer;
mod norm;
pub(crate) mod panels;
pub(crate) mod product;
pub(crate) mod rotary;
pub(crate) mod softmax;
pub(crate) mod store;
pub(crate) mod weigh;

pub use attention::{Dimensions, attention, attention_scratch};
pub use exp::exp2;
pub use norm::layer_norm;
pub use panels::{Panels, pack, panel_index};
pub use product::product;
pub use softmax::softmax;
