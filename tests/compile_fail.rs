//! Layers that the compiler must refuse, and the words it must say.
//!
//! A scratch package with one binary per case is built once; what a generic function asserts is found only when code is
//! made of it, so `cargo check` would not do.
#![cfg(not(any(target_family = "wasm", miri)))]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Name, code in `main`, and the message; without one it must build.
const CASES: &[(&str, &str, Option<&str>)] = &[
    ("good", "let _ = MultiHeadAttention::<12, 4, 6>::ZERO;", None),
    (
        "heads_do_not_divide",
        "let _ = MultiHeadAttention::<10, 3>::ZERO;",
        Some("D_MODEL must be a multiple of H: d_k = d_model / h"),
    ),
    (
        "kv_width_is_no_multiple",
        "let _ = MultiHeadAttention::<12, 4, 7>::ZERO;",
        Some("D_KV must be a multiple of d_k = D_MODEL / H"),
    ),
    (
        "groups_are_not_equal",
        "let _ = MultiHeadAttention::<12, 4, 9>::ZERO;",
        Some("H must be a multiple of the kv heads, D_KV / d_k"),
    ),
    (
        "more_kv_heads_than_heads",
        "let _ = MultiHeadAttention::<12, 4, 24>::ZERO;",
        Some("H must be a multiple of the kv heads, D_KV / d_k"),
    ),
    ("no_width", "let _ = MultiHeadAttention::<0, 1>::D_K;", Some("D_MODEL must not be 0")),
    ("no_heads", "let _ = MultiHeadAttention::<4, 0>::D_K;", Some("H must not be 0")),
    ("no_kv_width", "let _ = MultiHeadAttention::<4, 2, 0>::H_KV;", Some("D_KV must not be 0")),
    (
        "no_source_width",
        "let _ = MultiHeadAttention::<4, 2, 4, 0>::H_KV;",
        Some("D_SOURCE must not be 0"),
    ),
    (
        "parameters",
        "let _ = MultiHeadAttention::<10, 3>::PARAMETERS;",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "new",
        "let _ = MultiHeadAttention::<10, 3>::new(Linear::ZERO, Linear::ZERO, Linear::ZERO, Linear::ZERO);",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "boxed",
        "let _ = MultiHeadAttention::<10, 3>::boxed();",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "heads_of_another_width",
        "let (q, o) = ([[[0.0; 3]; 4]; 2], [[0.0; 4]; 4]);
         let _ = MultiHeadAttention::<4, 2>::from_heads(&q, &q, &q, &o);",
        Some("the heads must be d_k = D_MODEL / H wide"),
    ),
    (
        "another_count_of_kv_heads",
        "let (q, k, o) = ([[[0.0; 2]; 4]; 2], [[[0.0; 2]; 4]; 1], [[0.0; 4]; 4]);
         let _ = MultiHeadAttention::<4, 2>::from_heads(&q, &k, &k, &o);",
        Some("there must be D_KV / d_k kv heads"),
    ),
    (
        "self_attention_of_bytes",
        "let layer: &MultiHeadAttention<10, 3> = from_bytes(&[]).unwrap();
         let _ = layer.self_attention(&[], &NoMask, &mut Workspace::<1, 10>::new(), &mut []);",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "weights_of_bytes",
        "let layer: &MultiHeadAttention<10, 3> = from_bytes(&[]).unwrap();
         let (mut workspace, weights) = (Workspace::<1, 10>::new(), Weights::Mean(&mut []));
         let _ = layer.attention_weights(&[], &[], &NoMask, &mut workspace, weights);",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "append_of_bytes",
        "let layer: &MultiHeadAttention<10, 3> = from_bytes(&[]).unwrap();
         let _ = layer.append(&[], &mut KvCache::<1, 10>::new(), &mut Workspace::<1, 10>::new());",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "attend_of_bytes",
        "let layer: &MultiHeadAttention<10, 3> = from_bytes(&[]).unwrap();
         let (cache, mut workspace) = (KvCache::<1, 10>::new(), Workspace::<1, 10>::new());
         let _ = layer.attend(&[], &cache, &NoMask, &mut workspace, &mut []);",
        Some("D_MODEL must be a multiple of H"),
    ),
    (
        "a_workspace_of_another_width",
        "let _ = MultiHeadAttention::<4, 2>::ZERO
             .self_attention(&[], &NoMask, &mut Workspace::<1, 5>::new(), &mut []);",
        Some("mismatched types"),
    ),
];

#[test]
fn messages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let binaries = package.join("src/bin");
    let _ = fs::remove_dir_all(&binaries);
    fs::create_dir_all(&binaries).unwrap();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"refused\"\nedition = \"2024\"\n[dependencies]\ndhyan = {{ path = {root:?} }}\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let lock = root.join("Cargo.lock");
    if lock.exists() {
        fs::copy(lock, package.join("Cargo.lock")).unwrap();
    }
    for (name, code, _) in CASES {
        let code = format!("#[allow(unused_imports)]\nuse dhyan::*;\nfn main() {{\n{code}\n}}\n");
        fs::write(binaries.join(format!("{name}.rs")), code).unwrap();
    }
    let cargo = env::var("CARGO").unwrap_or("cargo".into());
    let build = Command::new(&cargo)
        .args([
            "build",
            "--bins",
            "--keep-going",
            "--offline",
            "--message-format",
            "json",
            "--target-dir",
        ])
        .arg(package.join("target"))
        .current_dir(&package)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .output();
    let Ok(build) = build else {
        let _ = writeln!(std::io::stderr(), "SKIPPED compile_fail: {cargo} cannot be run here");
        return;
    };
    let messages = String::from_utf8_lossy(&build.stdout);
    let errors = String::from_utf8_lossy(&build.stderr);
    for (name, _, expected) in CASES {
        // One line of JSON per message; the target's name is in it.
        let own = messages.lines().filter(|line| line.contains(&format!("\"name\":\"{name}\"")));
        let (refused, built): (Vec<_>, Vec<_>) =
            own.partition(|line| line.contains("\"level\":\"error\""));
        match expected {
            Some(message) => {
                let said = refused.iter().any(|line| line.contains(message));
                assert!(said, "{name}: {message:?} was not said\n{refused:#?}\n{errors}");
            }
            None => assert!(
                refused.is_empty() && built.iter().any(|line| line.contains("\"executable\":\"")),
                "{name} was refused\n{refused:#?}\n{errors}"
            ),
        }
    }
}
