//! The edges of softmax.

use crate::common::{assert_same, units};
use dhyan::{Isa, kernels};

const INF: f32 = f32::INFINITY;

fn softmax(isa: Isa, row: &[f32]) -> Vec<f32> {
    let mut row = row.to_vec();
    let columns = row.len();
    kernels::softmax(isa, &mut row, columns).unwrap();
    row
}

/// Rows, and what they must become to the bit, at the front, in the middle and at the end of a row of 40.
#[test]
fn exact_values() {
    // One logit far above the others takes everything.
    let one_hot: &[f32] = &[0.0, 0.0, 1.0];
    let half: &[f32] = &[0.5, 0.0, 0.5];
    let nan: &[f32] = &[f32::NAN; 3];
    let table: [(&[f32], &[f32]); 16] = [
        (&[0.0], &[1.0]),
        (&[-INF], &[0.0]),
        (&[f32::MAX], &[1.0]),
        (&[f32::MIN], &[1.0]),
        (&[f32::MIN_POSITIVE, -f32::MIN_POSITIVE], &[0.5, 0.5]),
        (&[1e-45, 0.0, -1e-45, -0.0], &[0.25; 4]),
        (&[-INF, -INF, -3.0], one_hot),
        (&[f32::MIN, 0.0, f32::MAX], one_hot),
        (&[0.0, 0.0, 200.0], one_hot),
        (&[f32::MAX, -INF, f32::MAX], half),
        (&[f32::MIN, -INF, f32::MIN], half),
        (&[-1e30, -1e38, -1e30], half),
        (&[1e6, -1e6, 1e6], half),
        (&[0.0, f32::NAN, 1.0], nan),
        (&[-INF, f32::NAN, -INF], nan),
        (&[1.0, INF, -INF], nan),
    ];
    for isa in units() {
        for (row, expected) in table {
            assert_same(format!("{isa:?}, {row:?}"), expected, &softmax(isa, row));
            for before in [0, 1, 15, 16, 17, 40 - row.len()] {
                let mut long = vec![-INF; 40];
                long[before..before + row.len()].copy_from_slice(row);
                let mut long_expected = vec![if expected[0].is_nan() { f32::NAN } else { 0.0 }; 40];
                long_expected[before..before + row.len()].copy_from_slice(expected);
                assert_same(
                    format!("{isa:?}, {row:?} at {before}"),
                    &long_expected,
                    &softmax(isa, &long),
                );
            }
        }
    }
}

/// Equal logits get equal weights, 1 / n where that is a power of two, whatever the logits are.
#[test]
fn equal_logits() {
    for isa in units() {
        for logit in [0.0, -0.0, 1.5, 1e-45, -87.0, 1e6, 3e38, f32::MIN] {
            for n in 1..130 {
                let found = softmax(isa, &vec![logit; n]);
                assert!(
                    found.iter().all(|w| w.to_bits() == found[0].to_bits()),
                    "{isa:?}, {n} times {logit}"
                );
                assert!(
                    (found[0] * n as f32 - 1.0).abs() <= f32::EPSILON,
                    "{isa:?}, {n} times {logit}"
                );
                if n.is_power_of_two() {
                    assert_eq!(found[0], 1.0 / n as f32, "{isa:?}, {n} times {logit}");
                }
            }
        }
    }
}

/// No weight is a denormal number.
#[test]
fn small_weights() {
    for isa in units() {
        for i in 0..2000 {
            let found = softmax(isa, &[0.0, -80.0 - i as f32 / 100.0]);
            assert!(
                found[0] == 1.0 && (found[1] == 0.0 || found[1] >= f32::MIN_POSITIVE),
                "{isa:?}, {found:?}"
            );
        }
    }
}

/// Rows do not know of each other: one NaN row among others.
#[test]
fn rows_are_alone() {
    for isa in units() {
        for columns in [1, 5, 16, 33] {
            let row: Vec<f32> = (0..columns).map(|j| (j * 7 % 5) as f32).collect();
            let alone = softmax(isa, &row);
            let mut rows =
                [&row[..], &vec![f32::NAN; columns], &row, &vec![INF; columns], &row].concat();
            kernels::softmax(isa, &mut rows, columns).unwrap();
            for r in [0, 2, 4] {
                assert_same(format!("{isa:?}, row {r}"), &alone, &rows[r * columns..][..columns]);
            }
        }
    }
}

/// Nothing to do is fine.
#[test]
fn nothing() {
    for isa in units() {
        assert_eq!(kernels::softmax(isa, &mut [], 0), Ok(()));
        assert_eq!(kernels::softmax(isa, &mut [], 7), Ok(()));
    }
}
