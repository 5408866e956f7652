//! AVX-512F: one register of sixteen lanes.

use super::{Kernel, LANES, Simd};
use core::arch::x86_64::*;

cpufeatures::new!(detected, "avx512f");

/// Exists only where AVX-512F was found.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn new() -> Option<Self> {
        detected::get().then_some(Self(()))
    }
}

macro_rules! operations {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $out {
            // SAFETY: `self` is the proof of AVX-512F; loads and stores stay in their arrays.
            unsafe { $body }
        }
    )*};
}

impl Simd for Avx512 {
    type F32 = __m512;
    const FUSED: bool = true;
    // 32 registers: 24 sums, 2 of the panel, the rest for the broadcast values.
    const ROWS: usize = 12;
    const SUMS: usize = 24;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f")]
        fn with_features<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` is the proof of AVX-512F.
        unsafe { with_features(self, kernel) }
    }

    operations! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        load(from: &[f32; LANES]) -> __m512 = _mm512_loadu_ps(from.as_ptr());
        store(v: __m512, to: &mut [f32; LANES]) -> () = _mm512_storeu_ps(to.as_mut_ptr(), v);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        sqrt(a: __m512) -> __m512 = _mm512_sqrt_ps(a);
        mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        abs(a: __m512) -> __m512 = _mm512_abs_ps(a);
        select_less(a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 =
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes);
        shift_to_exponent(a: __m512) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(a)));
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> __m512 {
        // SAFETY: `self` is the proof of AVX-512F; lanes beyond the slice are masked off.
        unsafe { _mm512_maskz_loadu_ps(mask(from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn store_part(self, v: __m512, to: &mut [f32]) {
        // SAFETY: `self` is the proof of AVX-512F; lanes beyond the slice are masked off.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask(to.len()), v) }
    }
}

/// The first `n` lanes, at most all.
#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    ((1u32 << n.min(LANES)) - 1) as __mmask16
}
