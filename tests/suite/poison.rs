//! What is hidden, unused or left over changes no bit, whatever it holds.

use crate::common::{AnyLayer, Case, MODES, MaskOf, Parameters, Random};
use crate::common::{assert_same, units};
use dhyan::Isa;

const POISON: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, f32::MAX, f32::MIN];

fn layers() -> Vec<Box<dyn AnyLayer>> {
    vec![
        Case::<3, 1, 3, 3, 600>::boxed(),
        Case::<40, 4, 20, 40, 64>::boxed(),
        Case::<34, 2, 34, 34, 64>::boxed(),
    ]
}

/// Outputs, weights and their means; direct, and by the cache.
fn everything(
    layer: &mut dyn AnyLayer,
    isa: Isa,
    x: &[f32],
    source: &[f32],
    mask: &MaskOf,
) -> [Vec<f32>; 6] {
    layer.rewind(0).unwrap();
    layer.append(isa, source).unwrap();
    [
        layer.outputs(isa, x, source, mask).unwrap(),
        layer.weights(isa, x, source, mask, false).unwrap(),
        layer.weights(isa, x, source, mask, true).unwrap(),
        layer.attend(isa, x, mask).unwrap(),
        layer.cached_weights(isa, x, mask, false).unwrap(),
        layer.cached_weights(isa, x, mask, true).unwrap(),
    ]
}

/// Rows that see no poisoned token have the same bits as with zeros there; rows that see a NaN are NaN, and hidden
/// keys have the weight 0 even there.
#[test]
fn hidden_tokens() {
    let mut random = Random::new(1);
    for mut layer in layers() {
        let sizes = layer.sizes();
        let mut unseen = 0;
        for round in 0..12 * MaskOf::KINDS {
            let [queries, keys] = [1 + random.below(40), 1 + random.below(sizes.n)];
            let mask = MaskOf::random(&mut random, round, queries, keys);
            let sees = |i, j| mask.sees(queries, keys, i, j);
            layer.load(&Parameters::random(&mut random, MODES[round % 3], sizes));
            let x = random.left(MODES[0], queries, sizes.d_model);
            let mut source = random.left(MODES[0], keys, sizes.d_source);
            // A few tokens, or (mostly) all that no query sees.
            let few = random.bools(keys, 1);
            let poisoned: Vec<bool> = match round % 4 {
                0 => few,
                _ => (0..keys).map(|j| (0..queries).all(|i| !sees(i, j))).collect(),
            };
            let poison = POISON[round % POISON.len()];
            let fill = |source: &mut [f32], x: f32| {
                let tokens = source.chunks_exact_mut(sizes.d_source);
                tokens.zip(&poisoned).filter(|(_, p)| **p).for_each(|(token, _)| token.fill(x));
            };
            let touched = |i| (0..keys).any(|j| poisoned[j] && sees(i, j));
            unseen += (0..queries).filter(|&i| !touched(i)).count()
                * poisoned.iter().filter(|p| **p).count();
            for isa in units() {
                fill(&mut source, 0.0);
                let clean = everything(&mut *layer, isa, &x, &source, &mask);
                fill(&mut source, poison);
                let found = everything(&mut *layer, isa, &x, &source, &mask);
                for (kind, (clean, found)) in clean.iter().zip(&found).enumerate() {
                    let what =
                        format!("{isa:?}, {sizes:?}, {queries} x {keys}, {poison}, {mask:?}");
                    let width = if kind % 3 == 0 { sizes.d_model } else { keys };
                    let rows = clean.chunks_exact(width).zip(found.chunks_exact(width));
                    for (row, (clean, found)) in rows.enumerate() {
                        let i = row % queries;
                        if !touched(i) {
                            assert_same(format!("{what}, row {i}"), clean, found);
                        } else if poison.is_nan() && kind % 3 == 0 {
                            assert!(found.iter().all(|x| x.is_nan()), "{what}, row {i} is not NaN");
                        } else if poison.is_nan() {
                            let right = |j: usize| {
                                if sees(i, j) { found[j].is_nan() } else { found[j] == 0.0 }
                            };
                            let wrong = (0..keys).find(|&j| !right(j));
                            assert_eq!(wrong, None, "{what}, weights of row {i}: {found:?}");
                        }
                    }
                }
            }
        }
        assert!(unseen > 1000, "too little was poisoned: {unseen}");
    }
}

/// A NaN in one query makes the row NaN and no other.
#[test]
fn a_poisoned_query_is_alone() {
    let mut random = Random::new(2);
    for isa in units() {
        let mut layer = Case::<40, 4, 20, 40, 64>::boxed();
        layer.load(&Parameters::random(&mut random, MODES[0], layer.sizes()));
        let source = random.left(MODES[0], 50, 40);
        let mut x = random.left(MODES[0], 30, 40);
        let clean = layer.outputs(isa, &x, &source, &MaskOf::None).unwrap();
        x[7 * 40 + 3] = f32::NAN;
        let found = layer.outputs(isa, &x, &source, &MaskOf::None).unwrap();
        assert_same("before", &clean[..7 * 40], &found[..7 * 40]);
        assert_same("behind", &clean[8 * 40..], &found[8 * 40..]);
        assert!(found[7 * 40..8 * 40].iter().all(|x| x.is_nan()));
    }
}

/// The workspace, the cache and the output after calls on NaN, against new ones.
#[test]
fn old_contents() {
    let mut random = Random::new(3);
    for isa in units() {
        for (mut used, mut new) in layers().into_iter().zip(layers()) {
            let sizes = used.sizes();
            let parameters = Parameters::random(&mut random, MODES[0], sizes);
            for round in 0..20 {
                let [queries, keys] = [random.below(sizes.n.min(70)), random.below(sizes.n)];
                let mask = MaskOf::random(&mut random, round, queries, keys);
                let x = random.left(MODES[0], queries, sizes.d_model);
                let source = random.left(MODES[0], keys, sizes.d_source);
                used.load(&parameters);
                new.load(&parameters);
                let rubbish = vec![POISON[round % POISON.len()]; sizes.n * sizes.d_source];
                everything(
                    &mut *used,
                    isa,
                    &rubbish[..64 * sizes.d_model],
                    &rubbish,
                    &MaskOf::None,
                );
                let found = everything(&mut *used, isa, &x, &source, &mask);
                let clean = everything(&mut *new, isa, &x, &source, &mask);
                for (clean, found) in clean.iter().zip(&found) {
                    assert_same(format!("{isa:?}, {sizes:?}, {mask:?}"), clean, found);
                }
            }
        }
    }
}

/// A row that sees nothing is the bias of the output projection; its weights are 0.
#[test]
fn rows_that_see_nothing() {
    let mut random = Random::new(4);
    for isa in units() {
        let mut layer = Case::<34, 2, 17, 34, 64>::boxed();
        let parameters = Parameters::random(&mut random, MODES[0], layer.sizes());
        let bias = &parameters.0[3].bias;
        layer.load(&parameters);
        let x = random.left(MODES[0], 20, 34);
        let source = vec![f32::NAN; 40 * 34];
        let mut none = vec![true; 20 * 40];
        // Row 5 sees a key, and it alone.
        none[5 * 40 + 20] = false;
        for (keys, mask) in [
            (0, MaskOf::None),
            (0, MaskOf::TopLeft),
            (40, MaskOf::KeyLength(0)),
            (40, MaskOf::Hide(none)),
            (10, MaskOf::BottomRight),
        ] {
            let found = everything(&mut *layer, isa, &x, &source[..keys * 34], &mask);
            for i in 0..20 {
                let what = format!("{isa:?}, {keys} keys, {mask:?}, row {i}");
                let expected = match (0..keys).any(|j| mask.sees(20, keys, i, j)) {
                    true => vec![f32::NAN; 34],
                    false => bias.clone(),
                };
                assert_same(&what, &expected, &found[0][i * 34..][..34]);
                assert_same(&what, &expected, &found[3][i * 34..][..34]);
                if !expected[0].is_nan() {
                    assert!(found[1][i * keys..][..keys].iter().all(|&w| w == 0.0), "{what}");
                    assert!(found[2][i * keys..][..keys].iter().all(|&w| w == 0.0), "{what}");
                }
            }
        }
    }
}

/// A score that overflows to -Inf hides its key under every mask, so that an infinite value there changes nothing.
#[test]
fn scores_of_minus_infinity() {
    use dhyan::kernels::{Dimensions, attention, attention_scratch};
    use dhyan::{Keep, KeyLength, NoMask};

    let one = Dimensions { heads: 1, kv_heads: 1, d_k: 1, d_v: 1 };
    let (queries, keys, values) = ([-1e30], [1e30, -1.0], [f32::INFINITY, 10.0]);
    for isa in units() {
        let mut scratch = vec![f32::NAN; attention_scratch(one, 2)];
        let mut out = [[f32::NAN]; 3];
        let [a, b, c] = &mut out;
        let s = &mut scratch;
        attention(isa, one, &queries, &keys, &values, 1.0, &NoMask, s, a).expect("one query");
        attention(isa, one, &queries, &keys, &values, 1.0, &KeyLength(2), s, b).expect("one query");
        let keep = Keep(&[true, true]);
        attention(isa, one, &queries, &keys, &values, 1.0, &keep, s, c).expect("one query");
        assert_eq!(out, [[10.0]; 3], "{isa:?}");
    }
}
