//! The files of the commitment: what is kept, and that damage is found and named.

use std::fs;
use std::path::PathBuf;

use tessera_verifier::opening::parts::{hash_base_leaf, hash_secure_leaf, LeafOpening};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::super::{commit, merkle, Codeword, OpeningProverError, Split, TileSource, Tree};
use super::{Random, Weights, SUITE};
use crate::trees;
use std::ops::Range;
use tessera_circuits::model::WeightFormat;
use tessera_kernels::hashes::{self, Domain};
use tessera_model::tiles::tile_bytes;
use tessera_model::weights::PackedWeights;
use tessera_support::progress::Silent;

/// Columns in one full and one narrow batch.
const PARAMS: CommitmentParams = CommitmentParams {
    tiles: 21,
    log_message: 12,
    log_blowup: 1,
};
const LEAVES: [usize; 4] = [3, 32, 1000, 4095];

struct Files {
    _dir: tempfile::TempDir,
    tree: PathBuf,
    values: PathBuf,
    weights: Weights,
    root: Digest,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (tree, values) = (dir.path().join("tree"), dir.path().join("values"));
        let weights = Weights::random(PARAMS.tiles, 5);
        let mut file = fs::File::create(&values).unwrap();
        let made = commit(SUITE, &weights.0, &PARAMS, Split::default(), Some(&mut file), &Silent).unwrap();
        made.write(&mut fs::File::create(&tree).unwrap()).unwrap();
        let root = made.root();
        Self {
            _dir: dir,
            tree,
            values,
            weights,
            root,
        }
    }

    fn tree(&self) -> Result<Tree, OpeningProverError> {
        Tree::read(SUITE, &self.tree, &PARAMS, &self.root)
    }

    fn open(&self, weights: &dyn TileSource) -> Result<LeafOpening, OpeningProverError> {
        Codeword::with_file(PARAMS, self.tree()?, &self.values)?.open(weights, &LEAVES)
    }
}

/// Weights that must not be read.
struct Untouched;

impl TileSource for Untouched {
    fn tiles(&self) -> usize {
        PARAMS.tiles
    }
    fn format(&self) -> WeightFormat {
        WeightFormat::Int16
    }
    fn bytes(&self, _: Range<usize>) -> &[u8] {
        panic!("the codeword file has all values");
    }
}

#[test]
fn with_and_without_codeword_file() {
    let files = Files::new();
    let len = |path| fs::metadata(path).unwrap().len();
    assert_eq!(len(&files.values), Codeword::file_len(&PARAMS));
    assert_eq!(len(&files.tree), Tree::file_len(&PARAMS));
    let rows = files.open(&Untouched).unwrap();
    let again = Codeword::new(PARAMS, files.tree().unwrap());
    assert_eq!(again.open(&files.weights.0, &LEAVES).unwrap(), rows);
    assert_eq!(rows.values.len(), LEAVES.len() * 2 * PARAMS.columns());
}

#[test]
fn a_damaged_codeword_file_is_named() {
    let files = Files::new();
    let good = fs::read(&files.values).unwrap();
    // Leaf 1000 in the first batch: 16 columns of two words. All four bits that a byte may be off by, but the top one of
    // a word, which no value has.
    for bit in [0, 9, 30] {
        let mut bad = good.clone();
        bad[1000 * 128 + 52 + bit / 8] ^= 1 << (bit % 8);
        fs::write(&files.values, &bad).unwrap();
        match files.open(&Untouched) {
            Err(OpeningProverError::CodewordValues { path, leaf: 992 }) => assert_eq!(path, files.values),
            other => panic!("{other:?}"),
        }
    }
    fs::write(&files.values, &good[1..]).unwrap();
    assert!(matches!(
        files.open(&Untouched),
        Err(OpeningProverError::CacheLength { path, got, .. }) if path == files.values && got == good.len() as u64 - 1
    ));
    fs::remove_file(&files.values).unwrap();
    assert!(matches!(files.open(&Untouched), Err(OpeningProverError::Open { path, .. }) if path == files.values));
}

#[test]
fn a_damaged_tree_is_named() {
    let files = Files::new();
    let good = fs::read(&files.tree).unwrap();
    let mut bad = good.clone();
    bad[77] ^= 1;
    fs::write(&files.tree, &bad).unwrap();
    let error = files.tree().unwrap_err();
    assert!(matches!(&error, OpeningProverError::CacheRoot { path, .. } if *path == files.tree));
    assert!(error.to_string().contains(&hex::encode(files.root)));
    fs::write(&files.tree, [0; 40]).unwrap();
    assert!(matches!(
        files.tree(),
        Err(OpeningProverError::CacheLength { got: 40, .. })
    ));
}

#[test]
fn other_weights_are_refused() {
    let files = Files::new();
    let mut bytes = files.weights.0.all().to_vec();
    bytes[20 * tile_bytes(WeightFormat::Int16) + 5] ^= 1;
    let other = PackedWeights::in_memory(WeightFormat::Int16, bytes);
    let codeword = Codeword::new(PARAMS, files.tree().unwrap());
    assert!(matches!(
        codeword.open(&other, &LEAVES),
        Err(OpeningProverError::OtherWeights)
    ));
}

/// Sixteen hashes at a time are the verifier's, for every length of a message around the length of a block.
#[test]
fn lanes_hash_as_the_verifier() {
    let mut random = Random(2);
    for len in (0..=105).chain([160]) {
        let messages: Vec<Vec<_>> = (0..hashes::SIMD_LANES)
            .map(|_| (0..len).map(|_| random.base()).collect())
            .collect();
        let words: Vec<Vec<u32>> = messages.iter().map(|m| m.iter().map(|v| v.0).collect()).collect();
        let words: Vec<&[u32]> = words.iter().map(Vec::as_slice).collect();
        for suite in Suite::ALL {
            let digests = hashes::hash(suite, Domain::Leaf, words.as_slice().try_into().unwrap());
            for (digest, message) in digests.iter().zip(&messages) {
                assert_eq!(*digest, hash_base_leaf(suite, message), "{len} words of {suite:?}");
            }
        }
    }
}

#[test]
fn layers_and_leaves_of_every_size() {
    let mut random = Random(4);
    for (log, suite) in (0..8).flat_map(|log| Suite::ALL.map(|suite| (log, suite))) {
        let leaves: Vec<_> = (0..1 << log).map(|_| random.secures(8)).collect();
        let digests = merkle::secure_leaves(suite, &leaves.concat(), 8);
        assert!(digests
            .iter()
            .zip(&leaves)
            .all(|(d, leaf)| *d == hash_secure_leaf(suite, leaf)));
        let levels = trees::levels(suite, digests);
        for pair in levels.windows(2) {
            let expected: Vec<_> = pair[0].chunks(2).map(|n| suite.node(&n[0], &n[1])).collect();
            assert_eq!(pair[1], expected);
        }
    }
}
