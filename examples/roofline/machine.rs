//! What the core can do: multiply-adds out of registers, and plain reads. Two loops, compiled for each unit.

use crate::measure::best_time;
use dhyan::Isa;
use std::hint::black_box;

/// One unit, and the two loops compiled for it.
pub struct Unit {
    pub isa: Isa,
    multiply_add: fn(usize),
    read: fn(&[f32]),
    /// Floating-point operations of one turn of `multiply_add`.
    flops: usize,
}

impl Unit {
    /// GFLOP/s.
    pub fn peak(&self) -> f64 {
        const TURNS: usize = 1000;
        (self.flops * TURNS) as f64 / best_time(1e6, || (self.multiply_add)(TURNS))
    }

    /// Nanoseconds of a plain read of `data`, wherever it stands after having been read before.
    pub fn read_time(&self, data: &[f32], budget: f64) -> f64 {
        best_time(budget, || (self.read)(black_box(data)))
    }
}

/// `N` independent chains of multiply-adds, enough of them to hide the latency of each.
#[inline(always)]
fn chains<V: Copy, const N: usize>(turns: usize, start: V, step: impl Fn(V) -> V) {
    let mut sums = black_box([start; N]);
    for _ in 0..turns {
        for sum in &mut sums {
            *sum = step(*sum);
        }
    }
    black_box(sums);
}

/// Sums of all values, in `N` chains.
#[inline(always)]
fn sums<const N: usize>(data: &[f32]) {
    let mut sums = [0.0; N];
    for chunk in data.as_chunks::<N>().0 {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x;
        }
    }
    black_box(sums);
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! unit {
    ($isa:ident, $features:literal, $chains:literal chains of $lanes:literal, $start:expr, $step:expr) => {{
        #[target_feature(enable = $features)]
        fn multiply_add(turns: usize) {
            chains::<_, $chains>(turns, $start(0.5), |sum| $step(sum, $start(0.5), $start(0.5)));
        }
        #[target_feature(enable = $features)]
        fn read(data: &[f32]) {
            sums::<{ 8 * $lanes }>(data)
        }
        Unit {
            $isa,
            // SAFETY: an `Isa` of that name is the proof that the processor has the features.
            multiply_add: |turns| unsafe { multiply_add(turns) },
            // SAFETY: as above.
            read: |data| unsafe { read(data) },
            flops: 2 * $chains * $lanes,
        }
    }};
}

/// The loops of a unit; portable and scalar code are what the compiler makes of plain ones.
pub fn unit(isa: Isa) -> Unit {
    #[cfg(target_arch = "aarch64")]
    use core::arch::aarch64::*;
    #[cfg(target_arch = "x86_64")]
    use core::arch::x86_64::*;
    match isa.name() {
        #[cfg(target_arch = "x86_64")]
        "avx512" => unit!(isa, "avx512f", 24 chains of 16, _mm512_set1_ps, _mm512_fmadd_ps),
        #[cfg(target_arch = "x86_64")]
        "avx2" => unit!(isa, "avx2,fma", 12 chains of 8, _mm256_set1_ps, _mm256_fmadd_ps),
        #[cfg(target_arch = "aarch64")]
        "neon" => unit!(isa, "neon", 24 chains of 4, vdupq_n_f32, vfmaq_f32),
        _ => Unit {
            isa,
            multiply_add: |turns| chains::<_, 14>(turns, [0.5; 4], |sum| sum.map(mul_add)),
            read: sums::<32>,
            flops: 2 * 14 * 4,
        },
    }
}

/// Fused where the build may count on the instruction.
#[inline(always)]
fn mul_add(x: f32) -> f32 {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
        x.mul_add(0.5, 0.5)
    } else {
        x * 0.5 + 0.5
    }
}
