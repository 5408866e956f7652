//! What is measured: shapes, what each costs, and how to run it.

use crate::inputs::{self, random};
use crate::textbook::{self, Heads};
use dhyan::kernels::{Panels, pack, product};
use dhyan::{Causal, Error, Isa, KvCache, NoMask, Workspace};

/// All cases, in the order in which they take turns.
pub fn all() -> Result<Vec<Case>, Error> {
    Ok(vec![
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
        step::<1024, 512, 8>()?,
        matrix_product(512, 512, 512)?,
        matrix_product(10, 512, 512)?,
        matrix_product(128, 768, 768)?,
        matrix_product(1024, 1024, 1024)?,
        matrix_product(1, 512, 512)?,
    ])
}

const FULL: bool = false;
const CAUSAL: bool = true;

/// The textbook's result is computed up to so many operations.
const CHECKED: usize = 300_000_000;

pub struct Case {
    pub name: String,
    /// Floating-point operations.
    pub flops: usize,
    /// Operands and results, each counted once.
    pub bytes: usize,
    /// Each operand is used once or a few times, so that reading them takes longer than computing with them.
    pub is_read: bool,
    out: Vec<f32>,
    call: Box<dyn FnMut(Isa, &mut [f32]) -> Result<(), Error>>,
    textbook: Box<dyn Fn(&mut [f32])>,
}

impl Case {
    pub fn run(&mut self, isa: Isa) -> Result<(), Error> {
        (self.call)(isa, &mut self.out)
    }

    /// Whether each unit gives the textbook's result, where that does not take too long.
    pub fn check(&mut self, units: &[Isa]) -> Result<(), Box<dyn std::error::Error>> {
        let mut expected = vec![0.0; self.out.len()];
        if self.flops > CHECKED {
            return Ok(());
        }
        (self.textbook)(&mut expected);
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

/// Query-key pairs that are not hidden.
fn pairs(queries: usize, keys: usize, causal: bool) -> usize {
    if causal { queries * (2 * keys - queries + 1) / 2 } else { queries * keys }
}

fn matrix_product(m: usize, k: usize, n: usize) -> Result<Case, Error> {
    let (left, right) = (random(1, m * k, 1.0), random(2, k * n, 1.0));
    let mut panels = vec![0.0; k * n];
    pack(&right, k, n, &mut panels)?;
    Ok(Case {
        name: format!("product {m}x{k}x{n}"),
        flops: 2 * m * k * n,
        bytes: 4 * (m * k + k * n + m * n),
        is_read: m == 1,
        out: vec![0.0; m * n],
        call: Box::new(move |isa, out| product(isa, &left, Panels::new(&panels, k, n)?, None, out)),
        textbook: Box::new(move |out| textbook::product(&random(1, m * k, 1.0), &right, n, out)),
    })
}

fn layer<const N: usize, const D: usize, const H: usize>(causal: bool) -> Result<Case, Error> {
    let (layer, weights) = inputs::layer::<D, H>()?;
    let mut workspace = Box::new(Workspace::<N, D>::new());
    let x = random(5, N * D, 1.0);
    Ok(Case {
        name: format!("layer n{N} d{D} h{H}{}", if causal { " causal" } else { "" }),
        flops: 8 * N * D * D + 4 * pairs(N, N, causal) * D,
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
        textbook: Box::new(move |out| {
            let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal };
            let x = random(5, N * D, 1.0);
            textbook::layer(sizes, &weights, &x, &x, out)
        }),
    })
}

/// One decoding step of a layer: the newest of N tokens is projected, appended, and attends to all.
fn step<const N: usize, const D: usize, const H: usize>() -> Result<Case, Error> {
    let (layer, weights) = inputs::layer::<D, H>()?;
    let mut workspace = Box::new(Workspace::<N, D, 0>::new());
    let mut cache = Box::new(KvCache::<N, D>::new());
    let tokens = random(5, N * D, 1.0);
    layer.append(&tokens.as_chunks().0[..N - 1], &mut cache, &mut workspace)?;
    Ok(Case {
        name: format!("step d{D} h{H} keys {N}"),
        flops: 8 * D * D + 4 * N * D,
        bytes: 4 * (4 * D * D + 2 * N * D + 2 * D),
        is_read: true,
        out: vec![0.0; D],
        call: Box::new(move |isa, out| {
            let x = &tokens.as_chunks().0[N - 1..];
            workspace.set_isa(isa);
            cache.rewind(N - 1)?;
            layer.append(x, &mut cache, &mut workspace)?;
            layer.attend(x, &cache, &NoMask, &mut workspace, out.as_chunks_mut().0)
        }),
        textbook: Box::new(move |out| {
            let sizes = Heads { heads: H, kv_heads: H, d_k: D / H, causal: false };
            let tokens = random(5, N * D, 1.0);
            textbook::layer(sizes, &weights, &tokens[(N - 1) * D..], &tokens, out)
        }),
    })
}
