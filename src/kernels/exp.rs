//! Powers of two: the exponential of softmax, whose scores are kept in base 2.

use crate::isa::Isa;
use crate::simd::{Kernel, Simd};

/// 2^x for each x ≤ 0, in place: 0 below -126 (so no denormal is ever made), exactly 1 at 0, NaN for NaN.
///
/// At most 0.78 units in the last place off on a fused unit, 1.06 on an unfused one. Above 0 the result is right up to
/// 127 and undefined beyond.
///
/// ```
/// use dhyan::{Isa, kernels::exp2};
/// let mut x = [0.0, -1.0, -0.5, -1000.0];
/// exp2(Isa::detect(), &mut x);
/// assert_eq!(x, [1.0, 0.5, core::f32::consts::FRAC_1_SQRT_2, 0.0]);
/// ```
pub fn exp2(isa: Isa, x: &mut [f32]) {
    isa.run(Exp2 { x });
}

struct Exp2<'a> {
    x: &'a mut [f32],
}

impl Kernel for Exp2<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        simd.update(
            self.x,
            #[inline(always)]
            |x| exp2_of(simd, x),
        );
    }
}

/// 2^x for x ≤ 0, NaN for NaN: 0 below -126 (so no denormal is ever made), exactly 1 at 0.
///
/// x = n + f with n the nearest integer, |f| ≤ 1/2; a polynomial of degree 6 gives 2^f, n goes to the exponent.
#[inline(always)]
pub(crate) fn exp2_of<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    // Minimax over [-1/2, 1/2] with the constant term 1, coefficients rounded to f32 one after the other: over all
    // floats from -126 to 0 at most 0.78 units in the last place off where multiply-add is fused, 1.06 where it is not.
    const C: [f32; 6] =
        [core::f32::consts::LN_2, 0.2402265, 0.055503577, 0.009618592, 0.0013392786, 0.00015255641];
    // 1.5 · 2^23 rounds to an integer; 127 more leaves the biased exponent of 2^n in the low bits.
    const ROUND: f32 = 12_582_912.0 + 127.0;
    let rounded = simd.add(x, simd.splat(ROUND));
    let f = simd.sub(x, simd.sub(rounded, simd.splat(ROUND)));
    let mut p = simd.splat(C[5]);
    for c in [C[4], C[3], C[2], C[1], C[0], 1.0] {
        p = simd.mul_add(p, f, simd.splat(c));
    }
    let power = simd.mul(p, simd.shift_to_exponent(rounded));
    simd.select_less(x, simd.splat(-126.0), simd.splat(0.0), power)
}
