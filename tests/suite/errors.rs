//! Each error as a value, with everything as it was before the call.

use crate::common::{Random, assert_same};
use dhyan::kernels::{Panels, layer_norm, pack, product, softmax};
use dhyan::{Causal, Error, Hide, Isa, Keep, KvCache, Linear, MultiHeadAttention, NoMask};
use dhyan::{Weights, Workspace, from_bytes, to_bytes};

fn length(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    Err(Error::Length { what, expected, found })
}

fn capacity(what: &'static str, capacity: usize, needed: usize) -> Result<(), Error> {
    Err(Error::Capacity { what, capacity, needed })
}

type Layer = MultiHeadAttention<6, 3, 2, 4>;

/// A layer, and a cache of 8 with 5 tokens in it.
struct Fixture {
    layer: Layer,
    cache: KvCache<8, 2>,
    /// The outputs of two queries over the cache.
    before: Vec<f32>,
}

const X: [[f32; 6]; 2] = [[1.0, -2.0, 3.0, 0.5, 0.0, 1.0], [0.0, 1.0, 1.0, -1.0, 2.0, 0.25]];

impl Fixture {
    fn new() -> Self {
        let random = &mut Random::new(1);
        let mut weights = |n: usize| -> Vec<f32> { (0..n).map(|_| random.unit()).collect() };
        let mut layer = Layer::ZERO;
        layer.query.load(&weights(36)).unwrap();
        layer.key.load(&weights(8)).unwrap();
        layer.value.load(&weights(8)).unwrap();
        layer.output.load(&weights(36)).unwrap();
        let mut cache = KvCache::new();
        let source = weights(20);
        let mut workspace = Workspace::<8, 6, 2>::new();
        layer.append(source.as_chunks().0, &mut cache, &mut workspace).unwrap();
        let mut fixture = Self { layer, cache, before: vec![] };
        fixture.before = fixture.outputs();
        fixture
    }

    fn outputs(&self) -> Vec<f32> {
        let mut out = [[0.0; 6]; 2];
        let mut workspace = Workspace::<8, 6, 2>::new();
        self.layer.attend(&X, &self.cache, &NoMask, &mut workspace, &mut out).unwrap();
        out.as_flattened().to_vec()
    }

    fn assert_cache_unchanged(&self) {
        assert_eq!(self.cache.len(), 5);
        assert_same("the cache", &self.before, &self.outputs());
    }
}

/// Calls with an output of `rows` rows of 7.5, which must be 7.5 after an error.
#[track_caller]
fn refused<const D: usize>(
    rows: usize,
    expected: Result<(), Error>,
    call: impl FnOnce(&mut [[f32; D]]) -> Result<(), Error>,
) {
    let mut out = vec![[7.5; D]; rows];
    assert_eq!(call(&mut out), expected);
    assert!(out.as_flattened().iter().all(|&x| x == 7.5), "the output was written");
}

#[test]
fn attention_of_wrong_lengths() {
    let Fixture { layer, .. } = Fixture::new();
    let mut w = Workspace::<4, 6, 2>::new();
    let source = [[1.0; 4]; 3];
    let mask = [true; 7];
    for rows in [0, 1, 3] {
        refused(rows, length("out", 2, rows), |out| {
            layer.cross_attention(&X, &source, &NoMask, &mut w, out)
        });
    }
    refused(2, length("mask", 6, 7), |out| {
        layer.cross_attention(&X, &source, &Keep(&mask), &mut w, out)
    });
    refused(2, length("mask", 6, 7), |out| {
        layer.cross_attention(&X, &source, &Hide(&mask), &mut w, out)
    });
    refused(2, length("mask", 6, 5), |out| {
        layer.cross_attention(&X, &source, &(Causal::top_left(), Hide(&mask[..5])), &mut w, out)
    });
    refused(2, length("mask", 6, 5), |out| {
        layer.cross_attention(&X, &source, &(Hide(&mask[..5]), Causal::top_left()), &mut w, out)
    });
    refused(2, capacity("workspace (source tokens)", 4, 5), |out| {
        layer.cross_attention(&X, &[[1.0; 4]; 5], &NoMask, &mut w, out)
    });
    refused(5, capacity("workspace (tokens)", 4, 5), |out| {
        layer.cross_attention(&[[1.0; 6]; 5], &source, &NoMask, &mut w, out)
    });
    let mut small = Workspace::<1, 2>::new();
    refused(2, capacity("workspace (source tokens)", 1, 2), |out| {
        MultiHeadAttention::<2, 1>::ZERO.self_attention(&[[0.0; 2]; 2], &NoMask, &mut small, out)
    });
}

#[test]
fn weights_of_wrong_lengths() {
    let Fixture { layer, cache, .. } = Fixture::new();
    let mut w = Workspace::<8, 6, 2>::new();
    let source = [[1.0; 4]; 3];
    let mask = [true; 7];
    // [heads][queries][keys] is 3 · 2 · 3, and 3 · 2 · 5 of the cache; the mean has no heads.
    for found in [0, 6, 17, 19] {
        refused::<1>(found, length("weights", 18, found), |to| {
            layer.attention_weights(
                &X,
                &source,
                &NoMask,
                &mut w,
                Weights::PerHead(to.as_flattened_mut()),
            )
        });
        refused::<1>(found, length("weights", 30, found), |to| {
            layer.cached_attention_weights(
                &X,
                &cache,
                &NoMask,
                &mut w,
                Weights::PerHead(to.as_flattened_mut()),
            )
        });
    }
    for found in [0, 5, 18] {
        refused::<1>(found, length("weights", 6, found), |to| {
            layer.attention_weights(
                &X,
                &source,
                &NoMask,
                &mut w,
                Weights::Mean(to.as_flattened_mut()),
            )
        });
        refused::<1>(found, length("weights", 10, found), |to| {
            layer.cached_attention_weights(
                &X,
                &cache,
                &NoMask,
                &mut w,
                Weights::Mean(to.as_flattened_mut()),
            )
        });
    }
    refused::<1>(6, length("mask", 6, 7), |to| {
        layer.attention_weights(
            &X,
            &source,
            &Keep(&mask),
            &mut w,
            Weights::Mean(to.as_flattened_mut()),
        )
    });
    let mut small = Workspace::<2, 6, 2>::new();
    refused::<1>(6, capacity("workspace (source tokens)", 2, 3), |to| {
        layer.attention_weights(
            &X,
            &source,
            &NoMask,
            &mut small,
            Weights::Mean(to.as_flattened_mut()),
        )
    });
    refused::<1>(10, capacity("workspace (cached tokens)", 2, 5), |to| {
        layer.cached_attention_weights(
            &X,
            &cache,
            &NoMask,
            &mut small,
            Weights::Mean(to.as_flattened_mut()),
        )
    });
}

#[test]
fn caches() {
    let mut fixture = Fixture::new();
    let mut w = Workspace::<8, 6, 0>::new();
    for tokens in [4, 9, 100] {
        let appended =
            fixture.layer.append(&vec![[f32::NAN; 4]; tokens], &mut fixture.cache, &mut w);
        assert_eq!(appended, capacity("cache", 3, tokens));
        fixture.assert_cache_unchanged();
    }
    for len in [6, 8, usize::MAX] {
        assert_eq!(fixture.cache.rewind(len), capacity("cached tokens", 5, len));
        fixture.assert_cache_unchanged();
    }
    let Fixture { layer, cache, .. } = &fixture;
    refused(3, length("out", 2, 3), |out| layer.attend(&X, cache, &NoMask, &mut w, out));
    refused(2, length("mask", 10, 3), |out| {
        layer.attend(&X, cache, &Keep(&[true; 3]), &mut w, out)
    });
    refused(9, capacity("workspace (tokens)", 8, 9), |out| {
        layer.attend(&[[1.0; 6]; 9], cache, &NoMask, &mut w, out)
    });
    let mut small = Workspace::<4, 6, 0>::new();
    refused(2, capacity("workspace (cached tokens)", 4, 5), |out| {
        layer.attend(&X, cache, &NoMask, &mut small, out)
    });
    fixture.assert_cache_unchanged();
    // What fits goes on as if nothing had been tried.
    fixture.layer.append(&[[1.0; 4]; 3], &mut fixture.cache, &mut w).unwrap();
    fixture.cache.rewind(5).unwrap();
    fixture.assert_cache_unchanged();
    fixture.cache.rewind(5).unwrap();
    fixture.cache.rewind(0).unwrap();
    assert!(fixture.cache.is_empty());
}

#[test]
fn kernels() {
    let isa = Isa::detect();
    let data = [1.0; 12];
    assert_eq!(Panels::new(&data, 3, 5).map(|_| ()), length("panels", 15, 12));
    assert_eq!(Panels::new(&data, usize::MAX, 2).map(|_| ()), length("panels", usize::MAX, 12));
    let panels = Panels::new(&data, 3, 4).unwrap();
    refused::<1>(4, length("left", 3, 5), |out| {
        product(isa, &data[..5], panels, None, out.as_flattened_mut())
    });
    refused::<1>(7, length("out", 8, 7), |out| {
        product(isa, &data[..6], panels, None, out.as_flattened_mut())
    });
    for bias in [&data[..0], &data[..3], &data[..5]] {
        refused::<1>(8, length("bias", 4, bias.len()), |out| {
            product(isa, &data[..6], panels, Some(bias), out.as_flattened_mut())
        });
    }
    refused::<1>(12, length("matrix", 15, 12), |out| pack(&data, 3, 5, out.as_flattened_mut()));
    refused::<1>(11, length("panels", 12, 11), |out| pack(&data, 3, 4, out.as_flattened_mut()));
    for (x, weight, bias, y, expected) in [
        (8, 4, 3, 8, length("bias", 4, 3)),
        (8, 4, 4, 7, length("y", 8, 7)),
        (9, 4, 4, 9, length("x", 8, 9)),
        (9, 0, 0, 9, length("x", 0, 9)),
    ] {
        let (x, weight, bias) = (&data[..x], &data[..weight], &data[..bias]);
        refused::<1>(y, expected, |y| layer_norm(isa, x, weight, bias, 1e-5, y.as_flattened_mut()));
    }
    refused::<1>(7, length("rows", 6, 7), |out| softmax(isa, out.as_flattened_mut(), 3));
    refused::<1>(2, length("rows", 0, 2), |out| softmax(isa, out.as_flattened_mut(), 3));
    refused::<1>(2, length("rows", 0, 2), |out| softmax(isa, out.as_flattened_mut(), 0));
}

#[test]
fn linear() {
    let mut linear = Linear::new(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &[7.0, 8.0, 9.0]);
    let before = linear;
    assert_eq!(linear.load(&[0.0; 5]), length("matrix", 6, 5));
    assert_eq!(linear.load_torch(&[0.0; 7]), length("weights", 6, 7));
    assert_eq!(linear.load_bias(&[0.0; 2]), length("bias", 3, 2));
    assert_eq!(linear, before);
    refused(1, length("y", 2, 1), |y| linear.apply(Isa::detect(), &[[0.0; 2]; 2], y));
}

#[test]
fn bytes() {
    #[repr(align(16))]
    struct Aligned([u8; 64]);
    let mut aligned = Aligned([0; 64]);
    let linear = Linear::new(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &[7.0, 8.0, 9.0]);
    aligned.0[..36].copy_from_slice(to_bytes(&linear));
    assert_eq!(from_bytes::<Linear<2, 3>>(&aligned.0[..36]), Ok(&linear));
    for found in [0, 35, 37, 64] {
        let read = from_bytes::<Linear<2, 3>>(&aligned.0[..found]);
        assert_eq!(read, Err(Error::Length { what: "bytes", expected: 36, found }));
    }
    for off_by in 1..4 {
        let read = from_bytes::<Linear<2, 3>>(&aligned.0[off_by..off_by + 36]);
        assert_eq!(read, Err(Error::Alignment { what: "bytes", expected: 4, off_by }));
    }
    let read = from_bytes::<Layer>(&aligned.0);
    let expected = (36 + 8 + 8 + 36 + 6 + 2 + 2 + 6) * 4;
    assert_eq!(read, Err(Error::Length { what: "bytes", expected, found: 64 }));
}

/// Errors say in words what they say in fields.
#[test]
fn messages() {
    let message = |error: Result<(), Error>| error.unwrap_err().to_string();
    assert_eq!(message(length("out", 2, 3)), "out: expected 2, found 3");
    assert_eq!(message(capacity("cache", 3, 4)), "cache: room for 3, needed 4");
    let alignment = Error::Alignment { what: "bytes", expected: 4, off_by: 1 };
    assert_eq!(alignment.to_string(), "bytes: must be aligned to 4 bytes, is 1 beyond");
}

/// Lengths of 0 are no error.
#[test]
fn nothing() {
    let Fixture { layer, mut cache, .. } = Fixture::new();
    let mut w = Workspace::<8, 6, 2>::new();
    layer.cross_attention(&[], &[], &NoMask, &mut w, &mut []).unwrap();
    layer.cross_attention(&[], &[[1.0; 4]; 3], &Causal::bottom_right(), &mut w, &mut []).unwrap();
    layer.attention_weights(&X, &[], &NoMask, &mut w, Weights::PerHead(&mut [])).unwrap();
    layer
        .attention_weights(&[], &[[1.0; 4]], &Causal::top_left(), &mut w, Weights::Mean(&mut []))
        .unwrap();
    layer.attend(&[], &cache, &Keep(&[]), &mut w, &mut []).unwrap();
    layer.append(&[], &mut cache, &mut w).unwrap();
    assert_eq!(cache.len(), 5);
    let mut none = Workspace::<0, 6, 2>::new();
    layer.cross_attention(&[], &[], &NoMask, &mut none, &mut []).unwrap();
}
