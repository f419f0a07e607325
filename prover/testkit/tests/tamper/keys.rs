//! Hostile keys: every parameter that the constraints rely on, out of its range. What each would gain stands
//! beside it. The verifier must refuse the key itself, read from bytes or handed over in memory; that the
//! model id differs from the proof's is no answer, as a proof can be made for any key.

use tessera_circuits::bounds::{MAX_ACT_SHIFT, MAX_ATT_SHIFT, MAX_BIAS};
use tessera_circuits::model::{
    ByClass, ChannelShift, ColumnNorms, MatmulKind, ModelConfig, ModelError, ModelParams, NormParams, Rotation,
    StreamShift, WeightBits, WeightFormat, MAX_CONTEXT,
};
use tessera_verifier::key::{KeyError, ModelKey};
use tessera_verifier::opening::OpeningError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::{honest, Honest};

/// Both ways into the verifier refuse the honest key after `change`; returns why.
fn refusal(change: &dyn Fn(&mut ModelKey)) -> KeyError {
    let [Honest { key, proof, .. }, _] = honest();
    let mut key = key.clone();
    change(&mut key);
    let bytes = key.to_bytes().expect("the key encodes");
    let read = ModelKey::from_bytes(&bytes).expect_err("a hostile key is not read");
    let Err(VerifyError::Key(given)) = verify(&key, proof) else {
        panic!("not refused as a key: {:?}", verify(&key, proof));
    };
    assert_eq!(read.to_string(), given.to_string());
    given
}

fn model_error(change: &dyn Fn(&mut ModelKey)) -> ModelError {
    match refusal(change) {
        KeyError::Model(error) => error,
        other => panic!("{other}"),
    }
}

/// A change of the key, and the quantity that must be named.
type Row = (&'static str, &'static dyn Fn(&mut ModelConfig));

/// Dimensions for which shapes, tables or bounds were not made: divisions by zero, sizes that overflow.
#[test]
fn dimensions_out_of_range() {
    let rows: [Row; 16] = [
        ("hidden_size", &|c| c.hidden = 1),
        ("hidden_size", &|c| c.hidden = (1 << 14) + 1),
        ("num_hidden_layers", &|c| c.layers = 0),
        ("num_hidden_layers", &|c| c.layers = usize::MAX),
        ("num_attention_heads", &|c| c.heads = 0),
        ("num_attention_heads", &|c| c.heads = 1 << 9),
        ("num_key_value_heads", &|c| c.kv_heads = 0),
        ("num_key_value_heads", &|c| c.kv_heads = 1 << 9),
        ("head_dim", &|c| c.head_dim = 0),
        ("head_dim", &|c| c.head_dim = 258),
        ("head_dim modulo 2", &|c| c.head_dim = 3),
        ("intermediate_size", &|c| c.ff = 0),
        ("vocab_size", &|c| c.vocab = 1),
        ("vocab_size", &|c| c.vocab = (1 << 19) + 1),
        ("max_position_embeddings", &|c| c.context = 0),
        ("max_position_embeddings", &|c| c.context = MAX_CONTEXT + 1),
    ];
    for (expected, change) in rows {
        let error = model_error(&|key| change(&mut key.config));
        assert!(
            matches!(&error, ModelError::OutOfRange { what, .. } if *what == expected),
            "{expected}: {error}"
        );
    }
    // Two groups of heads of different sizes: queries that no key answers.
    let error = model_error(&|key| (key.config.heads, key.config.kv_heads) = (5, 2));
    assert_eq!(error, ModelError::HeadGroups { heads: 5, kv_heads: 2 });
}

/// Rotations that no verifier can agree on, or that leave a layer or a pair without an angle.
#[test]
fn rotations_of_no_pair_or_layer() {
    fn base(theta: f64) -> Vec<Rotation> {
        vec![Rotation::Base(theta)]
    }
    fn all(config: &ModelConfig, frequency: f64) -> Vec<Rotation> {
        vec![Rotation::Frequencies(vec![frequency; config.head_dim / 2])]
    }
    let rows: [Row; 12] = [
        ("rope_theta", &|c| c.rotations = base(f64::NAN)),
        ("rope_theta", &|c| c.rotations = base(0.5)),
        ("rope_theta", &|c| c.rotations = base(f64::INFINITY)),
        ("frequency of a rotation", &|c| c.rotations = all(c, f64::NAN)),
        ("frequency of a rotation", &|c| c.rotations = all(c, -1e-9)),
        ("frequency of a rotation", &|c| c.rotations = all(c, 1025.0)),
        ("number of rotations", &|c| c.rotations.clear()),
        ("number of rotations", &|c| c.rotations = vec![Rotation::Base(2.0); 9]),
        ("frequencies of a rotation", &|c| {
            c.rotations = vec![Rotation::Frequencies(vec![1.0])]
        }),
        ("rotations of layers", &|c| c.rotation_of = vec![0; c.layers]),
        ("rotations of layers", &|c| c.rotations.push(Rotation::Base(2.0))),
        ("rotation of a layer", &|c| {
            c.rotations.push(Rotation::Base(2.0));
            c.rotation_of = vec![2; c.layers];
        }),
    ];
    for (what, change) in rows {
        let error = model_error(&|key| change(&mut key.config)).to_string();
        assert!(error.starts_with(what), "{error}");
    }
}

/// A change of the parameters, and the quantity that must be named.
type Shift = (&'static str, &'static dyn Fn(&mut ModelParams, u8));

/// Every shift of a rounding: beyond 13, or what one limb allows, its remainder leaves the range that makes the result unique, and at 0
/// the rounding's constant is no integer.
#[test]
fn shifts_out_of_range() {
    let rows: [Shift; 14] = [
        ("embedding", &|p, s| p.embed = StreamShift::one(s)),
        ("head", &|p, s| p.head = ChannelShift(vec![s])),
        ("q", &|p, s| p.layers[0].attention.q = ChannelShift(vec![s])),
        ("k", &|p, s| p.layers[0].attention.k = ChannelShift(vec![s])),
        ("v", &|p, s| p.layers[0].attention.v = ChannelShift(vec![s])),
        ("o", &|p, s| p.layers[0].attention.o = StreamShift::one(s)),
        ("gate", &|p, s| p.layers[0].mlp.gate = ChannelShift(vec![s])),
        ("up", &|p, s| p.layers[0].mlp.up = ChannelShift(vec![s])),
        ("down", &|p, s| p.layers[0].mlp.down = StreamShift::one(s)),
        ("scores", &|p, s| p.layers[0].attention.score = s),
        ("attention output", &|p, s| p.layers[0].attention.att = s),
        ("mlp product", &|p, s| p.layers[0].mlp.act.body = s),
        ("mlp product", &|p, s| p.layers[0].mlp.act.lead = s),
        // The last of many channels.
        ("gate", &|p, s| {
            let width = honest()[0].key.config.ff;
            p.layers[0].mlp.gate = ChannelShift((0..width).map(|i| if i + 1 == width { s } else { 3 }).collect());
        }),
    ];
    for (i, (expected, change)) in rows.iter().enumerate() {
        // Attention outputs and products are in one limb, whatever the key claims.
        let beyond = match *expected {
            "attention output" => MAX_ATT_SHIFT + 1,
            "mlp product" => MAX_ACT_SHIFT + 1,
            _ => 14,
        };
        for shift in [0, beyond, 255] {
            let error = model_error(&|key| change(&mut key.params, shift));
            let matches = matches!(&error, ModelError::OutOfRange { what, value, .. } if what.ends_with(expected) && *value == u64::from(shift));
            assert!(matches, "row {i}, shift {shift}: {error}");
        }
    }
}

/// Shifts of norms leave remainders of 15 bits at most, in every channel.
#[test]
fn shifts_of_norms_out_of_range() {
    let rows: [&dyn Fn(&mut ModelParams) -> &mut ChannelShift; 3] = [
        &|p| &mut p.norm_final.shift,
        &|p| &mut p.layers[0].attention.norm.shift,
        &|p| &mut p.layers[0].mlp.norm.shift,
    ];
    let width = honest()[0].key.config.hidden;
    for (i, of) in rows.iter().enumerate() {
        for shift in [0, 8, 255] {
            for list in [vec![shift], [vec![1; width - 1], vec![shift]].concat()] {
                let error = model_error(&|key| of(&mut key.params).0 = list.clone());
                let refused = matches!(&error, ModelError::OutOfRange { what: "shift of a norm", value, .. } if *value == u64::from(shift));
                assert!(refused, "row {i}, shift {shift}: {error}");
            }
        }
        for length in [0, 2, width - 1, width + 1] {
            let error = model_error(&|key| of(&mut key.params).0 = vec![1; length]);
            let refused = matches!(&error, ModelError::Length { what: "shifts of a norm", got, .. } if *got == length);
            assert!(refused, "row {i}, {length} shifts: {error}");
        }
    }
}

/// Everything else that an integer of the model is made from.
#[test]
fn parameters_out_of_range() {
    type Change = (&'static str, &'static dyn Fn(&mut ModelParams));
    let rows: [Change; 32] = [
        // The one-hot entries must not wrap.
        ("embed exponent", &|p| p.embed_exponent = 14),
        // Residuals scaled beyond the field.
        ("residual skip", &|p| p.layers[0].attention.skip.body = 14),
        ("residual skip", &|p| p.layers[0].mlp.skip.lead = -128),
        // Tables of tables: exponents that overflow.
        ("score bits", &|p| p.score_bits = 65),
        ("score bits", &|p| p.score_bits = i32::MIN),
        ("gate bits", &|p| p.gate_bits = -65),
        ("silu bits", &|p| p.silu_bits = 65),
        ("logit bits", &|p| p.logit_bits = i32::MAX),
        // A reciprocal root that does not exist or does not fit.
        ("norm scale", &|p| p.norm_final.scale = 49),
        ("norm scale", &|p| p.layers[0].attention.norm.scale = 255),
        ("norm scale", &|p| p.layers[0].mlp.norm.scale = 49),
        ("norm eps", &|p| p.norm_final.eps.lead = 0),
        ("norm eps", &|p| p.layers[0].attention.norm.eps.body = 1 << 60),
        ("norm eps", &|p| p.layers[0].mlp.norm.eps.lead = u64::MAX),
        ("norm eps", &|p| {
            p.norm_final = NormParams {
                eps: ByClass::both(0),
                ..p.norm_final.clone()
            }
        }),
        // Weights, exponents and classes of rows that no bound was made for.
        ("weight bits", &|p| p.weight_bits.set(MatmulKind::Embed, 1)),
        ("weight bits", &|p| p.weight_bits.set(MatmulKind::Head, 15)),
        ("channel exponent", &|p| p.exponents[0] = 7),
        ("sum of 4^k over the channel exponents k", &|p| p.exponents.fill(5)),
        ("channel exponents", &|p| p.exponents.truncate(3)),
        ("o", &|p| p.layers[0].attention.o.lead = 13),
        ("residual skip", &|p| p.layers[0].attention.skip.lead = 13),
        // Lists that do not have one entry per thing they describe.
        ("layers", &|p| p.layers.clear()),
        ("layers", &|p| p.layers.push(p.layers[0].clone())),
        ("q", &|p| p.layers[0].attention.q = ChannelShift(vec![3; 2])),
        ("head", &|p| p.head = ChannelShift(Vec::new())),
        ("norms of columns", &|p| p.columns.clear()),
        ("norms of columns", &|p| p.columns.truncate(7)),
        ("norms of columns", &|p| p.columns.push(p.columns[0])),
        ("biases", &|p| p.biases.truncate(3)),
        ("biases of a matrix", &|p| p.biases[2].truncate(3)),
        ("biases of a model without any", &|p| {
            p.biases.iter_mut().for_each(Vec::clear)
        }),
    ];
    for (expected, change) in rows {
        let error = model_error(&|key| change(&mut key.params));
        let named = match &error {
            ModelError::OutOfRange { what, .. } | ModelError::Length { what, .. } => *what,
            _ => "",
        };
        assert_eq!(named, expected, "{error}");
    }
}

/// With a bias beyond the bound, the lemmas on roundings would not hold: an output would have two values.
#[test]
fn biases_beyond_the_bound() {
    let most = MAX_BIAS as i32;
    for (at, bias) in [(0, most + 1), (3, -most - 1), (6, i32::MIN), (14, i32::MAX)] {
        let error = model_error(&|key| key.params.biases[at][1] = bias);
        assert!(
            matches!(&error, ModelError::Bias { bias: own, .. } if *own == bias),
            "{error}"
        );
    }
}

/// A matmul with so many inputs that its accumulators can wrap the field: any output could be proved.
#[test]
fn accumulators_that_can_wrap() {
    let error = model_error(&|key| {
        key.config.ff = 1 << 16;
        key.params.biases.clear();
    });
    let expected = "accumulators can reach";
    assert!(error.to_string().contains(expected), "{error}");
    // The limb fits, but not together with the residual and the rounding.
    let error = model_error(&|key| {
        key.params.format = WeightFormat::Int16;
        key.params.weight_bits = WeightBits::all(12);
        key.config.ff = 2049;
        key.params.biases.clear();
        key.params.layers[0].mlp.skip = ByClass::both(0);
        key.params.layers[0].mlp.down = StreamShift::one(13);
    });
    assert!(
        matches!(
            error,
            ModelError::Accumulator {
                what: "down",
                shift: 13,
                ..
            }
        ),
        "{error}"
    );
    // Heads longer than 128, and norms of columns that do not bound the queries.
    let error = model_error(&|key| {
        key.params.format = WeightFormat::Int16;
        key.params.weight_bits = WeightBits::all(12);
        key.config.head_dim = 130;
        key.config.rotations = vec![Rotation::Base(1e4)];
        key.config.rotation_of.clear();
        key.params.biases.clear();
        for layer in &mut key.params.layers {
            layer.attention.norm.scale = 26;
            layer.attention.q = ChannelShift(vec![1]);
            for shift in [&mut layer.attention.k, &mut layer.attention.v] {
                shift.0.truncate(1);
            }
        }
        key.params = key.params.clone().with_largest_norms(&key.config);
    });
    assert!(
        matches!(error, ModelError::Accumulator { what: "scores", .. }),
        "{error}"
    );
}

/// Norms that no matrix of integers has. Those of columns of zeros would let an accumulator of any size wrap the field.
#[test]
fn norms_of_no_matrix() {
    type Change = (&'static str, &'static dyn Fn(&mut ModelParams));
    let rows: [Change; 6] = [
        ("q", &|p| p.columns[0].l1 = 0),
        ("o", &|p| p.columns[3].square = 1),
        ("down", &|p| p.columns[6].l1 = u64::MAX),
        ("head", &|p| {
            let last = p.columns.len() - 1;
            p.columns[last].square = u64::MAX;
        }),
        // More than the weights' bits allow, by one.
        ("k", &|p| p.columns[1] = largest(p, 1)),
        ("v", &|p| p.columns[2] = largest(p, 0)),
    ];
    for (expected, change) in rows {
        let error = model_error(&|key| change(&mut key.params));
        assert!(
            matches!(&error, ModelError::Norms { what, .. } if *what == expected),
            "{expected}: {error}"
        );
    }
}

/// The norms of the largest columns that read the stream, with one more in the sum of absolute values or of squares.
fn largest(params: &ModelParams, l1: u64) -> ColumnNorms {
    let most = ColumnNorms::largest(honest()[0].key.config.hidden, params.max_weight(MatmulKind::Q));
    ColumnNorms {
        l1: most.l1 + l1,
        square: most.square + 1 - l1,
    }
}

/// A weight commitment that is not of this model's size, or that this verifier has no code for.
#[test]
fn commitments_of_another_shape() {
    type Change = (&'static str, &'static dyn Fn(&mut ModelKey));
    let rows: [Change; 6] = [
        ("number of tiles", &|k| k.weights.tiles = 0),
        ("number of tiles", &|k| k.weights.tiles = usize::MAX),
        ("log2 of the message length", &|k| k.weights.log_message = 11),
        ("log2 of the message length", &|k| k.weights.log_message = u32::MAX),
        ("log2 of the blowup", &|k| k.weights.log_blowup = 0),
        ("log2 of the blowup", &|k| k.weights.log_blowup = 64),
    ];
    for (expected, change) in rows {
        let error = refusal(change);
        assert!(
            matches!(&error, KeyError::Commitment(OpeningError::OutOfRange { what, .. }) if *what == expected),
            "{expected}: {error}"
        );
    }
    // Tiles beyond those of the architecture would be weights that no matmul uses; fewer, matmuls without weights.
    let tiles = honest()[0].key.weights.tiles;
    for other in [tiles - 1, tiles + 1] {
        let error = refusal(&|key| key.weights.tiles = other);
        assert!(
            matches!(&error, KeyError::Tiles { got, expected } if *got == other && *expected == tiles),
            "{error}"
        );
    }
}

/// A commitment of a kind that this verifier has no code for, or a model that is proved in another way: both would be verified as if
/// they were today's.
#[test]
fn headers_of_another_kind() {
    type Change = (&'static str, &'static dyn Fn(&mut ModelKey));
    let rows: [Change; 8] = [
        ("number of points per leaf", &|k| k.header.leaf_points = 4),
        ("number of random coefficients per column", &|k| {
            k.header.random_coefficients = 1
        }),
        ("number of public table columns", &|k| k.header.table_columns = 1),
        ("privacy of the weights", &|k| k.header.private_weights = 1),
        ("kind of attention", &|k| k.header.attention = 1),
        ("number of kinds of layers with windows", &|k| k.header.windows = 1),
        ("number of committed rotation tables", &|k| k.header.rotation_tables = 1),
        ("number of units of committed boundaries", &|k| {
            k.header.boundary_units = 1
        }),
    ];
    for (expected, change) in rows {
        let error = refusal(change);
        assert!(
            matches!(&error, KeyError::Header { what, .. } if *what == expected),
            "{expected}: {error}"
        );
    }
    let error = refusal(&|key| key.header.tables = 2);
    assert!(matches!(error, KeyError::Tables { got: 2 }), "{error}");
    // A root that no proof under the key would be compared with.
    let error = refusal(&|key| key.header.tables = 1);
    assert!(matches!(error, KeyError::TablesRoot), "{error}");
}

/// What a key tells about its model decides nothing: neither the id nor a proof.
#[test]
fn a_recipe_changes_no_verdict() {
    let [Honest { key, proof, .. }, _] = honest();
    let mut other = key.clone();
    other.recipe = b"\x1b[2J no recipe at all".to_vec();
    assert_ne!(other.to_bytes().expect("bytes"), key.to_bytes().expect("bytes"));
    assert_eq!(other.id().expect("an id"), key.id().expect("an id"));
    verify(&other, proof).expect("the same model");
}
