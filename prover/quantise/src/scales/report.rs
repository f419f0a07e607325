//! What calibration tells of its choice.

use super::bits::Bits;
use super::Shifts;
use crate::{CalibrationReport, ChannelExponent, FirstTokens, TensorBits, WeightScale};
use tessera_checkpoint::matmul_tensor;

impl Shifts<'_> {
    /// How many of the heads would saturate in their second row.
    fn heads(&self, bits: &Bits) -> FirstTokens {
        let chosen = &self.chosen;
        let limit = |bits: i32| (f64::from(i16::MAX) + 0.5) * f64::from(-bits).exp2();
        let (tried, saturated) = chosen.given.ranges.second_rows.beyond(
            |n, c| limit(bits.residual[n].body - chosen.state_exponent(n, c)),
            |l, c| limit(bits.layers[l].product.body - chosen.products[l].get(c).copied().map_or(0, i32::from)),
        );
        FirstTokens { tried, saturated }
    }

    pub(super) fn report(&self, bits: &Bits) -> CalibrationReport {
        let (given, chosen) = (self.chosen.given, &self.chosen);
        let mut tensors = Vec::new();
        let mut add = |name: String, max: f32, bits: i32| tensors.push(TensorBits { name, max, bits });
        let largest = |max: &[f32]| max.iter().copied().fold(0.0, f32::max);
        for (n, (state, bits)) in given.ranges.residual.iter().zip(&bits.residual).enumerate() {
            add(format!("residual {n}"), largest(&state.body.max), bits.body);
            add(
                format!("residual {n}, leading rows"),
                largest(&state.lead.max),
                bits.lead,
            );
        }
        for (l, (b, r)) in bits.layers.iter().zip(&given.ranges.layers).enumerate() {
            for (name, max, bits) in [
                ("attention norm", r.norm_attn.largest(), b.norm_attn),
                ("q", r.q, b.q),
                ("k", r.k, b.k),
                ("v", r.v, b.v),
                ("scores", r.scores, bits.score),
                ("attention", r.attention, b.attention),
                ("mlp norm", r.norm_mlp.largest(), b.norm_mlp),
                ("gate", r.gate.body.max(r.gate.lead), bits.gate),
                ("silu", r.silu.body.max(r.silu.lead), bits.silu),
                ("up", largest(&r.product.up), b.up),
                ("mlp product", largest(&r.product.max.body), b.product.body),
                (
                    "mlp product, leading rows",
                    largest(&r.product.max.lead),
                    b.product.lead,
                ),
            ] {
                // Without gates, the table is that of the up projection.
                let name = match (given.config.gated, name) {
                    (false, "gate") => "up",
                    (false, "silu" | "up" | "mlp product, leading rows") => continue,
                    _ => name,
                };
                add(format!("layer {l} {name}"), max, bits);
            }
        }
        add(
            "final norm".to_string(),
            given.ranges.norm_final.largest(),
            bits.norm_final,
        );
        add("logits".to_string(), given.ranges.logits, bits.logit);
        let weights = chosen.weights.bits.iter().map(|(id, channels)| WeightScale {
            tensor: matmul_tensor(*id),
            min_bits: channels.iter().copied().min().unwrap_or(0),
            max_bits: channels.iter().copied().max().unwrap_or(0),
        });
        CalibrationReport {
            tokens: 0,
            exponents: listed(&chosen.stream),
            products: chosen.products.iter().map(|exponents| listed(exponents)).collect(),
            heads: self.heads(bits),
            weights: weights.collect(),
            activations: tensors,
        }
    }
}

/// The channels that have an exponent.
fn listed(exponents: &[u8]) -> Vec<ChannelExponent> {
    let exponents = exponents.iter().enumerate().filter(|(_, k)| **k > 0);
    let listed = exponents.map(|(channel, k)| ChannelExponent { channel, exponent: *k });
    listed.collect()
}
