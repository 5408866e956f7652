//! All ways for weights to get in give the same layer, to the last bit.

use dhyan::{Aligned, Error, Linear, MultiHeadAttention, from_bytes, to_bytes};

const D: usize = 24;
const H: usize = 6;
const D_KV: usize = 8; // 2 kv heads of 4
const D_K: usize = 4;
const ROWS: usize = D + 2 * D_KV;
type Layer = MultiHeadAttention<D, H, D_KV>;

/// A number that tells where it stands.
const fn weight(matrix: usize, i: usize, o: usize) -> f32 {
    (matrix * 10_000 + i * 100 + o) as f32
}

fn matrix<const OUT: usize>(matrix: usize) -> [[f32; OUT]; D] {
    std::array::from_fn(|i| std::array::from_fn(|o| weight(matrix, i, o)))
}

fn bias<const OUT: usize>(matrix: usize) -> [f32; OUT] {
    std::array::from_fn(|o| weight(matrix, 99, o))
}

fn expected() -> Layer {
    Layer::new(
        Linear::new(&matrix(0), &bias(0)),
        Linear::new(&matrix(1), &bias(1)),
        Linear::new(&matrix(2), &bias(2)),
        Linear::new(&matrix(3), &bias(3)),
    )
}

/// Row of `in_proj_weight` to (matrix, output).
fn place(row: usize) -> (usize, usize) {
    match row {
        0..D => (0, row),
        _ if row < D + D_KV => (1, row - D),
        _ => (2, row - D - D_KV),
    }
}

#[test]
fn torch() {
    let in_weight: [[f32; D]; ROWS] = std::array::from_fn(|row| {
        let (m, o) = place(row);
        std::array::from_fn(|i| weight(m, i, o))
    });
    let in_bias: [f32; ROWS] = std::array::from_fn(|row| {
        let (m, o) = place(row);
        weight(m, 99, o)
    });
    let out_weight: [[f32; D]; D] =
        std::array::from_fn(|o| std::array::from_fn(|i| weight(3, i, o)));
    assert_eq!(Layer::from_torch(&in_weight, &in_bias, &out_weight, &bias(3)), expected());

    let mut layer = Layer::boxed().expect("memory");
    let (in_weight, out_weight) = (in_weight.as_flattened(), out_weight.as_flattened());
    let short = layer.load_torch(&in_weight[1..], &in_bias, out_weight, &bias::<D>(3));
    let error = Error::Length { what: "in_proj_weight", expected: ROWS * D, found: ROWS * D - 1 };
    assert_eq!(short, Err(error));
    assert_eq!(**layer, Layer::ZERO);
    layer.load_torch(in_weight, &in_bias, out_weight, &bias::<D>(3)).expect("lengths that fit");
    assert_eq!(**layer, expected());
}

#[test]
fn heads() {
    let head = |m: usize, h: usize| -> [[f32; D_K]; D] {
        std::array::from_fn(|i| std::array::from_fn(|e| weight(m, i, h * D_K + e)))
    };
    let query: [[[f32; D_K]; D]; H] = std::array::from_fn(|h| head(0, h));
    let key: [[[f32; D_K]; D]; 2] = std::array::from_fn(|h| head(1, h));
    let value: [[[f32; D_K]; D]; 2] = std::array::from_fn(|h| head(2, h));
    let mut found = Layer::from_heads(&query, &key, &value, &matrix(3));
    found.query.load_bias(&bias::<D>(0)).expect("D biases");
    found.key.load_bias(&bias::<D_KV>(1)).expect("D_KV biases");
    found.value.load_bias(&bias::<D_KV>(2)).expect("D_KV biases");
    found.output.load_bias(&bias::<D>(3)).expect("D biases");
    assert_eq!(found, expected());
}

#[test]
fn rows_in_place() {
    let mut found = Layer::ZERO;
    found.query.load(matrix::<D>(0).as_flattened()).expect("D × D");
    found.query.load_bias(&bias::<D>(0)).expect("D biases");
    assert_eq!(found.query, expected().query);
}

#[test]
fn bytes() {
    let layer = Aligned(expected());
    let bytes = to_bytes(&layer.0);
    assert_eq!(bytes.len(), 4 * (Layer::PARAMETERS + 2 * D + 2 * D_KV));
    assert_eq!(from_bytes::<Layer>(bytes), Ok(&layer.0));
}

#[test]
fn by_the_compiler() {
    static LINEAR: Linear<18, 17> = {
        let mut rows = [[0.0; 17]; 18];
        let mut i = 0;
        while i < 18 {
            let mut o = 0;
            while o < 17 {
                rows[i][o] = weight(0, i, o);
                o += 1;
            }
            i += 1;
        }
        Linear::new(&rows, &[0.0; 17])
    };
    let mut found = Linear::ZERO;
    let rows: [[f32; 17]; 18] = std::array::from_fn(|i| std::array::from_fn(|o| weight(0, i, o)));
    found.load(rows.as_flattened()).expect("18 × 17");
    assert_eq!(found, LINEAR);
}
