//! Attention alone, of n queries over n keys and values of each head.

use crate::inputs::random;
use crate::textbook::{self, Heads};
use crate::{Group, compare};
use dhyan::kernels::{Dimensions, attention, attention_scratch};
use dhyan::{Causal, NoMask};
use std::hint::black_box;

/// n, heads, kv heads, d_k, whether causal.
const SHAPES: [(usize, usize, usize, usize, bool); 4] =
    [(16, 4, 4, 16, false), (128, 4, 4, 64, false), (512, 2, 2, 64, true), (256, 4, 1, 128, true)];

pub fn bench(group: &mut Group<'_>) {
    for (n, heads, kv_heads, d_k, causal) in SHAPES {
        let dimensions = Dimensions { heads, kv_heads, d_k, d_v: d_k };
        let query = random(1, n * heads * d_k, 1.0);
        let [key, value] = [2, 3].map(|seed| random(seed, n * kv_heads * d_k, 1.0));
        let mut scratch = vec![0.0; attention_scratch(dimensions, n)];
        let (mut out, mut naive) = (query.clone(), query.clone());
        let scale = (d_k as f32).sqrt().recip();
        let pairs = if causal { n * (n + 1) / 2 } else { n * n };
        compare(
            group,
            &format!("n{n} h{heads}/{kv_heads} d_k{d_k}{}", if causal { " causal" } else { "" }),
            4 * pairs * heads * d_k,
            |isa| {
                let (q, k, v) = (black_box(&query), &key, &value);
                let (scratch, out) = (&mut scratch, &mut out);
                match causal {
                    false => attention(isa, dimensions, q, k, v, scale, &NoMask, scratch, out),
                    true => attention(
                        isa,
                        dimensions,
                        q,
                        k,
                        v,
                        scale,
                        &Causal::top_left(),
                        scratch,
                        out,
                    ),
                }
            },
            || {
                let sizes = Heads { heads, kv_heads, d_k, causal };
                textbook::attention(sizes, black_box(&query), &key, &value, &mut naive);
            },
        );
    }
}
