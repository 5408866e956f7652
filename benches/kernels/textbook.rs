//! The formulas as a textbook writes them: what the kernels are timed beside, and checked against.

/// `[rows][inner] × [inner][columns] → [rows][columns]`.
pub fn product(left: &[f32], right: &[f32], columns: usize, out: &mut [f32]) {
    let inner = right.len() / columns;
    for (left, out) in left.chunks(inner).zip(out.chunks_mut(columns)) {
        for (j, out) in out.iter_mut().enumerate() {
            *out = left.iter().enumerate().map(|(k, x)| x * right[k * columns + j]).sum();
        }
    }
}

/// Softmax of one row, in place.
pub fn softmax(row: &mut [f32]) {
    let max = row.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

/// Sizes of an attention. All tensors are `[tokens][heads * d_k]`.
#[derive(Clone, Copy)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub d_k: usize,
    /// Whether a query sees only the keys up to its own place; the last query's is the last key.
    pub causal: bool,
}

/// `softmax(Q_i K_i^T / sqrt(d_k)) V_i` for each head i.
pub fn attention(sizes: Heads, query: &[f32], key: &[f32], value: &[f32], out: &mut [f32]) {
    let Heads { heads, kv_heads, d_k, causal } = sizes;
    let keys = key.len() / (kv_heads * d_k);
    let queries = query.len() / (heads * d_k);
    for (i, (query, out)) in query.chunks(d_k).zip(out.chunks_mut(d_k)).enumerate() {
        let (token, head) = (i / heads, i % heads);
        let visible = if causal { keys - queries + token + 1 } else { keys };
        let place = |key: usize| (key * kv_heads + head / (heads / kv_heads)) * d_k;
        let dot = |key: &[f32]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>();
        let score = |j| dot(&key[place(j)..]) / (d_k as f32).sqrt();
        let mut weights: Vec<f32> = (0..visible).map(score).collect();
        softmax(&mut weights);
        out.fill(0.0);
        for (j, weight) in weights.iter().enumerate() {
            out.iter_mut().zip(&value[place(j)..]).for_each(|(out, v)| *out += weight * v);
        }
    }
}

/// The layer: tokens `x` attend to tokens `source`, both `[tokens][d_model]`, by W^Q, W^K, W^V and W^O, each
/// `[d_model][..]`.
pub fn layer(sizes: Heads, weights: &[Vec<f32>; 4], x: &[f32], source: &[f32], out: &mut [f32]) {
    let d_model = sizes.heads * sizes.d_k;
    let project = |x: &[f32], weights: &[f32]| {
        let columns = weights.len() / d_model;
        let mut out = vec![0.0; x.len() / d_model * columns];
        product(x, weights, columns, &mut out);
        out
    };
    let query = project(x, &weights[0]);
    let [key, value] = [1, 2].map(|i| project(source, &weights[i]));
    let mut context = vec![0.0; x.len()];
    attention(sizes, &query, &key, &value, &mut context);
    product(&context, &weights[3], d_model, out);
}
