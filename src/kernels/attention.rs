//! Scaled dot-product attention on plain slices.

use super::attend::{Attend, Attention, KEY_TILE, KeyValues, Strides};
use super::store::Store;
use crate::error::{Error, check_capacity, check_length};
use crate::isa::Isa;
use crate::mask::{Mask, Shape};
use crate::simd::{Kernel, LANES, Simd};

/// The sizes of a [`attention`] call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, of which `heads` is a multiple: query head i reads kv head i / (heads / kv_heads).
    pub kv_heads: usize,
    /// Width of a query or key of one head.
    pub d_k: usize,
    /// Width of a value of one head.
    pub d_v: usize,
}

impl Dimensions {
    fn check(self) -> Result<(), Error> {
        let zero = [self.heads, self.kv_heads, self.d_k, self.d_v].contains(&0);
        if zero || !self.heads.is_multiple_of(self.kv_heads) {
            let must = "positive, and heads a multiple of kv_heads";
            return Err(Error::Value { what: "dimensions", must });
        }
        Ok(())
    }
}

/// Floats that [`attention`] works in: keys and values in panels, and a block of rows.
///
/// ```
/// use dhyan::kernels::{Dimensions, attention_scratch};
/// let dimensions = Dimensions { heads: 8, kv_heads: 8, d_k: 64, d_v: 64 };
/// assert_eq!(attention_scratch(dimensions, 512), 2 * 512 * 8 * 64 + 16 * (64 + 64 + 512));
/// ```
pub const fn attention_scratch(dimensions: Dimensions, keys: usize) -> usize {
    let Dimensions { kv_heads, d_k, d_v, .. } = dimensions;
    let width = if keys < KEY_TILE { keys.next_multiple_of(LANES) } else { KEY_TILE };
    let panels = keys.saturating_mul(kv_heads.saturating_mul(d_k.saturating_add(d_v)));
    panels.saturating_add(LANES.saturating_mul(d_k.saturating_add(d_v).saturating_add(width)))
}

/// `softmax(Q_i K_i^T · scale, over the keys the mask lets through) V_i` for each head i.
///
/// - `queries`: `[queries][heads * d_k]`; `keys`: `[keys][kv_heads * d_k]`; `values`: `[keys][kv_heads * d_v]`;
///   `out`: `[queries][heads * d_v]`, row-major; heads side by side.
/// - `scale`: 1 / sqrt(d_k) for the textbook's.
/// - `scratch`: [`attention_scratch`] floats, whatever they hold.
///
/// A row that sees no key is 0. Keys and values are packed on the way, which costs one read and one write of each.
///
/// ```
/// use dhyan::{Causal, Isa, kernels::{Dimensions, attention, attention_scratch}};
/// let dimensions = Dimensions { heads: 1, kv_heads: 1, d_k: 2, d_v: 1 };
/// let mut scratch = vec![0.0; attention_scratch(dimensions, 2)];
/// let mut out = [0.0; 2];
/// let (q, k, v) = ([1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0], [2.0, 4.0]);
/// let scale = 0.5f32.sqrt();
/// let isa = Isa::detect();
/// attention(isa, dimensions, &q, &k, &v, scale, &Causal::top_left(), &mut scratch, &mut out)?;
/// assert_eq!(out, [2.0, 3.0]); // the first query sees one key, the second sees two that are alike
/// # Ok::<(), dhyan::Error>(())
/// ```
#[allow(clippy::too_many_arguments)] // The formula has that many.
pub fn attention(
    isa: Isa,
    dimensions: Dimensions,
    queries: &[f32],
    keys: &[f32],
    values: &[f32],
    scale: f32,
    mask: &impl Mask,
    scratch: &mut [f32],
    out: &mut [f32],
) -> Result<(), Error> {
    dimensions.check()?;
    let Dimensions { heads, kv_heads, d_k, d_v } = dimensions;
    let [query_width, key_width] = [heads, kv_heads].map(|h| h.saturating_mul(d_k));
    let [out_width, value_width] = [heads, kv_heads].map(|h| h.saturating_mul(d_v));
    let shape = Shape { heads, queries: queries.len() / query_width, keys: keys.len() / key_width };
    check_length("queries", shape.queries * query_width, queries.len())?;
    check_length("keys", shape.keys * key_width, keys.len())?;
    check_length("values", shape.keys.saturating_mul(value_width), values.len())?;
    check_length("out", shape.queries.saturating_mul(out_width), out.len())?;
    check_capacity("scratch", scratch.len(), attention_scratch(dimensions, shape.keys))?;
    mask.check(shape)?;
    isa.run(Slices { dimensions, shape, queries, keys, values, scale, mask, scratch, out });
    Ok(())
}

struct Slices<'a, M> {
    dimensions: Dimensions,
    shape: Shape,
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    scale: f32,
    mask: &'a M,
    scratch: &'a mut [f32],
    out: &'a mut [f32],
}

impl<M: Mask> Kernel for Slices<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Dimensions { heads, kv_heads, d_k, d_v } = self.dimensions;
        let capacity = self.shape.keys;
        let (keys, rest) = self.scratch.split_at_mut(self.keys.len());
        let (values, rest) = rest.split_at_mut(self.values.len());
        let (rows, scores) = rest.split_at_mut(LANES * (d_k + d_v));
        let store = |panels, rows, d| Store {
            panels,
            rows,
            row_stride: kv_heads * d,
            heads: kv_heads,
            d,
            capacity,
            first: 0,
            count: capacity,
        };
        if capacity > 0 {
            store(&mut *keys, self.keys, d_k).keys(simd);
            store(&mut *values, self.values, d_v).values(simd);
        }
        simd.run(Attend {
            attention: Attention {
                shape: self.shape,
                scale: self.scale,
                queries: self.queries,
                query_strides: Strides { token: heads * d_k, head: d_k },
                key_values: KeyValues { keys, values, heads: kv_heads, d_k, d_v, capacity },
                mask: self.mask,
                scores,
                rows,
            },
            out: self.out,
            out_strides: Strides { token: heads * d_v, head: d_v },
        });
    }
}
