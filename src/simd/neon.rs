//! NEON of AArch64, which always has fused multiply-add: four registers of four lanes.

use super::{Kernel, LANES, Simd, array};
use core::arch::aarch64::*;

/// Exists only where NEON was found.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    pub(crate) fn new() -> Option<Self> {
        // The build of this file asks for NEON (see `simd`): every AArch64 system has it.
        Some(Self(()))
    }
}

/// Lanes 0..4, 4..8, 8..12 and 12..16.
type Quad = [float32x4_t; 4];

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Quad),*) -> Quad {
            // SAFETY: `self` is the proof of NEON.
            array!(4, i => unsafe { $(let $arg = $arg[i];)* $body })
        }
    )*};
}

impl Simd for Neon {
    type F32 = Quad;
    const FUSED: bool = true;
    // 32 registers of four lanes, 8 quads: 6 sums, a strip, a quad of left values.
    const ROWS: usize = 6;
    const ROWS_OF_ONE: usize = 6;
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline(never)]
        #[target_feature(enable = "neon")]
        fn with_features<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` is the proof of NEON.
        unsafe { with_features(self, kernel) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Quad {
        // SAFETY: `self` is the proof of NEON.
        unsafe { [vdupq_n_f32(x); 4] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Quad {
        // SAFETY: `self` is the proof of NEON; 16 floats are there.
        array!(4, i => unsafe { vld1q_f32(from.as_ptr().add(4 * i)) })
    }

    #[inline(always)]
    fn store(self, v: Quad, to: &mut [f32; LANES]) {
        for (i, v) in v.into_iter().enumerate() {
            // SAFETY: `self` is the proof of NEON; 16 floats are there.
            unsafe { vst1q_f32(to.as_mut_ptr().add(4 * i), v) }
        }
    }

    operations! {
        add(a, b) = vaddq_f32(a, b);
        sub(a, b) = vsubq_f32(a, b);
        mul(a, b) = vmulq_f32(a, b);
        div(a, b) = vdivq_f32(a, b);
        sqrt(a) = vsqrtq_f32(a);
        mul_add(a, b, c) = vfmaq_f32(c, a, b);
        max(a, b) = vmaxq_f32(a, b);
        select_less(a, b, yes, no) = vbslq_f32(vcltq_f32(a, b), yes, no);
        shift_to_exponent(a) = vreinterpretq_f32_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(a)));
    }
}
