//! One step of decoding: a token is projected, appended to the cache, and attends to all of it.

use crate::inputs::{self, random};
use crate::textbook::{self, Heads};
use crate::{Bench, Group, compare};
use dhyan::{KvCache, NoMask, Workspace};
use std::hint::black_box;

/// Keys, d_model, h.
const SHAPES: [Bench; 3] = [step::<128, 64, 4>, step::<256, 256, 4>, step::<1024, 512, 8>];

pub fn bench(group: &mut Group<'_>) {
    SHAPES.iter().for_each(|shape| shape(group));
}

fn step<const N: usize, const D: usize, const H: usize>(group: &mut Group<'_>) {
    let (layer, weights) = inputs::layer::<D, H, D>().expect("room");
    let mut workspace = Workspace::<N, D, 0>::boxed().expect("room");
    let mut cache = KvCache::<N, D>::boxed().expect("room");
    let tokens = random(5, N * D, 1.0);
    let (before, x) = tokens.as_chunks().0.split_at(N - 1);
    layer.append(before, &mut cache, &mut workspace).expect("room");
    let token = x.as_flattened();
    let (mut out, mut naive) = (vec![0.0; D], vec![0.0; D]);
    let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal: false };
    compare(
        group,
        &format!("d{D} h{H} keys {N}"),
        8 * D * D + 4 * N * D,
        |isa| {
            workspace.set_isa(isa);
            cache.rewind(N - 1)?;
            layer.append(black_box(x), &mut cache, &mut workspace)?;
            layer.attend(x, &cache, &NoMask, &mut workspace, out.as_chunks_mut().0)
        },
        || {
            // Four projections of the token, and attention over the cache.
            textbook::layer(sizes, &weights, token, token, &mut naive);
            textbook::attention(sizes, token, black_box(&tokens), &tokens, &mut naive);
        },
    );
}
