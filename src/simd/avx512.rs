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
    // 32 registers: at most 24 sums, two steps of two strips, a broadcast value.
    const ROWS: usize = 12;
    const ROWS_OF_ONE: usize = 16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline(never)]
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
        select_less(a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 =
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, b), yes, no);
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
    fn sums(self, rows: &[__m512; LANES]) -> __m512 {
        fold(
            self,
            rows,
            #[inline(always)]
            |a, b| self.add(a, b),
        )
    }

    #[inline(always)]
    fn maxima(self, rows: &[__m512; LANES]) -> __m512 {
        fold(
            self,
            rows,
            #[inline(always)]
            |a, b| self.max(a, b),
        )
    }

    /// Four rounds of sixteen shuffles: pairs of lanes, then of doubles, then of quarters.
    #[inline(always)]
    fn transpose(self, rows: [&[f32; LANES]; LANES], to: &mut [[f32; LANES]]) {
        let to = &mut to[..LANES];
        // SAFETY: `self` is the proof of AVX-512F; loads and stores stay in their arrays.
        unsafe {
            let a: [__m512; 16] = array!(16, i => self.load(rows[i]));
            // Of rows 2 i, 2 i + 1 (of each quarter): the low, then the high two lanes, interleaved.
            let b: [__m512; 16] = array!(16, i => {
                let (x, y) = (a[i & !1], a[i | 1]);
                if i % 2 == 0 { _mm512_unpacklo_ps(x, y) } else { _mm512_unpackhi_ps(x, y) }
            });
            // Of four rows: lane i % 4 of each quarter.
            let c: [__m512; 16] = array!(16, i => {
                let first = (i & !3) + (i % 4) / 2;
                let (x, y) = (_mm512_castps_pd(b[first]), _mm512_castps_pd(b[first + 2]));
                _mm512_castpd_ps(match i % 2 {
                    0 => _mm512_unpacklo_pd(x, y),
                    _ => _mm512_unpackhi_pd(x, y),
                })
            });
            // Quarters 0 and 2 (or 1 and 3) of rows 0..8 and of rows 8..16.
            let d: [__m512; 16] = array!(16, i => {
                let first = (i & 8) + i % 4;
                let (x, y) = (c[first], c[first + 4]);
                match i & 4 {
                    0 => _mm512_shuffle_f32x4::<0b10_00_10_00>(x, y),
                    _ => _mm512_shuffle_f32x4::<0b11_01_11_01>(x, y),
                }
            });
            for (i, to) in to.iter_mut().enumerate() {
                let (x, y) = (d[i % 8], d[i % 8 + 8]);
                let column = match i & 8 {
                    0 => _mm512_shuffle_f32x4::<0b10_00_10_00>(x, y),
                    _ => _mm512_shuffle_f32x4::<0b11_01_11_01>(x, y),
                };
                self.store(column, to);
            }
        }
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

/// Folds sixteen vectors at once: each round pairs the halves of two vectors, so that half as many are left.
#[inline(always)]
fn fold(_: Avx512, rows: &[__m512; LANES], pair: impl Fn(__m512, __m512) -> __m512) -> __m512 {
    // The rounds leave vector PLACE[r] in lane r.
    const PLACE: [usize; LANES] = [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15];
    let mut placed = *rows;
    for r in 0..LANES {
        placed[PLACE[r]] = rows[r];
    }
    // SAFETY: the argument is the proof of AVX-512F.
    unsafe {
        let a: [__m512; 8] = array!(8, i => {
            let (x, y) = (placed[i], placed[i + 8]);
            pair(
                _mm512_shuffle_f32x4::<0b01_00_01_00>(x, y),
                _mm512_shuffle_f32x4::<0b11_10_11_10>(x, y),
            )
        });
        let b: [__m512; 4] = array!(4, i => {
            let (x, y) = (a[i], a[i + 4]);
            pair(
                _mm512_shuffle_f32x4::<0b10_00_10_00>(x, y),
                _mm512_shuffle_f32x4::<0b11_01_11_01>(x, y),
            )
        });
        let c: [__m512; 2] = array!(2, i => {
            let (x, y) = (_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2]));
            let (low, high) = (_mm512_unpacklo_pd(x, y), _mm512_unpackhi_pd(x, y));
            pair(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
        });
        pair(
            _mm512_shuffle_ps::<0b10_00_10_00>(c[0], c[1]),
            _mm512_shuffle_ps::<0b11_01_11_01>(c[0], c[1]),
        )
    }
}
