//! What the kernels are measured with.

use dhyan::{Aligned, Error, MultiHeadAttention};

/// Numbers in -scale..scale, the same ones for each seed; multiples of scale / 2^23, so that none is denormal.
pub fn random(seed: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
    };
    (0..count).map(|_| next()).collect()
}

/// A layer, and the four matrices that it is made of: W^Q, W^K, W^V and W^O.
pub type Layer<const D: usize, const H: usize, const D_KV: usize> =
    (Box<Aligned<MultiHeadAttention<D, H, D_KV>>>, [Vec<f32>; 4]);

/// Random weights that keep the size of what they are multiplied with.
pub fn layer<const D: usize, const H: usize, const D_KV: usize>() -> Result<Layer<D, H, D_KV>, Error>
{
    let columns = [D, D_KV, D_KV, D];
    let weights = [0, 1, 2, 3].map(|i| random(i as u64, D * columns[i], (3.0 / D as f32).sqrt()));
    let mut layer = MultiHeadAttention::boxed()?;
    layer.query.load(&weights[0])?;
    layer.key.load(&weights[1])?;
    layer.value.load(&weights[2])?;
    layer.output.load(&weights[3])?;
    Ok((layer, weights))
}
