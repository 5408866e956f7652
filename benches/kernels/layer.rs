//! The whole layer: self-attention of n tokens with their four projections.

use crate::inputs::{self, random};
use crate::textbook::{self, Heads};
use crate::{Bench, Group, compare};
use dhyan::{NoMask, Workspace};
use std::hint::black_box;

/// n, d_model, heads.
const SHAPES: [Bench; 5] = [
    layer::<1, 8, 1>,
    layer::<16, 64, 4>,
    layer::<64, 128, 8>,
    layer::<10, 512, 8>,
    layer::<128, 256, 8>,
];

pub fn bench(group: &mut Group<'_>) {
    SHAPES.iter().for_each(|shape| shape(group));
}

fn layer<const N: usize, const D: usize, const H: usize>(group: &mut Group<'_>) {
    let (layer, weights) = inputs::layer::<D, H, D>().expect("room");
    let mut workspace = Workspace::<N, D>::boxed().expect("room");
    let x = random(5, N * D, 1.0);
    let (mut out, mut naive) = (vec![0.0; N * D], vec![0.0; N * D]);
    let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal: false };
    compare(
        group,
        &format!("n{N} d{D} h{H}"),
        8 * N * D * D + 4 * N * N * D,
        |isa| {
            workspace.set_isa(isa);
            let (x, out) = (black_box(&x).as_chunks().0, out.as_chunks_mut().0);
            layer.self_attention(x, &NoMask, &mut workspace, out)
        },
        || textbook::layer(sizes, &weights, black_box(&x), &x, &mut naive),
    );
}
