//! Layer normalization of rows.

use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd};

/// Layer normalization (Ba, Kiros and Hinton 2016, arXiv:1607.06450) of each row of `[rows][width]`:
/// `y = (x - mean) / sqrt(variance + epsilon) · weight + bias`, with the variance of the whole row (divided by width).
///
/// Two passes: the mean first, then the squares of what is left, so that a large mean costs no digits.
///
/// ```
/// use dhyan::{Isa, kernels::layer_norm};
/// let mut y = [0.0; 4];
/// layer_norm(Isa::detect(), &[1.0, 2.0, 3.0, 4.0], &[1.0; 4], &[0.0; 4], 0.0, &mut y)?;
/// assert!((y[0] + 1.3416408).abs() < 1e-6 && (y[3] - 1.3416408).abs() < 1e-6);
/// # Ok::<(), dhyan::Error>(())
/// ```
pub fn layer_norm(
    isa: Isa,
    x: &[f32],
    weight: &[f32],
    bias: &[f32],
    epsilon: f32,
    y: &mut [f32],
) -> Result<(), Error> {
    check_length("bias", weight.len(), bias.len())?;
    check_length("y", x.len(), y.len())?;
    let rows = x.len().checked_div(weight.len()).unwrap_or(0);
    check_length("x", rows * weight.len(), x.len())?;
    if rows > 0 {
        isa.run(LayerNorm { x, weight, bias, epsilon, y });
    }
    Ok(())
}

struct LayerNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    epsilon: f32,
    y: &'a mut [f32],
}

impl Kernel for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let width = self.weight.len();
        let count = simd.splat(width as f32);
        let rows = self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width));
        for (x, y) in rows {
            let (vectors, rest) = x.as_chunks();
            let mut sum = simd.splat(0.0);
            for v in vectors {
                sum = simd.add(sum, simd.load(v));
            }
            sum = simd.add(sum, simd.load_part(rest));
            let mean = simd.div(simd.splat(simd.sum(sum)), count);

            // The rest of the row, less the mean; 0 beyond.
            let mut tail = [0.0; LANES];
            simd.store_part(simd.sub(simd.load_part(rest), mean), &mut tail[..rest.len()]);
            let mut squares = simd.splat(0.0);
            for v in vectors {
                let centered = simd.sub(simd.load(v), mean);
                squares = simd.mul_add(centered, centered, squares);
            }
            let centered = simd.load(&tail);
            squares = simd.mul_add(centered, centered, squares);
            let variance = simd.div(simd.splat(simd.sum(squares)), count);

            let deviation = simd.sqrt(simd.add(variance, simd.splat(self.epsilon)));
            let factor = simd.div(simd.splat(1.0), deviation);
            let weights = self.weight.chunks(LANES).zip(self.bias.chunks(LANES));
            for ((x, y), (weight, bias)) in x.chunks(LANES).zip(y.chunks_mut(LANES)).zip(weights) {
                let normal = simd.mul(simd.sub(simd.load_part(x), mean), factor);
                simd.store_part(
                    simd.mul_add(normal, simd.load_part(weight), simd.load_part(bias)),
                    y,
                );
            }
        }
    }
}
