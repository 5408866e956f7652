//! The layer on plain slices: project, attend, project. The const-generic and the run-time face both call this, so
//! that a size costs no copy of the code.

use super::attend::{Attend, Attention, KeyValues, Strides};
use super::panels::Panels;
use super::product::Product;
use super::store::Store;
use super::weigh::Weigh;
use crate::mask::{Mask, Shape};
use crate::simd::{Kernel, Simd};

/// Rows that are projected through scratch at once: the scratch of a workspace is `[32][d_model]`.
const ROW_BLOCK: usize = 32;

/// `x W + b`.
#[derive(Clone, Copy)]
pub(crate) struct Projection<'a> {
    pub weights: Panels<'a>,
    pub bias: &'a [f32],
}

impl Projection<'_> {
    /// Rows of `x` (`[tokens][rows of the weights]`) to rows of `out` (`[tokens][columns of the weights]`).
    #[inline(always)]
    pub fn apply<S: Simd>(self, simd: S, x: &[f32], out: &mut [f32]) {
        let (inner, columns) = (self.weights.rows(), self.weights.columns());
        simd.run(Product {
            left: x,
            left_stride: inner,
            rows: x.len() / inner,
            right: self.weights,
            inner: (0, inner),
            columns: (0, columns),
            bias: self.bias,
            out,
            out_stride: columns,
        });
    }
}

/// Keys and values of all kv heads that can be written: `d` = d_k = d_v.
pub(crate) struct KeyValueBuffer<'a> {
    pub keys: &'a mut [f32],
    pub values: &'a mut [f32],
    pub heads: usize,
    pub d: usize,
    pub capacity: usize,
}

impl<'a> KeyValueBuffer<'a> {
    #[inline(always)]
    fn into_view(self) -> KeyValues<'a> {
        let Self { keys, values, heads, d, capacity } = self;
        KeyValues { keys, values, heads, d_k: d, d_v: d, capacity }
    }
}

/// Projects tokens to keys and values, and stores them from token `first` on.
pub(crate) struct Append<'a> {
    /// `[tokens][d_source]`.
    pub source: &'a [f32],
    pub key: Projection<'a>,
    pub value: Projection<'a>,
    pub to: KeyValueBuffer<'a>,
    pub first: usize,
}

impl<'a> Append<'a> {
    /// `scratch`: `[up to 32][heads * d]`.
    #[inline(always)]
    fn store<S: Simd>(self, simd: S, scratch: &mut [f32]) -> KeyValueBuffer<'a> {
        let KeyValueBuffer { heads, d, capacity, .. } = self.to;
        let (width, d_source) = (heads * d, self.key.weights.rows());
        let block = ROW_BLOCK.min(scratch.len() / width);
        let mut first = self.first;
        for source in self.source.chunks(block * d_source) {
            let count = source.len() / d_source;
            let rows = &mut scratch[..count * width];
            for (projection, is_key) in [(self.key, true), (self.value, false)] {
                projection.apply(simd, source, rows);
                let panels = if is_key { &mut *self.to.keys } else { &mut *self.to.values };
                let store =
                    Store { panels, rows, row_stride: width, heads, d, capacity, first, count };
                if is_key { store.keys(simd) } else { store.values(simd) }
            }
            first += count;
        }
        self.to
    }
}

/// The same as a call of its own.
pub(crate) struct AppendOnly<'a> {
    pub append: Append<'a>,
    pub scratch: &'a mut [f32],
}

impl Kernel for AppendOnly<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.append.store(simd, self.scratch);
    }
}

/// What a call works in.
pub(crate) struct Scratch<'a> {
    /// `[queries][d_model]`.
    pub queries: &'a mut [f32],
    /// `[16][keys]`.
    pub scores: &'a mut [f32],
    /// `[32][d_model]`.
    pub rows: &'a mut [f32],
}

/// Where the keys and values of a call come from.
pub(crate) enum Source<'a> {
    /// Projected now.
    Project(Append<'a>),
    /// Projected before.
    Stored(KeyValues<'a>),
}

/// A call of the layer.
pub(crate) struct Layer<'a, M, G> {
    /// `[queries][d_model]`.
    pub x: &'a [f32],
    pub query: Projection<'a>,
    pub source: Source<'a>,
    pub shape: Shape,
    pub scale: f32,
    pub mask: &'a M,
    pub scratch: Scratch<'a>,
    pub goal: G,
}

/// What is wanted of a call.
pub(crate) trait Goal {
    /// Always `#[inline(always)]`.
    fn reach<S: Simd, M: Mask>(self, simd: S, attention: Attention<'_, M>);
}

impl<M: Mask, G: Goal> Kernel for Layer<'_, M, G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Scratch { queries, scores, rows } = self.scratch;
        let key_values = match self.source {
            Source::Stored(key_values) => key_values,
            Source::Project(append) => append.store(simd, rows).into_view(),
        };
        self.query.apply(simd, self.x, queries);
        let attention = Attention {
            shape: self.shape,
            scale: self.scale,
            queries,
            query_strides: Strides { token: self.query.weights.columns(), head: key_values.d_k },
            key_values,
            mask: self.mask,
            scores,
            rows,
        };
        self.goal.reach(simd, attention);
    }
}

/// The layer's output, `[queries][d_model]`.
pub(crate) struct Outputs<'a> {
    pub output: Projection<'a>,
    pub out: &'a mut [f32],
}

impl Goal for Outputs<'_> {
    #[inline(always)]
    fn reach<S: Simd, M: Mask>(self, simd: S, mut attention: Attention<'_, M>) {
        let d_model = self.output.weights.rows();
        let out_strides = Strides { token: d_model, head: attention.key_values.d_v };
        simd.run(Attend { attention: attention.reborrow(), out: &mut *self.out, out_strides });
        // The context stands in `out`: a block of its rows is copied away, and their projection takes its place.
        for out in self.out.chunks_mut(ROW_BLOCK * d_model) {
            let context = &mut attention.rows[..out.len()];
            context.copy_from_slice(out);
            self.output.apply(simd, context, out);
        }
    }
}

/// The attention weights, `[heads][queries][keys]`, or their mean over the heads, `[queries][keys]`.
pub(crate) struct WeightsOf<'a> {
    pub mean: bool,
    pub weights: &'a mut [f32],
}

impl Goal for WeightsOf<'_> {
    #[inline(always)]
    fn reach<S: Simd, M: Mask>(self, simd: S, attention: Attention<'_, M>) {
        simd.run(Weigh { attention, mean: self.mean, weights: self.weights });
    }
}
