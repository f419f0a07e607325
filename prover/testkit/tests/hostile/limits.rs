//! Ten megabytes of hostile bytes: the verifier ends in less than two seconds and a gigabyte. Memory is what the
//! allocator of this test has handed out at the most, not what the system reports.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{PoisonError, RwLockWriteGuard};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::line::LinePoly;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use tessera_circuits::model::{
    ChannelShift, HeadNorm, HeadNorms, MatmulKind, WeightBits, WeightFormat, LAYER_KINDS, MAX_HEAD_DIM, MAX_VOCAB,
};
use tessera_circuits::statistics::Clip;
use tessera_recipe::{read_key, Recipe, Setting};
use tessera_testkit::{processor_time, OfStark, SplitMix};
use tessera_verifier::codec::{encode_part, CodecError, FileKind};
use tessera_verifier::gkr::{GroupProof, LayerProof};
use tessera_verifier::key::{KeyError, ModelKey};
use tessera_verifier::length::most_bytes;
use tessera_verifier::opening::parts::parts_of_mut;
use tessera_verifier::proof::Proof;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify, verify_bytes, Verified, VerifyError};

use crate::faked::faked;
use crate::targets::{honest, messages};
use crate::ALONE;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Bytes of every hostile file.
const SIZE: usize = 10 << 20;
/// Of the processor. The costliest key takes 4.5 s on an idle core of 2.1 GHz, and took 6.4 s beside other programs, because they share the
/// core: with five seconds the test failed although the verifier had not changed.
const TIME: Duration = Duration::from_secs(10);
pub const MEMORY: usize = 1 << 30;
/// What decoding may take for every byte that it is given.
const PER_BYTE: usize = 8;
/// What it may set aside for lengths that are only claimed: a megabyte for each sequence that another one is in.
const CLAIMED: usize = 4 << 20;

/// Keeps the other tests of this process from running, and from being counted.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    // The proofs are made before anything is measured.
    honest();
    ALONE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something within the limits; `memory` is what it may hold on top of what there is.
pub fn measured<T>(name: &str, memory: usize, work: impl FnOnce() -> T) -> T {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let start = processor_time();
    let result = catch_unwind(AssertUnwindSafe(work));
    let time = processor_time().saturating_sub(start);
    let peak = PEAK.peak_usage().saturating_sub(before);
    println!("{name}: {time:?}, {} kB", peak >> 10);
    let result = result.unwrap_or_else(|_| panic!("{name}: a panic"));
    assert!(time < TIME, "{name}: {time:?}");
    assert!(peak < memory, "{name}: {peak} bytes");
    result
}

/// What the verifier answers, within its limits. The library never has to be stopped.
pub fn answer(name: &str, key: &ModelKey, bytes: &[u8]) -> VerifyError {
    refused(name, || verify_bytes(key, bytes))
}

fn refused(name: &str, verify: impl FnOnce() -> Result<Verified, VerifyError>) -> VerifyError {
    match measured(name, MEMORY, verify) {
        Err(VerifyError::Stark(StarkError::Panicked)) => panic!("{name}: the library panics"),
        Err(error) => error,
        Ok(_) => panic!("{name}: accepted"),
    }
}

fn header(kind: FileKind) -> Vec<u8> {
    [kind.magic().as_slice(), &kind.version().to_le_bytes()].concat()
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = SplitMix(seed);
    (0..len.div_ceil(8))
        .flat_map(|_| rng.next_u64().to_le_bytes())
        .take(len)
        .collect()
}

/// Random bytes, alone, after a header, and after beginnings of an honest proof.
#[test]
fn random_bytes_are_refused_at_once() {
    let _alone = alone();
    let own = honest();
    let random = noise(SIZE, 1);
    assert!(matches!(
        answer("random", &own.key, &random),
        VerifyError::Malformed(CodecError::Magic { .. })
    ));
    let proof = &own.encoded[0];
    for keep in [
        header(FileKind::PROOF).len(),
        60,
        5000,
        proof.len() / 2,
        proof.len() - 1,
        proof.len(),
    ] {
        for (what, rest) in [("noise", &random[..SIZE - keep]), ("zeros", &vec![0; SIZE - keep])] {
            let (name, bytes) = (
                format!("{keep} honest bytes and {what}"),
                [&proof[..keep], rest].concat(),
            );
            // Too long to be decoded, even if nothing else is wrong.
            let error = answer(&name, &own.key, &bytes);
            let expected = matches!(error, VerifyError::Malformed(_) | VerifyError::OtherModel { .. });
            assert!(expected, "{name}: {error}");
            let decoded = measured(&name, MEMORY, || Proof::from_bytes(&bytes));
            assert!(decoded.is_err(), "{name}");
            let short = &bytes[..most_bytes(&own.key)];
            if short.len() > keep && keep > 60 {
                let error = answer(&name, &own.key, short);
                assert!(matches!(error, VerifyError::Malformed(_)), "{name}: {error}");
            }
        }
    }
}

/// A length of 2^60, 2^32 + 1 or 2^31 wherever an honest proof or key has one of eight bytes: no memory is set aside
/// for what a length claims, beyond the limit of the file.
#[test]
fn claimed_lengths_take_no_memory() {
    let _alone = alone();
    let own = honest();
    let key = own.key.to_bytes().expect("a key");
    let mut tried = 0;
    for length in [1u64 << 60, (1 << 32) + 1, 1 << 31] {
        let tampered = |bytes: &[u8], at: usize| {
            let mut out = bytes.to_vec();
            out[at..at + 8].copy_from_slice(&length.to_le_bytes());
            out
        };
        // Lengths are where eight bytes are a small number; the two lengths of the statement are among them.
        let small = |bytes: &[u8], at: usize| bytes[at + 3..at + 8] == [0; 5] && bytes[at] != 0;
        let proof = &own.encoded[0];
        for at in (44..proof.len() - 8)
            .filter(|at| small(proof, *at))
            .step_by(3)
            .take(150)
        {
            tried += 1;
            let bytes = tampered(proof, at);
            let result = measured("length", CLAIMED + PER_BYTE * bytes.len(), || Proof::from_bytes(&bytes));
            assert!(result.is_err() || result.is_ok_and(|p| p.to_bytes().as_ref() == Ok(&bytes)));
        }
        for at in (12..key.len() - 8).filter(|at| small(&key, *at)).step_by(2) {
            tried += 1;
            let bytes = tampered(&key, at);
            // A string may set aside what it claims, up to the limit of a key.
            let result = measured("length", FileKind::Key.limit() + PER_BYTE * bytes.len(), || {
                read_key(&bytes)
            });
            assert!(result.is_err() || result.is_ok_and(|(k, _)| k.to_bytes().as_ref() == Ok(&bytes)));
        }
    }
    assert!(tried > 300, "{tried}");
}

/// A change that makes one part of a proof huge.
type Pad = (&'static str, fn(&mut Proof));

/// Appends copies of the last entry, which has so many bytes, up to the size.
fn fill<T: Clone>(list: &mut Vec<T>, bytes: usize) {
    let entry = list.last().expect("an entry").clone();
    list.resize(SIZE / bytes, entry);
}

const CLIP: Clip = Clip {
    part: 0,
    tensor: 0,
    at: 0,
    excess: 1,
};

/// Every sequence of a proof, padded.
const PADS: [Pad; 29] = [
    ("prompt", |p| fill(&mut p.statement.prompt, 4)),
    ("output", |p| fill(&mut p.statement.output, 4)),
    ("operands", |p| fill(&mut messages(p).matmuls.operands, 32)),
    ("clipped values", |p| {
        messages(p).statistics.clips = vec![CLIP; SIZE / 14]
    }),
    ("groups of lookups", |p| {
        messages(p).lookups = vec![GroupProof::default(); SIZE / 16]
    }),
    ("sums of trees", |p| fill(&mut messages(p).lookups[0].roots, 32)),
    ("layers of a group", |p| {
        messages(p).lookups[0].layers = vec![LayerProof::default(); SIZE / 16]
    }),
    ("children of a layer", |p| {
        fill(&mut messages(p).lookups[0].layers[3].children, 64)
    }),
    ("rounds of a layer", |p| {
        fill(&mut messages(p).lookups[0].layers[3].rounds, 32)
    }),
    ("matmul rounds", |p| fill(&mut messages(p).matmuls.sumcheck.rounds, 32)),
    ("linear rounds", |p| fill(&mut messages(p).linear.rounds, 32)),
    ("band rounds of weights", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[0].band_rounds, 32)
    }),
    ("rows of weights", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[0].rows.values, 4)
    }),
    ("path of weights", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[0].rows.path, 32)
    }),
    ("band rounds of activations", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[1].band_rounds, 32)
    }),
    ("rows of activations", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[1].rows.values, 4)
    }),
    ("path of activations", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).codes[1].rows.path, 32)
    }),
    ("openings of claims", |p| {
        parts_of_mut(&mut messages(p).opening).codes = vec![Default::default(); SIZE / 40]
    }),
    ("cross values", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).cross_values, 16)
    }),
    ("fold rounds", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).fold_rounds, 32)
    }),
    ("roots of folded oracles", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).roots, 32)
    }),
    ("folded oracles", |p| {
        parts_of_mut(&mut messages(p).opening).oracles = vec![Default::default(); SIZE / 16]
    }),
    ("final message", |p| {
        fill(&mut parts_of_mut(&mut messages(p).opening).final_message, 16)
    }),
    ("commitments", |p| {
        fill(&mut messages(p).of_stark_mut().stark.0.commitments.0, 32)
    }),
    ("columns without samples", |p| {
        messages(p).of_stark_mut().stark.0.sampled_values.0[1] = vec![Vec::new(); SIZE / 8]
    }),
    ("answers", |p| {
        messages(p).of_stark_mut().stark.0.queried_values.0[1][0] = vec![BaseField::from(1); SIZE / 4];
    }),
    ("hashes", |p| {
        messages(p).of_stark_mut().stark.0.decommitments.0[1].hash_witness = vec![Blake2sHash([1; 32]); SIZE / 32];
    }),
    ("FRI layers", |p| {
        let layers = &mut messages(p).of_stark_mut().stark.0.fri_proof.inner_layers;
        let mut layer = layers[0].clone();
        (layer.fri_witness, layer.decommitment.hash_witness) = (Vec::new(), Vec::new());
        layers.resize(SIZE / 48, layer);
    }),
    ("last FRI layer", |p| {
        let last = vec![SecureField::from(1); SIZE.next_power_of_two() / 32];
        messages(p).of_stark_mut().stark.0.fri_proof.last_layer_poly = LinePoly::new(last);
    }),
];

/// An honest proof in which one sequence after the other is padded to ten megabytes: decoding takes a small multiple
/// of the input, and the length is refused before anything is computed with the contents.
#[test]
fn padded_proofs_are_refused() {
    let _alone = alone();
    let own = honest();
    for (name, pad) in PADS {
        let mut proof = own.proofs[0].clone();
        pad(&mut proof);
        let bytes = proof.to_bytes().expect("below the limit of a proof");
        assert!(bytes.len() > SIZE / 2, "{name}: {} bytes", bytes.len());
        let decoded = measured(name, PER_BYTE * bytes.len(), || Proof::from_bytes(&bytes));
        assert!(decoded.is_ok(), "{name}: {:?}", decoded.err());
        drop(decoded);
        let error = refused(name, || verify(&own.key, &proof));
        assert!(!matches!(error, VerifyError::Malformed(_)), "{name}: {error}");
        let error = answer(name, &own.key, &bytes);
        assert!(
            matches!(error, VerifyError::Malformed(CodecError::TooLong { .. })),
            "{name}: {error}"
        );
    }
}

/// Keys of ten megabytes: random, and honest with huge files.
#[test]
fn huge_keys_are_read_or_refused() {
    let _alone = alone();
    let own = honest();
    let random = [header(FileKind::Key), noise(SIZE, 2)].concat();
    assert!(measured("random key", MEMORY, || read_key(&random)).is_err());
    let mut key = own.key.clone();
    key.tokenizer = noise(SIZE, 3);
    let bytes = key.to_bytes().expect("a key");
    let read = measured("key with a huge tokenizer", PER_BYTE * SIZE, || read_key(&bytes));
    let (key, _) = read.expect("a key");
    let error = answer("its proof", &key, &own.encoded[0]);
    assert!(matches!(error, VerifyError::OtherModel { .. }), "{error}");
    // To the verifier a recipe is bytes, of which no more are kept than there are.
    let mut key = own.key.clone();
    key.recipe = noise(SIZE, 4);
    let bytes = key.to_bytes().expect("a key");
    let read = measured("key with a huge recipe", PER_BYTE * SIZE, || {
        ModelKey::from_bytes(&bytes)
    });
    assert_eq!(read.expect("a key"), key);
    assert!(measured("a huge recipe", MEMORY, || read_key(&bytes)).is_err());
    // Entries that take two bytes each, and dozens in memory if all of them were kept.
    let empty = Setting {
        name: String::new(),
        value: String::new(),
    };
    let recipe = Recipe {
        settings: vec![empty; SIZE / 2],
        ..Recipe::default()
    };
    key.recipe = encode_part(&recipe).expect("an encoding");
    drop(recipe);
    let bytes = key.to_bytes().expect("a key");
    let read = measured("a recipe of empty entries", 2 * bytes.len(), || read_key(&bytes));
    assert!(read.is_err());
    let mut key = own.key.clone();
    key.params.head = ChannelShift(vec![1; SIZE]);
    let bytes = key.to_bytes().expect("a key");
    let read = measured("key with too many shifts", PER_BYTE * SIZE, || {
        ModelKey::from_bytes(&bytes)
    });
    assert!(matches!(read, Err(KeyError::Model(_))), "{read:?}");
}

type Enlarge = dyn Fn(&mut ModelKey);

/// The largest models that a key can describe. The first four have biases, the others none, as there would be too many.
fn largest() -> Vec<(&'static str, Box<Enlarge>)> {
    vec![
        ("vocabulary", Box::new(|k| k.config.vocab = MAX_VOCAB)),
        ("MLP", Box::new(|k| k.config.ff = 1 << 15)),
        ("width", Box::new(|k| widened(k, 1 << 14))),
        (
            "heads",
            Box::new(|k| {
                (k.config.heads, k.config.kv_heads, k.config.head_dim) = (1 << 8, 1 << 8, MAX_HEAD_DIM);
                // There are many attention outputs, and queries of so long heads are small.
                k.params.weight_bits.set(MatmulKind::O, 7);
                let norms = k.params.layers.iter_mut().map(|layer| &mut layer.attention.norm);
                norms.for_each(|norm| norm.scale = norm.shift.at(0) + 8);
            }),
        ),
        ("layers", Box::new(|k| deepened(k, 1 << 10))),
        (
            "layers and width",
            Box::new(|k| {
                widened(k, 1 << 14);
                deepened(k, 1000);
            }),
        ),
        (
            "shifts of norms",
            Box::new(|k| {
                widened(k, 1 << 14);
                deepened(k, 1000);
                with_own_shifts(k);
            }),
        ),
        (
            "rows",
            Box::new(|k| {
                (k.config.context, k.config.vocab) = (1 << 13, 1 << 17);
                deepened(k, 1 << 8);
            }),
        ),
        (
            // As many cells as a chunk may have, all but an eighth.
            "cells",
            Box::new(|k| {
                (k.config.context, k.config.vocab) = (1 << 12, 1 << 10);
                deepened(k, 200);
            }),
        ),
        ("rotations", Box::new(|k| with_gains(k, 1 << 8, 1 << 8))),
        ("rotations of many rows", Box::new(|k| with_gains(k, 1 << 6, 1 << 9))),
    ]
}

pub fn widened(k: &mut ModelKey, hidden: usize) {
    k.config.hidden = hidden;
    k.params.exponents = vec![0; hidden];
    // Norms are claimed in one limb: the scale goes down with the root of the width.
    let layers = k.params.layers.iter_mut();
    let norms = layers.flat_map(|layer| [&mut layer.attention.norm, &mut layer.mlp.norm]);
    let norms = norms.chain([&mut k.params.norm_final]);
    norms.for_each(|norm| (norm.scale, norm.shift) = (22, ChannelShift(vec![norm.shift.at(0); hidden])));
}

/// Every norm has other shifts, so that none share the weights of their channels.
fn with_own_shifts(k: &mut ModelKey) {
    let layers = k.params.layers.iter_mut();
    let norms = layers.flat_map(|layer| [&mut layer.attention.norm, &mut layer.mlp.norm]);
    for (i, norm) in norms.chain([&mut k.params.norm_final]).enumerate() {
        norm.scale -= 1;
        norm.shift.0[i] -= 1;
    }
}

pub fn deepened(k: &mut ModelKey, layers: usize) {
    k.config.layers = layers;
    k.params.layers = vec![k.params.layers[0].clone(); layers];
}

/// Every layer has gains, and so weights of its rotations, of its own.
fn with_gains(k: &mut ModelKey, layers: usize, context: usize) {
    deepened(k, layers);
    (k.config.heads, k.config.kv_heads, k.config.head_dim) = (1, 1, MAX_HEAD_DIM);
    (k.config.context, k.config.head_norms) = (context, true);
    let norm = |l: usize| HeadNorm {
        scale: 24,
        eps: 1700,
        shift: 7,
        gains: vec![(1 << 14) - l as i16; MAX_HEAD_DIM],
    };
    for (l, layer) in k.params.layers.iter_mut().enumerate() {
        layer.attention.head_norms = Some(HeadNorms {
            q: norm(l),
            k: norm(l + 1),
        });
    }
}

/// A key made larger, as it is read back.
fn enlarged(own: &ModelKey, enlarge: impl Fn(&mut ModelKey), biased: bool) -> Result<ModelKey, KeyError> {
    let mut key = own.clone();
    (key.params.format, key.params.weight_bits) = (WeightFormat::Int8, WeightBits::all(8));
    enlarge(&mut key);
    // Every matrix has biases, as many as it has outputs now.
    let kinds = (0..key.config.layers)
        .flat_map(|_| LAYER_KINDS)
        .chain([MatmulKind::Head]);
    key.params.biases = match biased {
        true => kinds.map(|kind| vec![1 << 20; key.config.dims(kind).1]).collect(),
        false => Vec::new(),
    };
    key.params = key.params.with_largest_norms(&key.config);
    key.weights.tiles = key.config.total_tiles();
    key.to_bytes()
        .map_err(KeyError::from)
        .and_then(|bytes| ModelKey::from_bytes(&bytes))
}

/// With a proof of few rows and of as many as the context has, in which everything before the opening is faked for the key: the
/// verifier makes all claims.
#[test]
fn keys_of_the_largest_models_are_answered() {
    let _alone = alone();
    let own = honest();
    let mut opened = 0;
    for (i, (name, enlarge)) in largest().into_iter().enumerate() {
        let key = enlarged(&own.key, enlarge, i < 4).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut proof = own.proofs[0].clone();
        for rows in [proof.statement.rows(), key.config.context] {
            proof.statement.prompt = vec![1; rows + 1 - proof.statement.output.len()];
            let bytes = faked(&key, proof.clone())
                .to_bytes()
                .expect("below the limit of a proof");
            let error = answer(&format!("the most {name}, {rows} rows"), &key, &bytes);
            match error {
                VerifyError::Opening(_) => opened += 1,
                // A chunk has no so many cells, which is looked at before the rest.
                VerifyError::Security { .. } => {}
                other => panic!("{name}, {rows} rows: {other}"),
            }
        }
    }
    assert!(opened >= 19, "only {opened} of 22 were refused by the opening");
}

/// Rotations of layers with gains of their own: one layer more than in [`largest`] is refused.
#[test]
fn more_rotations_than_a_verifier_should_make_are_refused() {
    let own = honest();
    let refused = |layers, context| enlarged(&own.key, |k| with_gains(k, layers, context), false).is_err();
    assert!(!refused(1 << 8, 1 << 8) && refused((1 << 8) + 1, 1 << 8) && refused(1 << 8, (1 << 8) + 1));
    assert!(!refused(1 << 10, 64) && refused(1 << 10, 65));
}
