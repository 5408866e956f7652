//! AVX2 with fused multiply-add: two registers of eight lanes.

use super::{Kernel, LANES, Simd};
use core::arch::x86_64::*;

cpufeatures::new!(detected, "avx2", "fma");

/// Exists only where AVX2 and FMA were found.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn new() -> Option<Self> {
        detected::get().then_some(Self(()))
    }
}

/// Lanes 0..8 and 8..16.
type Pair = [__m256; 2];

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Pair),*) -> Pair {
            // SAFETY: `self` is the proof of AVX2 and FMA.
            unsafe { [{ $(let $arg = $arg[0];)* $body }, { $(let $arg = $arg[1];)* $body }] }
        }
    )*};
}

impl Simd for Avx2 {
    type F32 = Pair;
    const FUSED: bool = true;
    // 16 registers: 12 for 6 sums, 2 of the panel, 1 broadcast value.
    const ROWS: usize = 6;
    const SUMS: usize = 6;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn with_features<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` is the proof of AVX2 and FMA.
        unsafe { with_features(self, kernel) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        // SAFETY: `self` is the proof of AVX2.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Pair {
        // SAFETY: `self` is the proof of AVX2; 16 floats are there.
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn store(self, v: Pair, to: &mut [f32; LANES]) {
        // SAFETY: `self` is the proof of AVX2; 16 floats are there.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), v[1]);
        }
    }

    operations! {
        add(a, b) = _mm256_add_ps(a, b);
        sub(a, b) = _mm256_sub_ps(a, b);
        mul(a, b) = _mm256_mul_ps(a, b);
        div(a, b) = _mm256_div_ps(a, b);
        sqrt(a) = _mm256_sqrt_ps(a);
        mul_add(a, b, c) = _mm256_fmadd_ps(a, b, c);
        max(a, b) = _mm256_max_ps(a, b);
        abs(a) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        select_less(a, b, yes, no) = _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        shift_to_exponent(a) =
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(a)));
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Pair {
        let [low, high] = masks(self, from.len());
        // SAFETY: `self` is the proof of AVX2; lanes beyond the slice are masked off.
        unsafe {
            let beyond = from.as_ptr().wrapping_add(8);
            [_mm256_maskload_ps(from.as_ptr(), low), _mm256_maskload_ps(beyond, high)]
        }
    }

    #[inline(always)]
    fn store_part(self, v: Pair, to: &mut [f32]) {
        let [low, high] = masks(self, to.len());
        // SAFETY: `self` is the proof of AVX2; lanes beyond the slice are masked off.
        unsafe {
            let start = to.as_mut_ptr();
            _mm256_maskstore_ps(start, low, v[0]);
            _mm256_maskstore_ps(start.wrapping_add(8), high, v[1]);
        }
    }
}

/// The first `n` lanes, as the sign bits of two registers.
#[inline(always)]
fn masks(_: Avx2, n: usize) -> [__m256i; 2] {
    // SAFETY: the argument is the proof of AVX2.
    unsafe {
        let n = _mm256_set1_epi32(n.min(LANES) as i32);
        [
            _mm256_cmpgt_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(n, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
        ]
    }
}
