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
    // 16 registers, 8 pairs: 6 sums, a strip, half a pair for the broadcast value.
    const ROWS: usize = 6;
    const ROWS_OF_ONE: usize = 6;
    const REGISTERS: usize = 8;

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
        select_less(a, b, yes, no) = _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        shift_to_exponent(a) =
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(a)));
    }

    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    fn sums(self, rows: &[Pair; LANES]) -> Pair {
        fold(
            self,
            rows,
            #[inline(always)]
            // SAFETY: `self` is the proof of AVX2.
            |a, b| unsafe { _mm256_add_ps(a, b) },
        )
    }

    #[inline(always)]
    fn maxima(self, rows: &[Pair; LANES]) -> Pair {
        fold(
            self,
            rows,
            #[inline(always)]
            // SAFETY: `self` is the proof of AVX2.
            |a, b| unsafe { _mm256_max_ps(a, b) },
        )
    }

    /// Four blocks of 8 × 8, each in three rounds of eight shuffles.
    #[inline(always)]
    fn transpose(self, rows: [&[f32; LANES]; LANES], to: &mut [[f32; LANES]]) {
        let to = &mut to[..LANES];
        for (top, left) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            // SAFETY: `self` is the proof of AVX2; a block's rows have 8 floats from column `left` or `top` on.
            unsafe {
                let a: [__m256; 8] =
                    array!(8, i => _mm256_loadu_ps(rows[top + i].as_ptr().add(left)));
                let b: [__m256; 8] = array!(8, i => {
                    let (x, y) = (a[i & !1], a[i | 1]);
                    if i % 2 == 0 { _mm256_unpacklo_ps(x, y) } else { _mm256_unpackhi_ps(x, y) }
                });
                let c: [__m256; 8] = array!(8, i => {
                    let first = (i & !3) + (i % 4) / 2;
                    let (x, y) = (_mm256_castps_pd(b[first]), _mm256_castps_pd(b[first + 2]));
                    _mm256_castpd_ps(match i % 2 {
                        0 => _mm256_unpacklo_pd(x, y),
                        _ => _mm256_unpackhi_pd(x, y),
                    })
                });
                for i in 0..8 {
                    let (x, y) = (c[i % 4], c[i % 4 + 4]);
                    let column = match i / 4 {
                        0 => _mm256_permute2f128_ps::<0x20>(x, y),
                        _ => _mm256_permute2f128_ps::<0x31>(x, y),
                    };
                    _mm256_storeu_ps(to[left + i].as_mut_ptr().add(top), column);
                }
            }
        }
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

/// Folds sixteen vectors at once, eight by eight: each round pairs the halves of two, so that half as many are left.
#[inline(always)]
fn fold(_: Avx2, rows: &[Pair; LANES], pair: impl Fn(__m256, __m256) -> __m256) -> Pair {
    // The rounds leave vector PLACE[r] of eight in lane r.
    const PLACE: [usize; 8] = [0, 2, 1, 3, 4, 6, 5, 7];
    // SAFETY: the argument is the proof of AVX2.
    array!(2, half => unsafe {
        let mut a = [rows[0][0]; 8];
        for r in 0..8 {
            let [low, high] = rows[8 * half + r];
            a[PLACE[r]] = pair(low, high);
        }
        let b: [__m256; 4] = array!(4, i => {
                let (x, y) = (a[i], a[i + 4]);
                pair(_mm256_permute2f128_ps::<0x20>(x, y), _mm256_permute2f128_ps::<0x31>(x, y))
            });
        let c: [__m256; 2] = array!(2, i => {
                let (x, y) = (_mm256_castps_pd(b[i]), _mm256_castps_pd(b[i + 2]));
                let (low, high) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
                pair(_mm256_castpd_ps(low), _mm256_castpd_ps(high))
            });
        pair(
            _mm256_shuffle_ps::<0b10_00_10_00>(c[0], c[1]),
            _mm256_shuffle_ps::<0b11_01_11_01>(c[0], c[1]),
        )
    })
}
