//! A small vision transformer, without a heap: the same file runs on a microcontroller.
//!
//! 8 × 8 pixels → 16 patches of 2 × 2 → tokens of width 32, and a class token before them → two pre-norm layers of
//! attention (4 heads) and feed-forward (64 wide, ReLU) → the class token, normalized → 10 logits.

use bytemuck::{Pod, Zeroable};
use dhyan::{Error, Isa, LayerNorm, Linear, MultiHeadAttention, NoMask, Weights, Workspace};

pub const D_MODEL: usize = 32;
pub const HEADS: usize = 4;
pub const LAYERS: usize = 2;
pub const TOKENS: usize = 17;
const D_FF: usize = 64;
const EPSILON: f32 = 1e-5;

type Token = [f32; D_MODEL];

/// The parameters, in the order of the file that they are read from in place.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Model {
    patch: Linear<4, D_MODEL>,
    class: Token,
    positions: [Token; TOKENS],
    layers: [Layer; LAYERS],
    norm: LayerNorm<D_MODEL>,
    head: Linear<D_MODEL, 10>,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Layer {
    attention_norm: LayerNorm<D_MODEL>,
    attention: MultiHeadAttention<D_MODEL, HEADS>,
    feed_forward_norm: LayerNorm<D_MODEL>,
    expand: Linear<D_MODEL, D_FF>,
    contract: Linear<D_FF, D_MODEL>,
}

/// What an image is read in.
pub struct Scratch {
    tokens: [Token; TOKENS],
    normal: [Token; TOKENS],
    update: [Token; TOKENS],
    hidden: [[f32; D_FF]; TOKENS],
    workspace: Workspace<TOKENS, D_MODEL>,
}

impl Scratch {
    pub const fn new() -> Self {
        Self {
            tokens: [[0.0; D_MODEL]; TOKENS],
            normal: [[0.0; D_MODEL]; TOKENS],
            update: [[0.0; D_MODEL]; TOKENS],
            hidden: [[0.0; D_FF]; TOKENS],
            workspace: Workspace::new(),
        }
    }

    pub fn set_isa(&mut self, isa: Isa) {
        self.workspace.set_isa(isa);
    }
}

impl Model {
    /// The ten logits of an image, whose pixels are 0 to 16.
    pub fn read(&self, image: &[u8; 64], scratch: &mut Scratch) -> Result<[f32; 10], Error> {
        let isa = scratch.workspace.isa();
        self.embed(image, scratch)?;
        for layer in &self.layers {
            layer.apply(scratch)?;
        }
        let mut class = [[0.0; D_MODEL]];
        self.norm.apply(isa, EPSILON, &scratch.tokens[..1], &mut class)?;
        let mut logits = [[0.0; 10]];
        self.head.apply(isa, &class, &mut logits)?;
        Ok(logits[0])
    }

    /// Where the heads of a layer look: `[HEADS][TOKENS][TOKENS]`.
    pub fn attention_weights(
        &self,
        image: &[u8; 64],
        layer: usize,
        scratch: &mut Scratch,
        weights: &mut [f32; HEADS * TOKENS * TOKENS],
    ) -> Result<(), Error> {
        let isa = scratch.workspace.isa();
        self.embed(image, scratch)?;
        for layer in &self.layers[..layer] {
            layer.apply(scratch)?;
        }
        let Scratch { tokens, normal, workspace, .. } = scratch;
        let layer = &self.layers[layer];
        layer.attention_norm.apply(isa, EPSILON, tokens, normal)?;
        let weights = Weights::PerHead(weights);
        layer.attention.attention_weights(normal, normal, &NoMask, workspace, weights)
    }

    fn embed(&self, image: &[u8; 64], scratch: &mut Scratch) -> Result<(), Error> {
        let mut patches = [[0.0; 4]; TOKENS - 1];
        for (p, patch) in patches.iter_mut().enumerate() {
            for (i, pixel) in patch.iter_mut().enumerate() {
                let (row, column) = (p / 4 * 2 + i / 2, p % 4 * 2 + i % 2);
                *pixel = image[row * 8 + column] as f32 / 16.0;
            }
        }
        let Scratch { tokens, workspace, .. } = scratch;
        tokens[0] = self.class;
        self.patch.apply(workspace.isa(), &patches, &mut tokens[1..])?;
        add(tokens, &self.positions);
        Ok(())
    }
}

impl Layer {
    /// `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.
    fn apply(&self, scratch: &mut Scratch) -> Result<(), Error> {
        let Scratch { tokens, normal, update, hidden, workspace } = scratch;
        let isa = workspace.isa();
        self.attention_norm.apply(isa, EPSILON, tokens, normal)?;
        self.attention.self_attention(normal, &NoMask, workspace, update)?;
        add(tokens, update);
        self.feed_forward_norm.apply(isa, EPSILON, tokens, normal)?;
        self.expand.apply(isa, normal, hidden)?;
        for x in hidden.as_flattened_mut() {
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
        self.contract.apply(isa, hidden, update)?;
        add(tokens, update);
        Ok(())
    }
}

fn add(tokens: &mut [Token; TOKENS], update: &[Token; TOKENS]) {
    for (x, &u) in tokens.as_flattened_mut().iter_mut().zip(update.as_flattened()) {
        *x += u;
    }
}

/// The place of the largest logit.
pub fn digit(logits: &[f32; 10]) -> usize {
    (1..10).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}

/// FNV-1a, 64 bits, over the bits of floats.
pub fn hash(state: u64, values: &[f32]) -> u64 {
    values
        .iter()
        .flat_map(|x| x.to_bits().to_le_bytes())
        .fold(state, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

pub const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
