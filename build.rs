//! Tells the source what stable `cfg` does not: whether the scalar unit has a fused multiply-add, and whether the
//! target has vectors that `wide` can use.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["fused_arm", "fused_riscv", "portable"] {
        println!("cargo::rustc-check-cfg=cfg({name})");
    }
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let (target, arch, abi) =
        (var("TARGET"), var("CARGO_CFG_TARGET_ARCH"), var("CARGO_CFG_TARGET_ABI"));

    // thumbv7em and thumbv8m.main with hardware floats (VFPv4 or later: the instruction is there).
    if arch == "arm" && target.starts_with("thumb") && abi == "eabihf" {
        println!("cargo::rustc-cfg=fused_arm");
    }
    // riscv32imafc, riscv64gc: the letters behind the width are the extensions.
    let extensions = target.strip_prefix("riscv32").or(target.strip_prefix("riscv64"));
    let extensions = extensions.and_then(|s| s.split('-').next()).unwrap_or("");
    if extensions.contains('f') || extensions.contains('g') {
        println!("cargo::rustc-cfg=fused_riscv");
    }
    // Elsewhere `wide` is plain arrays, which the scalar unit is already.
    let features = var("CARGO_CFG_TARGET_FEATURE");
    let has = |feature: &str| features.split(',').any(|f| f == feature);
    if has("sse2") || has("neon") && arch == "aarch64" || has("simd128") {
        println!("cargo::rustc-cfg=portable");
    }
}
