//! Sixteen plain floats, one after the other.

use super::{Kernel, LANES, Simd};

/// Exists everywhere.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

type Array = [f32; LANES];

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Array),*) -> Array {
            array!(LANES, i => { $(let $arg = $arg[i];)* $body })
        }
    )*};
}

impl Simd for Scalar {
    type F32 = Array;
    const FUSED: bool = cfg!(any(fused_arm, fused_riscv, target_arch = "aarch64"));
    const ROWS: usize = 1;
    const ROWS_OF_ONE: usize = 1;
    const REGISTERS: usize = 1;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline(never)]
        fn with_features<K: Kernel>(simd: Scalar, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        with_features(self, kernel)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Array {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, from: &Array) -> Array {
        *from
    }

    #[inline(always)]
    fn store(self, v: Array, to: &mut Array) {
        *to = v;
    }

    operations! {
        add(a, b) = a + b;
        sub(a, b) = a - b;
        mul(a, b) = a * b;
        div(a, b) = a / b;
        sqrt(a) = libm::sqrtf(a);
        mul_add(a, b, c) = mul_add(a, b, c);
        max(a, b) = if a > b { a } else { b };
        select_less(a, b, yes, no) = if a < b { yes } else { no };
        shift_to_exponent(a) = f32::from_bits(a.to_bits() << 23);
    }
}

/// Cortex-M4F and M7: stable Rust has no operands for the float registers, so the values travel through core registers.
#[cfg(fused_arm)]
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    let mut sum = c.to_bits();
    // SAFETY: the target has the FPU; only registers named here are touched.
    unsafe {
        core::arch::asm!(
            "vmov s0, {a}", "vmov s1, {b}", "vmov s2, {sum}", "vfma.f32 s2, s0, s1", "vmov {sum}, s2",
            a = in(reg) a.to_bits(), b = in(reg) b.to_bits(), sum = inout(reg) sum,
            out("s0") _, out("s1") _, out("s2") _,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    f32::from_bits(sum)
}

/// RISC-V with the F extension.
#[cfg(fused_riscv)]
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    let sum: f32;
    // SAFETY: the target has the F extension; only registers named here are touched.
    unsafe {
        core::arch::asm!(
            "fmadd.s {sum}, {a}, {b}, {c}",
            sum = out(freg) sum, a = in(freg) a, b = in(freg) b, c = in(freg) c,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// AArch64.
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    let sum: f32;
    // SAFETY: the target has the instruction; only registers named here are touched.
    unsafe {
        core::arch::asm!(
            "fmadd {sum:s}, {a:s}, {b:s}, {c:s}",
            sum = out(vreg) sum, a = in(vreg) a, b = in(vreg) b, c = in(vreg) c,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// No fused instruction that the build may count on: two roundings.
#[cfg(not(any(fused_arm, fused_riscv, all(target_arch = "aarch64", target_feature = "neon"))))]
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    a * b + c
}
