//! Test data from integer arithmetic alone: the same bits on every machine. No std and no heap.

/// SplitMix64 (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators").
#[derive(Clone)]
pub struct Random(pub u64);

/// What kind of numbers a test is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Between -1 and 1, multiples of 2^-23.
    Ordinary,
    /// Pairs of products that nearly cancel, so that a result is mostly rounding errors: fused and unfused differ in
    /// nearly all of them.
    Cancelling,
    /// Any magnitude from 2^-24 to 2^6.
    Wide,
}

pub const MODES: [Mode; 3] = [Mode::Ordinary, Mode::Cancelling, Mode::Wide];

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.bits() >> 32) % n as u64) as usize
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as i32 as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn value(&mut self, mode: Mode) -> f32 {
        let unit = self.unit();
        match mode {
            Mode::Wide => unit * power_of_two(self.below(31) as i32 - 24),
            _ => unit,
        }
    }

    /// The left side of a product, `[rows][inner]`.
    pub fn fill_left(&mut self, mode: Mode, inner: usize, left: &mut [f32]) {
        left.fill_with(|| self.value(mode));
        if mode == Mode::Cancelling {
            for row in left.chunks_exact_mut(inner.max(1)) {
                for pair in row.chunks_exact_mut(2) {
                    pair[1] = -pair[0];
                }
            }
        }
    }

    /// The right side of a product, `[inner][columns]`.
    pub fn fill_right(&mut self, mode: Mode, columns: usize, right: &mut [f32]) {
        right.fill_with(|| self.value(mode));
        if mode == Mode::Cancelling {
            for pair in right.chunks_exact_mut((2 * columns).max(1)) {
                let (even, odd) = pair.split_at_mut(columns);
                for (even, odd) in even.iter().zip(odd) {
                    *odd = even + even * *odd / 4096.0;
                }
            }
        }
    }
}

/// 2^n of a normal number.
pub fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}
