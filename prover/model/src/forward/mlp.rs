//! The MLP: its matmuls, and the activation between them.

use tessera_circuits::model::MatmulKind;
use tessera_circuits::statement::class_of;
use tessera_kernels::device::DeviceError;

use super::kernels::{in_rows, requantise_all, Clipped};
use super::{ForwardState, LayerWitness, Pass};

impl ForwardState<'_> {
    /// What the table has for rows of values.
    fn activate(&mut self, tensor: String, values: &[i16]) -> Vec<i16> {
        let width = self.model.config.ff;
        let (out, clipped) = in_rows([values.len() / width, width], |i, out| {
            let mut clipped = Clipped::default();
            for (out, &v) in out.iter_mut().zip(&values[i * width..]) {
                *out = self.silu[(i32::from(v) + (1 << 15)) as usize];
                clipped.count(*out, || self.unclamped_silu(v));
            }
            clipped
        });
        self.count(tensor, clipped, out.len());
        out
    }

    /// The MLP of layer `l` up to what Down reads, from a normed state.
    pub(super) fn mlp(
        &mut self,
        l: usize,
        y: &[i16],
        out: &mut LayerWitness,
        pass: &mut Pass<'_>,
    ) -> Result<Vec<i16>, DeviceError> {
        let (model, name) = (self.model, |tensor: &str| format!("layers.{l}.{tensor}"));
        let params = &model.params.layers[l];
        if !model.config.gated {
            let (acc, up) = self.project(name("up"), MatmulKind::Up, l, y, &params.mlp.up, pass)?;
            let h = self.activate(name("act"), &up);
            (out.up_acc_hi, out.up_acc_lo, out.up) = (acc.hi, acc.lo, up);
            return Ok(h);
        }
        let (gate_acc, gate) = self.project(name("gate"), MatmulKind::Gate, l, y, &params.mlp.gate, pass)?;
        let (up_acc, up) = self.project(name("up"), MatmulKind::Up, l, y, &params.mlp.up, pass)?;
        let silu = self.activate(name("silu"), &gate);
        let (width, leading) = (model.config.ff, self.leading_here());
        let (h, clipped) = in_rows([silu.len() / width, width], |i, out| {
            let (shift, own) = (params.mlp.act.of(class_of(i, leading)), i * width..(i + 1) * width);
            let products = silu[own.clone()].iter().zip(&up[own]);
            requantise_all(products.map(|(&s, &u)| (i64::from(s) * i64::from(u), shift)), out)
        });
        self.count(name("act"), clipped, h.len());

        (out.gate_acc_hi, out.gate_acc_lo, out.gate, out.silu) = (gate_acc.hi, gate_acc.lo, gate, silu);
        (out.up_acc_hi, out.up_acc_lo, out.up) = (up_acc.hi, up_acc.lo, up);
        Ok(h)
    }

    /// Entry of the table at `gate`, before it is saturated.
    fn unclamped_silu(&self, gate: i16) -> i64 {
        let params = &self.model.params;
        let x = f64::from(gate) * f64::from(-params.gate_bits).exp2();
        (f64::from(params.silu_bits).exp2() * params.activation.of(x)).round() as i64
    }
}
