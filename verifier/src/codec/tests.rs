//! Tests of the encoding. They unwrap what must not fail: a panic is a failed test. The lints that forbid it are for
//! code that hostile bytes reach (`lib.rs`), which this file is not part of.

use std::collections::BTreeMap;

use num_traits::{One, Zero};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Deserialize;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fri::{FriLayerProof, FriProof};
use stwo::core::pcs::quotients::CommitmentSchemeProof;
use stwo::core::pcs::{PcsConfig, TreeVec};
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::verifier::MerkleDecommitmentLifted;

use super::*;
use crate::sumcheck::SumcheckProof;

type Stark = StarkProof<Blake2sMerkleHasher>;

const HEADER: usize = MAGIC_LEN + VERSION_LEN;
const BAD: BaseField = BaseField::from_u32_unchecked(P);

/// One of everything that a message may contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Message {
    sumcheck: SumcheckProof,
    columns: Vec<Vec<BaseField>>,
    step: Step,
    name: Option<String>,
    by_layer: BTreeMap<u16, SecureField>,
    flag: bool,
    scale: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Step {
    Skip,
    One(BaseField),
    Two(BaseField, u32),
    Named { root: [u8; 32], point: Option<BaseField> },
}

fn message() -> Message {
    Message {
        sumcheck: SumcheckProof {
            rounds: vec![[SecureField::one(), SecureField::from_u32_unchecked(1, 2, 3, P - 1)]; 3],
        },
        columns: vec![
            vec![],
            vec![BaseField::from_u32_unchecked(P - 1); 5],
            vec![BaseField::zero()],
        ],
        step: Step::Named {
            root: [7; 32],
            point: Some(BaseField::one()),
        },
        name: Some("tensor".to_owned()),
        by_layer: [(1, SecureField::one()), (4, SecureField::zero())].into(),
        flag: true,
        scale: -0.0,
    }
}

fn stark() -> Stark {
    let layer = |seed: u32| FriLayerProof {
        fri_witness: vec![SecureField::from_u32_unchecked(seed, 1, 2, 3); 2],
        decommitment: MerkleDecommitmentLifted {
            hash_witness: vec![Blake2sHash([seed as u8; 32]); 3],
        },
        commitment: Blake2sHash([1; 32]),
    };
    StarkProof(CommitmentSchemeProof {
        config: PcsConfig::default(),
        commitments: TreeVec(vec![Blake2sHash([2; 32]); 2]),
        sampled_values: TreeVec(vec![vec![vec![SecureField::one()], vec![]], vec![]]),
        decommitments: TreeVec(vec![MerkleDecommitmentLifted::empty()]),
        queried_values: TreeVec(vec![vec![vec![BaseField::one(); 4]; 2]]),
        proof_of_work: u64::MAX,
        fri_proof: FriProof {
            first_layer: layer(1),
            inner_layers: vec![layer(2), layer(3)],
            last_layer_poly: LinePoly::new(vec![SecureField::one(); 4]),
        },
    })
}

/// Decodes as everything; what is accepted must be canonical.
fn decode_all(bytes: &[u8]) {
    fn one<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
        for kind in [FileKind::PROOF, FileKind::Key] {
            if let Ok(value) = decode::<T>(kind, bytes) {
                assert_eq!(encode(kind, &value).as_deref(), Ok(bytes));
            }
        }
    }
    one::<Message>(bytes);
    one::<SumcheckProof>(bytes);
    one::<Stark>(bytes);
    if let Ok(proof) = decode::<Stark>(FileKind::PROOF, bytes) {
        if check_canonical_stark(&proof).is_ok() {
            assert_eq!(
                proof.fri_proof.last_layer_poly.len(),
                proof.fri_proof.last_layer_poly.iter().len()
            );
        }
    }
}

#[test]
fn encoding_round_trips() {
    for kind in [FileKind::PROOF, FileKind::Chunk, FileKind::Key] {
        let bytes = encode(kind, &message()).unwrap();
        assert_eq!(decode::<Message>(kind, &bytes), Ok(message()));
        let bytes = encode(kind, &stark()).unwrap();
        let proof: Stark = decode(kind, &bytes).unwrap();
        assert_eq!(check_canonical_stark(&proof), Ok(()));
        assert_eq!(encode(kind, &proof), Ok(bytes));
    }
}

#[test]
fn header_is_fixed() {
    let bytes = encode(FileKind::PROOF, &BaseField::from_u32_unchecked(0x0102_0304)).unwrap();
    assert_eq!(bytes, b"TESSPRF\0\x1a\0\0\0\x04\x03\x02\x01");
    let bytes = encode(FileKind::Key, &0u8).unwrap();
    assert_eq!(bytes, b"TESSKEY\0\x0d\0\0\0\0");
    let bytes = encode(FileKind::Chunk, &0u8).unwrap();
    assert_eq!(bytes, b"TESSCHK\0\x12\0\0\0\0");
}

#[test]
fn header_errors_are_named() {
    let kind = FileKind::PROOF;
    let bytes = encode(FileKind::Key, &message()).unwrap();
    let magic = CodecError::Magic {
        kind,
        got: FileKind::Key.magic(),
    };
    assert_eq!(decode::<Message>(kind, &bytes), Err(magic));
    let mut bytes = encode(kind, &message()).unwrap();
    bytes[MAGIC_LEN] = 34;
    let version = CodecError::Version {
        kind,
        got: 34,
        supported: kind.version(),
    };
    assert_eq!(
        version.to_string(),
        "proof file of version 34, but this program reads versions 26, 27, 32 and 33; read it with a newer version of Tessera"
    );
    assert_eq!(decode::<Message>(kind, &bytes), Err(version));
    // Proofs of earlier versions: the first had no chunks, the second no bands, the third no classes of rows, the fourth
    // rounded in every row, the fifth had the activations in the STARK, the sixth opened them apart from the weights, the seventh
    // had sums of norms in clear, the eighth had no norms of heads, the ninth none of outputs, the tenth absorbed the coefficients of
    // openings, the eleventh had wide differences everywhere, the twelfth and thirteenth joined the claims of openings by a sumcheck,
    // the fourteenth and fifteenth had no work before the folds of openings, the sixteenth and seventeenth had the logits of outputs
    // in clear, the eighteenth and nineteenth had as many rows as a power of two, the twentieth and twenty-first looked bytes up one by one,
    // the twenty-second and twenty-third had values of attention of 16 bits, the twenty-fourth and twenty-fifth always had a STARK, the twenty-eighth and twenty-ninth hid no ids.
    for version in (1..=25).chain([28, 29]) {
        bytes[MAGIC_LEN] = version;
        let old = decode::<Message>(kind, &bytes);
        assert!(
            matches!(old, Err(CodecError::Version { got, .. }) if got == u32::from(version)),
            "{old:?}"
        );
    }
}

#[test]
fn every_truncation_is_an_error() {
    let kind = FileKind::PROOF;
    let bytes = encode(kind, &message()).unwrap();
    for len in 0..bytes.len() {
        assert_eq!(
            decode::<Message>(kind, &bytes[..len]),
            Err(CodecError::Truncated { kind }),
            "{len} bytes"
        );
    }
    let bytes = encode(kind, &stark()).unwrap();
    for len in 0..bytes.len() {
        let error = decode::<Stark>(kind, &bytes[..len]).err();
        assert_eq!(error, Some(CodecError::Truncated { kind }), "{len} bytes");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let kind = FileKind::PROOF;
    let mut bytes = encode(kind, &message()).unwrap();
    bytes.extend([0; 3]);
    assert_eq!(
        decode::<Message>(kind, &bytes),
        Err(CodecError::TrailingBytes { kind, count: 3 })
    );
}

/// What is behind a value is read as it stands, and the value is canonical as in any file.
#[test]
fn a_value_may_have_bytes_behind_it() {
    let kind = FileKind::Key;
    for rest in [&b""[..], b"behind it"] {
        let bytes = encode_with_rest(kind, &message(), rest).unwrap();
        assert_eq!(bytes, [encode(kind, &message()).unwrap(), rest.to_vec()].concat());
        assert_eq!(decode_with_rest::<Message>(kind, &bytes), Ok((message(), rest)));
        for len in 0..bytes.len() - rest.len() {
            assert_eq!(
                decode_with_rest::<Message>(kind, &bytes[..len]),
                Err(CodecError::Truncated { kind })
            );
        }
    }
    let mut bad = message();
    bad.step = Step::One(BAD);
    let error = CodecError::NonCanonicalField { value: P };
    assert_eq!(encode_with_rest(kind, &bad, &[]), Err(error.clone()));
    let bytes = [encode(kind, &()).unwrap(), encode_part(&bad).unwrap(), vec![7]].concat();
    assert_eq!(decode_with_rest::<Message>(kind, &bytes), Err(error));
    let repeated = encode_with_rest(kind, &vec![(1u16, 5u8), (1, 5)], &[7]).unwrap();
    let result = decode_with_rest::<BTreeMap<u16, u8>>(kind, &repeated);
    assert_eq!(result, Err(CodecError::NonCanonicalEncoding { kind }));
}

/// A part has the bytes of a file without its header, and is read as strictly.
#[test]
fn parts_are_read_as_files_are() {
    let kind = FileKind::Key;
    let bytes = encode_part(&message()).unwrap();
    assert_eq!(encode(kind, &message()).unwrap()[HEADER..], bytes);
    assert_eq!(decode_part::<Message>(kind, &bytes), Ok(message()));
    for len in 0..bytes.len() {
        let part = decode_part::<Message>(kind, &bytes[..len]);
        assert_eq!(part, Err(CodecError::Truncated { kind }), "{len} bytes");
    }
    let count = 2;
    let longer = [bytes, vec![0; count]].concat();
    let trailing = CodecError::TrailingBytes { kind, count };
    assert_eq!(decode_part::<Message>(kind, &longer), Err(trailing));
    let repeated = encode_part(&vec![(1u16, 5u8), (1, 5)]).unwrap();
    let result = decode_part::<BTreeMap<u16, u8>>(kind, &repeated);
    assert_eq!(result, Err(CodecError::NonCanonicalEncoding { kind }));
    let bad = encode_part(&BAD).unwrap();
    let result = decode_part::<BaseField>(kind, &bad);
    assert_eq!(result, Err(CodecError::NonCanonicalField { value: P }));
}

#[test]
fn sizes_are_limited() {
    let kind = FileKind::PROOF;
    let mut bytes = encode(kind, &0u8).unwrap();
    bytes.resize(HEADER + PROOF_LIMIT + 1, 0);
    let too_large = CodecError::TooLarge {
        kind,
        len: PROOF_LIMIT + 1,
        limit: PROOF_LIMIT,
    };
    assert_eq!(decode::<Vec<u8>>(kind, &bytes), Err(too_large.clone()));
    // One sequence of as many bytes, with the eight bytes of its length.
    assert_eq!(encode(kind, &vec![0u8; PROOF_LIMIT - 7]), Err(too_large.clone()));
    assert!(encode(FileKind::Key, &vec![0u8; PROOF_LIMIT - 7]).is_ok());
    // What is behind a value counts, too.
    let rest = vec![0u8; PROOF_LIMIT];
    assert_eq!(encode_with_rest(kind, &0u8, &rest), Err(too_large));
    assert!(encode_with_rest(kind, &0u8, &rest[1..]).is_ok());
    for (kind, limit) in [
        (kind, PROOF_LIMIT),
        (FileKind::Chunk, PROOF_LIMIT),
        (FileKind::Key, KEY_LIMIT),
    ] {
        let len = limit + 1;
        assert_eq!(check_limit(kind, limit), Ok(()));
        assert_eq!(check_limit(kind, len), Err(CodecError::TooLarge { kind, len, limit }));
    }
}

#[test]
fn claimed_lengths_do_not_allocate() {
    for kind in [FileKind::PROOF, FileKind::Key] {
        for claim in [1, 1 << 20, 1 << 40, u64::MAX >> 1, u64::MAX] {
            let bytes = encode(kind, &claim).unwrap();
            let truncated = CodecError::Truncated { kind };
            assert_eq!(decode::<Vec<Vec<BaseField>>>(kind, &bytes), Err(truncated.clone()));
            assert_eq!(decode::<Vec<u64>>(kind, &bytes), Err(truncated));
        }
        // A string is claimed at once. A host of 32 bits cannot hold the second claim.
        for claim in [u64::from(u32::MAX), u64::MAX] {
            let bytes = encode(kind, &claim).unwrap();
            let expected = match usize::try_from(claim) {
                Ok(_) => CodecError::ClaimTooLarge {
                    kind,
                    limit: kind.limit(),
                },
                Err(_) => CodecError::Truncated { kind },
            };
            assert_eq!(decode::<String>(kind, &bytes), Err(expected));
        }
    }
}

#[test]
fn malformed_values_are_refused() {
    let kind = FileKind::PROOF;
    let bytes = encode(kind, &2u8).unwrap();
    assert!(matches!(
        decode::<bool>(kind, &bytes),
        Err(CodecError::Malformed { .. })
    ));
    let bytes = encode(kind, &4u32).unwrap();
    assert!(matches!(
        decode::<Step>(kind, &bytes),
        Err(CodecError::Malformed { .. })
    ));
    let bytes = encode(kind, &(2u64, 0xffu8, 0xffu8)).unwrap();
    assert!(matches!(
        decode::<String>(kind, &bytes),
        Err(CodecError::Malformed { .. })
    ));
}

#[test]
fn non_canonical_encodings_are_refused() {
    let kind = FileKind::PROOF;
    // Maps that repeat a key or are out of order decode to a map with other bytes.
    for pairs in [[(1u16, 5u8), (1, 5)], [(2, 5), (1, 5)]] {
        let bytes = encode(kind, &pairs.to_vec()).unwrap();
        let result = decode::<BTreeMap<u16, u8>>(kind, &bytes);
        assert_eq!(result, Err(CodecError::NonCanonicalEncoding { kind }));
    }
}

#[test]
fn every_field_element_of_a_message_is_checked() {
    let kind = FileKind::PROOF;
    let edits: [fn(&mut Message); 8] = [
        |m| m.sumcheck.rounds[0][0].0 .0 = BAD,
        |m| m.sumcheck.rounds[2][1].1 .1 = BAD,
        |m| m.columns[1][4] = BAD,
        |m| m.step = Step::One(BAD),
        |m| m.step = Step::Two(BAD, 0),
        |m| {
            m.step = Step::Named {
                root: [0; 32],
                point: Some(BAD),
            }
        },
        |m| m.by_layer.extend([(9, SecureField::from_m31(BAD, BAD, BAD, BAD))]),
        |m| m.columns.push(vec![BaseField::from_u32_unchecked(u32::MAX)]),
    ];
    for (i, edit) in edits.into_iter().enumerate() {
        let mut bad = message();
        edit(&mut bad);
        let value = if i == 7 { u32::MAX } else { P };
        let error = CodecError::NonCanonicalField { value };
        assert_eq!(encode(kind, &bad), Err(error.clone()), "edit {i}");
        // The bytes that an encoder without the check would write.
        let mut bytes = encode(kind, &0u8).unwrap();
        bytes.truncate(HEADER);
        bytes.extend(bincode::serde::encode_to_vec(&bad, config::<PROOF_LIMIT>()).unwrap());
        assert_eq!(decode::<Message>(kind, &bytes), Err(error), "edit {i}");
    }
    // A plain integer in a message is no field element.
    let mut large = message();
    large.step = Step::Two(BaseField::one(), u32::MAX);
    assert_eq!(decode(kind, &encode(kind, &large).unwrap()), Ok(large));
}

#[test]
fn every_field_element_of_a_stark_proof_is_checked() {
    let bad = SecureField::from_m31(BaseField::zero(), BAD, BaseField::zero(), BaseField::zero());
    let edits: [&dyn Fn(&mut Stark); 5] = [
        &|p| p.0.sampled_values[0][0][0] = bad,
        &|p| p.0.queried_values[0][1][3] = BAD,
        &|p| p.0.fri_proof.first_layer.fri_witness[1] = bad,
        &|p| p.0.fri_proof.inner_layers[1].fri_witness[0] = bad,
        &|p| p.0.fri_proof.last_layer_poly = LinePoly::new(vec![SecureField::zero(), bad]),
    ];
    for (i, edit) in edits.into_iter().enumerate() {
        let mut proof = stark();
        edit(&mut proof);
        assert_eq!(
            check_canonical_stark(&proof),
            Err(CodecError::NonCanonicalField { value: P }),
            "edit {i}"
        );
    }
}

#[test]
fn the_last_fri_layer_must_have_its_size() {
    let kind = FileKind::PROOF;
    // The proof ends with the log size of the last layer, after four coefficients.
    let bytes = encode(kind, &stark()).unwrap();
    for log_size in [0, 1, 3, 63, 64, u32::MAX] {
        let mut bytes = bytes.clone();
        let start = bytes.len() - 4;
        bytes[start..].copy_from_slice(&log_size.to_le_bytes());
        let proof: Stark = decode(kind, &bytes).unwrap();
        assert_eq!(
            check_canonical_stark(&proof),
            Err(CodecError::LastLayer { coefficients: 4 })
        );
    }
    // The same end with no coefficients at all.
    let coefficients = 4 * 16;
    let mut bytes = bytes[..bytes.len() - 4 - coefficients - 8].to_vec();
    bytes.extend([0; 12]);
    let proof: Stark = decode(kind, &bytes).unwrap();
    assert_eq!(
        check_canonical_stark(&proof),
        Err(CodecError::LastLayer { coefficients: 0 })
    );
}

/// A change to the bytes of a valid file.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(usize, u8),
    Word(usize, u32),
    Length(usize, u64),
    Remove(usize, usize),
    Repeat(usize, usize),
    Move(usize, usize, usize),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len().max(1);
        let write = |bytes: &mut [u8], at: usize, new: &[u8]| {
            bytes
                .iter_mut()
                .skip(at % len)
                .zip(new)
                .for_each(|(to, from)| *to = *from);
        };
        let span = |at: usize, n: usize| {
            let start = (at % len).min(bytes.len());
            start..(start + n % 64).min(bytes.len())
        };
        match *self {
            Self::Flip(at, mask) => bytes.iter_mut().skip(at % len).take(1).for_each(|b| *b ^= mask),
            Self::Word(at, word) => write(bytes, at, &word.to_le_bytes()),
            Self::Length(at, length) => write(bytes, at, &length.to_le_bytes()),
            Self::Remove(at, n) => {
                let span = span(at, n);
                bytes.drain(span);
            }
            Self::Repeat(at, n) => {
                let span = span(at, n);
                let copy = bytes[span.clone()].to_vec();
                bytes.splice(span.start..span.start, copy);
            }
            Self::Move(from, to, n) => {
                let copy = bytes[span(from, n)].to_vec();
                write(bytes, to, &copy);
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = 0usize..2000;
    let words = prop_oneof![Just(0), Just(1), Just(P - 1), Just(P), Just(u32::MAX), any::<u32>()];
    let lengths = prop_oneof![0u64..20, Just(1 << 20), Just(1 << 26), Just(u64::MAX), any::<u64>()];
    prop_oneof![
        (at.clone(), 1u8..).prop_map(|(at, mask)| Mutation::Flip(at, mask)),
        (at.clone(), words).prop_map(|(at, word)| Mutation::Word(at, word)),
        (at.clone(), lengths).prop_map(|(at, length)| Mutation::Length(at, length)),
        (at.clone(), 1usize..64).prop_map(|(at, n)| Mutation::Remove(at, n)),
        (at.clone(), 1usize..64).prop_map(|(at, n)| Mutation::Repeat(at, n)),
        (at.clone(), at, 1usize..64).prop_map(|(from, to, n)| Mutation::Move(from, to, n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(payload in vec(any::<u8>(), 0..400), header in 0..3) {
        let mut bytes = match header {
            0 => vec![],
            1 => encode(FileKind::PROOF, &()).unwrap(),
            _ => encode(FileKind::Key, &()).unwrap(),
        };
        bytes.extend(payload);
        decode_all(&bytes);
    }

    #[test]
    fn mutated_files_never_panic(mutations in vec(mutation(), 1..5), of_stark in any::<bool>(), keep_header in any::<bool>()) {
        let kind = FileKind::PROOF;
        let original = if of_stark { encode(kind, &stark()) } else { encode(kind, &message()) }.unwrap();
        let mut bytes = if keep_header { original[HEADER..].to_vec() } else { original.clone() };
        mutations.iter().for_each(|m| m.apply(&mut bytes));
        if keep_header {
            bytes.splice(0..0, original[..HEADER].iter().copied());
        }
        decode_all(&bytes);
    }
}

#[test]
fn bit_flips_never_panic() {
    for original in [encode(FileKind::PROOF, &message()), encode(FileKind::PROOF, &stark())] {
        let mut bytes = original.unwrap();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            decode_all(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Bytes that decode to a value but are not its encoding: two files would be one proof or one model.
#[test]
fn other_encodings_of_a_value_are_refused() {
    let file = |payload: &[u8]| {
        let mut bytes = Vec::from(FileKind::Key.magic());
        bytes.extend(FileKind::Key.version().to_le_bytes());
        bytes.extend(payload);
        bytes
    };
    let refused = |result: Result<(), CodecError>| {
        assert_eq!(result, Err(CodecError::NonCanonicalEncoding { kind: FileKind::Key }));
    };
    // One entry of a map twice, and entries in another order.
    let map = |entries: &[[u8; 2]]| {
        let mut payload = Vec::from((entries.len() as u64).to_le_bytes());
        payload.extend(entries.as_flattened());
        decode::<BTreeMap<u8, u8>>(FileKind::Key, &file(&payload)).map(drop)
    };
    assert_eq!(map(&[[1, 1], [2, 2]]), Ok(()));
    refused(map(&[[1, 1], [1, 1]]));
    refused(map(&[[2, 2], [1, 1]]));

    /// Reads two bytes, writes the first.
    #[derive(Debug, Deserialize)]
    struct Forgetful(u8, #[allow(dead_code, reason = "read and not written, on purpose")] u8);
    impl Serialize for Forgetful {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_u8(self.0)
        }
    }
    refused(decode::<Forgetful>(FileKind::Key, &file(&[1, 2])).map(drop));

    /// Reads one byte, writes it twice.
    #[derive(Debug, Deserialize)]
    struct Chatty(u8);
    impl Serialize for Chatty {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            (self.0, self.0).serialize(serializer)
        }
    }
    refused(decode::<Chatty>(FileKind::Key, &file(&[1])).map(drop));
}

/// A value that is written in two ways is checked as it is written in a file.
#[test]
fn the_check_sees_what_is_written() {
    struct Value;
    impl Serialize for Value {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match serializer.is_human_readable() {
                true => serializer.serialize_str("text"),
                false => BAD.serialize(serializer),
            }
        }
    }
    assert_eq!(
        check_canonical_fields(&Value).map_err(CodecError::from),
        Err(CodecError::NonCanonicalField { value: P })
    );
}
