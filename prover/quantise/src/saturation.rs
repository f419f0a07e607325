//! What it means that values of a tensor did not fit int16 and were clipped.

use tessera_model::forward::{Saturation, Saturations};

/// One tensor with clipped values, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// As in [`Saturations`].
    pub tensor: String,
    /// Whether the model says something else because of it, than it would with wider integers.
    pub harmful: bool,
    /// A sentence for people.
    pub sentence: String,
}

/// Explains every tensor with clipped values, harmful ones first.
pub fn explain(saturated: &Saturations) -> Vec<Explanation> {
    let clipped = saturated.iter().filter(|(_, count)| count.total() > 0);
    let mut all: Vec<Explanation> = clipped.map(|(tensor, count)| one(tensor, count)).collect();
    all.sort_by_key(|e| !e.harmful);
    all
}

fn one(tensor: &str, count: &Saturation) -> Explanation {
    let (layer, site) = match tensor.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        Some((layer, site)) => (Some(layer), site),
        None => (None, tensor),
    };
    let place = match (name(site), layer) {
        (name, Some(layer)) => format!("{name} of layer {layer}"),
        (name, None) => name.to_owned(),
    };
    // Only a clipped end that the rest of the model looks away from does no harm.
    let (harmful, because) = match site {
        "score" if count.high == 0 => (
            false,
            "they are so far below the largest one that they get no attention",
        ),
        "score" => (true, "scores at the upper end decide what is attended to"),
        "gate" if count.high == 0 => (false, "a gate that is so negative is closed"),
        "gate" | "silu" => (true, "gates at the upper end multiply what passes"),
        "embed" | "residual_attn" | "residual_mlp" => (
            true,
            "the residual stream carries them to all later layers; \
             a first token that calibration did not see, or a second row like it, can do this (--leading 2)",
        ),
        "act" => (true, "they are what the MLP adds to the residual stream"),
        "logits" => (true, "the largest logit may be among them"),
        _ => (true, "all that is computed from them is wrong by as much"),
    };
    let judgement = if harmful { "harmful" } else { "harmless" };
    let (clipped, of) = (count.total(), count.of);
    Explanation {
        tensor: tensor.to_owned(),
        harmful,
        sentence: format!("{clipped} of {of} values of {place} were clipped: {judgement}, since {because}"),
    }
}

/// What a tensor is called.
fn name(site: &str) -> &str {
    match site {
        "embed" => "the embedding",
        "norm_attn" => "the norm before attention",
        "q" => "the queries",
        "k" => "the keys",
        "v" => "the values",
        "q_norm" => "the normed queries",
        "k_norm" => "the normed keys",
        "q_rot" => "the rotated queries",
        "k_rot" => "the rotated keys",
        "score" => "the attention scores",
        "att" => "the output of attention",
        "residual_attn" => "the residual stream after attention",
        "output_attn" => "what attention adds, before its norm",
        "post_norm_attn" => "the norm of what attention adds",
        "output_mlp" => "what the MLP adds, before its norm",
        "post_norm_mlp" => "the norm of what the MLP adds",
        "norm_mlp" => "the norm before the MLP",
        "gate" => "the gates",
        "silu" => "the activated gates",
        "up" => "the MLP's up projection",
        "act" => "the MLP's product",
        "residual_mlp" => "the residual stream after the MLP",
        "norm_final" => "the last norm",
        "logits" => "the logits",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tensor: &str, low: u64, high: u64) -> Vec<Explanation> {
        let count = Saturation { low, high, of: 100 };
        explain(&[(tensor.to_owned(), count)].into())
    }

    #[test]
    fn only_ends_that_nobody_looks_at_are_harmless() {
        for (tensor, low, high, harmful) in [
            ("layers.1.score", 5, 0, false),
            ("layers.1.score", 5, 1, true),
            ("layers.0.gate", 5, 0, false),
            ("layers.0.gate", 0, 1, true),
            ("layers.0.silu", 0, 1, true),
            ("layers.0.residual_mlp", 1, 0, true),
            ("layers.0.act", 1, 0, true),
            ("logits", 0, 1, true),
        ] {
            assert_eq!(of(tensor, low, high)[0].harmful, harmful, "{tensor} {low} {high}");
        }
        assert_eq!(of("layers.0.q", 0, 0), []);
    }

    #[test]
    fn sentences_name_tensor_layer_and_numbers_and_harm_comes_first() {
        let count = |low, high| Saturation { low, high, of: 576 };
        let all = explain(
            &[
                ("layers.18.score".to_owned(), count(7, 0)),
                ("layers.3.residual_attn".to_owned(), count(0, 2)),
            ]
            .into(),
        );
        assert!(all[0].sentence.starts_with(
            "2 of 576 values of the residual stream after attention of layer 3 were clipped: harmful, since "
        ));
        assert_eq!(
            all[1].sentence,
            "7 of 576 values of the attention scores of layer 18 were clipped: harmless, since they are so far below the \
             largest one that they get no attention"
        );
    }

    /// Every tensor that the forward pass counts has a name of its own.
    #[test]
    fn all_tensors_have_names() {
        use tessera_model::forward::ForwardState;
        use tessera_model::sample::extreme_model;
        use tessera_samples::odd_config;
        let model = extreme_model(odd_config(), crate::Strategy::W8.format(), 1);
        let mut state = ForwardState::new(&model);
        state.run(&[1, 2, 3], None).unwrap();
        assert!(state.saturated().len() > 10);
        for tensor in state.saturated().keys() {
            let site = tensor.rsplit('.').next().unwrap();
            assert_ne!(name(site), site, "{tensor}");
        }
    }
}
