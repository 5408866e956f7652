//! One small vector trait. A vector has sixteen `f32` lanes on every unit (one register of AVX-512, two of AVX2,
//! four of NEON), so that an algorithm is written once and a lane means the same everywhere.
//!
//! A value of a unit's type is the proof that the processor has it; the operations are methods of that value.
//! Everything here and everything generic over [`Simd`] is `#[inline(always)]`: a function that is not inlined into
//! [`Simd::run`] loses the unit's instructions and turns each operation into a call.

/// An array of `$n` values of an expression of the index. `core::array::from_fn` and `map` are functions that may stay
/// functions, and then lose the unit's instructions.
macro_rules! array {
    ($n:expr, $i:ident => $value:expr) => {{
        let $i = 0;
        let mut array = [$value; $n];
        for $i in 1..$n {
            array[$i] = $value;
        }
        array
    }};
}
pub(crate) use array;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(portable)]
mod portable;
mod rows;
mod scalar;

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub(crate) use neon::Neon;
#[cfg(portable)]
pub(crate) use portable::Portable;
pub(crate) use rows::Rows;
pub(crate) use scalar::Scalar;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) use {avx2::Avx2, avx512::Avx512};

/// Lanes of a vector, and columns of a panel strip.
pub const LANES: usize = 16;

/// An algorithm: its inputs as fields, its text in one generic [`Kernel::run`].
pub(crate) trait Kernel {
    type Output;
    /// Always `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// A vector unit.
pub(crate) trait Simd: Copy {
    /// Sixteen `f32`.
    type F32: Copy;

    /// Whether `mul_add` rounds once.
    const FUSED: bool;
    /// Most rows of a product tile.
    const ROWS: usize;
    /// Most rows of a product tile one strip wide.
    const ROWS_OF_ONE: usize;
    /// Vectors that fit the registers.
    const REGISTERS: usize;

    /// Runs `kernel` in a function of its own, compiled for this unit.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, x: f32) -> Self::F32;
    fn load(self, from: &[f32; LANES]) -> Self::F32;
    fn store(self, v: Self::F32, to: &mut [f32; LANES]);

    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn sqrt(self, a: Self::F32) -> Self::F32;
    /// a · b + c: one rounding in the fused class, two in the unfused.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The larger; where one is NaN, either of the two; where both are zeros, either zero.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `yes` where a < b, else `no` (where one is NaN, too).
    fn select_less(self, a: Self::F32, b: Self::F32, yes: Self::F32, no: Self::F32) -> Self::F32;
    /// The bits of each lane shifted left by 23: the integer at the low end becomes the exponent.
    fn shift_to_exponent(self, a: Self::F32) -> Self::F32;

    /// Asks for a cache line that will be read soon; any address is fine.
    #[inline(always)]
    fn prefetch(self, _: *const f32) {}

    /// Loads up to sixteen values; the lanes beyond are 0.
    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::F32 {
        let mut lanes = [0.0; LANES];
        for (lane, &x) in lanes.iter_mut().zip(from) {
            *lane = x;
        }
        self.load(&lanes)
    }

    /// Stores the first `to.len()` lanes, at most sixteen.
    #[inline(always)]
    fn store_part(self, v: Self::F32, to: &mut [f32]) {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        for (x, &lane) in to.iter_mut().zip(&lanes) {
            *x = lane;
        }
    }

    /// `to[i] = f(from[i])`, sixteen at a time.
    #[inline(always)]
    fn map(self, from: &[f32], to: &mut [f32], f: impl Fn(Self::F32) -> Self::F32) {
        let (vectors, rest) = from.as_chunks();
        let (to_vectors, to_rest) = to.as_chunks_mut();
        for (from, to) in vectors.iter().zip(to_vectors) {
            self.store(f(self.load(from)), to);
        }
        if !to_rest.is_empty() {
            self.store_part(f(self.load_part(rest)), to_rest);
        }
    }

    /// `values[i] = f(values[i])`, sixteen at a time.
    #[inline(always)]
    fn update(self, values: &mut [f32], f: impl Fn(Self::F32) -> Self::F32) {
        let (vectors, rest) = values.as_chunks_mut();
        for v in vectors {
            self.store(f(self.load(v)), v);
        }
        if !rest.is_empty() {
            self.store_part(f(self.load_part(rest)), rest);
        }
    }

    /// `to[i] = f(from[i], to[i])`, sixteen at a time.
    #[inline(always)]
    fn combine(self, from: &[f32], to: &mut [f32], f: impl Fn(Self::F32, Self::F32) -> Self::F32) {
        let (vectors, rest) = from.as_chunks();
        let (to_vectors, to_rest) = to.as_chunks_mut();
        for (from, to) in vectors.iter().zip(to_vectors) {
            self.store(f(self.load(from), self.load(to)), to);
        }
        if !to_rest.is_empty() {
            self.store_part(f(self.load_part(rest), self.load_part(to_rest)), to_rest);
        }
    }

    /// Folds the lanes of each vector by one tree: lane i with i + 8, then i + 4, i + 2, i + 1. Lane r of the result is
    /// the sum of vector r.
    #[inline(always)]
    fn sums(self, rows: &[Self::F32; LANES]) -> Self::F32 {
        fold(
            self,
            rows,
            #[inline(always)]
            |a, b| a + b,
        )
    }

    /// The largest lane of each vector, by the same tree; where one is NaN, anything.
    #[inline(always)]
    fn maxima(self, rows: &[Self::F32; LANES]) -> Self::F32 {
        fold(
            self,
            rows,
            #[inline(always)]
            |a, b| if a > b { a } else { b },
        )
    }

    /// [`Simd::sums`] of one vector.
    #[inline(always)]
    fn sum(self, v: Self::F32) -> f32 {
        fold_one(
            self,
            v,
            #[inline(always)]
            |a, b| a + b,
        )
    }

    /// [`Simd::maxima`] of one vector.
    #[inline(always)]
    fn largest(self, v: Self::F32) -> f32 {
        fold_one(
            self,
            v,
            #[inline(always)]
            |a, b| if a > b { a } else { b },
        )
    }

    /// Transposes 16 rows of 16 into the first 16 of `to`.
    #[inline(always)]
    fn transpose(self, rows: [&[f32; LANES]; LANES], to: &mut [[f32; LANES]]) {
        for (r, row) in rows.into_iter().enumerate() {
            for (column, &x) in to.iter_mut().zip(row) {
                column[r] = x;
            }
        }
    }
}

#[inline(always)]
fn fold<S: Simd>(simd: S, rows: &[S::F32; LANES], pair: impl Fn(f32, f32) -> f32) -> S::F32 {
    simd.load(&array!(LANES, r => fold_one(simd, rows[r], &pair)))
}

#[inline(always)]
fn fold_one<S: Simd>(simd: S, v: S::F32, pair: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    simd.store(v, &mut lanes);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = pair(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}
