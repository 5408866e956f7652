//! Layers of many compile-time shapes behind one run-time face, and masks that say in plain words what they hide.

use super::{Mode, Random, power_of_two};
use dhyan::{Aligned, Error, Isa, KvCache, Linear, MultiHeadAttention, Weights, Workspace};
use dhyan::{Causal, Hide, Keep, KeyLength, Mask, NoMask, Row, Shape};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    pub d_model: usize,
    pub heads: usize,
    pub d_kv: usize,
    pub d_source: usize,
    /// Tokens that workspace and cache have room for.
    pub n: usize,
}

impl Sizes {
    pub fn d_k(self) -> usize {
        self.d_model / self.heads
    }

    /// Multiply-adds of a call.
    pub fn work(self, queries: usize, keys: usize) -> usize {
        let Sizes { d_model, d_kv, d_source, .. } = self;
        2 * queries * d_model * d_model + 2 * keys * d_source * d_kv + 2 * queries * keys * d_model
    }
}

/// W[in][out] and b[out].
#[derive(Clone, Debug)]
pub struct Matrix {
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// Query, key, value and output projection.
#[derive(Clone, Debug)]
pub struct Parameters(pub [Matrix; 4]);

impl Parameters {
    /// Such that projected tokens are about as large as the tokens.
    pub fn random(random: &mut Random, mode: Mode, sizes: Sizes) -> Self {
        let Sizes { d_model, d_kv, d_source, .. } = sizes;
        let shapes = [(d_model, d_model), (d_source, d_kv), (d_source, d_kv), (d_model, d_model)];
        Self(shapes.map(|(d_in, d_out)| {
            let scale = power_of_two(1 - (d_in.ilog2() / 2) as i32);
            let weights = random.right(mode, d_in, d_out).iter().map(|w| w * scale).collect();
            Matrix { weights, bias: (0..d_out).map(|_| random.unit()).collect() }
        }))
    }
}

/// A mask, and for each query and key whether it lets the key be seen.
#[derive(Clone, Debug)]
pub enum MaskOf {
    None,
    TopLeft,
    BottomRight,
    KeyLength(usize),
    Keep(Vec<bool>),
    Hide(Vec<bool>),
    BottomRightAndLength(usize),
    TopLeftAndHide(Vec<bool>),
    KeysFrom(usize),
    TopLeftFrom(usize),
}

impl MaskOf {
    pub const KINDS: usize = 10;

    pub fn random(random: &mut Random, kind: usize, queries: usize, keys: usize) -> Self {
        let length = random.below(keys + 1);
        let visible_of_16 = [1, 8, 15][random.below(3)];
        let bools = random.bools(queries * keys, visible_of_16);
        match kind % Self::KINDS {
            0 => Self::None,
            1 => Self::TopLeft,
            2 => Self::BottomRight,
            3 => Self::KeyLength(length),
            4 => Self::Keep(bools),
            5 => Self::Hide(bools.iter().map(|b| !b).collect()),
            6 => Self::BottomRightAndLength(length),
            7 => Self::TopLeftAndHide(bools.iter().map(|b| !b).collect()),
            8 => Self::KeysFrom(length),
            _ => Self::TopLeftFrom(length),
        }
    }

    /// Whether query i sees key j, of so many queries and keys.
    pub fn sees(&self, queries: usize, keys: usize, i: usize, j: usize) -> bool {
        match self {
            Self::None => true,
            Self::TopLeft => j <= i,
            Self::BottomRight => j + queries <= i + keys,
            Self::KeyLength(length) => j < *length,
            Self::Keep(keep) => keep[i * keys + j],
            Self::Hide(hide) => !hide[i * keys + j],
            Self::BottomRightAndLength(length) => j + queries <= i + keys && j < *length,
            Self::TopLeftAndHide(hide) => j <= i && !hide[i * keys + j],
            Self::KeysFrom(first) => j >= *first,
            Self::TopLeftFrom(first) => j <= i && j >= *first,
        }
    }
}

/// A mask of another crate, which hides by its lower bound alone.
pub struct KeysFrom(pub usize);

impl Mask for KeysFrom {
    fn bounds(&self, shape: Shape, _: usize, _: usize) -> (usize, usize) {
        (self.0, shape.keys)
    }
    fn apply(&self, _: Shape, _: Row, _: &mut [f32]) {}
}

/// Calls a method of the library's own mask.
macro_rules! delegate {
    ($mask:expr, $method:ident($($argument:expr),*)) => {
        match $mask {
            MaskOf::None => NoMask.$method($($argument),*),
            MaskOf::TopLeft => Causal::top_left().$method($($argument),*),
            MaskOf::BottomRight => Causal::bottom_right().$method($($argument),*),
            MaskOf::KeyLength(n) => KeyLength(*n).$method($($argument),*),
            MaskOf::Keep(keep) => Keep(keep).$method($($argument),*),
            MaskOf::Hide(hide) => Hide(hide).$method($($argument),*),
            MaskOf::BottomRightAndLength(n) => {
                (Causal::bottom_right(), KeyLength(*n)).$method($($argument),*)
            }
            MaskOf::TopLeftAndHide(hide) => {
                (Causal::top_left(), Hide(hide)).$method($($argument),*)
            }
            MaskOf::KeysFrom(n) => KeysFrom(*n).$method($($argument),*),
            MaskOf::TopLeftFrom(n) => {
                (Causal::top_left(), KeysFrom(*n)).$method($($argument),*)
            }
        }
    };
}

/// Delegates to the library's own masks: one type, so that the kernels are compiled once for all of them.
impl Mask for MaskOf {
    fn check(&self, shape: Shape) -> Result<(), Error> {
        delegate!(self, check(shape))
    }

    fn bounds(&self, shape: Shape, first: usize, last: usize) -> (usize, usize) {
        delegate!(self, bounds(shape, first, last))
    }

    fn apply(&self, shape: Shape, row: Row, scores: &mut [f32]) {
        delegate!(self, apply(shape, row, scores))
    }
}

/// Calls with the mask, and with the library's own type where that one hides nothing inside its bounds.
macro_rules! with_mask {
    ($mask:expr, |$m:ident| $call:expr) => {
        match $mask {
            MaskOf::None => {
                let $m = &NoMask;
                $call
            }
            MaskOf::KeyLength(length) => {
                let $m = &KeyLength(*length);
                $call
            }
            MaskOf::KeysFrom(first) => {
                let $m = &$crate::common::KeysFrom(*first);
                $call
            }
            $m => $call,
        }
    };
}
pub(crate) use with_mask;

/// A layer with its workspace and cache. Slices are flat; results are new, and NaN before the call writes them.
pub trait AnyLayer {
    fn sizes(&self) -> Sizes;
    fn load(&mut self, parameters: &Parameters);
    fn outputs(
        &mut self,
        isa: Isa,
        x: &[f32],
        source: &[f32],
        mask: &MaskOf,
    ) -> Result<Vec<f32>, Error>;
    fn weights(
        &mut self,
        isa: Isa,
        x: &[f32],
        source: &[f32],
        mask: &MaskOf,
        mean: bool,
    ) -> Result<Vec<f32>, Error>;
    fn append(&mut self, isa: Isa, source: &[f32]) -> Result<(), Error>;
    fn rewind(&mut self, len: usize) -> Result<(), Error>;
    /// To the tokens of the cache.
    fn attend(&mut self, isa: Isa, x: &[f32], mask: &MaskOf) -> Result<Vec<f32>, Error>;
    fn cached_weights(
        &mut self,
        isa: Isa,
        x: &[f32],
        mask: &MaskOf,
        mean: bool,
    ) -> Result<Vec<f32>, Error>;
}

pub struct Case<
    const D_MODEL: usize,
    const H: usize,
    const D_KV: usize,
    const D_SOURCE: usize,
    const N: usize,
> {
    pub layer: Box<Aligned<MultiHeadAttention<D_MODEL, H, D_KV, D_SOURCE>>>,
    pub workspace: Box<Workspace<N, D_MODEL, D_KV>>,
    /// Enough where keys and values stand in the cache.
    pub small: Box<Workspace<N, D_MODEL, 0>>,
    pub cache: Box<KvCache<N, D_KV>>,
}

impl<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize, const N: usize>
    Case<D_MODEL, H, D_KV, D_SOURCE, N>
{
    pub fn boxed() -> Box<dyn AnyLayer> {
        Box::new(Self {
            layer: MultiHeadAttention::boxed().expect("memory"),
            workspace: Workspace::boxed().expect("memory"),
            small: Workspace::boxed().expect("memory"),
            cache: KvCache::boxed().expect("memory"),
        })
    }
}

fn load<const IN: usize, const OUT: usize>(linear: &mut Linear<IN, OUT>, matrix: &Matrix) {
    linear.load(&matrix.weights).expect("weights");
    linear.load_bias(&matrix.bias).expect("biases");
}

impl<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize, const N: usize>
    AnyLayer for Case<D_MODEL, H, D_KV, D_SOURCE, N>
{
    fn sizes(&self) -> Sizes {
        Sizes { d_model: D_MODEL, heads: H, d_kv: D_KV, d_source: D_SOURCE, n: N }
    }

    fn load(&mut self, parameters: &Parameters) {
        let [query, key, value, output] = &parameters.0;
        load(&mut self.layer.query, query);
        load(&mut self.layer.key, key);
        load(&mut self.layer.value, value);
        load(&mut self.layer.output, output);
    }

    fn outputs(
        &mut self,
        isa: Isa,
        x: &[f32],
        source: &[f32],
        mask: &MaskOf,
    ) -> Result<Vec<f32>, Error> {
        let (x, source) = (x.as_chunks().0, source.as_chunks().0);
        let mut out = vec![[f32::NAN; D_MODEL]; x.len()];
        self.workspace.set_isa(isa);
        let workspace = &mut *self.workspace;
        with_mask!(mask, |m| self.layer.cross_attention(x, source, m, workspace, &mut out))?;
        Ok(out.into_flattened())
    }

    fn weights(
        &mut self,
        isa: Isa,
        x: &[f32],
        source: &[f32],
        mask: &MaskOf,
        mean: bool,
    ) -> Result<Vec<f32>, Error> {
        let (x, source) = (x.as_chunks().0, source.as_chunks().0);
        let mut weights = room(mean, H, x.len(), source.len());
        self.workspace.set_isa(isa);
        let workspace = &mut *self.workspace;
        let to = kind(mean, &mut weights);
        with_mask!(mask, |m| self.layer.attention_weights(x, source, m, workspace, to))?;
        Ok(weights)
    }

    fn append(&mut self, isa: Isa, source: &[f32]) -> Result<(), Error> {
        self.small.set_isa(isa);
        self.layer.append(source.as_chunks().0, &mut self.cache, &mut *self.small)
    }

    fn rewind(&mut self, len: usize) -> Result<(), Error> {
        self.cache.rewind(len)
    }

    fn attend(&mut self, isa: Isa, x: &[f32], mask: &MaskOf) -> Result<Vec<f32>, Error> {
        let x = x.as_chunks().0;
        let mut out = vec![[f32::NAN; D_MODEL]; x.len()];
        self.small.set_isa(isa);
        let workspace = &mut *self.small;
        with_mask!(mask, |m| self.layer.attend(x, &self.cache, m, workspace, &mut out))?;
        Ok(out.into_flattened())
    }

    fn cached_weights(
        &mut self,
        isa: Isa,
        x: &[f32],
        mask: &MaskOf,
        mean: bool,
    ) -> Result<Vec<f32>, Error> {
        let x = x.as_chunks().0;
        let mut weights = room(mean, H, x.len(), self.cache.len());
        self.small.set_isa(isa);
        let workspace = &mut *self.small;
        let to = kind(mean, &mut weights);
        with_mask!(mask, |m| self.layer.cached_attention_weights(
            x,
            &self.cache,
            m,
            workspace,
            to
        ))?;
        Ok(weights)
    }
}

fn room(mean: bool, heads: usize, queries: usize, keys: usize) -> Vec<f32> {
    vec![f32::NAN; if mean { 1 } else { heads } * queries * keys]
}

fn kind(mean: bool, weights: &mut [f32]) -> Weights<'_> {
    if mean { Weights::Mean(weights) } else { Weights::PerHead(weights) }
}
