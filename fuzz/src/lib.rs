//! What is fuzzed: one function for each target, shared by the fuzzer's binaries (`fuzz_targets/`) and by the
//! ordinary test that goes over the seeds and a few thousand mutations (`prover/testkit/tests/hostile`).
//!
//! A target returns if all is well and panics if an invariant is broken: no panic below it, nothing accepted that is
//! not honest, and an encoding for every value that was decoded.

use std::path::Path;
use std::sync::OnceLock;

use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::line::LinePoly;
use tessera_checkpoint::Checkpoint;
use tessera_circuits::model::{
    Activation, Blocks, ByClass, ChannelShift, ColumnNorms, MatmulKind, ModelConfig, ModelParams, Output, Pooling,
    Reranker, Rotation, ScoreCap, StreamShift, WeightFormat, LAYER_KINDS,
};
use tessera_circuits::statistics::Clip;
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_recipe::Recipe;
use tessera_support::progress::Silent;
use tessera_testkit::{odd_config, random_ids, random_model, reworked, TestModel};
use tessera_text::chat::{question, ChatTemplate, Choice, RENDERED_BYTES};
use tessera_text::tokenizer::Tokenizer;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::parts::{parts_of, parts_of_mut, ProofParts};
use tessera_verifier::proof::TableProof;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::{Stark, StarkError};
use tessera_verifier::verify::{verify, verify_bytes, VerifyError};

/// Where the gate is among the matrices of a layer.
const GATE: usize = 4;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name, which is that of their directory of seeds.
pub const TARGETS: [(&str, Target); 6] = [
    ("decode_proof", decode_proof),
    ("decode_key", decode_key),
    ("verify", verify_edited),
    ("checkpoint", checkpoint),
    ("gguf", gguf),
    ("tokenizer", tokenizer),
];

/// Two honest proofs of one model and of equal shapes.
pub struct Honest {
    pub key: ModelKey,
    pub proofs: [Proof; 2],
    pub encoded: [Vec<u8>; 2],
}

/// Made once.
pub fn honest() -> &'static Honest {
    static HONEST: OnceLock<Honest> = OnceLock::new();
    HONEST.get_or_init(|| {
        let config = ModelConfig {
            layers: 1,
            ..odd_config()
        };
        let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 7));
        let proofs = [3, 4].map(|seed| {
            let report = prove(
                &model.prover(),
                &random_ids(&config, 4, seed),
                &GenerateOptions::exactly(3),
                &Silent,
            );
            report.expect("an honest proof").proof
        });
        let encoded = [0, 1].map(|i: usize| proofs[i].to_bytes().expect("an honest proof encodes"));
        Honest {
            key: model.key,
            proofs,
            encoded,
        }
    })
}

/// Whatever is decoded is encoded as it was.
pub fn decode_proof(data: &[u8]) {
    if let Ok(proof) = Proof::from_bytes(data) {
        assert_eq!(proof.to_bytes().as_deref(), Ok(data));
    }
    judge(&honest().key, data);
}

/// Whatever is decoded is encoded as it was, its recipe too, and a usable key answers an honest proof of another model.
pub fn decode_key(data: &[u8]) {
    let Ok(key) = ModelKey::from_bytes(data) else { return };
    assert_eq!(key.to_bytes().as_deref(), Ok(data));
    if let Ok(recipe) = Recipe::of(&key) {
        assert_eq!(recipe.to_bytes(), Ok(key.recipe.clone()));
    }
    let own = honest();
    // The same model, whatever is said of how it was made.
    let recipe = own.key.recipe.clone();
    match verify(&key, &own.proofs[0]) {
        Ok(_) => assert_eq!(ModelKey { recipe, ..key }, own.key, "accepted under another key"),
        Err(VerifyError::OtherModel { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// Nothing but the honest proofs is accepted, and all of these are; no panic in the library.
fn judge(key: &ModelKey, bytes: &[u8]) {
    let own = honest();
    let honest = *key == own.key && own.encoded.iter().any(|proof| proof == bytes);
    match verify_bytes(key, bytes) {
        Ok(_) => assert!(honest, "accepted"),
        Err(VerifyError::Stark(StarkError::Panicked)) => panic!("the library panics"),
        Err(error) => assert!(!honest, "an honest proof is rejected: {error}"),
    }
}

/// The bytes that decide what is edited; zeros at the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(f, r)| (*f, r));
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn below(&mut self, n: usize) -> usize {
        self.word() as usize % n.max(1)
    }

    /// A number, often a remarkable one.
    fn number(&mut self) -> u64 {
        let (low, high) = (u64::from(self.word()), u64::from(self.byte()));
        match high % 8 {
            0 => 0,
            1 => 1,
            2 => low % 64,
            3 => 1 << (low % 64),
            4 => u64::MAX,
            5 => u64::from(P) + low % 3 - 1,
            6 => u64::from(u32::MAX) + low % 3,
            _ => low << 16 | high,
        }
    }

    fn base(&mut self) -> BaseField {
        BaseField::from_u32_unchecked((self.number() % u64::from(P)) as u32)
    }

    fn secure(&mut self) -> SecureField {
        SecureField::from_m31_array(std::array::from_fn(|_| self.base()))
    }
}

/// Changes a sequence: its length, its order, or one entry.
fn edit<T: Clone>(list: &mut Vec<T>, input: &mut Input<'_>, mut change: impl FnMut(&mut T, &mut Input<'_>)) {
    let (op, at) = (input.byte() % 10, input.below(list.len()));
    match op {
        0 => list.truncate(at),
        1 => list.clear(),
        2 => list.extend(list.last().cloned()),
        3 => list.extend(list.clone()),
        4 => list.rotate_left(at),
        5 => list.reverse(),
        6 if !list.is_empty() => drop(list.remove(at)),
        7 if !list.is_empty() => {
            let times = input.below(1 << 12);
            let copy = list[at].clone();
            list.extend(std::iter::repeat_n(copy, times));
        }
        _ => {
            if let Some(entry) = list.get_mut(at) {
                change(entry, input);
            }
        }
    }
}

fn set_word(word: &mut u32, input: &mut Input<'_>) {
    *word = input.number() as u32;
}

fn set_secure(value: &mut SecureField, input: &mut Input<'_>) {
    *value = input.secure();
}

fn set_clip(clip: &mut Clip, input: &mut Input<'_>) {
    match input.byte() % 4 {
        0 => clip.part = input.byte(),
        1 => clip.tensor = input.byte(),
        2 => clip.at = input.number(),
        _ => clip.excess = input.number() as i32,
    }
}

fn set_base(value: &mut BaseField, input: &mut Input<'_>) {
    *value = input.base();
}

fn set_round(round: &mut [SecureField; 2], input: &mut Input<'_>) {
    round[input.below(2)] = input.secure();
}

fn set_digest(digest: &mut [u8; 32], input: &mut Input<'_>) {
    digest[input.below(32)] ^= input.byte();
}

/// The messages of a proof.
pub fn messages(proof: &mut Proof) -> &mut ChunkProof {
    &mut proof.chunks[0]
}

/// Alters a field of the STARK, numbered from 20 to 28.
fn edit_stark(proof: &mut Stark, field: u8, input: &mut Input<'_>) {
    let stark = &mut proof.0;
    match field {
        20 => edit(&mut stark.commitments.0, input, |c, i| set_digest(&mut c.0, i)),
        21 => edit(&mut stark.sampled_values.0, input, |tree, i| {
            edit(tree, i, |column, i| edit(column, i, set_secure));
        }),
        22 => edit(&mut stark.decommitments.0, input, |d, i| {
            edit(&mut d.hash_witness, i, |h, i| set_digest(&mut h.0, i));
        }),
        23 => edit(&mut stark.queried_values.0, input, |tree, i| {
            edit(tree, i, |column, i| edit(column, i, set_base));
        }),
        24 => stark.proof_of_work = input.number(),
        25 => {
            let config = &mut stark.config;
            match input.byte() % 6 {
                0 => config.pow_bits = input.number() as u32,
                1 => config.fri_config.log_blowup_factor = input.number() as u32,
                2 => config.fri_config.n_queries = input.number() as usize,
                3 => config.fri_config.log_last_layer_degree_bound = input.number() as u32,
                4 => config.fri_config.fold_step = input.number() as u32,
                _ => config.lifting_log_size = Some(input.number() as u32),
            }
        }
        26 => {
            let fri = &mut stark.fri_proof;
            let layer = match input.byte() % 2 {
                0 => &mut fri.first_layer,
                _ => {
                    let at = input.below(fri.inner_layers.len());
                    match fri.inner_layers.get_mut(at) {
                        Some(layer) => layer,
                        None => return,
                    }
                }
            };
            match input.byte() % 3 {
                0 => edit(&mut layer.fri_witness, input, set_secure),
                1 => edit(&mut layer.decommitment.hash_witness, input, |h, i| {
                    set_digest(&mut h.0, i)
                }),
                _ => set_digest(&mut layer.commitment.0, input),
            }
        }
        27 => edit(&mut stark.fri_proof.inner_layers, input, |_, _| ()),
        _ => {
            let last = &mut stark.fri_proof.last_layer_poly;
            let mut coefficients = last.to_vec();
            edit(&mut coefficients, input, set_secure);
            coefficients.resize(coefficients.len().next_power_of_two(), SecureField::default());
            *last = LinePoly::new(coefficients);
        }
    }
}

/// Alters a field of an opening, numbered from 10 to 18; one that there is twice, that of the activations or of the weights.
fn edit_opening(opening: &mut ProofParts, field: u8, activations: bool, input: &mut Input<'_>) {
    let Some(own) = opening.codes.get_mut(usize::from(activations)) else {
        return;
    };
    match field {
        10 => edit(&mut own.band_rounds, input, set_round),
        11 => own.band_value = input.secure(),
        12 if activations => edit(&mut opening.cross_values, input, set_secure),
        12 => edit(&mut opening.fold_rounds, input, set_round),
        13 => edit(&mut opening.roots, input, set_digest),
        14 => edit(&mut opening.final_message, input, set_secure),
        15 => match input.byte() % 4 {
            0 => opening.nonce = input.number(),
            1 => opening.sum_work = input.number(),
            2 => edit(&mut opening.fold_work, input, |own, i| *own = i.number()),
            _ => edit(&mut own.column_work, input, |own, i| *own = i.number()),
        },
        16 => edit(&mut own.rows.values, input, set_base),
        17 => edit(&mut own.rows.path, input, set_digest),
        _ => edit(&mut opening.oracles, input, |o, i| match i.byte() % 2 {
            0 => edit(&mut o.values, i, set_secure),
            _ => edit(&mut o.path, i, set_digest),
        }),
    }
}

/// Edits one field of a proof, or takes it from another.
fn edit_proof(proof: &mut Proof, other: &Proof, input: &mut Input<'_>) {
    let field = input.byte();
    match field % 32 {
        0 => return edit(&mut proof.statement.prompt, input, set_word),
        1 => return edit(&mut proof.statement.output, input, set_word),
        2 => return set_digest(&mut proof.model.0, input),
        _ => {}
    }
    let mut other = other.clone();
    let (own, other) = (messages(proof), messages(&mut other));
    match field % 32 {
        3 | 4 => edit(&mut own.statistics.clips, input, set_clip),
        5 => edit(&mut own.lookups, input, |group, i| match i.byte() % 4 {
            0 => edit(&mut group.roots, i, |root, i| root[i.below(2)] = i.secure()),
            1 => edit(&mut group.layers, i, |layer, i| {
                edit(&mut layer.children, i, |own, i| own[i.below(4)] = i.secure())
            }),
            _ => edit(&mut group.layers, i, |layer, i| edit(&mut layer.rounds, i, set_round)),
        }),
        6 if input.byte().is_multiple_of(2) => own.matmuls.claim = input.secure(),
        6 => edit(&mut own.matmuls.sumcheck.rounds, input, set_round),
        7 => edit(&mut own.matmuls.operands, input, |own, i| own[i.below(2)] = i.secure()),
        8 => edit(&mut own.linear.rounds, input, set_round),
        9 => set_digest(&mut own.activations, input),
        10..=18 => edit_opening(parts_of_mut(&mut own.opening), field % 32, field >= 128, input),
        19 if field >= 128 => match input.byte() % 3 {
            0 => own.lookup_work = input.number(),
            1 => own.points_work = input.number(),
            _ => own.linear_work = input.number(),
        },
        19..=28 => match &mut own.tables {
            TableProof::Stark(tables) if field % 32 == 19 => tables.claimed_sum = input.secure(),
            TableProof::Stark(tables) => edit_stark(&mut tables.stark, field % 32, input),
            TableProof::Gkr => own.tables = other.tables.clone(),
        },
        29 if field >= 128 => (own.activations, own.opening) = (other.activations, other.opening.clone()),
        29 => {
            let (own, other) = (parts_of_mut(&mut own.opening), parts_of(&other.opening));
            own.codes
                .iter_mut()
                .zip(&other.codes)
                .take(1)
                .for_each(|(own, other)| *own = other.clone());
        }
        30 if field >= 128 => own.tables = TableProof::Gkr,
        30 => own.tables = other.tables.clone(),
        _ => {
            (own.matmuls, own.linear) = (other.matmuls.clone(), other.linear.clone());
            (own.statistics, own.activations) = (other.statistics.clone(), other.activations);
        }
    }
}

/// A list of rotations, and which of them a layer has.
fn edit_rotations(config: &mut ModelConfig, input: &mut Input<'_>) {
    let number = |input: &mut Input<'_>| f64::from_bits(input.number() << 32 | input.number());
    match input.byte() % 3 {
        0 => edit(&mut config.rotations, input, |rotation, input| {
            *rotation = Rotation::Base(number(input))
        }),
        1 => edit(&mut config.rotations, input, |rotation, input| {
            *rotation = Rotation::Frequencies((0..input.below(8)).map(|_| number(input)).collect());
        }),
        _ => {
            config.rotation_of = vec![input.byte(); config.layers.min(64)];
            edit(&mut config.rotation_of, input, |of, input| *of = input.byte());
        }
    }
}

/// What some models have and others have not; often with all that belongs to it, so that the key is one of a model.
fn edit_features(key: &mut ModelKey, input: &mut Input<'_>) {
    let (config, params) = (&mut key.config, &mut key.params);
    match input.byte() % 5 {
        0 => config.positions = !config.positions,
        1 => {
            let units = u32::from(input.byte()) << (input.byte() % 13);
            let capped = Blocks {
                norm_outputs: true,
                score_cap: Some(ScoreCap { units }),
                ..Blocks::DECODER
            };
            let separator = units.is_multiple_of(2).then_some(units % 512);
            let reranker = Blocks::encoder(Output::Scores(Reranker {
                separator,
                sigmoid: units % 4 < 2,
            }));
            config.blocks = match input.byte() % 8 {
                0 => Blocks::DECODER,
                1 => Blocks {
                    parallel: true,
                    ..Blocks::DECODER
                },
                2 => Blocks::encoder(Output::Vector(Pooling::Mean)),
                3 => Blocks::encoder(Output::Vector(Pooling::First)),
                4 => Blocks {
                    norm_outputs: true,
                    ..Blocks::DECODER
                },
                5 => capped,
                6 => reranker,
                // A combination that nobody proves.
                _ => Blocks {
                    parallel: true,
                    ..capped
                },
            };
        }
        2 => {
            config.gated = false;
            if input.byte() % 4 < 3 {
                // Nothing of gates is left.
                for layer in &mut params.layers {
                    layer.mlp.gate.0.clear();
                    layer.mlp.act = ByClass::both(0);
                }
                let gates = (0..params.layers.len()).map(|l| l * LAYER_KINDS.len() + GATE);
                gates.for_each(|at| {
                    params
                        .columns
                        .get_mut(at)
                        .into_iter()
                        .for_each(|own| *own = ColumnNorms::default());
                    params.biases.get_mut(at).into_iter().for_each(Vec::clear);
                });
            }
        }
        3 => params.activation = Activation::ALL[input.below(Activation::ALL.len())].0,
        _ => {
            let lists = params.columns.len();
            params.biases.resize(lists, Vec::new());
            let at = input.below(lists);
            let kind = LAYER_KINDS.get(at % LAYER_KINDS.len()).filter(|_| at + 1 < lists);
            let outputs = config.dims(kind.copied().unwrap_or(MatmulKind::Head)).1;
            let Some(bias) = params.biases.get_mut(at) else { return };
            match input.byte() % 4 {
                0 => edit(bias, input, |b, i| *b = i.number() as i32),
                1 => bias.clear(),
                // As many as there should be, while that fits.
                _ => *bias = vec![input.number() as i32 >> input.below(32); outputs.min(1 << 16)],
            }
        }
    }
}

/// A parameter that has the same meaning in all models.
fn edit_params(params: &mut ModelParams, input: &mut Input<'_>) {
    let (small, number) = (input.byte(), input.number());
    match input.byte() % 7 {
        0 => params.leading.first = small,
        1 => params.leading.run = !params.leading.run,
        2 => params
            .weight_bits
            .set(MatmulKind::ALL[input.below(MatmulKind::ALL.len())], small),
        3 => params.format = [WeightFormat::Int8, WeightFormat::Int16][input.below(2)],
        4 => edit(&mut params.exponents, input, |k, i| *k = i.byte()),
        5 => params.silu_bits = number as i32,
        _ => edit(&mut params.layers, input, |layer, i| match i.byte() % 8 {
            0 => edit(&mut layer.attention.q.0, i, |s, i| *s = i.byte()),
            1 => layer.attention.att = small,
            2 => layer.attention.o.lead = small as i8,
            3 => layer.attention.skip.body = small as i8,
            4 => layer.mlp.skip.lead = small as i8,
            5 => layer.mlp.act.lead = small,
            6 => {
                layer.attention.norm.scale = small;
                edit(&mut layer.attention.norm.shift.0, i, |s, i| *s = i.byte());
            }
            _ => layer.mlp.norm.eps.body = number,
        }),
    }
}

/// Edits a dimension, a parameter, the commitment or a root of a key.
fn edit_key(key: &mut ModelKey, input: &mut Input<'_>) {
    let number = input.number() as usize;
    let config = &mut key.config;
    match input.byte() % 32 {
        26..=28 => edit_features(key, input),
        29..=31 => edit_params(&mut key.params, input),
        0 => config.hidden = number,
        1 => {
            config.layers = number;
            // One set of parameters each, while that fits.
            let own = &honest().key.params;
            key.params.layers = vec![own.layers[0].clone(); number.min(2000)];
            let (layer, head) = (&own.columns[..7], own.columns.last());
            key.params.columns = layer.repeat(number.min(2000));
            key.params.columns.extend(head);
        }
        2 => config.heads = number,
        3 => config.kv_heads = number,
        4 => config.head_dim = number,
        5 => config.ff = number,
        6 => config.vocab = number,
        7 => config.context = number,
        8 => config.rms_eps = f64::from_bits(input.number() << 32 | input.number()),
        9 => edit_rotations(config, input),
        10 => config.bos = number.is_multiple_of(2).then_some(number as u32),
        11 => edit(&mut config.eos, input, set_word),
        12 => key.params.embed_exponent = number as u8,
        13 => {
            key.params.embed = StreamShift {
                body: ChannelShift(vec![number as u8; input.below(70)]),
                lead: input.byte() as i8,
            }
        }
        14 => key.params.head = ChannelShift(vec![number as u8; input.below(400)]),
        15 => key.params.norm_final.scale = number as _,
        16 => key.params.norm_final.eps.lead = number as _,
        17 => edit(&mut key.params.layers, input, |layer, i| {
            layer.attention.score = i.byte()
        }),
        18 => key.params.score_bits = number as i32,
        19 => key.params.gate_bits = number as i32,
        20 => key.weights.log_message = number as u32,
        21 => key.weights.log_blowup = number as u32,
        22 => key.weights.tiles = number,
        24 => {
            let header = &mut key.header;
            let fields = [
                &mut header.leaf_points,
                &mut header.random_coefficients,
                &mut header.table_columns,
                &mut header.tables,
                &mut header.private_weights,
                &mut header.attention,
                &mut header.windows,
                &mut header.rotation_tables,
                &mut header.boundary_units,
            ];
            let at = input.below(fields.len());
            *fields.into_iter().nth(at).expect("a field") = number as u32;
        }
        25 => edit(&mut key.params.columns, input, |norms, i| {
            (norms.l1, norms.square) = (i.number(), i.number());
        }),
        _ => set_digest(&mut key.weights_root, input),
    }
    // Otherwise hardly any change of a dimension would pass the first check.
    if input.byte().is_multiple_of(2) && key.params.check(&key.config).is_ok() {
        key.weights.tiles = key.config.total_tiles();
    }
}

/// The bytes choose edits of an honest proof and of its key, in fields; both are encoded again, so that what is
/// verified is well formed, however wrong.
pub fn verify_edited(data: &[u8]) {
    let own = honest();
    let mut input = Input(data);
    let (mut key, mut proof) = (own.key.clone(), own.proofs[0].clone());
    let choice = input.byte();
    for _ in 0..choice % 4 {
        edit_proof(&mut proof, &own.proofs[1], &mut input);
    }
    if choice & 0x80 != 0 {
        for _ in 0..1 + choice / 4 % 4 {
            edit_key(&mut key, &mut input);
        }
        let Ok(bytes) = key.to_bytes() else { return };
        let Ok(read) = ModelKey::from_bytes(&bytes) else { return };
        key = read;
        // The proof says that it is one of this model.
        proof.model = key.id().expect("a key that was read has an id");
    }
    // Whoever edits a proof does the work before the lookups again.
    if choice & 0x40 != 0 {
        proof = reworked(&key, proof);
    }
    let Ok(bytes) = proof.to_bytes() else { return };
    judge(&key, &bytes);
}

/// The first two bytes say where `config.json` ends and `model.safetensors` begins.
pub fn checkpoint(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (config, tensors) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("a file");
    write("config.json", config);
    write("model.safetensors", tensors);
    inspect(dir.path());
}

/// A checkpoint in one file.
pub fn gguf(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, data).expect("a file");
    inspect(&path);
}

/// What `inspect` and `setup` do with a checkpoint before they look at its values, the values, and the tokenizer.
fn inspect(path: &Path) {
    let supported = Checkpoint::survey(path).is_ok_and(|survey| survey.is_supported());
    if let Ok(checkpoint) = Checkpoint::open(path) {
        assert!(supported, "what can be opened is supported");
        checkpoint
            .config()
            .check()
            .expect("what can be opened has been checked");
        for matmul in checkpoint.config().matmuls() {
            let tensor = checkpoint.matrix(matmul.id).expect("a tensor that is there");
            assert_eq!(tensor.len(), matmul.in_dim * matmul.out_dim);
            let _ = tensor.values();
        }
        let files = checkpoint.id_files().unwrap_or_default().files;
        if let Some(tokenizer) = files.tokenizer {
            read_tokenizer(&tokenizer, files.config.as_deref());
        }
    }
}

/// The tokenizer of a key or checkpoint, and what `verify` and `prove` do with it. The first two bytes say where
/// `tokenizer_config.json` ends and `tokenizer.json` begins.
pub fn tokenizer(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (config, tokenizer) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    read_tokenizer(tokenizer, (!config.is_empty()).then_some(config));
}

fn read_tokenizer(tokenizer: &[u8], config: Option<&[u8]>) {
    if let Ok(tokenizer) = Tokenizer::from_bytes(tokenizer, config) {
        let ids = tokenizer.encode("Once upon a time").unwrap_or_default();
        let _ = tokenizer.decode(&ids, true);
        let _ = tokenizer.decode(&[0, 1, 80, u32::MAX], false);
        if let Ok(texts) = tokenizer.texts(&ids, &[0, 1, 80, u32::MAX]) {
            assert!(texts.whole().len() <= 3 << 20, "a text beyond all limits");
        }
        let chat = ChatTemplate::new(config.unwrap_or_default(), Choice::Own, false);
        if let Ok(prompt) = chat.and_then(|chat| chat.prompt(&question(Some("Be good."), "<s>Why?"), &tokenizer)) {
            assert!(prompt.text.len() <= RENDERED_BYTES, "a prompt beyond all limits");
        }
    }
}
