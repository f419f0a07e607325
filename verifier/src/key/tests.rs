use blake2::{Blake2s256, Digest as _};
use tessera_circuits::model::{Blocks, Mask, ModelParams, Rotation, Windows};

use super::*;
use crate::codec::{encode, HEADER_LEN};
use crate::suite::Suite;

fn key() -> ModelKey {
    let config = ModelConfig {
        hidden: 64,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        ff: 64,
        vocab: 64,
        context: 32,
        rms_eps: 1e-5,
        rotations: vec![Rotation::Base(1e4)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: Some(1),
        eos: vec![2],
    };
    ModelKey {
        weights: CommitmentParams {
            tiles: config.total_tiles(),
            log_message: 18,
            log_blowup: 2,
        },
        params: ModelParams::sample(&config).with_largest_norms(&config),
        config,
        header: KeyHeader::CURRENT,
        weights_root: [1; 32],
        tables_root: [2; 32],
        tokenizer: b"tokenizer".to_vec(),
        tokenizer_config: b"config".to_vec(),
        recipe: Vec::new(),
    }
}

/// A change of a key.
type Change = (&'static str, fn(&mut ModelKey));

#[test]
fn every_field_that_defines_the_model_is_in_its_id() {
    let honest = key().id().unwrap();
    let changes: [Change; 20] = [
        ("config", |k| k.config.rotations = vec![Rotation::Base(1e5)]),
        ("frequencies", |k| {
            k.config.rotations = vec![Rotation::Frequencies(vec![0.5; 3])]
        }),
        ("rotations of layers", |k| k.config.rotation_of = vec![0]),
        ("end of sequence", |k| k.config.eos.push(3)),
        ("parameters", |k| k.params.logit_bits += 1),
        // Norms that are too small by one are trusted, and those of another model.
        ("norms of columns", |k| k.params.columns[3].square -= 1),
        ("shape of the commitment", |k| k.weights.log_message += 1),
        ("hash suite", |k| k.header.hash_suite = Suite::Keccak),
        ("leaves", |k| k.header.leaf_points = 4),
        ("random coefficients", |k| k.header.random_coefficients = 1),
        ("table columns", |k| k.header.table_columns = 1),
        ("tables", |k| k.header.tables = 1),
        ("private weights", |k| k.header.private_weights = 1),
        ("attention", |k| k.header.attention = 1),
        ("windows", |k| k.header.windows = 1),
        ("rotation tables", |k| k.header.rotation_tables = 1),
        ("boundary units", |k| k.header.boundary_units = 1),
        ("root of the weights", |k| k.weights_root[31] ^= 1),
        ("root of the tables", |k| k.tables_root[31] ^= 1),
        ("tokenizer", |k| k.tokenizer[0] ^= 1),
    ];
    let mut ids = vec![honest];
    for (what, change) in changes {
        let mut other = key();
        change(&mut other);
        let id = other.id().unwrap();
        assert!(!ids.contains(&id), "{what}");
        ids.push(id);
    }
    // The same bytes, cut elsewhere.
    let mut other = key();
    let moved = other.tokenizer.pop().unwrap();
    other.tokenizer_config.insert(0, moved);
    assert_ne!(other.id().unwrap(), honest);
}

#[test]
fn the_recipe_has_a_digest_of_its_own_and_is_not_in_the_id() {
    let (plain, mut told) = (key(), key());
    told.recipe = b"how it was made".to_vec();
    assert_eq!(plain.id().unwrap(), told.id().unwrap());
    assert_ne!(plain.recipe_digest(), told.recipe_digest());
    let bytes = told.to_bytes().unwrap();
    assert_ne!(bytes, plain.to_bytes().unwrap());
    assert_eq!(ModelKey::from_bytes(&bytes).unwrap(), told);
}

/// As docs/format.md says, from the bytes of the file: the version and the fields up to the tokenizer are the first group, the
/// tokenizer's files the second one, the recipe is the rest. The same fields under another version are another model.
#[test]
fn the_id_is_a_digest_of_the_digests_of_parts_of_the_file() {
    let mut key = key();
    key.recipe = b"how it was made".to_vec();
    let bytes = key.to_bytes().unwrap();
    let lengths = 16 + key.tokenizer.len() + key.tokenizer_config.len();
    let last = bytes.len() - key.recipe.len();
    let (first, second) = (&bytes[8..last - lengths], &bytes[last - lengths..last]);
    let digest = |tag: &str, data: &[u8]| Blake2s256::digest([tag.as_bytes(), b"\0", data].concat());
    let computation = digest("tessera/model computation", first);
    let tokenizer = digest("tessera/model tokenizer", second);
    let id = digest("tessera/model id", &[computation, tokenizer].concat());
    assert_eq!(key.id().unwrap().0, *id);
    let other = digest(
        "tessera/model computation",
        &[&5u32.to_le_bytes()[..], &first[4..]].concat(),
    );
    assert_ne!(key.computation_digest().unwrap(), *other);
    let recipe = digest("tessera/model recipe", &bytes[last..]);
    assert_eq!(key.recipe_digest(), *recipe);
}

#[test]
fn a_header_of_another_kind_is_refused_by_name() {
    key().check().unwrap();
    let changes: [Change; 8] = [
        ("points per leaf", |k| k.header.leaf_points = 1),
        ("random coefficients", |k| k.header.random_coefficients = 24),
        ("public table columns", |k| k.header.table_columns = u32::MAX),
        ("privacy of the weights", |k| k.header.private_weights = 1),
        ("kind of attention", |k| k.header.attention = 1),
        ("kinds of layers with windows", |k| k.header.windows = 1),
        ("committed rotation tables", |k| k.header.rotation_tables = 2),
        ("units of committed boundaries", |k| k.header.boundary_units = 1 << 31),
    ];
    for (what, change) in changes {
        let mut other = key();
        change(&mut other);
        let bytes = encode(FileKind::Key, &other).unwrap();
        let error = ModelKey::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, KeyError::Header { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// A key says how its tables are proved, by a number that the suite knows; a root of tables stands in the keys of one way alone, and the id is of
/// both.
#[test]
fn the_way_of_the_tables_is_known_and_in_the_id() {
    let of = |suite: Suite, tables: u32, root: [u8; 32]| {
        let mut key = key();
        key.header.hash_suite = suite;
        key.header.tables = tables;
        key.tables_root = root;
        key
    };
    let (stark, gkr) = (of(Suite::Blake2s, 0, [2; 32]), of(Suite::Blake2s, 1, [0; 32]));
    let ways = [&stark, &gkr].map(|key| {
        key.check().unwrap();
        assert_eq!(&ModelKey::from_bytes(&key.to_bytes().unwrap()).unwrap(), key);
        key.table_argument()
    });
    assert_eq!(ways, TableArgument::ALL);
    assert_ne!(stark.id().unwrap(), gkr.id().unwrap());
    assert_ne!(of(Suite::Blake2s, 0, [0; 32]).id().unwrap(), gkr.id().unwrap());
    for root in [[2; 32], [1; 32]] {
        let error = of(Suite::Blake2s, 1, root).check().unwrap_err();
        assert!(matches!(error, KeyError::TablesRoot), "{error}");
    }
    for (suite, number) in [(Suite::Keccak, 0), (Suite::Blake2s, 2), (Suite::Keccak, u32::MAX)] {
        let error = of(suite, number, [0; 32]).check().unwrap_err();
        assert!(matches!(error, KeyError::Tables { got } if got == number), "{error}");
        assert!(error.to_string().contains("way of proving lookup tables"), "{error}");
    }
}

/// The header counts the kinds of layers with a window that the architecture has, and the id is of both.
#[test]
fn windows_are_in_the_header_and_in_the_id() {
    let windowed = |keys| {
        let mut key = key();
        key.config.blocks.mask = Mask::Windows(Windows::new(keys, [0]));
        key.header = KeyHeader::of(Suite::Blake2s, &key.config);
        key
    };
    let honest = windowed(5);
    honest.check().unwrap();
    assert_eq!(ModelKey::from_bytes(&honest.to_bytes().unwrap()).unwrap(), honest);
    assert_ne!(honest.id().unwrap(), key().id().unwrap());
    assert_ne!(honest.id().unwrap(), windowed(6).id().unwrap());
    let mut other = honest;
    other.header.windows = 0;
    let error = other.check().unwrap_err().to_string();
    assert!(error.contains("kinds of layers with windows is 0, but"), "{error}");
}

/// No verifier relies on a recipe: it is whatever bytes are left, none or many, and a byte more or less is another one.
#[test]
fn the_recipe_is_all_that_is_behind_the_other_fields() {
    let honest = key();
    let front = honest.to_bytes().unwrap();
    for recipe in [&b""[..], b"\x1b[2J", &[0xff; 5000]] {
        let bytes = [&front, recipe].concat();
        let read = ModelKey::from_bytes(&bytes).unwrap();
        assert_eq!(read.recipe, recipe);
        assert_eq!(read.id().unwrap(), honest.id().unwrap());
        assert_eq!(read.to_bytes().unwrap(), bytes);
    }
    // The other fields are not to be had from the recipe: a file that ends within them ends early.
    for length in HEADER_LEN..front.len() {
        let error = ModelKey::from_bytes(&front[..length]).unwrap_err();
        let kind = FileKind::Key;
        assert!(
            matches!(error, KeyError::Codec(ref own) if *own == CodecError::Truncated { kind }),
            "{length} bytes: {error}"
        );
    }
}

/// The number of a suite that nobody knows is refused where the key is read; one that is known makes another model.
#[test]
fn an_unknown_hash_suite_is_refused_by_name() {
    let of = |hash_suite: Suite| {
        let mut key = key();
        key.header = KeyHeader {
            hash_suite,
            ..key.header
        }
        .with_tables(TableArgument::Gkr);
        key.tables_root = [0; 32];
        key
    };
    let [own, other] = Suite::ALL.map(|suite| of(suite).to_bytes().unwrap());
    let differing: Vec<usize> = (0..own.len()).filter(|i| own[*i] != other[*i]).collect();
    let [at] = differing[..] else {
        panic!("one byte of a key is its suite: {differing:?}");
    };
    ModelKey::from_bytes(&other).unwrap();
    for number in 2..=255 {
        let mut bytes = own.clone();
        bytes[at] = number;
        let error = ModelKey::from_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("the hash suite is {number}, but")), "{error}");
    }
    for high in 1..4 {
        let mut bytes = own.clone();
        bytes[at + high] = 1;
        ModelKey::from_bytes(&bytes).unwrap_err();
    }
}

/// The digests of a key of Keccak are Keccak-256 of tags and fields.
#[test]
fn the_id_of_a_keccak_key_is_made_of_keccak_digests() {
    let mut key = key();
    key.header.hash_suite = Suite::Keccak;
    let digests = [key.computation_digest().unwrap(), key.tokenizer_digest().unwrap()];
    let mut hasher = Suite::Keccak.hasher();
    hasher.update(b"tessera/model id\0");
    digests.iter().for_each(|digest| hasher.update(digest));
    assert_eq!(key.id().unwrap().0, hasher.finalize());
}
