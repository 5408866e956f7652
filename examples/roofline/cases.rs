//! What is measured: shapes, what each costs, and how to run it.

use crate::inputs::{self, random};
use crate::textbook::{self, Heads};
use dhyan::kernels::{self, Dimensions, Panels, attention_scratch, pack};
use dhyan::{Causal, Error, Isa, KvCache, NoMask, Workspace};

const FULL: bool = false;
const CAUSAL: bool = true;

/// All cases, in the order in which they take turns.
pub fn all() -> Result<Vec<Case>, Error> {
    Ok(vec![
        // n, d_model, h.
        layer::<1, 8, 1>(FULL)?,
        layer::<10, 512, 8>(FULL)?,
        layer::<16, 64, 4>(FULL)?,
        layer::<37, 60, 5>(FULL)?,
        layer::<64, 128, 8>(FULL)?,
        layer::<128, 384, 12>(FULL)?,
        layer::<128, 768, 12>(FULL)?,
        layer::<512, 768, 12>(FULL)?,
        layer::<1000, 104, 8>(FULL)?,
        layer::<2048, 512, 8>(FULL)?,
        layer::<2048, 512, 8>(CAUSAL)?,
        // Queries, keys, heads, kv heads, d_k.
        attention([512, 512, 12, 12, 64], FULL)?,
        attention([2048, 2048, 8, 8, 64], FULL)?,
        attention([2048, 2048, 8, 8, 128], CAUSAL)?,
        attention([1, 1024, 8, 8, 64], FULL)?,
        attention([1, 4096, 32, 8, 64], FULL)?,
        attention([1, 4096, 32, 8, 128], FULL)?,
        // Keys, d_model, h, d_kv.
        step::<1024, 512, 8, 512>()?,
        step::<4096, 2048, 32, 512>()?,
        // m, k, n.
        product(512, 512, 512)?,
        product(10, 512, 512)?,
        product(128, 768, 768)?,
        product(1024, 1024, 1024)?,
        product(1, 512, 512)?,
    ])
}

type Call = Box<dyn FnMut(Isa, &mut [f32]) -> Result<(), Error>>;
type Textbook = Box<dyn Fn(&mut [f32])>;

pub struct Case {
    pub name: String,
    /// Floating-point operations.
    pub flops: usize,
    /// Operands and results, each counted once.
    pub bytes: usize,
    /// Each operand is used once or a few times, so that reading them takes longer than computing with them.
    pub is_read: bool,
    out: Vec<f32>,
    call: Call,
    textbook: Option<Textbook>,
}

impl Case {
    pub fn run(&mut self, isa: Isa) -> Result<(), Error> {
        (self.call)(isa, &mut self.out)
    }

    /// Whether each unit gives the textbook's result.
    pub fn check(&mut self, units: &[Isa]) -> Result<(), Box<dyn std::error::Error>> {
        let mut expected = vec![0.0; self.out.len()];
        let Some(textbook) = &self.textbook else { return Ok(()) };
        textbook(&mut expected);
        for &isa in units {
            self.out.fill(f32::NAN);
            self.run(isa)?;
            if !self
                .out
                .iter()
                .zip(&expected)
                .all(|(found, expected)| (found - expected).abs() < 1e-3)
            {
                return Err(format!("{} on {isa:?}: not the textbook's result", self.name).into());
            }
        }
        Ok(())
    }
}

/// The textbook's version of a case, unless its operations take too long.
fn textbook(flops: usize, formula: impl Fn(&mut [f32]) + 'static) -> Option<Textbook> {
    (flops < 300_000_000).then(|| Box::new(formula) as Textbook)
}

/// Pairs of n queries and n keys that are not hidden.
fn pairs(n: usize, causal: bool) -> usize {
    if causal { n * (n + 1) / 2 } else { n * n }
}

fn heads_of(heads: usize, kv_heads: usize) -> String {
    if heads == kv_heads { format!("h{heads}") } else { format!("h{heads}/{kv_heads}") }
}

fn suffix(causal: bool) -> &'static str {
    if causal { " causal" } else { "" }
}

fn product(m: usize, k: usize, n: usize) -> Result<Case, Error> {
    let [left, right] = [(1, m * k), (2, k * n)].map(|(seed, count)| random(seed, count, 1.0));
    let (mut panels, copy) = (vec![0.0; k * n + 15], left.clone());
    // From the start of a cache line on, as the plain read that this is compared with.
    let place = panels.as_ptr().align_offset(64);
    let place = place..place + k * n;
    pack(&right, k, n, &mut panels[place.clone()])?;
    Ok(Case {
        name: format!("product {m}x{k}x{n}"),
        flops: 2 * m * k * n,
        bytes: 4 * (m * k + k * n + m * n),
        is_read: m == 1,
        out: vec![0.0; m * n],
        call: Box::new(move |isa, out| {
            kernels::product(isa, &left, Panels::new(&panels[place.clone()], k, n)?, None, out)
        }),
        textbook: textbook(2 * m * k * n, move |out| textbook::product(&copy, &right, n, out)),
    })
}

/// Over keys and values as they are: they are packed on the way.
fn attention(
    [queries, keys, heads, kv_heads, d_k]: [usize; 5],
    causal: bool,
) -> Result<Case, Error> {
    let dimensions = Dimensions { heads, kv_heads, d_k, d_v: d_k };
    let sizes = Heads { heads, kv_heads, d_k, causal };
    let counts = [queries * heads, keys * kv_heads, keys * kv_heads].map(|rows| rows * d_k);
    let tensors = [0, 1, 2].map(|i| random(i as u64, counts[i], 1.0));
    let copy = tensors.clone();
    let mut scratch = vec![0.0; attention_scratch(dimensions, keys)];
    let scale = (d_k as f32).sqrt().recip();
    let pairs = if queries == keys { pairs(keys, causal) } else { queries * keys };
    let flops = 4 * pairs * heads * d_k;
    let tokens =
        if queries == keys { format!("n{keys}") } else { format!("n{queries} keys{keys}") };
    Ok(Case {
        name: format!(
            "attention {tokens} {} d_k{d_k}{}",
            heads_of(heads, kv_heads),
            suffix(causal)
        ),
        flops,
        bytes: 4 * (2 * counts[0] + 2 * counts[1]),
        is_read: queries == 1,
        out: vec![0.0; counts[0]],
        call: Box::new(move |isa, out| {
            let [q, k, v] = &tensors;
            match causal {
                false => {
                    kernels::attention(isa, dimensions, q, k, v, scale, &NoMask, &mut scratch, out)
                }
                true => {
                    let mask = Causal::bottom_right();
                    kernels::attention(isa, dimensions, q, k, v, scale, &mask, &mut scratch, out)
                }
            }
        }),
        textbook: textbook(flops, move |out| {
            let [q, k, v] = &copy;
            textbook::attention(sizes, q, k, v, out)
        }),
    })
}

/// Self-attention of N tokens.
fn layer<const N: usize, const D: usize, const H: usize>(causal: bool) -> Result<Case, Error> {
    let (layer, weights) = inputs::layer::<D, H, D>()?;
    let mut workspace = Workspace::<N, D>::boxed()?;
    let x = random(5, N * D, 1.0);
    let copy = x.clone();
    let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal };
    let flops = 8 * N * D * D + 4 * pairs(N, causal) * D;
    Ok(Case {
        name: format!("layer n{N} d{D} h{H}{}", suffix(causal)),
        flops,
        bytes: 4 * (4 * D * D + 2 * N * D),
        is_read: false,
        out: vec![0.0; N * D],
        call: Box::new(move |isa, out| {
            workspace.set_isa(isa);
            let (x, out) = (x.as_chunks().0, out.as_chunks_mut().0);
            match causal {
                false => layer.self_attention(x, &NoMask, &mut workspace, out),
                true => layer.self_attention(x, &Causal::top_left(), &mut workspace, out),
            }
        }),
        textbook: textbook(flops, move |out| textbook::layer(sizes, &weights, &copy, &copy, out)),
    })
}

/// One step of decoding: the last of N tokens is projected, appended to the cache, and attends to all of it.
fn step<const N: usize, const D: usize, const H: usize, const D_KV: usize>() -> Result<Case, Error>
{
    let (layer, weights) = inputs::layer::<D, H, D_KV>()?;
    let mut workspace = Workspace::<N, D, 0>::boxed()?;
    let mut cache = KvCache::<N, D_KV>::boxed()?;
    let tokens = random(5, N * D, 1.0);
    let x = tokens[(N - 1) * D..].to_vec();
    layer.append(&tokens.as_chunks().0[..N - 1], &mut cache, &mut workspace)?;
    let sizes = Heads { heads: H, kv_heads: H * D_KV / D, d_k: D / H, causal: false };
    let (parameters, copy) = (2 * D * (D + D_KV), x.clone());
    Ok(Case {
        name: format!("step keys{N} d{D} {}", heads_of(H, sizes.kv_heads)),
        flops: 2 * parameters + 4 * N * D,
        bytes: 4 * (parameters + 2 * N * D_KV + 2 * D),
        is_read: true,
        out: vec![0.0; D],
        call: Box::new(move |isa, out| {
            let x = x.as_chunks().0;
            workspace.set_isa(isa);
            cache.rewind(N - 1)?;
            layer.append(x, &mut cache, &mut workspace)?;
            layer.attend(x, &cache, &NoMask, &mut workspace, out.as_chunks_mut().0)
        }),
        textbook: textbook(4 * N * D * D_KV, move |out| {
            textbook::layer(sizes, &weights, &copy, &tokens, out)
        }),
    })
}
