//! Soundness: no part of an honest proof can be changed.
//!
//! The manifest names, for every place in a proof and every operation on it, the error that the verifier must
//! answer with. Places are found through the serialisation of an honest proof; one without a row, and a row
//! without a place, fail the suite.

mod bytes;
mod contexts;
mod crafted;
mod frozen;
mod hidden;
mod keys;
mod manifest;
mod suites;
mod tree;

use std::collections::HashMap;
use std::sync::OnceLock;

use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::table_tree::TableArgument;
use tessera_testkit::{odd_config, random_ids, random_model, reworked, SplitMix, TestModel};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::{verify_bytes, VerifyError};

use manifest::Row;
use tree::{collapse, encode, Node, Op, Tree};

/// An honest proof.
pub struct Honest {
    pub key: ModelKey,
    pub proof: Proof,
    pub bytes: Vec<u8>,
}

impl Honest {
    /// A proof that is accepted under a key.
    fn of(key: &ModelKey, proof: Proof) -> Self {
        let bytes = proof.to_bytes().expect("it encodes");
        verify_bytes(key, &bytes).expect("an honest proof verifies");
        Self {
            key: key.clone(),
            proof,
            bytes,
        }
    }
}

/// Two honest proofs of one model in three chunks (a first, a middle and a last one) and of equal shapes: 4 token ids and
/// 3 more, so that one more or one less of either leaves all sizes as they are.
pub fn honest() -> &'static [Honest; 2] {
    static PROOFS: OnceLock<[Honest; 2]> = OnceLock::new();
    PROOFS.get_or_init(|| proved(Suite::Blake2s, TableArgument::Stark))
}

/// Proofs of the same statements by this model, set up with its tables as a tree.
pub fn gkr() -> &'static [Honest; 2] {
    static PROOFS: OnceLock<[Honest; 2]> = OnceLock::new();
    PROOFS.get_or_init(|| proved(Suite::Blake2s, TableArgument::Gkr))
}

/// The same proofs of the same model, set up for contracts.
pub fn keccak() -> &'static [Honest; 2] {
    static PROOFS: OnceLock<[Honest; 2]> = OnceLock::new();
    PROOFS.get_or_init(|| proved(Suite::Keccak, TableArgument::Gkr))
}

fn proved(suite: Suite, tables: TableArgument) -> [Honest; 2] {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    // The attention outputs are clipped here and there.
    let mut model = random_model(config.clone(), WeightFormat::Int16, 7);
    model.params.layers.iter_mut().for_each(|layer| layer.attention.att = 2);
    let model = TestModel::of_suite(suite, model).with_tables(tables);
    [3, 4].map(|seed| {
        let prompt = random_ids(&config, 4, seed);
        Honest::of(&model.key, model.prove_chunks(&prompt, 3, &[1, 1, 1]))
    })
}

/// The verifier's answer to a proof.
pub fn answer(key: &ModelKey, proof: &Proof) -> Result<(), VerifyError> {
    verify_bytes(key, &encode(proof)).map(|_| ())
}

/// A proof that was changed at a place, with the work before challenges done again, unless that is what was changed.
fn with_work(key: &ModelKey, place: &str, proof: Proof) -> Proof {
    // No work before the queries depends on what is said after it.
    let later = [
        ".rows",
        ".oracles",
        ".final_message",
        ".nonce",
        ".claimed_sum",
        ".stark.",
    ];
    let later = later.iter().any(|part| place.contains(part)) && !place.contains(".commitments");
    match place.contains("work") || later {
        true => proof,
        false => reworked(key, proof),
    }
}

#[test]
fn every_change_has_its_error() {
    check_every_change(&honest()[0]);
}

/// No less under the other suite, whose trees are hashed otherwise, and where the tables are a tree.
#[test]
fn every_change_has_its_error_under_keccak_without_a_stark() {
    check_every_change(&keccak()[0]);
}

/// No less of a proof that hides.
#[test]
fn every_change_of_a_proof_that_hides_has_its_error() {
    check_every_change(&hidden::honest()[0]);
}

fn check_every_change(Honest { key, proof, bytes }: &Honest) {
    assert_eq!(encode(proof), *bytes, "the encoding without checks is the encoding");
    let rows = manifest::rows(proof);
    let mut tree = Tree::new(proof);

    let (places, missing) = assign(&tree, &rows);
    assert!(missing.is_empty(), "no row in the manifest: {missing:#?}");

    let mut rng = SplitMix(11);
    let mut wrong = Vec::new();
    // A row that allows another error, too, may meet only that one in a chunk: by chance, if it has one place only. In one
    // of the chunks it must meet its own.
    let mut met: HashMap<(Op, &str), bool> = HashMap::new();
    for (row, places) in rows.iter().zip(&places) {
        let (mut tried, mut exact) = (0, 0);
        for (node, zero) in picks(places, &mut rng) {
            let Some(tampered) = tree.tampered(node, row.op, zero, &mut rng) else {
                continue;
            };
            tried += 1;
            match answer(key, &with_work(key, &node.path, tampered)) {
                Err(error) if row.allows(&error) => exact += usize::from(row.is_expected(&error)),
                other => wrong.push(format!("{:?} of {}: {other:?}, not {}", row.op, node.path, row.text)),
            }
        }
        if row.depends_on_chance() {
            *met.entry((row.op, row.within_chunk())).or_default() |= exact > 0;
        } else if exact == 0 {
            wrong.push(format!(
                "{:?} of {}: {tried} cases, none gives {}",
                row.op, row.places, row.text
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unmet: Vec<_> = met.iter().filter(|(_, met)| !**met).collect();
    assert!(unmet.is_empty(), "{unmet:?}");
}

/// The places of every row, the first that matches, and what no row matches.
fn assign(tree: &Tree, rows: &[Row]) -> (Vec<Vec<Node>>, Vec<String>) {
    let mut places = vec![Vec::new(); rows.len()];
    let mut missing = Vec::new();
    // There are many rows and more nodes: compared are those that differ in indices at most.
    let mut similar: HashMap<(String, Op), Vec<usize>> = HashMap::new();
    for (i, row) in rows.iter().enumerate() {
        similar.entry((collapse(&row.places.0), row.op)).or_default().push(i);
    }
    for node in &tree.nodes {
        let path = collapse(&node.path);
        for &op in &node.ops {
            let mut own = similar.get(&(path.clone(), op)).into_iter().flatten().copied();
            match own.find(|row| rows[*row].places.matches(&node.path)) {
                Some(row) => places[row].push(node.clone()),
                None => missing.push(format!("{op:?} of {}", node.path)),
            }
        }
    }
    (places, missing)
}

/// A field of the proof that the manifest forgets is reported, whatever the type of the field.
#[test]
fn a_field_without_a_row_is_found() {
    let [Honest { proof, .. }, _] = honest();
    let tree = Tree::new(proof);
    for (field, expected) in [
        ("model", &["Change of model"][..]),
        (
            "chunks[1].opening.nonce",
            &[
                "Change of chunks[1].opening.nonce",
                "Modulus of chunks[1].opening.nonce",
            ],
        ),
        (
            "chunks[1].matmuls.claim",
            &[
                "Change of chunks[1].matmuls.claim",
                "Modulus of chunks[1].matmuls.claim",
            ],
        ),
        (
            "chunks[2].opening.fold_rounds",
            &[
                "Truncate of chunks[2].opening.fold_rounds",
                "Extend of chunks[2].opening.fold_rounds",
                "Empty of chunks[2].opening.fold_rounds",
            ],
        ),
        ("chunks[0].activations", &["Change of chunks[0].activations"]),
        (
            "chunks[2].tables.Stark.claimed_sum",
            &[
                "Change of chunks[2].tables.Stark.claimed_sum",
                "Modulus of chunks[2].tables.Stark.claimed_sum",
            ],
        ),
        (
            "chunks[0].tables.Stark.stark.commitments[1]",
            &["Change of chunks[0].tables.Stark.stark.commitments[1]"],
        ),
    ] {
        let mut rows = manifest::rows(proof);
        rows.retain(|row| row.places.0 != field);
        let (_, missing) = assign(&tree, &rows);
        assert_eq!(missing, expected);
    }
}

/// Places of one row to try, and which form of the change: the first and last one and some at random.
fn picks<'a>(places: &'a [Node], rng: &mut SplitMix) -> Vec<(&'a Node, bool)> {
    let Some(last) = places.len().checked_sub(1) else {
        return Vec::new();
    };
    let [a, b, c] = [(); 3].map(|()| rng.below(places.len() as u64) as usize);
    [(0, false), (last, false), (a, false), (b, true), (c, true)]
        .map(|(i, zero)| (&places[i], zero))
        .to_vec()
}
