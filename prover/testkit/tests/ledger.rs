//! Security is a failing test: the soundness ledger of docs/security.md.

use serde::Deserialize;
use stwo::core::fields::m31::P;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{Blocks, ChannelShift, ColumnNorms, ModelConfig, ModelParams, WeightFormat, LAYER_KINDS};
use tessera_circuits::statement::Lengths;
use tessera_circuits::trees::Forest;
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_support::progress::Silent;
use tessera_testkit::{
    fixture_size_config, odd_config, post_normed_config, random_ids, random_model, unrooted_key, TestModel,
};
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::{ledger, security_bits, Ledger, FIELD_BITS};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::{MIN_BITS, TARGET_BITS};
use tessera_verifier::verify::{verify, VerifyError};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden-ledgers.json");

/// The ledger of a proof in one piece.
fn whole(key: &ModelKey, rows: usize) -> Ledger {
    ledger(key, &Chunk::whole(key.config.layers), rows)
}

#[test]
fn the_fixture_reaches_the_target() {
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        let key = unrooted_key(&random_model(fixture_size_config(), format, 7));
        for rows in [1, 8, 63, 64, 512, 2048] {
            let bits = whole(&key, rows).bits();
            assert!(bits >= TARGET_BITS, "{rows} rows: {bits:.2} bits");
        }
        // Each term that grows with the statement loses more than a bit on the way from 64 to 2,048 rows, and the total hardly anything.
        let [short, long] = [64, 2048].map(|rows| whole(&key, rows));
        for name in [
            "LogUp",
            "opening: first folds",
            "opening: other folds",
            "opening: column batch of the activations",
        ] {
            let bits = |ledger: &Ledger| ledger.terms.iter().find(|term| term.name == name).expect(name).bits;
            assert!(bits(&short) > bits(&long) + 1.0, "{name}");
        }
        let lost = short.bits() - long.bits();
        assert!(
            lost > 0.0 && lost < 0.5,
            "{:.2} and {:.2} bits",
            short.bits(),
            long.bits()
        );
    }
}

#[test]
fn the_total_is_below_every_term() {
    let key = unrooted_key(&random_model(fixture_size_config(), WeightFormat::Int16, 7));
    let ledger = whole(&key, 64);
    assert!(ledger.terms.iter().all(|t| t.bits > ledger.bits()));
}

/// A chain fails where one of its chunks does: no partition has more bits than its weakest chunk, and none fewer than
/// the errors of all chunks together.
#[test]
fn the_errors_of_chunks_add_up() {
    let config = ModelConfig {
        layers: 7,
        ..fixture_size_config()
    };
    let key = unrooted_key(&random_model(config, WeightFormat::Int16, 7));
    for layers in [&[7][..], &[3, 4], &[1, 5, 1], &[1; 7]] {
        let chunks = Chunk::partition(layers.iter().copied(), 7).expect("all layers");
        let errors: Vec<f64> = chunks.iter().map(|c| (-ledger(&key, c, 64).bits()).exp2()).collect();
        let bits = security_bits(&key, &chunks, 64);
        assert!(
            (bits + errors.iter().sum::<f64>().log2()).abs() < 1e-9,
            "{layers:?}: {bits}"
        );
        let weakest = errors.iter().fold(0f64, |most, e| most.max(*e));
        assert!(bits <= -weakest.log2(), "{layers:?}: {bits}");
        println!("{layers:?}: {bits:.2} bits");
    }
}

/// What `fixtures/golden_ledgers.py` writes of a model and a statement.
#[derive(Deserialize)]
struct Golden {
    model: String,
    /// As in [`ModelConfig`], from `hidden` to `context`.
    config: [usize; 8],
    head_norms: bool,
    /// As in [`ModelConfig`].
    blocks: Blocks,
    rows: usize,
    outputs: usize,
    /// The matmuls that are claimed in one limb.
    one_limb: Vec<String>,
    /// Numbers of layers.
    chunks: Vec<usize>,
    log_message: u32,
    log_blowup: u32,
    tiles: usize,
    /// log2 of the number of tiles of a band.
    log_band: u32,
    /// By chunk, part and axis that may be cut: log2 of the length of a lane, number of lanes.
    cuts: Vec<Vec<Vec<(u32, usize)>>>,
    /// Committed field elements by chunk.
    cells: Vec<u128>,
    bits: f64,
    /// By chunk, ascending.
    terms: Vec<Vec<f64>>,
}

/// Parameters with these limbs: columns of zeros fit one with the smallest shift, but none with the largest.
fn with_limbs(params: ModelParams, layers: usize, one: &[String]) -> ModelParams {
    let shift = |kind: &str| ChannelShift(vec![if one.iter().any(|own| own == kind) { 1 } else { 13 }]);
    let mut layer = params.layers[0].clone();
    let (attention, mlp) = (&mut layer.attention, &mut layer.mlp);
    (attention.q, attention.k, attention.v) = (shift("q"), shift("k"), shift("v"));
    (mlp.gate, mlp.up) = (shift("gate"), shift("up"));
    ModelParams {
        layers: vec![layer; layers],
        head: shift("head"),
        columns: vec![ColumnNorms::default(); layers * LAYER_KINDS.len() + 1],
        ..params
    }
}

/// The verifier in Python computes layouts and ledgers from the documents alone. Those of small and of large models, in
/// one piece and in chunks, are the same here, part by part and term by term.
#[test]
fn layouts_and_ledgers_are_those_of_the_independent_verifier() {
    let text = std::fs::read_to_string(GOLDEN).expect("the golden file");
    let cases: Vec<Golden> = serde_json::from_str(&text).expect("golden JSON");
    for case in cases {
        let [hidden, layers, heads, kv_heads, head_dim, ff, vocab, context] = case.config;
        let config = ModelConfig {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            ff,
            vocab,
            context,
            head_norms: case.head_norms,
            blocks: case.blocks,
            ..odd_config()
        };
        let name = format!("{} with {} rows", case.model, case.rows);
        assert_eq!(config.total_tiles(), case.tiles, "{name}");
        let mut key = unrooted_key(&random_model(odd_config(), WeightFormat::Int16, 7));
        key.weights = CommitmentParams {
            tiles: case.tiles,
            log_message: case.log_message,
            log_blowup: case.log_blowup,
        };
        key.params = with_limbs(key.params, layers, &case.one_limb);
        if config.norms_outputs() {
            let own = random_model(post_normed_config(), WeightFormat::Int16, 7).params;
            let first = &own.layers[0];
            for layer in &mut key.params.layers {
                layer.attention.post_norm.clone_from(&first.attention.post_norm);
                layer.mlp.post_norm.clone_from(&first.mlp.post_norm);
            }
        }
        key.config = config;
        let lengths = Lengths::new(case.rows, case.outputs);
        let chunks = Chunk::partition(case.chunks, layers).expect("all layers");
        for (i, (chunk, terms)) in chunks.iter().zip(&case.terms).enumerate() {
            let shape = key.shape(chunk, lengths);
            let own: Vec<_> = shape
                .parts()
                .iter()
                .map(|part| {
                    shape
                        .cuts(*part)
                        .iter()
                        .map(|cut| (cut.log_lane, cut.lanes))
                        .collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(own, case.cuts[i], "{name}, {chunk:?}");
            assert_eq!(key.opened(chunk).log_band(), case.log_band, "{name}, {chunk:?}");
            assert_eq!(shape.cells(), case.cells[i], "{name}, {chunk:?}");
            let mut own: Vec<f64> = ledger(&key, chunk, lengths).terms.iter().map(|t| t.bits).collect();
            own.sort_by(f64::total_cmp);
            assert_eq!(own.len(), terms.len(), "{name}, {chunk:?}");
            for (own, expected) in own.iter().zip(terms) {
                assert!(
                    (own - expected).abs() < 1e-5,
                    "{name}, {chunk:?}: {own} and {expected} bits"
                );
            }
        }
        let bits = security_bits(&key, &chunks, lengths);
        // Of too few it is known only that they are.
        let few = bits < MIN_BITS && case.bits < MIN_BITS;
        assert!(
            few || (bits - case.bits).abs() < 1e-5,
            "{name}: {bits} and {} bits",
            case.bits
        );
    }
}

/// An honest proof whose statement is replaced by one with more rows than 90 bits allow. The refusal comes
/// before anything else in the proof is looked at.
fn refused(config: ModelConfig, rows: usize) {
    let small = TestModel::new(random_model(odd_config(), WeightFormat::Int16, 7));
    let mut proof = prove(&small.prover(), &[1, 2, 3], &GenerateOptions::exactly(1), &Silent)
        .expect("an honest proof")
        .proof;
    let key = unrooted_key(&random_model(config, WeightFormat::Int16, 7));
    key.check().expect("a valid key");
    proof.model = key.id().expect("the key encodes");
    proof.statement.prompt = random_ids(&key.config, rows, 3);
    proof.chunks[0].layers = key.config.layers as u32;
    match verify(&key, &proof) {
        Err(VerifyError::Security { got, min }) => assert!(got < MIN_BITS && min == MIN_BITS, "{got} bits"),
        other => panic!("{rows} rows: {other:?}"),
    }
}

/// No number of lookups is too large: they are in balance groups, which cost a term and multiplicities in the extension.
#[test]
fn statements_of_any_number_of_lookups_have_bits() {
    let config = ModelConfig {
        context: 8192,
        layers: 12,
        ..fixture_size_config()
    };
    let key = unrooted_key(&random_model(config, WeightFormat::Int16, 7));
    for (rows, least) in [(512, 0), (2304, u128::from(P)), (4096, 1 << 32), (8192, 1 << 34)] {
        let shape = key.shape(&Chunk::whole(12), rows);
        let (lookups, forest) = (shape.fractions(), Forest::of(&shape));
        assert!(lookups >= least, "{rows} rows: {lookups} lookups");
        // Groups are full but for two trees at most.
        let balances = forest.balances().len();
        assert!(balances as u128 > lookups >> 30 && balances as u128 <= lookups / (62 << 24) + 1);
        let ledger = whole(&key, rows);
        let bits = |name: &str| ledger.terms.iter().find(|term| term.name == name).map(|term| term.bits);
        let samples = bits("STARK: FRI batching, unique decoding").expect("a term");
        let weights = bits("weights of balance groups");
        assert_eq!(samples > 99.2, balances == 1, "{rows} rows: {samples} bits");
        assert!(samples > 99.0);
        let degree = (balances > 1).then(|| -(balances as f64 - 1.0).log2());
        assert_eq!(weights, degree.map(|bits| bits + FIELD_BITS), "{rows} rows");
        assert!(ledger.bits() >= MIN_BITS, "{rows} rows: {} bits", ledger.bits());
    }
}

/// More rows than the circle group has points: nothing may overflow on the way to the refusal.
#[test]
fn an_absurd_statement_is_refused() {
    let config = ModelConfig {
        context: 8192,
        layers: 64,
        heads: 64,
        kv_heads: 64,
        ..odd_config()
    };
    refused(config, 8192);
}
