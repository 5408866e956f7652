//! What a call works in is as large as promised, and a static can hold it.

use dhyan::{KvCache, Workspace};

/// 2 · N · D_KV + N · D_MODEL + 16 · (N + 2 · D_MODEL) floats, and a cache line for lengths and alignment each for the
/// workspace and the cache in it.
fn check<const N: usize, const D_MODEL: usize, const D_KV: usize>() {
    let floats = 2 * N * D_KV + N * D_MODEL + 16 * (N + 2 * D_MODEL);
    let found = size_of::<Workspace<N, D_MODEL, D_KV>>();
    assert!(found <= 4 * floats + 2 * 64, "{N} {D_MODEL} {D_KV}: {found} bytes");
}

#[test]
fn workspaces() {
    check::<1, 1, 1>();
    check::<17, 32, 32>();
    check::<17, 32, 0>();
    check::<1000, 520, 130>();
}

#[test]
fn statics() {
    static mut WORKSPACE: Workspace<17, 32> = Workspace::new();
    static CACHE: KvCache<17, 32> = KvCache::new();
    assert!(CACHE.is_empty());
    assert_eq!((&raw const WORKSPACE).addr() % 64, 0);
}
