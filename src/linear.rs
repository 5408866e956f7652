//! `y = x W + b` with packed weights.

use crate::error::{Error, check_length};
use crate::isa::Isa;
use crate::kernels::layer::Projection;
use crate::kernels::{Panels, pack, panel_index, product};

/// A linear layer, `y = x W + b`: IN × OUT weights in panels, readable straight from flash, and OUT biases.
///
/// ```
/// use dhyan::{Isa, Linear};
/// static LINEAR: Linear<2, 3> = Linear::new(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &[0.5, 0.0, 0.0]);
/// let mut y = [[0.0; 3]];
/// LINEAR.apply(Isa::detect(), &[[1.0, 10.0]], &mut y)?;
/// assert_eq!(y, [[41.5, 52.0, 63.0]]);
/// # Ok::<(), dhyan::Error>(())
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear<const IN: usize, const OUT: usize> {
    /// Panels, whatever the shape of the arrays says.
    pub(crate) weights: [[f32; OUT]; IN],
    pub(crate) bias: [f32; OUT],
}

impl<const IN: usize, const OUT: usize> Linear<IN, OUT> {
    /// Weights and biases of 0.
    pub const ZERO: Self = Self { weights: [[0.0; OUT]; IN], bias: [0.0; OUT] };

    /// Weights `W[in][out]`, and biases (of 0 for none).
    pub const fn new(weights: &[[f32; OUT]; IN], bias: &[f32; OUT]) -> Self {
        let mut linear = Self::ZERO;
        linear.bias = *bias;
        let mut i = 0;
        while i < IN {
            let mut o = 0;
            while o < OUT {
                linear.set(i, o, weights[i][o]);
                o += 1;
            }
            i += 1;
        }
        linear
    }

    /// The weight matrix of PyTorch's `nn.Linear`, `W[out][in]`.
    pub const fn from_torch(weights: &[[f32; IN]; OUT], bias: &[f32; OUT]) -> Self {
        let mut linear = Self::ZERO;
        linear.bias = *bias;
        let mut o = 0;
        while o < OUT {
            let mut i = 0;
            while i < IN {
                linear.set(i, o, weights[o][i]);
                i += 1;
            }
            o += 1;
        }
        linear
    }

    /// Sets the weight from input `i` to output `o`.
    ///
    /// # Panics
    ///
    /// At compile time or run time, where `i` or `o` is beyond the layer.
    pub(crate) const fn set(&mut self, i: usize, o: usize, weight: f32) {
        let place = panel_index(IN, OUT, i, o);
        self.weights[place / OUT][place % OUT] = weight;
    }

    /// The same, and for `i` = IN the bias of output `o`.
    pub(crate) const fn set_or_bias(&mut self, i: usize, o: usize, value: f32) {
        if i < IN { self.set(i, o, value) } else { self.bias[o] = value }
    }

    /// Replaces the weights by `W[in][out]`, row after row.
    pub fn load(&mut self, weights: &[f32]) -> Result<(), Error> {
        pack(weights, IN, OUT, self.weights.as_flattened_mut())
    }

    /// Replaces the weights by PyTorch's `W[out][in]`, row after row.
    pub fn load_torch(&mut self, weights: &[f32]) -> Result<(), Error> {
        check_length("weights", IN * OUT, weights.len())?;
        for (o, row) in weights.chunks_exact(IN.max(1)).enumerate() {
            for (i, &weight) in row.iter().enumerate() {
                self.set(i, o, weight);
            }
        }
        Ok(())
    }

    /// Replaces the biases.
    pub fn load_bias(&mut self, bias: &[f32]) -> Result<(), Error> {
        check_length("bias", OUT, bias.len())?;
        self.bias.copy_from_slice(bias);
        Ok(())
    }

    /// The weights, as the right side of a product.
    pub fn panels(&self) -> Panels<'_> {
        Panels::part(self.weights.as_flattened(), IN, OUT)
    }

    /// `y = x W + b` for each row.
    pub fn apply(&self, isa: Isa, x: &[[f32; IN]], y: &mut [[f32; OUT]]) -> Result<(), Error> {
        check_length("y", x.len(), y.len())?;
        let (x, y) = (x.as_flattened(), y.as_flattened_mut());
        product(isa, x, self.panels(), Some(&self.bias), y)
    }

    pub(crate) fn projection(&self) -> Projection<'_> {
        Projection { weights: self.panels(), bias: &self.bias }
    }
}
