//! Multi-head attention, step by step, with the calls of this crate. Every example is a test.
//!
//! The layer is that of "Attention Is All You Need" (Vaswani et al. 2017, section 3.2). [`bits`] defines its result to
//! the last bit.
//!
//! # Scaled dot-product attention
//!
//! `Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V`: each query is compared with each key by a dot product, softmax
//! makes weights of the scores of a query, and its output is the mean of the values by these weights.
//!
//! The textbook has one query and three keys, d_k = 64, with the scores 32, 16 and 40:
//!
//! ```
//! use dhyan::kernels::{Dimensions, Panels, attention, attention_scratch, pack, product, softmax};
//! use dhyan::{Error, Isa, NoMask};
//! let isa = Isa::detect();
//!
//! let query = [1.0; 64];                                  // [1][d_k]
//! let keys = [[0.5; 64], [0.25; 64], [0.625; 64]];        // [3][d_k]
//! let values = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];      // [3][d_v]
//!
//! // The right side of a product is packed once; K^T is [d_k][3].
//! let transposed: [[f32; 3]; 64] = std::array::from_fn(|i| keys.map(|key| key[i]));
//! let (mut k, mut v) = ([0.0; 64 * 3], [0.0; 3 * 2]);
//! pack(transposed.as_flattened(), 64, 3, &mut k)?;
//! pack(values.as_flattened(), 3, 2, &mut v)?;
//!
//! let mut scores = [0.0; 3];
//! product(isa, &query, Panels::new(&k, 64, 3)?, None, &mut scores)?;
//! assert_eq!(scores, [32.0, 16.0, 40.0]);
//!
//! let mut weights = scores.map(|score| score / 8.0);      // sqrt(64) = 8
//! assert_eq!(weights, [4.0, 2.0, 5.0]);
//! softmax(isa, &mut weights, 3)?;
//! for (weight, expected) in weights.iter().zip([0.2595, 0.0351, 0.7054]) {
//!     assert!((weight - expected).abs() < 5e-5);
//! }
//!
//! let mut out = [0.0; 2];
//! product(isa, &weights, Panels::new(&v, 3, 2)?, None, &mut out)?;
//! assert!((out[0] - 0.9649).abs() < 1e-4);                // 0.2595 + 0.7054
//!
//! // All of it in one call, with the keys as they are.
//! const ONE: Dimensions = Dimensions { heads: 1, kv_heads: 1, d_k: 64, d_v: 2 };
//! let (mut scratch, mut same) = ([0.0; attention_scratch(ONE, 3)], [0.0; 2]);
//! let (keys, values) = (keys.as_flattened(), values.as_flattened());
//! attention(isa, ONE, &query, keys, values, 1.0 / 8.0, &NoMask, &mut scratch, &mut same)?;
//! assert!((out[0] - same[0]).abs() < 1e-6 && (out[1] - same[1]).abs() < 1e-6);
//! # Ok::<(), Error>(())
//! ```
//!
//! Why divide by `sqrt(d_k)`: where the elements of q and k are independent with mean 0 and variance 1, the variance of
//! q·k is d_k. Undivided, scores would grow with the width of a head, and softmax would give nearly all weight to one
//! key.
//!
//! # Why several heads
//!
//! Softmax makes one set of weights. A query that looks for two things at once gets a blend of both; two heads look
//! twice, each with weights of its own. Here a verb looks for its subject (columns 0 and 1: is a subject, what it says)
//! and its object (columns 2 and 3); all projections are the identity, but for a factor that makes softmax decide:
//!
//! ```
//! use dhyan::{Error, Linear, MultiHeadAttention, NoMask, Weights, Workspace};
//!
//! const fn diagonal(x: f32) -> Linear<4, 4> {
//!     let rows = [[x, 0.0, 0.0, 0.0], [0.0, x, 0.0, 0.0], [0.0, 0.0, x, 0.0], [0.0, 0.0, 0.0, x]];
//!     Linear::new(&rows, &[0.0; 4])
//! }
//! const ONE: Linear<4, 4> = diagonal(1.0);
//! let verb = [[1.0, 0.0, 1.0, 0.0]];
//! let subject_and_object = [[1.0, 3.0, 0.0, 0.0], [0.0, 0.0, 1.0, 5.0]];
//! let mut workspace = Workspace::<2, 4>::new();
//! let mut out = [[0.0; 4]];
//!
//! // One head cannot choose: half of each.
//! let one = MultiHeadAttention::<4, 1>::new(diagonal(40.0), ONE, ONE, ONE);
//! one.cross_attention(&verb, &subject_and_object, &NoMask, &mut workspace, &mut out)?;
//! assert_eq!(out, [[0.5, 1.5, 0.5, 2.5]]);
//!
//! // Two heads hear both.
//! let two = MultiHeadAttention::<4, 2>::new(diagonal(40.0), ONE, ONE, ONE);
//! two.cross_attention(&verb, &subject_and_object, &NoMask, &mut workspace, &mut out)?;
//! assert_eq!(out, [[1.0, 3.0, 1.0, 5.0]]);
//!
//! let mut weights = [0.0; 2 * 1 * 2]; // [heads][queries][keys]
//! let to = Weights::PerHead(&mut weights);
//! two.attention_weights(&verb, &subject_and_object, &NoMask, &mut workspace, to)?;
//! assert_eq!(weights.map(f32::round), [1.0, 0.0, 0.0, 1.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Why h heads cost no more than one
//!
//! Because each is narrower: d_k = d_model / h. Multiply-adds, for n tokens, are the same whatever h is:
//!
//! ```
//! const fn multiply_adds(n: u64, d_model: u64, h: u64) -> u64 {
//!     let d_k = d_model / h;
//!     let projections = 3 * h * n * d_model * d_k; // Q_i, K_i, V_i of each head
//!     let scores_and_means = 2 * h * n * n * d_k;  // Q_i K_i^T, and weights · V_i
//!     let output = n * d_model * d_model;          // concat · W^O
//!     projections + scores_and_means + output
//! }
//! assert_eq!(multiply_adds(10, 512, 8), multiply_adds(10, 512, 1));
//!
//! use dhyan::MultiHeadAttention;
//! assert_eq!(MultiHeadAttention::<512, 8>::D_K, 64);
//! assert_eq!(MultiHeadAttention::<512, 8>::PARAMETERS, MultiHeadAttention::<512, 1>::PARAMETERS);
//! ```
//!
//! Only the exponentials, h · n², grow with h. That h divides d_model is checked by the compiler; this does not build:
//!
//! ```compile_fail,E0080
//! use dhyan::MultiHeadAttention;
//! let layer = MultiHeadAttention::<10, 3>::ZERO;
//! ```
//!
//! # What the four matrices do
//!
//! - **W^Q** makes of a token what it looks for, **W^K** what it is found by. They only ever meet in
//!   `Q_i K_i^T = X W_i^Q (W_i^K)^T X^T`: together they say which tokens concern each other in head i.
//! - **W^V** makes of a token what it has to say when it is found.
//! - **W^O** mixes what the heads have heard back into one vector of d_model.
//!
//! The matrices of all heads stand side by side, `W^Q = [W_1^Q .. W_h^Q]`, and so are one product and not h:
//!
//! ```
//! use dhyan::{Linear, MultiHeadAttention};
//! let heads = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], [[9.0; 2]; 4]]; // [h][d_model][d_k]
//! let output = [[1.0; 4]; 4];
//! let layer = MultiHeadAttention::<4, 2>::from_heads(&heads, &heads, &heads, &output);
//!
//! let beside = Linear::new(
//!     &[[1.0, 2.0, 9.0, 9.0], [3.0, 4.0, 9.0, 9.0], [5.0, 6.0, 9.0, 9.0], [7.0, 8.0, 9.0, 9.0]],
//!     &[0.0; 4],
//! );
//! assert_eq!(layer.query, beside);
//! assert_eq!(layer, MultiHeadAttention::new(beside, beside, beside, Linear::new(&output, &[0.0; 4])));
//! ```
//!
//! With fewer key and value heads than query heads (`MultiHeadAttention<D_MODEL, H, D_KV>`, D_KV < D_MODEL) several
//! query heads share one: grouped-query attention, and multi-query attention with a single one.
//!
//! # Why heads are concatenated and not summed
//!
//! A sum forgets which head said what. Two heads that exchange their words leave the same sum, but not the same
//! concatenation, and W^O can tell:
//!
//! ```
//! use dhyan::{Error, Isa, Linear};
//! let (a, b) = ([1.0, 2.0], [10.0, 20.0]); // head_1, head_2
//! assert_eq!([a[0] + b[0], a[1] + b[1]], [b[0] + a[0], b[1] + a[1]]);
//!
//! let concat = [[a[0], a[1], b[0], b[1]], [b[0], b[1], a[0], a[1]]];
//! let w_o = Linear::new(&[[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 0.0]], &[0.0; 2]);
//! let mut out = [[0.0; 2]; 2];
//! w_o.apply(Isa::detect(), &concat, &mut out)?;
//! assert_eq!(out, [[21.0, -8.0], [12.0, 19.0]]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Concatenation and W^O are a sum after all, of heads that each had a matrix of their own: with `W_i^O` the d_k rows
//! of W^O that belong to head i, `concat(head_1 .. head_h) W^O = head_1 W_1^O + .. + head_h W_h^O`. Here even to the
//! last bit, since both are one chain of multiply-adds in the same order:
//!
//! ```
//! use dhyan::{Error, Isa, Linear};
//! let isa = Isa::detect();
//! let (a, b) = ([[0.1, 0.2]], [[0.3, 0.4]]);
//! let rows = [[0.7, -0.3, 0.9], [0.2, 0.6, -0.5], [0.8, 0.4, 0.1], [-0.6, 0.3, 0.5]]; // [h * d_k][d_model]
//! let [mut whole, mut first, mut both] = [[[0.0; 3]]; 3];
//!
//! Linear::new(&rows, &[0.0; 3]).apply(isa, &[[0.1, 0.2, 0.3, 0.4]], &mut whole)?;
//! Linear::new(&[rows[0], rows[1]], &[0.0; 3]).apply(isa, &a, &mut first)?;   // head_1 W_1^O
//! Linear::new(&[rows[2], rows[3]], &first[0]).apply(isa, &b, &mut both)?;    // + head_2 W_2^O
//! assert_eq!(both, whole);
//! # Ok::<(), Error>(())
//! ```
//!
//! The plain sum of the heads is the special case in which all W_i^O are equal.
//!
//! # How large, and how much work
//!
//! Four matrices of d_model × d_model, whatever h is:
//!
//! ```
//! use dhyan::MultiHeadAttention;
//! assert_eq!(MultiHeadAttention::<512, 8>::PARAMETERS, 4 * 512 * 512);
//! assert_eq!(MultiHeadAttention::<512, 8>::PARAMETERS, 1_048_576);
//! ```
//!
//! The projections take 4 n d_model² multiply-adds, attention 2 n² d_model: O(n² d_model) when the text is long.
//! Attention overtakes the projections at n = 2 d_model. At 10,000 tokens of 512:
//!
//! ```
//! let (n, d_model, h) = (10_000_u64, 512, 8);
//! let projections = 4 * n * d_model * d_model;
//! let attention = 2 * n * n * d_model;
//! assert_eq!(projections, 10_485_760_000);
//! assert_eq!(attention, 102_400_000_000);           // ten times as much
//! assert_eq!(h * n * n, 800_000_000);               // scores, each with its exponential
//! assert_eq!(2 * (2 * n) * (2 * n) * d_model, 4 * attention); // twice the tokens: four times the work
//! ```
//!
//! # Memory without n²
//!
//! The scores of that example would be 3.2 GB. They are never kept: softmax needs the maximum and the sum of a row,
//! and both can be carried along from one tile of keys to the next (online softmax, Milakov and Gimelshein 2018).
//! What is left grows with n:
//!
//! ```
//! use dhyan::Workspace;
//! assert_eq!(8 * 10_000_usize.pow(2) * size_of::<f32>(), 3_200_000_000);
//! assert!(size_of::<Workspace<10_000, 512>>() < 63_000_000); // keys, values and queries of all heads
//! ```
//!
//! # Causal masking
//!
//! A model that predicts the next token must not see it: query i sees the keys j ≤ i. The keys beyond get the score
//! -Inf, and so the weight 0. They are hidden in the strict sense: whatever stands there, NaN too, no bit of an
//! earlier output changes. Tiles that nobody sees are skipped, so that causal attention is about half the work.
//!
//! ```
//! use dhyan::{Causal, Error, Linear, MultiHeadAttention, Weights, Workspace};
//! const W: Linear<2, 2> = Linear::new(&[[0.3, -0.8], [0.5, 0.7]], &[0.0; 2]);
//! static LAYER: MultiHeadAttention<2, 1> = MultiHeadAttention::new(W, W, W, W);
//! let mut workspace = Workspace::<3, 2>::new();
//! let [mut y, mut z] = [[[0.0; 2]; 3]; 2];
//!
//! let x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
//! LAYER.self_attention(&x, &Causal::top_left(), &mut workspace, &mut y)?;
//! let x = [[1.0, 2.0], [3.0, 4.0], [f32::NAN, f32::INFINITY]];
//! LAYER.self_attention(&x, &Causal::top_left(), &mut workspace, &mut z)?;
//! assert_eq!(y[..2], z[..2]);
//! assert!(z[2][0].is_nan());
//!
//! let mut weights = [1.0; 3 * 3];
//! let x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
//! LAYER.attention_weights(&x, &x, &Causal::top_left(), &mut workspace, Weights::Mean(&mut weights))?;
//! assert_eq!([weights[1], weights[2], weights[5]], [0.0; 3]); // above the diagonal
//! # Ok::<(), Error>(())
//! ```
//!
//! # Decoding with a cache
//!
//! Since a token depends on the earlier ones only, its keys and values never change when the text grows. A
//! [`KvCache`](crate::KvCache) keeps them, and each new token costs one row of work instead of n:
//!
//! ```
//! use dhyan::{Causal, Error, KvCache, Linear, MultiHeadAttention, Workspace};
//! const W: Linear<2, 2> = Linear::new(&[[0.3, -0.8], [0.5, 0.7]], &[0.1, 0.2]);
//! static LAYER: MultiHeadAttention<2, 1> = MultiHeadAttention::new(W, W, W, W);
//! let mut workspace = Workspace::<3, 2>::new();
//! let x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
//! let mut whole = [[0.0; 2]; 3];
//! LAYER.self_attention(&x, &Causal::top_left(), &mut workspace, &mut whole)?;
//!
//! let mut cache = KvCache::<3, 2>::new();
//! let mut y = [[0.0; 2]];
//! for (x, expected) in x.iter().zip(whole) {
//!     let x = std::slice::from_ref(x);
//!     LAYER.append(x, &mut cache, &mut workspace)?;
//!     LAYER.attend(x, &cache, &Causal::bottom_right(), &mut workspace, &mut y)?;
//!     assert_eq!(y, [expected]); // exactly
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! The bits are the same because nothing in the order of operations knows about the call: every dot product is one
//! chain in index order, tiles are cut at absolute multiples of 512 keys, sums over keys run in lanes by absolute
//! index, and a hidden key changes nothing. Chunks of any size give these bits too.
//!
//! # Where a token stands
//!
//! Attention itself does not know: without a mask, tokens in another order give the same outputs in that order. So
//! positions are added to the tokens ([`sinusoidal`](crate::sinusoidal)), or turn queries and keys
//! ([`Rotary`](crate::Rotary)):
//!
//! ```
//! use dhyan::{Error, Linear, MultiHeadAttention, NoMask, Workspace, add_sinusoidal};
//! const W: Linear<2, 2> = Linear::new(&[[0.3, -0.8], [0.5, 0.7]], &[0.0; 2]);
//! static LAYER: MultiHeadAttention<2, 1> = MultiHeadAttention::new(W, W, W, W);
//! let mut workspace = Workspace::<2, 2>::new();
//! let mut difference_when_exchanged = |with_positions: bool| {
//!     let [mut y, mut z] = [[[0.0; 2]; 2]; 2];
//!     for (mut x, out) in [([[1.0, 2.0], [3.0, 4.0]], &mut y), ([[3.0, 4.0], [1.0, 2.0]], &mut z)] {
//!         if with_positions {
//!             add_sinusoidal(0, 2, x.as_flattened_mut())?;
//!         }
//!         LAYER.self_attention(&x, &NoMask, &mut workspace, out)?;
//!     }
//!     Ok::<f32, Error>((y[0][0] - z[1][0]).abs())
//! };
//! assert!(difference_when_exchanged(false)? < 1e-6);
//! assert!(difference_when_exchanged(true)? > 1e-2);
//! # Ok::<(), Error>(())
//! ```
//!
//! # The worked example
//!
//! n = 10 tokens, d_model = 512, h = 8, d_k = 64:
//!
//! | | shape | |
//! |---|---|---|
//! | X | 10 × 512 | the tokens |
//! | W_i^Q, W_i^K, W_i^V | 512 × 64 | of each head |
//! | Q_i, K_i, V_i | 10 × 64 | X W_i^Q, X W_i^K, X W_i^V |
//! | Q_i K_i^T | 10 × 10 | scores |
//! | softmax(Q_i K_i^T / sqrt(d_k)) | 10 × 10 | weights, each row adds up to 1 |
//! | head_i | 10 × 64 | weights · V_i |
//! | concat(head_1 .. head_8) | 10 × 512 | 8 · 64 = 512 |
//! | W^O | 512 × 512 | |
//! | output | 10 × 512 | as X, so that layers can be stacked |
//!
//! `examples/textbook.rs` goes through it with [`kernels`](crate::kernels), prints these shapes from the matrices
//! themselves, and checks the layer's one call against the steps.

#[doc = include_str!("../docs/BITS.md")]
pub mod bits {}
