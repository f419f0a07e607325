//! The integer parameters of a layer, by what it is made of (docs/protocol.md, sections 2 and 16), and how a key writes them.

use std::borrow::Cow;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ByClass, ChannelShift, MatmulKind, StreamShift};

/// RMSNorm parameters (docs/protocol.md, section 16.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormParams {
    /// `r` is the largest integer with `r^2 * (sum of squares + eps) <= hidden * 2^(2 scale)`.
    pub scale: u8,
    /// `round(rms_eps * hidden * 2^(2 residual bits))` in the unit of the rows, but at least the least of [`crate::bounds::epsilons`].
    pub eps: ByClass<u64>,
    /// Output `y = (x * r) >> (8 + s)`, rounded, `s` the shift of the channel, in `1..=7`: one for all of them, or one for each.
    pub shift: ChannelShift,
}

/// The norm of every head of queries, or of keys, of a layer (docs/protocol.md, section 16.11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadNorm {
    /// The scale, as [`NormParams::scale`] is one, for rows as wide as a head.
    pub scale: u8,
    /// The epsilon, as [`NormParams::eps`] is one, the same in all rows.
    pub eps: u64,
    /// Output `n = (a * r) >> (8 + shift)`, rounded.
    pub shift: u8,
    /// Gains of the channels of a head, with 14 fractional bits: the rotation has them.
    pub gains: Vec<i16>,
}

impl HeadNorm {
    /// The norm without its gains.
    pub fn norm(&self) -> NormParams {
        NormParams {
            scale: self.scale,
            eps: ByClass::both(self.eps),
            shift: ChannelShift::one(self.shift),
        }
    }
}

/// The norms of the heads of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadNorms {
    /// The norm of queries.
    pub q: HeadNorm,
    /// The norm of keys.
    pub k: HeadNorm,
}

impl HeadNorms {
    /// The norm of the heads that a matmul makes.
    pub const fn of(&self, kind: MatmulKind) -> Option<&HeadNorm> {
        match kind {
            MatmulKind::Q => Some(&self.q),
            MatmulKind::K => Some(&self.k),
            _ => None,
        }
    }
}

/// The norm of what attention or MLP of a layer adds (docs/protocol.md, section 16.12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostNorm {
    /// The norm. Its channels have no exponents.
    pub norm: NormParams,
    /// The sum of the state before and the normed output into the state after it.
    pub sum: StreamShift,
}

/// Integer parameters of the attention of a layer: what makes the residual stream after it from the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionParams {
    /// The norm before attention.
    pub norm: NormParams,
    /// Shifts of queries.
    pub q: ChannelShift,
    /// Shifts of keys.
    pub k: ChannelShift,
    /// Shifts of values.
    pub v: ChannelShift,
    /// The norms of the heads of queries and keys, where they are normed.
    pub head_norms: Option<HeadNorms>,
    /// Shift of the scores: brings `q . k` to `score_bits` fractional bits.
    pub score: u8,
    /// Shift of the attention output `p . v`.
    pub att: u8,
    /// Shifts of the attention output into the residual stream; of the output alone where it is normed before it is added.
    pub o: StreamShift,
    /// The residual is multiplied by `2^(shift + skip)` (and 2^8) before it is added to the accumulator.
    pub skip: ByClass<i8>,
    /// The norm of what attention adds, where that is normed.
    pub post_norm: Option<PostNorm>,
}

/// Integer parameters of the MLP of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlpParams {
    /// The norm before the MLP.
    pub norm: NormParams,
    /// Shifts of gates.
    pub gate: ChannelShift,
    /// Shifts of the other factor.
    pub up: ChannelShift,
    /// Shift of `silu(gate) * up`.
    pub act: ByClass<u8>,
    /// Shifts of the MLP's output, as [`AttentionParams::o`] has them of attention's.
    pub down: StreamShift,
    /// The factor of the residual, as [`AttentionParams::skip`] is one.
    pub skip: ByClass<i8>,
    /// The norm of what the MLP adds, where that is normed.
    pub post_norm: Option<PostNorm>,
}

/// Integer parameters of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerParams {
    /// Attention, which mixes tokens.
    pub attention: AttentionParams,
    /// The MLP, which follows attention.
    pub mlp: MlpParams,
}

/// A matmul whose output goes into the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The shift of its output.
    pub shift: &'a StreamShift,
    /// How the residual is multiplied before it is added.
    pub skip: ByClass<i8>,
    /// The norm of its output, where that is normed before it is added.
    pub post_norm: Option<&'a PostNorm>,
}

impl LayerParams {
    /// How the output of O, or of Down, goes into the residual stream.
    pub const fn writer(&self, kind: MatmulKind) -> Writer<'_> {
        let (attention, mlp) = (&self.attention, &self.mlp);
        match kind {
            MatmulKind::O => Writer {
                shift: &attention.o,
                skip: attention.skip,
                post_norm: attention.post_norm.as_ref(),
            },
            _ => Writer {
                shift: &mlp.down,
                skip: mlp.skip,
                post_norm: mlp.post_norm.as_ref(),
            },
        }
    }

    /// The norms before attention and MLP.
    pub const fn norms(&self) -> [&NormParams; 2] {
        [&self.attention.norm, &self.mlp.norm]
    }

    /// The norms of what attention and MLP add, where that is normed.
    pub fn post_norms(&self) -> impl Iterator<Item = &PostNorm> {
        [&self.attention.post_norm, &self.mlp.post_norm].into_iter().flatten()
    }

    /// The same norms, for a caller that changes them.
    pub fn post_norms_mut(&mut self) -> impl Iterator<Item = &mut PostNorm> {
        let norms = [&mut self.attention.post_norm, &mut self.mlp.post_norm];
        norms.into_iter().flatten()
    }
}

/// A layer in the order of the key: attention and MLP, then what some models have, of both.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    norm_attn: Cow<'a, NormParams>,
    q: Cow<'a, ChannelShift>,
    k: Cow<'a, ChannelShift>,
    v: Cow<'a, ChannelShift>,
    score: u8,
    att: u8,
    o: Cow<'a, StreamShift>,
    skip_attn: ByClass<i8>,
    norm_mlp: Cow<'a, NormParams>,
    gate: Cow<'a, ChannelShift>,
    up: Cow<'a, ChannelShift>,
    act: ByClass<u8>,
    down: Cow<'a, StreamShift>,
    skip_mlp: ByClass<i8>,
    head_norms: Option<Cow<'a, HeadNorms>>,
    post_norms: Option<WrittenPostNorms<'a>>,
}

/// The norms of what attention and MLP add.
#[derive(Serialize, Deserialize)]
struct WrittenPostNorms<'a> {
    attn: Cow<'a, PostNorm>,
    mlp: Cow<'a, PostNorm>,
}

impl Serialize for LayerParams {
    /// Errors if only one of attention and MLP norms what it adds, which the key has no place for.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (attention, mlp) = (&self.attention, &self.mlp);
        let post_norms = match (&attention.post_norm, &mlp.post_norm) {
            (Some(attn), Some(mlp)) => Some(WrittenPostNorms {
                attn: Cow::Borrowed(attn),
                mlp: Cow::Borrowed(mlp),
            }),
            (None, None) => None,
            _ => {
                return Err(S::Error::custom(
                    "a key cannot say that only one of attention and MLP norms what it adds",
                ))
            }
        };
        let written = Written {
            norm_attn: Cow::Borrowed(&attention.norm),
            q: Cow::Borrowed(&attention.q),
            k: Cow::Borrowed(&attention.k),
            v: Cow::Borrowed(&attention.v),
            score: attention.score,
            att: attention.att,
            o: Cow::Borrowed(&attention.o),
            skip_attn: attention.skip,
            norm_mlp: Cow::Borrowed(&mlp.norm),
            gate: Cow::Borrowed(&mlp.gate),
            up: Cow::Borrowed(&mlp.up),
            act: mlp.act,
            down: Cow::Borrowed(&mlp.down),
            skip_mlp: mlp.skip,
            head_norms: attention.head_norms.as_ref().map(Cow::Borrowed),
            post_norms,
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LayerParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let [attention_post_norm, mlp_post_norm] = match written.post_norms {
            Some(norms) => [norms.attn, norms.mlp].map(|norm| Some(norm.into_owned())),
            None => [None, None],
        };
        Ok(Self {
            attention: AttentionParams {
                norm: written.norm_attn.into_owned(),
                q: written.q.into_owned(),
                k: written.k.into_owned(),
                v: written.v.into_owned(),
                head_norms: written.head_norms.map(Cow::into_owned),
                score: written.score,
                att: written.att,
                o: written.o.into_owned(),
                skip: written.skip_attn,
                post_norm: attention_post_norm,
            },
            mlp: MlpParams {
                norm: written.norm_mlp.into_owned(),
                gate: written.gate.into_owned(),
                up: written.up.into_owned(),
                act: written.act,
                down: written.down.into_owned(),
                skip: written.skip_mlp,
                post_norm: mlp_post_norm,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{odd_config, test_params, Blocks, ModelConfig};

    /// A key has one place for the norms of both; it cannot say that one of them is missing, so nothing writes such a key.
    #[test]
    fn a_key_norms_the_outputs_of_both_or_of_none() {
        let config = ModelConfig {
            blocks: Blocks {
                norm_outputs: true,
                ..Blocks::DECODER
            },
            head_norms: true,
            ..odd_config(1)
        };
        let layer = test_params(&config).layers.remove(0);
        let text = serde_json::to_string(&layer).expect("JSON");
        assert_eq!(
            serde_json::from_str::<super::LayerParams>(&text).expect("a layer"),
            layer
        );
        for drop in [
            |layer: &mut super::LayerParams| layer.attention.post_norm = None,
            |layer: &mut super::LayerParams| layer.mlp.post_norm = None,
        ] {
            let mut one = layer.clone();
            drop(&mut one);
            let error = serde_json::to_string(&one).expect_err("one of two").to_string();
            assert!(error.contains("only one of attention and MLP"), "{error}");
        }
    }
}
