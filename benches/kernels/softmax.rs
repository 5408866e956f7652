//! Softmax of each row of `[rows][columns]`.

use crate::inputs::random;
use crate::{Group, compare, textbook};
use dhyan::kernels::softmax;

/// Rows, columns.
const SHAPES: [[usize; 2]; 4] = [[1, 10], [64, 64], [16, 1000], [16, 4096]];

pub fn bench(group: &mut Group<'_>) {
    for [rows, columns] in SHAPES {
        let scores = random(1, rows * columns, 5.0);
        let (mut weights, mut naive) = (scores.clone(), scores.clone());
        compare(
            group,
            &format!("{rows}x{columns}"),
            rows * columns, // Not operations: elements.
            |isa| {
                weights.copy_from_slice(&scores);
                softmax(isa, &mut weights, columns)
            },
            || {
                naive.copy_from_slice(&scores);
                naive.chunks_mut(columns).for_each(textbook::softmax);
            },
        );
    }
}
