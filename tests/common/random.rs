//! Test data in vectors.

#[path = "../golden/random.rs"]
mod fixed;

pub use fixed::{MODES, Mode, Random, power_of_two};

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bools(&mut self, n: usize, true_of_16: usize) -> Vec<bool> {
        (0..n).map(|_| self.below(16) < true_of_16).collect()
    }

    /// The left side of a product, `[rows][inner]`.
    pub fn left(&mut self, mode: Mode, rows: usize, inner: usize) -> Vec<f32> {
        let mut left = vec![0.0; rows * inner];
        self.fill_left(mode, inner, &mut left);
        left
    }

    /// The right side of a product, `[inner][columns]`.
    pub fn right(&mut self, mode: Mode, inner: usize, columns: usize) -> Vec<f32> {
        let mut right = vec![0.0; inner * columns];
        self.fill_right(mode, columns, &mut right);
        right
    }
}
