//! What the build's own target offers, by `wide`: SSE2 on x86-64, simd128 on wasm when it is enabled, NEON on AArch64.
//! Two halves of eight lanes.

use super::{Kernel, LANES, Simd};
use wide::{f32x8, u32x8};

/// Exists everywhere.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// Lanes 0..8 and 8..16.
type Pair = [f32x8; 2];

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Pair),*) -> Pair {
            [{ $(let $arg = $arg[0];)* $body }, { $(let $arg = $arg[1];)* $body }]
        }
    )*};
}

impl Simd for Portable {
    type F32 = Pair;
    const FUSED: bool =
        cfg!(any(target_arch = "aarch64", all(target_feature = "avx", target_feature = "fma")));
    // 16 registers of four lanes: 2 sums, a strip, the broadcast value.
    const ROWS: usize = 2;
    const ROWS_OF_ONE: usize = 2;
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline(never)]
        fn with_features<K: Kernel>(simd: Portable, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        with_features(self, kernel)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        [f32x8::splat(x); 2]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Pair {
        bytemuck::cast(*from)
    }

    #[inline(always)]
    fn store(self, v: Pair, to: &mut [f32; LANES]) {
        *to = bytemuck::cast(v);
    }

    operations! {
        add(a, b) = a + b;
        sub(a, b) = a - b;
        mul(a, b) = a * b;
        div(a, b) = a / b;
        sqrt(a) = a.sqrt();
        mul_add(a, b, c) = a.mul_add(b, c);
        max(a, b) = a.fast_max(b);
        select_less(a, b, yes, no) = a.simd_lt(b).bitselect(yes, no);
        shift_to_exponent(a) = bytemuck::cast(bytemuck::cast::<f32x8, u32x8>(a) << 23);
    }
}
