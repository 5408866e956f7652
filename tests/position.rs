//! Rotary and sinusoidal encodings: against f64 formulas, against a plain model to the last bit, and by their laws.

use dhyan::{Error, HeadLayout, Isa, Positions, Rotary, RotaryTable, add_sinusoidal, sinusoidal};
use proptest::prelude::*;

/// Half a unit in the last place of 1.
const U: f64 = 1.0 / (1u64 << 24) as f64;

/// How far a turned column may be off, by the size of its pair: a rounded cosine or sine (1/2), a product, a sum (1 each);
/// what is left over is for the angle in f64.
const TURN: f64 = 2.6 * U;

/// Values between -2 and 2, from a seed.
fn values(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..len).map(|_| next()).collect()
}

/// Bits, with every NaN as one.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn tables(rotary: Rotary, half: usize, positions: Positions, count: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut cos, mut sin) = (vec![f32::NAN; count * half], vec![f32::NAN; count * half]);
    rotary.fill(positions, &mut cos, &mut sin).unwrap();
    (cos, sin)
}

/// What turns in a head, said without the library.
#[derive(Clone, Copy, Debug)]
struct Case {
    interleaved: bool,
    /// The exponent is over the head width, and not over the rotary width.
    of_head: bool,
    first_column: usize,
    half: usize,
    d_k: usize,
    theta: f64,
    scale: f64,
}

impl Case {
    fn rotary(&self) -> Rotary {
        let head = match self.interleaved {
            true => Rotary::interleaved(self.d_k),
            false => Rotary::halves(self.d_k),
        };
        let part = match self.of_head {
            true => head.partial_of_head(2 * self.half),
            false => head.partial(2 * self.half),
        };
        part.first_column(self.first_column).theta(self.theta).position_scale(self.scale)
    }

    /// The two columns of pair i.
    fn pair(&self, i: usize) -> (usize, usize) {
        let (a, b) = if self.interleaved { (2 * i, 2 * i + 1) } else { (i, i + self.half) };
        (self.first_column + a, self.first_column + b)
    }

    fn angle(&self, i: usize, position: i64) -> f64 {
        let width = if self.of_head { self.d_k } else { 2 * self.half };
        position as f64 * self.scale / self.theta.powf(2.0 * i as f64 / width as f64)
    }

    /// One head turned in f64, and how far a result in f32 may be off.
    fn reference(&self, head: &[f32], position: i64) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = head.iter().map(|&x| (f64::from(x), 0.0)).collect();
        for i in 0..self.half {
            let (a, b) = self.pair(i);
            let (x, y) = (f64::from(head[a]), f64::from(head[b]));
            let (sin, cos) = self.angle(i, position).sin_cos();
            let bound = TURN * (x.abs() + y.abs());
            (out[a], out[b]) = ((x * cos - y * sin, bound), (y * cos + x * sin, bound));
        }
        out
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (0..5usize, 1..40usize, 0..9usize);
    (any::<[bool; 2]>(), sizes, 2.0..1e6, prop_oneof![Just(1.0), 0.1..2.0]).prop_map(
        |([interleaved, of_head], (first_column, half, more), theta, scale)| {
            let d_k = first_column + 2 * half + more;
            Case { interleaved, of_head, first_column, half, d_k, theta, scale }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// All four conventions, on all units, at any positions, against their formulas.
    #[test]
    fn follows_the_formula(case in cases(), positions in prop::collection::vec(-2_000_000..2_000_000i64, 0..4), seed: u64) {
        let (cos, sin) = tables(case.rotary(), case.half, Positions::Each(&positions), positions.len());
        let view = case.rotary().view(&cos, &sin).unwrap();
        prop_assert_eq!(view.positions(), positions.len());
        let x = values(seed, positions.len() * case.d_k);
        for isa in Isa::available() {
            let mut out = x.clone();
            let layout = HeadLayout::token_major(positions.len(), 1, case.d_k);
            view.apply(isa, Positions::From(0), layout, &mut out).unwrap();
            for ((x, out), &p) in x.chunks(case.d_k).zip(out.chunks(case.d_k)).zip(&positions) {
                for (out, (expected, bound)) in out.iter().zip(case.reference(x, p)) {
                    prop_assert!((f64::from(*out) - expected).abs() <= bound, "{isa:?}: {out} for {expected}");
                }
            }
        }
    }

    /// Every unit, in place and not, with strides and gaps, turns exactly what it should: the plain formula, each
    /// operation rounded. Rubbish in the columns and gaps that stay is kept.
    #[test]
    fn same_bits_on_every_unit(
        case in cases(), tokens in 0..4usize, heads in 0..4usize, gaps in (0..3usize, 0..3usize),
        flags in any::<[bool; 3]>(), rows in prop::collection::vec(0..6i64, 4), seed: u64,
    ) {
        let [head_major, inverse, special] = flags;
        let (half, d_k) = (case.half, case.d_k);
        let mut layout = match head_major {
            true => HeadLayout::head_major(heads, tokens, d_k + gaps.0),
            false => HeadLayout::token_major(tokens, heads, d_k + gaps.0),
        };
        if head_major { layout.head_stride += gaps.1 } else { layout.token_stride += gaps.1 }
        let len = tokens * layout.token_stride + heads * layout.head_stride + d_k;
        let mut x = values(seed, len);
        let (mut cos, mut sin) = (values(seed ^ 1, 6 * half), values(seed ^ 2, 6 * half));
        if special {
            // Pairs that nearly cancel, signed zeros, infinities, NaN.
            cos.fill(0.6);
            sin.fill(0.6);
            let specials = [1.0, 1.0 + f32::EPSILON, 0.0, -0.0, f32::INFINITY, f32::NAN, 1e-40, 3e38];
            for (x, v) in x.iter_mut().zip(values(seed ^ 3, len)) {
                let sign = if (64.0 * v).fract().abs() > 0.5 { -1.0 } else { 1.0 };
                *x = specials[(2.0 * v + 4.0) as usize] * sign;
            }
        }

        let mut expected = x.clone();
        for (t, h) in (0..tokens).flat_map(|t| (0..heads).map(move |h| (t, h))) {
            let head = &mut expected[t * layout.token_stride + h * layout.head_stride..][..d_k];
            for i in 0..half {
                let (c, s) = (cos[rows[t] as usize * half + i], sin[rows[t] as usize * half + i]);
                let s = if inverse { -s } else { s };
                let (a, b) = case.pair(i);
                let (x, y) = (head[a], head[b]);
                (head[a], head[b]) = (x * c - y * s, y * c + x * s);
            }
        }

        let mut view = case.rotary().view(&cos, &sin).unwrap();
        if inverse { view = view.inverse() }
        for isa in Isa::available() {
            let positions = Positions::Each(&rows[..tokens]);
            let mut out = x.clone();
            view.apply(isa, positions, layout, &mut out).unwrap();
            prop_assert_eq!(bits(&out), bits(&expected), "{:?}", isa);

            // From there to [tokens][heads][d_k].
            let compact = HeadLayout::token_major(tokens, heads, d_k);
            let mut out = vec![f32::NAN; tokens * heads * d_k];
            view.apply_to(isa, positions, (&x, layout), (&mut out, compact)).unwrap();
            let expected: Vec<f32> = (0..tokens * heads)
                .flat_map(|i| {
                    let start = i / heads * layout.token_stride + i % heads * layout.head_stride;
                    expected[start..start + d_k].to_vec()
                })
                .collect();
            prop_assert_eq!(bits(&out), bits(&expected), "{:?}", isa);
        }
    }

    /// The inverse takes a rotation back; a rotation by some more is one to a later position.
    #[test]
    fn goes_back_and_on(case in cases(), position in 0..30usize, more in 0..30usize, seed: u64) {
        let (cos, sin) = tables(case.rotary(), case.half, Positions::From(0), 60);
        let view = case.rotary().view(&cos, &sin).unwrap();
        let isa = Isa::detect();
        let layout = HeadLayout::token_major(1, 1, case.d_k);
        let x = values(seed, case.d_k);
        let turned = |from: &[f32], inverse: bool, by: Positions| {
            let mut out = from.to_vec();
            let view = if inverse { view.inverse() } else { view };
            view.apply(isa, by, layout, &mut out).unwrap();
            out
        };
        let there = turned(&x, false, Positions::From(position));
        let on = turned(&there, false, Positions::Same(more));
        let pairs = [
            (&turned(&there, true, Positions::From(position)), &x),
            (&on, &turned(&x, false, Positions::From(position + more))),
            (&turned(&on, true, Positions::Same(more)), &there),
        ];
        for (found, expected) in pairs {
            for i in 0..case.half {
                let (a, b) = case.pair(i);
                // Three turns lie between any two of these, each as far off as in `reference`.
                let bound = 3.0 * TURN * 1.5 * f64::from(x[a].abs() + x[b].abs());
                for column in [a, b] {
                    prop_assert!(f64::from((found[column] - expected[column]).abs()) <= bound);
                }
            }
        }
    }

    /// A query times a key depends on the distance of their positions only, however large these are.
    #[test]
    fn scores_depend_on_the_distance(
        case in cases(), at in (0..50i64, 0..50i64), shift in 0..1_000_000_000i64, seed: u64,
    ) {
        let positions = [at.0, at.1, at.0 + shift, at.1 + shift];
        let (cos, sin) = tables(case.rotary(), case.half, Positions::Each(&positions), 4);
        let view = case.rotary().view(&cos, &sin).unwrap();
        let qk = values(seed, 2 * case.d_k);
        let (q, k) = qk.split_at(case.d_k);
        let score = |first: usize| {
            let mut turned = qk.clone();
            let layout = HeadLayout::token_major(2, 1, case.d_k);
            view.apply(Isa::detect(), Positions::From(first), layout, &mut turned).unwrap();
            let (q, k) = turned.split_at(case.d_k);
            q.iter().zip(k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>()
        };
        // Each column of both is off as in `reference`, in both scores; angles in f64 by `shift` roundings.
        let size: f64 = (0..case.half)
            .map(|i| {
                let (a, b) = case.pair(i);
                f64::from((q[a].abs() + q[b].abs()) * (k[a].abs() + k[b].abs()))
            })
            .sum();
        let bound = (8.0 * TURN + 4.0 * 2f64.powi(-52) * positions[2].max(positions[3]) as f64) * size;
        prop_assert!((score(0) - score(2)).abs() <= bound);
    }

    /// Sines on even columns, cosines on odd ones, on their own and added.
    #[test]
    fn sinusoids_follow_the_formula(first in 0..100_000usize, d_model in 1..40usize, tokens in 0..4usize, seed: u64) {
        let mut encoding = vec![f32::NAN; tokens * d_model];
        sinusoidal(first, d_model, &mut encoding).unwrap();
        for (i, &found) in encoding.iter().enumerate() {
            let (position, column) = ((first + i / d_model) as f64, i % d_model);
            let angle = position / 10000f64.powf((column - column % 2) as f64 / d_model as f64);
            let expected = if column % 2 == 0 { angle.sin() } else { angle.cos() };
            prop_assert!((f64::from(found) - expected).abs() <= 0.51 * U);
        }
        let x = values(seed, tokens * d_model);
        let mut sum = x.clone();
        add_sinusoidal(first, d_model, &mut sum).unwrap();
        let expected: Vec<f32> = x.iter().zip(&encoding).map(|(x, e)| x + e).collect();
        prop_assert_eq!(bits(&sum), bits(&expected));
    }
}

/// Tables are the f64 values rounded once, at large positions too, and the same bits on every target.
#[test]
fn tables_have_the_same_bits_everywhere() {
    let positions = [0, 1, 2, 4095, 131_071, 1_000_003, 987_654_321, -17];
    let (cos, sin) = tables(Rotary::halves(128).theta(5e5), 64, Positions::Each(&positions), 8);
    let mut encoding = [0.0; 16 * 30];
    sinusoidal(1000, 30, &mut encoding).unwrap();
    // FNV-1a over the bits.
    let hash = cos.iter().chain(&sin).chain(&encoding).fold(0xcbf2_9ce4_8422_2325u64, |hash, x| {
        x.to_bits()
            .to_le_bytes()
            .iter()
            .fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    });
    assert_eq!(hash, 0x60d5_8dd8_a996_6ce4, "{hash:#x}");
}

/// One half of a head turns by the row, the other one by the column.
#[test]
fn two_dimensions() {
    let case = Case {
        interleaved: true,
        of_head: false,
        first_column: 0,
        half: 3,
        d_k: 12,
        theta: 100.0,
        scale: 1.0,
    };
    let by_row = Rotary::interleaved(12).partial(6).theta(100.0);
    let mut table = RotaryTable::<5, 3>::default();
    table.fill(by_row, Positions::From(0)).unwrap();
    let (rows, columns) = ([0, 0, 1, 4, 4], [3, 1, 2, 0, 4]);
    let x = values(9, 5 * 12);
    for isa in Isa::available() {
        let mut out = [[0.0; 12]; 5];
        out.as_flattened_mut().copy_from_slice(&x);
        table.view(by_row).unwrap().apply_rows(isa, Positions::Each(&rows), &mut out).unwrap();
        let by_column = table.view(by_row.first_column(6)).unwrap();
        by_column.apply_rows(isa, Positions::Each(&columns), &mut out).unwrap();
        for (token, (x, out)) in x.chunks(12).zip(&out).enumerate() {
            let left = case.reference(x, rows[token]);
            let right = Case { first_column: 6, ..case }.reference(x, columns[token]);
            for (out, (expected, bound)) in out.iter().zip(left[..6].iter().chain(&right[6..])) {
                assert!((f64::from(*out) - expected).abs() <= *bound);
            }
        }
    }
}

/// Tables that hold each angle twice, `[positions][width]`, and rows whose heads overlap as a source.
#[test]
fn strided_tables_and_broadcast_sources() {
    static EMPTY: RotaryTable<7, 4> = RotaryTable::new();
    let (isa, rotary) = (Isa::detect(), Rotary::halves(8));
    let mut table = EMPTY.clone();
    table.fill(rotary, Positions::From(0)).unwrap();
    let twice =
        |table: &[[f32; 4]]| table.iter().flat_map(|row| [*row, *row].concat()).collect::<Vec<_>>();
    let (cos, sin) = (twice(&table.cos), twice(&table.sin));
    // The last row may end with its last angle.
    let view = rotary.view_strided(&cos[..52], &sin[..52], 8).unwrap();
    assert_eq!(view.positions(), 7);

    let x = values(3, 8);
    let same = HeadLayout { tokens: 7, heads: 2, token_stride: 0, head_stride: 0 };
    let mut out = [[0.0; 16]; 7];
    let to = HeadLayout::token_major(7, 2, 8);
    view.apply_to(isa, Positions::From(0), (&x, same), (out.as_flattened_mut(), to)).unwrap();
    let mut expected = [[0.0; 16]; 7];
    expected.as_flattened_mut().chunks_mut(8).for_each(|head| head.copy_from_slice(&x));
    table.view(rotary).unwrap().apply_rows(isa, Positions::From(0), &mut expected).unwrap();
    assert_eq!(out, expected);
}

#[test]
fn nothing_to_turn_is_fine() {
    let (isa, rotary) = (Isa::detect(), Rotary::interleaved(4));
    rotary.fill(Positions::Each(&[]), &mut [], &mut []).unwrap();
    Rotary::halves(usize::MAX - 1).fill(Positions::From(0), &mut [], &mut []).unwrap();
    let view = rotary.view(&[], &[]).unwrap();
    assert_eq!(view.positions(), 0);
    view.apply(isa, Positions::From(9), HeadLayout::token_major(0, 3, 4), &mut []).unwrap();
    view.apply_rows::<8>(isa, Positions::Same(9), &mut []).unwrap();
    let view = rotary.view(&[1.0; 2], &[0.0; 2]).unwrap();
    let no_heads = HeadLayout::token_major(usize::MAX, 0, 4);
    view.apply(isa, Positions::Same(0), no_heads, &mut []).unwrap();
    sinusoidal(5, 0, &mut []).unwrap();
    sinusoidal(5, usize::MAX, &mut []).unwrap();
}

#[test]
fn wrong_shapes_are_refused() {
    let isa = Isa::detect();
    let length = |what, expected, found| Err(Error::Length { what, expected, found });
    let capacity = |what, capacity, needed| Err(Error::Capacity { what, capacity, needed });
    let value = |what, must| Err(Error::Value { what, must });

    // Descriptions and tables.
    let fill = |rotary: Rotary, positions, cos, sin| {
        let (mut cos, mut sin) = (vec![7.0; cos], vec![7.0; sin]);
        let result = rotary.fill(positions, &mut cos, &mut sin);
        assert!(result.is_ok() || cos.iter().chain(&sin).all(|&x| x == 7.0), "written on an error");
        result
    };
    let (from, head) = (Positions::From(0), Rotary::halves(8));
    let even = value("rotary width", "even, and at least 2");
    assert_eq!(fill(Rotary::interleaved(7), from, 3, 3), even);
    assert_eq!(fill(head.partial(5), from, 4, 4), even);
    assert_eq!(fill(head.partial(0), from, 4, 4), even);
    assert_eq!(
        fill(head.partial_of_head(10), from, 5, 5),
        capacity("head (rotary columns)", 8, 10)
    );
    assert_eq!(
        fill(head.partial(4).first_column(5), from, 4, 4),
        capacity("head (rotary columns)", 8, 9)
    );
    let far = head.first_column(usize::MAX);
    assert_eq!(fill(far, from, 4, 4), capacity("head (rotary columns)", 8, usize::MAX));
    assert_eq!(fill(head, from, 9, 9), length("cos", 8, 9));
    assert_eq!(fill(head, from, 8, 4), length("sin", 8, 4));
    assert_eq!(fill(head, Positions::Each(&[1, 2, 3]), 8, 8), length("positions", 2, 3));
    for theta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(fill(head.theta(theta), from, 8, 8), value("theta", "positive and finite"));
    }
    assert_eq!(fill(head.position_scale(f64::NAN), from, 8, 8), value("position scale", "finite"));
    assert_eq!(fill(head, from, 8, 8), Ok(()));
    let mut table = RotaryTable::<4, 3>::new();
    assert_eq!(table.fill(head, from), length("rotary width", 6, 8));
    assert_eq!(table.view(head).map(drop), length("rotary width", 6, 8));
    let (cos, sin) = ([1.0; 8], [0.0; 8]);
    assert_eq!(head.view(&cos[..7], &sin[..7]).map(drop), length("cos", 4, 7));
    assert_eq!(head.view(&cos, &sin[..4]).map(drop), length("sin", 8, 4));
    assert_eq!(head.view_strided(&cos, &sin, 3).map(drop), capacity("stride of cos and sin", 3, 4));
    assert_eq!(head.partial(3).view(&cos, &sin).map(drop), even);

    // Rows: two positions, heads of 8.
    let view = head.view(&cos, &sin).unwrap().inverse();
    let apply = |positions, layout, len| {
        let mut rows = vec![7.0; len];
        let result = view.apply(isa, positions, layout, &mut rows);
        assert!(rows.iter().all(|&x| x == 7.0), "turned by 0: nothing changes");
        result
    };
    let two = HeadLayout::token_major(2, 3, 8);
    assert_eq!(apply(from, two, 48), Ok(()));
    assert_eq!(apply(from, two, 47), capacity("rows", 47, 48));
    assert_eq!(apply(Positions::From(1), two, 48), capacity("rotary table", 2, 3));
    assert_eq!(
        apply(Positions::From(usize::MAX), two, 48),
        capacity("rotary table", 2, usize::MAX)
    );
    assert_eq!(apply(Positions::Same(2), two, 48), capacity("rotary table", 2, 3));
    assert_eq!(apply(Positions::Each(&[0, 2]), two, 48), capacity("rotary table", 2, 3));
    assert_eq!(apply(Positions::Each(&[0]), two, 48), length("positions", 2, 1));
    let negative = value("positions", "rows of the table, 0 or more");
    assert_eq!(apply(Positions::Each(&[0, -1]), two, 48), negative);
    let overlap = value("rows", "laid out without overlap of heads");
    assert_eq!(apply(from, HeadLayout { head_stride: 7, ..two }, 48), overlap);
    assert_eq!(apply(from, HeadLayout { token_stride: 23, ..two }, 48), overlap);
    assert_eq!(apply(from, HeadLayout { token_stride: 0, ..two }, 48), overlap);
    let beyond = HeadLayout { token_stride: usize::MAX, ..two };
    assert_eq!(apply(from, beyond, 48), capacity("rows", 48, usize::MAX));
    assert_eq!(view.apply_rows(isa, from, &mut [[0.0; 12]; 2]), length("width of rows", 8, 12));

    let (x, mut out) = ([0.0; 48], [7.0; 48]);
    let mut apply_to = |from_len, from_layout, layout| {
        let result = view.apply_to(isa, from, (&x[..from_len], from_layout), (&mut out, layout));
        assert!(out.iter().all(|&x| x == 7.0), "written on an error");
        result
    };
    assert_eq!(apply_to(47, two, two), capacity("from", 47, 48));
    assert_eq!(apply_to(48, HeadLayout { tokens: 1, ..two }, two), length("tokens of out", 1, 2));
    assert_eq!(apply_to(48, HeadLayout { heads: 2, ..two }, two), length("heads of out", 2, 3));
    assert_eq!(apply_to(48, two, HeadLayout { head_stride: 0, ..two }), overlap);

    // Sinusoids.
    assert_eq!(sinusoidal(0, 3, &mut [0.0; 7]), length("rows", 6, 7));
    assert_eq!(add_sinusoidal(0, 0, &mut [0.0; 7]), length("rows", 0, 7));
}
