//! The textbook's worked example of multi-head attention, step by step: 10 tokens, d_model = 512, 8 heads of d_k = 64.
//!
//! Prints the shape of everything on the way, and checks the layer's one call against the steps.
//!
//!     cargo run --release --example textbook

use dhyan::kernels::{Panels, pack, product, softmax};
use dhyan::{Error, Isa, MultiHeadAttention, NoMask, Workspace};
use std::sync::Mutex;

const N: usize = 10;
const D_MODEL: usize = 512;
const H: usize = 8;
type Layer = MultiHeadAttention<D_MODEL, H>;
const D_K: usize = Layer::D_K;

/// 4 MB of weights and 80 KB to work in: statics, as on a microcontroller, for a stack may hold less.
static LAYER: Mutex<Layer> = Mutex::new(Layer::ZERO);
static WORKSPACE: Mutex<Workspace<N, D_MODEL>> = Mutex::new(Workspace::new());

/// `[rows][columns]`, row after row.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    data: Vec<f32>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, at: impl Fn(usize, usize) -> f32) -> Self {
        let data = (0..rows * columns).map(|i| at(i / columns, i % columns)).collect();
        Self { rows, columns, data }
    }

    /// Numbers from -scale to scale, the same on every machine.
    fn random(rows: usize, columns: usize, scale: f32, seed: u32) -> Self {
        let mut state = seed;
        let mut matrix = Self::new(rows, columns, |_, _| 0.0);
        for x in &mut matrix.data {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = ((state >> 8) as f32 / 8_388_608.0 - 1.0) * scale;
        }
        matrix
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.data[row * self.columns + column]
    }

    fn transposed(&self) -> Self {
        Self::new(self.columns, self.rows, |row, column| self.at(column, row))
    }

    /// What belongs to one head of a matrix of all heads.
    fn of_head(&self, head: usize) -> Self {
        Self::new(self.rows, D_K, |row, column| self.at(row, head * D_K + column))
    }

    fn times(&self, right: &Self) -> Result<Self, Error> {
        let mut panels = vec![0.0; right.data.len()];
        pack(&right.data, right.rows, right.columns, &mut panels)?;
        let right = Panels::new(&panels, right.rows, right.columns)?;
        let mut out = Self::new(self.rows, right.columns(), |_, _| 0.0);
        product(Isa::detect(), &self.data, right, None, &mut out.data)?;
        Ok(out)
    }

    fn concat(heads: &[Self]) -> Self {
        Self::new(heads[0].rows, heads.len() * D_K, |row, column| {
            heads[column / D_K].at(row, column % D_K)
        })
    }

    fn sum(heads: &[Self]) -> Self {
        Self::new(heads[0].rows, D_K, |row, column| {
            heads.iter().map(|head| head.at(row, column)).sum()
        })
    }

    fn greatest_difference(&self, other: &Self) -> f32 {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        let difference = |(a, b): (&f32, &f32)| (a - b).abs();
        self.data.iter().zip(&other.data).map(difference).fold(0.0, f32::max)
    }
}

/// The tokens, and the weights of all heads side by side, in [in][out] order.
struct Inputs {
    x: Matrix,
    w_q: Matrix,
    w_k: Matrix,
    w_v: Matrix,
    w_o: Matrix,
}

impl Inputs {
    fn new() -> Self {
        let weights = |seed| Matrix::random(D_MODEL, D_MODEL, 0.1, seed);
        Self {
            x: Matrix::random(N, D_MODEL, 2.0, 1),
            w_q: weights(2),
            w_k: weights(3),
            w_v: weights(4),
            w_o: weights(5),
        }
    }
}

fn show(name: &str, matrix: &Matrix, (rows, columns): (usize, usize)) {
    assert_eq!((matrix.rows, matrix.columns), (rows, columns), "{name}");
    println!("{name:<32}{rows:>4} x {columns}");
}

/// One query, three keys: scores 32, 16 and 40 over sqrt(64) = 8.
fn three_scores() -> Result<(), Error> {
    let mut weights = [32.0, 16.0, 40.0].map(|score| score / (D_K as f32).sqrt());
    assert_eq!(weights, [4.0, 2.0, 5.0]);
    softmax(Isa::detect(), &mut weights, 3)?;
    println!("softmax(4, 2, 5) = {weights:.4?}\n");
    for (weight, textbook) in weights.into_iter().zip([0.2595, 0.0351, 0.7054]) {
        assert!((weight - textbook).abs() < 5e-5);
    }
    Ok(())
}

/// `head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i` for each head, with the kernels.
fn heads(inputs: &Inputs) -> Result<Vec<Matrix>, Error> {
    show("X", &inputs.x, (N, D_MODEL));
    let mut heads = Vec::new();
    for i in 0..H {
        let w_q = inputs.w_q.of_head(i);
        let q = inputs.x.times(&w_q)?;
        let k = inputs.x.times(&inputs.w_k.of_head(i))?;
        let v = inputs.x.times(&inputs.w_v.of_head(i))?;
        let scores = q.times(&k.transposed())?;
        let mut weights = scores.clone();
        weights.data.iter_mut().for_each(|score| *score /= (D_K as f32).sqrt());
        softmax(Isa::detect(), &mut weights.data, N)?;
        for row in weights.data.chunks(N) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
        let head = weights.times(&v)?;
        if i == 0 {
            show("W_i^Q (W_i^K, W_i^V)", &w_q, (D_MODEL, D_K));
            show("Q_i = X W_i^Q (K_i, V_i)", &q, (N, D_K));
            show("Q_i K_i^T", &scores, (N, N));
            show("softmax(Q_i K_i^T / sqrt(d_k))", &weights, (N, N));
            show("head_i", &head, (N, D_K));
        }
        heads.push(head);
    }
    Ok(heads)
}

/// The layer's one call on the same weights.
fn layer(inputs: &Inputs) -> Result<Matrix, Error> {
    let mut layer = LAYER.lock().unwrap();
    layer.query.load(&inputs.w_q.data)?;
    layer.key.load(&inputs.w_k.data)?;
    layer.value.load(&inputs.w_v.data)?;
    layer.output.load(&inputs.w_o.data)?;
    let mut out = [[0.0; D_MODEL]; N];
    let x = inputs.x.data.as_chunks().0;
    layer.self_attention(x, &NoMask, &mut WORKSPACE.lock().unwrap(), &mut out)?;
    Ok(Matrix::new(N, D_MODEL, |row, column| out[row][column]))
}

/// What the heads said can be told from their concatenation, not from their sum: it is the same sum when two heads
/// have said each other's words.
fn concat_is_not_sum(heads: &[Matrix], w_o: &Matrix) -> Result<(), Error> {
    let mut exchanged = heads.to_vec();
    exchanged.swap(0, 1);
    assert_eq!(Matrix::sum(heads).data, Matrix::sum(&exchanged).data);
    let [one, other] = [heads, &exchanged].map(|heads| Matrix::concat(heads).times(w_o));
    let difference = one?.greatest_difference(&other?);
    println!("\nheads 1 and 2 exchanged: the sum stays, the output moves by up to {difference:.3}");
    assert!(difference > 0.1);
    Ok(())
}

pub fn main() -> Result<(), Error> {
    three_scores()?;
    let inputs = Inputs::new();
    let heads = heads(&inputs)?;
    let concat = Matrix::concat(&heads);
    show("concat(head_1 .. head_8)", &concat, (N, H * D_K));
    show("W^O", &inputs.w_o, (D_MODEL, D_MODEL));
    let output = concat.times(&inputs.w_o)?;
    show("output", &output, (N, D_MODEL));

    let largest = output.data.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
    let difference = layer(&inputs)?.greatest_difference(&output);
    println!("\nthe layer's one call: at most {difference:.1e} away, of values up to {largest:.1}");
    assert!(difference <= 2e-6 * largest);
    concat_is_not_sum(&heads, &inputs.w_o)?;

    println!("weights: 4 x {D_MODEL}^2 = {}", Layer::PARAMETERS);
    assert_eq!(Layer::PARAMETERS, 1_048_576);
    Ok(())
}
