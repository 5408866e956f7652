//! A fixed set of runs and their hashes. No std and no heap: firmware includes this file as it is, and leaves out the
//! groups that it has no memory for.

use super::random::{MODES, Mode, Random, power_of_two};
use core::fmt::Arguments;
use dhyan::kernels::{Dimensions, Panels, attention, attention_scratch};
use dhyan::kernels::{exp2, layer_norm, pack, product, softmax};
use dhyan::{Causal, Error, Isa, Keep, KeyLength, KvCache, Linear, NoMask};
use dhyan::{
    HeadLayout, MultiHeadAttention, Positions, Rotary, RotaryTable, Weights, Workspace, sinusoidal,
};

/// FNV-1a in 64 bits over the bits of each float, low byte first, with one NaN for all.
pub fn hash(data: &[f32]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for x in data {
        let bits = if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
        for byte in bits.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// All groups; `record` gets the name and the hash of each run.
pub fn all(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    products(isa, record)?;
    rows(isa, record)?;
    slices(isa, record)?;
    positions(isa, record)?;
    layers(isa, record)?;
    long(isa, record)
}

/// 40 KB of stack.
pub fn products(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    const SHAPES: [(usize, usize, usize); 8] = [
        (1, 1, 1),
        (3, 5, 7),
        (1, 64, 33),
        (13, 48, 40),
        (7, 130, 17),
        (25, 16, 64),
        (2, 20, 100),
        (50, 9, 16),
    ];
    let mut buffers = [[0.0; 2304]; 4];
    let mut random = Random(1);
    for (rows, inner, columns) in SHAPES {
        for mode in MODES {
            let [left, right, panels, out] = &mut buffers;
            let (left, right) = (&mut left[..rows * inner], &mut right[..inner * columns]);
            let (panels, out) = (&mut panels[..inner * columns], &mut out[..rows * columns]);
            random.fill_left(mode, inner, left);
            random.fill_right(mode, columns, right);
            pack(right, inner, columns, panels)?;
            let bias = &right[..columns];
            for bias in [None, Some(bias)] {
                product(isa, left, Panels::new(panels, inner, columns)?, bias, out)?;
                let start = if bias.is_some() { "bias" } else { "zero" };
                record(
                    format_args!("product/{rows}x{inner}x{columns}/{mode:?}/{start}"),
                    hash(out),
                );
            }
        }
    }
    Ok(())
}

/// Functions of rows. 8 KB of stack.
pub fn rows(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    let mut buffer = [0.0; 1800];
    let mut random = Random(2);
    for columns in [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 513, 600] {
        for hidden_of_8 in [0, 3] {
            let rows = &mut buffer[..3 * columns];
            for x in &mut *rows {
                let logit = random.unit() * power_of_two(random.below(8) as i32);
                *x = if random.below(8) < hidden_of_8 { f32::NEG_INFINITY } else { logit };
            }
            softmax(isa, rows, columns)?;
            record(format_args!("softmax/{columns}/{hidden_of_8}"), hash(rows));
        }
        let (x, rest) = buffer.split_at_mut(columns);
        let (weight, y) = rest.split_at_mut(columns);
        let y = &mut y[..columns];
        for mode in MODES {
            random.fill_left(mode, columns, x);
            random.fill_left(mode, columns, weight);
            layer_norm(isa, x, weight, x, 1e-5, y)?;
            record(format_args!("layer_norm/{columns}/{mode:?}"), hash(y));
        }
        x.fill_with(|| (random.unit() - 1.0) * 70.0);
        exp2(isa, x);
        record(format_args!("exp2/{columns}"), hash(x));
    }
    Ok(())
}

/// Attention on slices, 2 kv heads for 4 heads. 30 KB of stack.
pub fn slices(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    const QUERIES: usize = 9;
    const KEYS: usize = 21;
    const DIMENSIONS: Dimensions = Dimensions { heads: 4, kv_heads: 2, d_k: 19, d_v: 35 };
    let mut random = Random(5);
    let (mut q, mut out) = ([[0.0; 4 * 19]; QUERIES], [[0.0; 4 * 35]; QUERIES]);
    let (mut k, mut v) = ([[0.0; 2 * 19]; KEYS], [[0.0; 2 * 35]; KEYS]);
    let mut scratch = [0.0; attention_scratch(DIMENSIONS, KEYS)];
    let mask = (Causal::bottom_right(), KeyLength(18));
    for mode in MODES {
        random.fill_left(mode, 19, q.as_flattened_mut());
        random.fill_left(mode, 38, k.as_flattened_mut());
        random.fill_right(mode, 70, v.as_flattened_mut());
        let [q, k, v] = [q.as_flattened(), k.as_flattened(), v.as_flattened()];
        let out = out.as_flattened_mut();
        attention(isa, DIMENSIONS, q, k, v, 0.25, &mask, &mut scratch, out)?;
        record(format_args!("attention/{mode:?}"), hash(out));
    }
    Ok(())
}

/// Sinusoidal and rotary encodings. 12 KB of stack.
pub fn positions(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    let mut random = Random(6);
    let mut encoding = [[0.0; 24]; 50];
    sinusoidal(1000, 24, encoding.as_flattened_mut())?;
    record(format_args!("sinusoidal"), hash(encoding.as_flattened()));
    let mut table = RotaryTable::<20, 9>::new();
    for (name, rotary) in [
        ("interleaved", Rotary::interleaved(22).partial(18)),
        ("halves", Rotary::halves(22).partial_of_head(18).theta(5e5)),
    ] {
        table.fill(rotary, Positions::From(3))?;
        let mut heads = [[0.0; 2 * 22]; 10];
        random.fill_left(Mode::Ordinary, 22, heads.as_flattened_mut());
        let layout = HeadLayout::token_major(10, 2, 22);
        table.view(rotary)?.apply(isa, Positions::From(7), layout, heads.as_flattened_mut())?;
        record(format_args!("rotary/{name}"), hash(heads.as_flattened()));
    }
    Ok(())
}

/// 250 KB of stack.
pub fn layers(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    layer::<1, 1, 1, 1, 17>(isa, record)?;
    layer::<12, 3, 4, 5, 20>(isa, record)?;
    layer::<35, 7, 35, 35, 33>(isa, record)?;
    layer::<64, 4, 32, 64, 20>(isa, record)
}

/// N queries over N keys, in every mode: full, causal, masked with rows that see nothing, weights, and decoded.
#[inline(never)]
fn layer<
    const D_MODEL: usize,
    const H: usize,
    const D_KV: usize,
    const D_SOURCE: usize,
    const N: usize,
>(
    isa: Isa,
    record: &mut impl FnMut(Arguments, u64),
) -> Result<(), Error> {
    let mut random = Random(3);
    for mode in MODES {
        let layer = random_layer::<D_MODEL, H, D_KV, D_SOURCE>(&mut random, mode)?;
        let (mut x, mut source) = ([[0.0; D_MODEL]; N], [[0.0; D_SOURCE]; N]);
        random.fill_left(mode, D_MODEL, x.as_flattened_mut());
        random.fill_left(mode, D_SOURCE, source.as_flattened_mut());
        let mut keep = [[false; N]; N];
        keep.as_flattened_mut().fill_with(|| random.below(4) == 0);
        keep[N / 2] = [false; N];
        let mask = (KeyLength(N - N / 4), Keep(keep.as_flattened()));

        let mut workspace = Workspace::<N, D_MODEL, D_KV>::with_isa(isa);
        let mut out = [[0.0; D_MODEL]; N];
        let mut record = |run: &str, data: &[f32]| {
            let hash = hash(data);
            record(format_args!("layer/{D_MODEL}x{H}x{D_KV}x{D_SOURCE}/{mode:?}/{run}"), hash);
        };
        layer.cross_attention(&x, &source, &NoMask, &mut workspace, &mut out)?;
        record("full", out.as_flattened());
        layer.cross_attention(&x, &source, &mask, &mut workspace, &mut out)?;
        record("masked", out.as_flattened());
        layer.cross_attention(&x, &source, &Causal::top_left(), &mut workspace, &mut out)?;
        record("causal", out.as_flattened());
        let mut cache = KvCache::<N, D_KV>::new();
        for token in 0..N {
            let one = token..token + 1;
            layer.append(&source[one.clone()], &mut cache, &mut workspace)?;
            let (x, out) = (&x[one.clone()], &mut out[one]);
            layer.attend(x, &cache, &Causal::bottom_right(), &mut workspace, out)?;
        }
        record("decoded", out.as_flattened());
        let mut weights = [[[0.0; N]; N]; H];
        let all = weights.as_flattened_mut().as_flattened_mut();
        layer.attention_weights(&x, &source, &mask, &mut workspace, Weights::PerHead(all))?;
        record("weights", all);
        let mean = weights[0].as_flattened_mut();
        layer.attention_weights(&x, &source, &mask, &mut workspace, Weights::Mean(mean))?;
        record("mean", mean);
    }
    Ok(())
}

/// More keys than one tile has: three queries at the end of 600 tokens. 130 KB of stack.
#[inline(never)]
pub fn long(isa: Isa, record: &mut impl FnMut(Arguments, u64)) -> Result<(), Error> {
    const N: usize = 600;
    let mut random = Random(4);
    for mode in MODES {
        let layer = random_layer::<4, 2, 2, 4>(&mut random, mode)?;
        let mut source = [[0.0; 4]; N];
        random.fill_left(mode, 4, source.as_flattened_mut());
        let mut workspace = Workspace::<N, 4, 0>::with_isa(isa);
        let mut cache = KvCache::<N, 2>::new();
        layer.append(&source, &mut cache, &mut workspace)?;
        let (x, mut out) = (&source[N - 3..], [[0.0; 4]; 3]);
        layer.attend(x, &cache, &Causal::bottom_right(), &mut workspace, &mut out)?;
        record(format_args!("long/{mode:?}/causal"), hash(out.as_flattened()));
        let mean = source.as_flattened_mut();
        let x = [[0.5, -0.5, 0.25, 1.0]; 3];
        let to = Weights::Mean(&mut mean[..3 * N]);
        layer.cached_attention_weights(&x, &cache, &Causal::bottom_right(), &mut workspace, to)?;
        record(format_args!("long/{mode:?}/mean"), hash(&mean[..3 * N]));
    }
    Ok(())
}

fn random_layer<const D_MODEL: usize, const H: usize, const D_KV: usize, const D_SOURCE: usize>(
    random: &mut Random,
    mode: Mode,
) -> Result<MultiHeadAttention<D_MODEL, H, D_KV, D_SOURCE>, Error> {
    let mut layer = MultiHeadAttention::ZERO;
    fill(&mut layer.query, random, mode)?;
    fill(&mut layer.key, random, mode)?;
    fill(&mut layer.value, random, mode)?;
    fill(&mut layer.output, random, mode)?;
    Ok(layer)
}

fn fill<const IN: usize, const OUT: usize>(
    linear: &mut Linear<IN, OUT>,
    random: &mut Random,
    mode: Mode,
) -> Result<(), Error> {
    let (mut weights, mut bias) = ([[0.0; OUT]; IN], [0.0; OUT]);
    random.fill_right(mode, OUT, weights.as_flattened_mut());
    // Projected tokens are about as large as the tokens.
    let scale = power_of_two(1 - (IN.ilog2() / 2) as i32);
    weights.as_flattened_mut().iter_mut().for_each(|w| *w *= scale);
    bias.fill_with(|| random.unit());
    linear.load(weights.as_flattened())?;
    linear.load_bias(&bias)
}
