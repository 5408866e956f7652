//! `[m][k] × [k][n] → [m][n]`.

use crate::inputs::random;
use crate::{Group, compare, textbook};
use dhyan::kernels::{Panels, pack, product};
use std::hint::black_box;

/// m, k, n.
const SHAPES: [[usize; 3]; 5] =
    [[1, 512, 512], [10, 512, 512], [37, 60, 60], [128, 384, 384], [256, 256, 256]];

pub fn bench(group: &mut Group<'_>) {
    for [m, k, n] in SHAPES {
        let (left, right) = (random(1, m * k, 1.0), random(2, k * n, 1.0));
        let (mut panels, mut out, mut naive) =
            (vec![0.0; k * n], vec![0.0; m * n], vec![0.0; m * n]);
        pack(&right, k, n, &mut panels).expect("panels of that size");
        compare(
            group,
            &format!("{m}x{k}x{n}"),
            2 * m * k * n,
            |isa| {
                product(
                    isa,
                    black_box(&left),
                    Panels::new(black_box(&panels), k, n)?,
                    None,
                    &mut out,
                )
            },
            || textbook::product(black_box(&left), black_box(&right), n, &mut naive),
        );
    }
}
