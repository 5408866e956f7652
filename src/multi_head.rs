//! Multi-head attention with dimensions that the compiler checks: a thin face over `kernels::layer`.

use crate::cache::KvCache;
use crate::error::{Error, check_capacity, check_length};
#[cfg(feature = "alloc")]
use crate::heap::Aligned;
use crate::isa::Isa;
use crate::kernels::layer::{Append, AppendOnly, Goal, Layer, Outputs, Scratch, Source, WeightsOf};
use crate::linear::Linear;
use crate::mask::{Mask, Shape};
use crate::workspace::Workspace;

/// Multi-head attention (Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2):
///
/// `MultiHead(Q, K, V) = concat(head_1 .. head_H) W^O`, `head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i`
///
/// - `D_MODEL`: width of the tokens; `D_K = D_MODEL / H` is the width of a head.
/// - `H`: query heads.
/// - `D_KV`: width of all keys (and of all values); less than `D_MODEL` for grouped or multi-query heads, where query
///   head i reads kv head i / (H / H_KV).
/// - `D_SOURCE`: width of the tokens that cross-attention reads.
///
/// The dimensions are checked by the compiler. The layer owns its weights; a `static` one can be made by the
/// compiler, and [`from_bytes`](crate::from_bytes) reads one straight from flash.
///
/// ```
/// use dhyan::{Causal, Linear, MultiHeadAttention, Workspace};
///
/// const UNIT: Linear<4, 4> = {
///     let i = [[1., 0., 0., 0.], [0., 1., 0., 0.], [0., 0., 1., 0.], [0., 0., 0., 1.]];
///     Linear::new(&i, &[0.0; 4])
/// };
/// static LAYER: MultiHeadAttention<4, 2> = MultiHeadAttention::new(UNIT, UNIT, UNIT, UNIT);
///
/// let x = [[1., 0., 0., 2.], [0., 1., 1., 0.], [3., 0., 0., 1.]];
/// let mut workspace = Workspace::<8, 4>::new();
/// let mut y = [[0.0; 4]; 3];
/// LAYER.self_attention(&x, &Causal::top_left(), &mut workspace, &mut y)?;
/// assert_eq!(y[0], x[0]); // the first token sees itself alone
/// # Ok::<(), dhyan::Error>(())
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiHeadAttention<
    const D_MODEL: usize,
    const H: usize,
    const D_KV: usize = D_MODEL,
    const D_SOURCE: usize = D_MODEL,
> {
    /// W^Q of all heads, side by side.
    pub query: Linear<D_MODEL, D_MODEL>,
    /// W^K of all kv heads, side by side.
    pub key: Linear<D_SOURCE, D_KV>,
    /// W^V of all kv heads, side by side.
    pub value: Linear<D_SOURCE, D_KV>,
    /// W^O.
    pub output: Linear<D_MODEL, D_MODEL>,
}

/// Which attention weights are wanted, and where they go.
#[derive(Debug)]
pub enum Weights<'a> {
    /// Of each head: `[H][queries][keys]`.
    PerHead(&'a mut [f32]),
    /// Their mean over the heads: `[queries][keys]`.
    Mean(&'a mut [f32]),
}

impl<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize>
    MultiHeadAttention<D_MODEL, H, D_KV, D_SOURCE>
{
    /// Width of a head.
    pub const D_K: usize = {
        assert!(D_MODEL > 0, "D_MODEL must not be 0");
        assert!(H > 0, "H must not be 0");
        assert!(D_MODEL.is_multiple_of(H), "D_MODEL must be a multiple of H: d_k = d_model / h");
        D_MODEL / H
    };

    /// Key and value heads.
    pub const H_KV: usize = {
        assert!(D_KV > 0, "D_KV must not be 0");
        assert!(D_SOURCE > 0, "D_SOURCE must not be 0");
        assert!(D_KV.is_multiple_of(Self::D_K), "D_KV must be a multiple of d_k = D_MODEL / H");
        assert!(
            H.is_multiple_of(D_KV / Self::D_K),
            "H must be a multiple of the kv heads, D_KV / d_k"
        );
        D_KV / Self::D_K
    };

    /// Weights, without biases: 4 · D_MODEL² where all widths are equal.
    pub const PARAMETERS: usize = {
        assert!(Self::H_KV > 0);
        2 * D_MODEL * D_MODEL + 2 * D_SOURCE * D_KV
    };

    /// A layer of zeros.
    pub const ZERO: Self = Self::new(Linear::ZERO, Linear::ZERO, Linear::ZERO, Linear::ZERO);

    /// A layer of four projections.
    pub const fn new(
        query: Linear<D_MODEL, D_MODEL>,
        key: Linear<D_SOURCE, D_KV>,
        value: Linear<D_SOURCE, D_KV>,
        output: Linear<D_MODEL, D_MODEL>,
    ) -> Self {
        const { assert!(Self::H_KV > 0) }
        Self { query, key, value, output }
    }

    /// The textbook's matrices of each head, W_i^Q, W_i^K and W_i^V, and W^O, all in `[in][out]` order, without biases.
    ///
    /// `D_K` and `H_KV` are inferred from the arguments, and checked by the compiler.
    pub const fn from_heads<const D_K: usize, const H_KV: usize>(
        query: &[[[f32; D_K]; D_MODEL]; H],
        key: &[[[f32; D_K]; D_SOURCE]; H_KV],
        value: &[[[f32; D_K]; D_SOURCE]; H_KV],
        output: &[[f32; D_MODEL]; D_MODEL],
    ) -> Self {
        const {
            assert!(D_K == Self::D_K, "the heads must be d_k = D_MODEL / H wide");
            assert!(H_KV == Self::H_KV, "there must be D_KV / d_k kv heads");
        }
        let mut layer = Self::ZERO;
        layer.output = Linear::new(output, &[0.0; D_MODEL]);
        let mut head = 0;
        while head < H {
            let mut column = 0;
            while column < D_K {
                let mut i = 0;
                while i < D_MODEL {
                    layer.query.set(i, head * D_K + column, query[head][i][column]);
                    i += 1;
                }
                let mut i = 0;
                while head < H_KV && i < D_SOURCE {
                    layer.key.set(i, head * D_K + column, key[head][i][column]);
                    layer.value.set(i, head * D_K + column, value[head][i][column]);
                    i += 1;
                }
                column += 1;
            }
            head += 1;
        }
        layer
    }

    /// A layer of zeros on the heap, to be filled in place: it never passes over the stack.
    #[cfg(feature = "alloc")]
    pub fn boxed() -> Result<alloc::boxed::Box<Aligned<Self>>, Error> {
        const { assert!(Self::H_KV > 0) }
        crate::heap::boxed()
    }

    /// Cross-attention: `x` (`[queries][D_MODEL]`) attends to `source` (`[keys][D_SOURCE]`).
    ///
    /// Both may have any length up to N, 0 too. Where a query sees no key, its output is the bias of `output`.
    ///
    /// Errors: `source` or `x` longer than the workspace; `out` not as long as `x`; a mask of another shape.
    pub fn cross_attention<const N: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        source: &[[f32; D_SOURCE]],
        mask: &impl Mask,
        workspace: &mut Workspace<N, D_MODEL, D_KV>,
        out: &mut [[f32; D_MODEL]],
    ) -> Result<(), Error> {
        check_length("out", x.len(), out.len())?;
        let goal = Outputs { output: self.output.projection(), out: out.as_flattened_mut() };
        self.project_and_attend(x, source, mask, workspace, goal)
    }

    /// The attention weights of `x` over `source` (of self-attention, where both are the same).
    ///
    /// A hidden key has exactly 0. Errors: as [`cross_attention`](Self::cross_attention), or weights of another length.
    pub fn attention_weights<const N: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        source: &[[f32; D_SOURCE]],
        mask: &impl Mask,
        workspace: &mut Workspace<N, D_MODEL, D_KV>,
        weights: Weights<'_>,
    ) -> Result<(), Error> {
        let goal = Self::weights(x.len(), source.len(), weights)?;
        self.project_and_attend(x, source, mask, workspace, goal)
    }

    /// Projects `source` to keys and values, and appends them to the cache.
    ///
    /// Errors: the cache has not the room.
    pub fn append<const N: usize, const M: usize, const W_KV: usize>(
        &self,
        source: &[[f32; D_SOURCE]],
        cache: &mut KvCache<N, D_KV>,
        workspace: &mut Workspace<M, D_MODEL, W_KV>,
    ) -> Result<(), Error> {
        const { assert!(Self::H_KV > 0) }
        cache.check_room(source.len())?;
        let first = cache.len();
        let append = Append {
            source: source.as_flattened(),
            key: self.key.projection(),
            value: self.value.projection(),
            to: cache.buffer(Self::D_K),
            first,
        };
        workspace.isa().run(AppendOnly { append, scratch: workspace.parts().1.rows });
        cache.advance(source.len());
        Ok(())
    }

    /// `x` attends to the tokens of the cache. With [`Causal::bottom_right`](crate::Causal::bottom_right), where `x`
    /// was appended last, each token sees itself and all before it.
    ///
    /// Errors: `x` or the cache's tokens more than the workspace has room for; `out` not as long as `x`; a mask of
    /// another shape.
    pub fn attend<const N: usize, const M: usize, const W_KV: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        cache: &KvCache<N, D_KV>,
        mask: &impl Mask,
        workspace: &mut Workspace<M, D_MODEL, W_KV>,
        out: &mut [[f32; D_MODEL]],
    ) -> Result<(), Error> {
        check_length("out", x.len(), out.len())?;
        let goal = Outputs { output: self.output.projection(), out: out.as_flattened_mut() };
        self.attend_to(x, cache, mask, workspace, goal)
    }

    /// The attention weights of `x` over the tokens of the cache. Errors: as [`attend`](Self::attend), or weights of
    /// another length.
    pub fn cached_attention_weights<const N: usize, const M: usize, const W_KV: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        cache: &KvCache<N, D_KV>,
        mask: &impl Mask,
        workspace: &mut Workspace<M, D_MODEL, W_KV>,
        weights: Weights<'_>,
    ) -> Result<(), Error> {
        let goal = Self::weights(x.len(), cache.len(), weights)?;
        self.attend_to(x, cache, mask, workspace, goal)
    }

    fn weights(queries: usize, keys: usize, weights: Weights<'_>) -> Result<WeightsOf<'_>, Error> {
        let (mean, weights) = match weights {
            Weights::PerHead(weights) => (false, weights),
            Weights::Mean(weights) => (true, weights),
        };
        let rows = if mean { queries } else { H.saturating_mul(queries) };
        check_length("weights", rows.saturating_mul(keys), weights.len())?;
        Ok(WeightsOf { mean, weights })
    }

    fn project_and_attend<const N: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        source: &[[f32; D_SOURCE]],
        mask: &impl Mask,
        workspace: &mut Workspace<N, D_MODEL, D_KV>,
        goal: impl Goal,
    ) -> Result<(), Error> {
        const { assert!(Self::H_KV > 0) }
        check_capacity("workspace (source tokens)", N, source.len())?;
        check_capacity("workspace (tokens)", N, x.len())?;
        let isa = workspace.isa();
        let shape = Shape { heads: H, queries: x.len(), keys: source.len() };
        let (key_values, scratch) = workspace.parts();
        let source = Source::Project(Append {
            source: source.as_flattened(),
            key: self.key.projection(),
            value: self.value.projection(),
            to: key_values.buffer(Self::D_K),
            first: 0,
        });
        self.run(isa, shape, x, source, mask, scratch, goal)
    }

    fn attend_to<const N: usize, const M: usize, const W_KV: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        cache: &KvCache<N, D_KV>,
        mask: &impl Mask,
        workspace: &mut Workspace<M, D_MODEL, W_KV>,
        goal: impl Goal,
    ) -> Result<(), Error> {
        const { assert!(Self::H_KV > 0) }
        check_capacity("workspace (cached tokens)", M, cache.len())?;
        check_capacity("workspace (tokens)", M, x.len())?;
        let isa = workspace.isa();
        let shape = Shape { heads: H, queries: x.len(), keys: cache.len() };
        let (_, scratch) = workspace.parts();
        self.run(isa, shape, x, Source::Stored(cache.view(Self::D_K)), mask, scratch, goal)
    }

    #[allow(clippy::too_many_arguments)] // The one place where everything meets.
    fn run(
        &self,
        isa: Isa,
        shape: Shape,
        x: &[[f32; D_MODEL]],
        source: Source<'_>,
        mask: &impl Mask,
        scratch: Scratch<'_>,
        goal: impl Goal,
    ) -> Result<(), Error> {
        mask.check(shape)?;
        isa.run(Layer {
            x: x.as_flattened(),
            query: self.query.projection(),
            source,
            shape,
            scale: 1.0 / libm::sqrtf(Self::D_K as f32),
            mask,
            scratch,
            goal,
        });
        Ok(())
    }
}

impl<const D_MODEL: usize, const H: usize, const D_KV: usize>
    MultiHeadAttention<D_MODEL, H, D_KV, D_MODEL>
{
    /// The parameters of PyTorch's `nn.MultiheadAttention`: `in_proj_weight` and `in_proj_bias` (queries, keys and
    /// values stacked, `[out][in]`), `out_proj.weight` and `out_proj.bias`.
    ///
    /// `ROWS` = D_MODEL + 2 · D_KV is inferred from the arguments, and checked by the compiler.
    pub const fn from_torch<const ROWS: usize>(
        in_weight: &[[f32; D_MODEL]; ROWS],
        in_bias: &[f32; ROWS],
        out_weight: &[[f32; D_MODEL]; D_MODEL],
        out_bias: &[f32; D_MODEL],
    ) -> Self {
        const { assert!(ROWS == D_MODEL + 2 * D_KV, "in_proj has D_MODEL + 2 * D_KV rows") }
        let mut layer = Self::ZERO;
        layer.output = Linear::from_torch(out_weight, out_bias);
        let mut row = 0;
        while row < ROWS {
            let mut i = 0;
            while i <= D_MODEL {
                // The bias goes with its row, after the weights.
                let value = if i < D_MODEL { in_weight[row][i] } else { in_bias[row] };
                if row < D_MODEL {
                    layer.query.set_or_bias(i, row, value);
                } else if row < D_MODEL + D_KV {
                    layer.key.set_or_bias(i, row - D_MODEL, value);
                } else {
                    layer.value.set_or_bias(i, row - D_MODEL - D_KV, value);
                }
                i += 1;
            }
            row += 1;
        }
        layer
    }

    /// The same, in place: slices in the order of PyTorch's state dict.
    ///
    /// Errors: a slice of another length; nothing is replaced then.
    pub fn load_torch(
        &mut self,
        in_weight: &[f32],
        in_bias: &[f32],
        out_weight: &[f32],
        out_bias: &[f32],
    ) -> Result<(), Error> {
        const { assert!(Self::H_KV > 0) }
        let rows = D_MODEL + 2 * D_KV;
        check_length("in_proj_weight", rows * D_MODEL, in_weight.len())?;
        check_length("in_proj_bias", rows, in_bias.len())?;
        check_length("out_proj.weight", D_MODEL * D_MODEL, out_weight.len())?;
        check_length("out_proj.bias", D_MODEL, out_bias.len())?;
        let (query, rest) = in_weight.split_at(D_MODEL * D_MODEL);
        let (key, value) = rest.split_at(D_KV * D_MODEL);
        self.query.load_torch(query)?;
        self.key.load_torch(key)?;
        self.value.load_torch(value)?;
        self.output.load_torch(out_weight)?;
        let (query, rest) = in_bias.split_at(D_MODEL);
        let (key, value) = rest.split_at(D_KV);
        self.query.load_bias(query)?;
        self.key.load_bias(key)?;
        self.value.load_bias(value)?;
        self.output.load_bias(out_bias)
    }

    /// Self-attention: `x` (`[tokens][D_MODEL]`) attends to itself.
    ///
    /// Errors: `x` longer than the workspace; `out` not as long as `x`; a mask of another shape.
    pub fn self_attention<const N: usize>(
        &self,
        x: &[[f32; D_MODEL]],
        mask: &impl Mask,
        workspace: &mut Workspace<N, D_MODEL, D_KV>,
        out: &mut [[f32; D_MODEL]],
    ) -> Result<(), Error> {
        self.cross_attention(x, x, mask, workspace, out)
    }
}
