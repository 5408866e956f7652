//! Attention of n queries over n cached keys and values, with the projections of the queries and of the output.

use crate::inputs::{self, random};
use crate::textbook::{self, Heads};
use crate::{Group, compare};
use dhyan::{Causal, KvCache, Workspace};
use std::hint::black_box;

/// n, d_model, h.
const SHAPES: [fn(&mut Group<'_>); 2] = [attend::<128, 64, 2>, attend::<1024, 64, 1>];

pub fn bench(group: &mut Group<'_>) {
    SHAPES.iter().for_each(|shape| shape(group));
}

fn attend<const N: usize, const D: usize, const H: usize>(group: &mut Group<'_>) {
    let (layer, weights) = inputs::layer::<D, H>().expect("room");
    let mut workspace = Box::new(Workspace::<N, D, 0>::new());
    let mut cache = Box::new(KvCache::<N, D>::new());
    let x = random(5, N * D, 1.0);
    let (mut out, mut naive) = (vec![0.0; N * D], vec![0.0; N * D]);
    layer.append(x.as_chunks().0, &mut cache, &mut workspace).expect("room");
    let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal: true };
    compare(
        group,
        &format!("n{N} d{D} h{H} causal"),
        4 * N * D * D + 2 * N * (N + 1) * D,
        |isa| {
            workspace.set_isa(isa);
            let (x, out) = (black_box(&x).as_chunks().0, out.as_chunks_mut().0);
            layer.attend(x, &cache, &Causal::bottom_right(), &mut workspace, out)
        },
        || {
            textbook::product(&x, &weights[0], D, &mut naive);
            textbook::attention(sizes, black_box(&x), &x, &x, &mut naive);
            textbook::product(&x, &weights[3], D, &mut naive);
        },
    );
}
