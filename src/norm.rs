//! Normalization with weights of its own.

use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::kernels::layer_norm;

/// Layer normalization: D weights and D biases. See [`kernels::layer_norm`](crate::kernels::layer_norm).
///
/// ```
/// use dhyan::{Isa, LayerNorm};
/// let norm = LayerNorm { weight: [2.0; 2], bias: [1.0; 2] };
/// let mut y = [[0.0; 2]];
/// norm.apply(Isa::detect(), 0.0, &[[3.0, 5.0]], &mut y)?;
/// assert_eq!(y, [[-1.0, 3.0]]);
/// # Ok::<(), dhyan::Error>(())
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm<const D: usize> {
    /// Factors of the normalized values.
    pub weight: [f32; D],
    /// What is added at the end.
    pub bias: [f32; D],
}

impl<const D: usize> LayerNorm<D> {
    /// Factors of 1 and biases of 0.
    pub const IDENTITY: Self = Self { weight: [1.0; D], bias: [0.0; D] };

    /// Normalizes each row of `x` into `y`; `epsilon` is added to the variance (PyTorch's default is 1e-5).
    pub fn apply(
        &self,
        isa: Isa,
        epsilon: f32,
        x: &[[f32; D]],
        y: &mut [[f32; D]],
    ) -> Result<(), Error> {
        check_length("y", x.len(), y.len())?;
        let (x, y) = (x.as_flattened(), y.as_flattened_mut());
        layer_norm(isa, x, &self.weight, &self.bias, epsilon, y)
    }
}
