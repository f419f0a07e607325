use std::io::Write as _;
use std::time::Instant;

use num_traits::{One, Zero};
use proptest::prelude::*;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::bit_reverse_index;
use stwo::prover::backend::simd::m31::PackedM31;
use tessera_verifier::opening::merkle::{hash_base_leaf, verify_batch, Digest};
use tessera_verifier::opening::multilinear::{bind_least_significant, eq_table, evaluate};
use tessera_verifier::opening::{
    circle, soundness_terms, verify, CommitmentParams, OpeningError, OpeningPolicy, OpeningProof, Tree, FIBRE, FOLD_LOG,
};
use tessera_verifier::transcript::Transcript;

use super::fft::Twiddles;
use super::prove::{combine_columns, Folding};
use super::{commit, merkle, open, Codeword, OpeningProverError, TileSource, TILE_AREA};

const POLICY: OpeningPolicy = OpeningPolicy {
    queries: 30,
    work_bits: 4,
};

/// xorshift64*, so that every failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn base(&mut self) -> BaseField {
        BaseField::reduce(self.next() >> 3)
    }
    fn secure(&mut self) -> SecureField {
        SecureField::from_m31_array(std::array::from_fn(|_| self.base()))
    }
    fn secures(&mut self, n: usize) -> Vec<SecureField> {
        (0..n).map(|_| self.secure()).collect()
    }
}

#[derive(Clone)]
struct Weights(Vec<i16>);

impl Weights {
    fn random(tiles: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        Self(
            (0..tiles * TILE_AREA)
                .map(|_| (random.next() >> 40) as i16 % 2048)
                .collect(),
        )
    }
    /// The weights as field elements, `[tile][x][y]`.
    fn field(&self) -> Vec<SecureField> {
        self.0
            .iter()
            .map(|&w| SecureField::from(BaseField::from(i32::from(w))))
            .collect()
    }
    fn tile_values(&self, point: &[SecureField]) -> Vec<SecureField> {
        self.field()
            .chunks(TILE_AREA)
            .map(|tile| evaluate(tile, point))
            .collect()
    }
}

impl TileSource for Weights {
    fn tiles(&self) -> usize {
        self.0.len() / TILE_AREA
    }
    fn tile(&self, t: usize, out: &mut [i16; TILE_AREA]) {
        out.copy_from_slice(&self.0[t * TILE_AREA..][..TILE_AREA]);
    }
}

/// A committed set of weights with a claim about them.
struct Case {
    weights: Weights,
    params: CommitmentParams,
    codeword: Codeword,
    gamma: Vec<SecureField>,
    point: Vec<SecureField>,
    tile_values: Vec<SecureField>,
    value: SecureField,
}

fn map(params: &CommitmentParams, root: &Digest, bytes: &[u8]) -> Codeword {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Codeword::open(file.path(), params, root).unwrap()
}

fn transcript() -> Transcript {
    Transcript::new("opening test")
}

impl Case {
    fn new(params: CommitmentParams) -> Self {
        let weights = Weights::random(params.tiles, 7);
        let mut bytes = Vec::new();
        let root = commit(&weights, &params, &mut bytes).unwrap();
        let codeword = map(&params, &root, &bytes);
        let mut random = Random(11);
        let (gamma, point) = (random.secures(params.tiles), random.secures(12));
        let tile_values = weights.tile_values(&point);
        let value = gamma.iter().zip(&tile_values).map(|(&g, &w)| g * w).sum();
        Self {
            weights,
            params,
            codeword,
            gamma,
            point,
            tile_values,
            value,
        }
    }

    fn small() -> Self {
        Self::new(CommitmentParams {
            tiles: 5,
            log_message: 13,
            log_blowup: 2,
        })
    }

    fn prove(&self, source: &Weights, policy: &OpeningPolicy) -> OpeningProof {
        let values = source.tile_values(&self.point);
        let (codeword, params) = (&self.codeword, &self.params);
        open(
            source,
            codeword,
            params,
            policy,
            &self.gamma,
            &values,
            &self.point,
            &mut transcript(),
        )
        .unwrap()
    }

    fn verify_value(&self, value: SecureField, proof: &OpeningProof) -> Result<(), OpeningError> {
        let root = self.codeword.root();
        verify(
            &self.params,
            &POLICY,
            root,
            &self.gamma,
            &self.point,
            value,
            proof,
            &mut transcript(),
        )
    }

    fn verify(&self, proof: &OpeningProof) -> Result<(), OpeningError> {
        self.verify_value(self.value, proof)
    }
}

fn proof_bytes(proof: &OpeningProof) -> usize {
    let oracles: usize = proof
        .oracles
        .iter()
        .map(|o| o.values.len() * 16 + o.path.len() * 32)
        .sum();
    let rounds = proof.tile_rounds.len() + proof.fold_rounds.len();
    let clear = 16 * (2 * rounds + 1 + proof.final_message.len()) + 32 * proof.roots.len() + 8;
    clear + proof.rows.values.len() * 4 + proof.rows.path.len() * 32 + oracles
}

/// Value at a point of the circle of the message, coefficient by coefficient.
fn naive(message: &[BaseField], point: CirclePoint<BaseField>) -> BaseField {
    let mut sum = BaseField::zero();
    for (z, &coefficient) in message.iter().enumerate() {
        let (mut term, mut x) = (coefficient, point.x);
        for bit in 0..usize::BITS {
            let factor = if bit == 0 { point.y } else { x };
            if z >> bit & 1 == 1 {
                term *= factor;
            }
            if bit > 0 {
                x = CirclePoint::double_x(x);
            }
        }
        sum += term;
    }
    sum
}

#[test]
fn encoding_evaluates_the_circle_basis() {
    for (log_message, log_blowup) in [(1, 1), (2, 2), (5, 1), (6, 2), (7, 3)] {
        let mut random = Random(3);
        let message: Vec<_> = (0..1 << log_message).map(|_| random.base()).collect();
        let codeword = Twiddles::new(log_message, log_blowup).encode(&message, 0);
        let log = log_message + log_blowup;
        let domain = CanonicCoset::new(log).circle_domain();
        for (i, &value) in codeword.iter().enumerate() {
            assert_eq!(
                value,
                naive(&message, domain.at(bit_reverse_index(i, log))),
                "size {log}, index {i}"
            );
        }
    }
}

#[test]
fn encoding_is_the_same_in_every_lane_and_beyond_the_sequential_size() {
    let mut random = Random(4);
    let messages: Vec<[BaseField; 16]> = (0..1 << 13).map(|_| std::array::from_fn(|_| random.base())).collect();
    let twiddles = Twiddles::new(13, 1);
    let packed: Vec<_> = messages.iter().map(|&m| PackedM31::from_array(m)).collect();
    let packed = twiddles.encode(&packed, 0);
    let domain = CanonicCoset::new(14).circle_domain();
    for lane in [0, 5, 15] {
        let message: Vec<_> = messages.iter().map(|m| m[lane]).collect();
        let single = twiddles.encode(&message, 0);
        assert!(packed.iter().zip(&single).all(|(p, &s)| p.to_array()[lane] == s));
        for i in [0, 1, 77, 8191, 8192, 16383] {
            assert_eq!(single[i], naive(&message, domain.at(bit_reverse_index(i, 14))));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Folding the codeword of a message binds variables of its multilinear extension, fold by fold.
    #[test]
    fn folding_is_binding(log_message in 1u32..9, log_blowup in 1u32..4, seed in 1u64..u64::MAX) {
        let mut random = Random(seed);
        let message = random.secures(1 << log_message);
        let challenges = random.secures(log_message as usize);
        let twiddles = Twiddles::new(log_message, log_blowup);
        let mut codeword = twiddles.encode(&message, 0);
        let mut bound = message.clone();
        let log_line = log_message + log_blowup - 1;
        for (i, &r) in challenges.iter().enumerate() {
            codeword = codeword.chunks(2).enumerate().map(|(j, pair)| {
                let t = match i {
                    0 => circle::circle_fibre(log_line, j),
                    _ => circle::line_fibre(log_line + 1 - i as u32, j, 1)[0],
                };
                circle::fold_pair(pair[0], pair[1], t, r)
            }).collect();
            bind_least_significant(&mut bound, r);
            if (i as u32) + 1 < log_message {
                prop_assert_eq!(&codeword, &twiddles.encode(&bound, i as u32 + 1));
            }
            for (j, &value) in codeword.iter().enumerate().step_by(5) {
                let x = circle::line_coordinate(log_line - i as u32, j);
                prop_assert_eq!(circle::evaluate_line(&bound, x), Some(value));
            }
        }
        let point: Vec<_> = challenges.into_iter().rev().collect();
        prop_assert!(codeword.iter().all(|&v| v == evaluate(&message, &point)));
    }

    /// A leaf folds at once as it folds pair by pair.
    #[test]
    fn leaves_fold_as_the_message(seed in 1u64..u64::MAX) {
        let mut random = Random(seed);
        let (message, challenges) = (random.secures(64), random.secures(FOLD_LOG as usize));
        let twiddles = Twiddles::new(7, 2);
        let codeword = twiddles.encode(&message, 1);
        let mut bound = message;
        challenges.iter().for_each(|&r| bind_least_significant(&mut bound, r));
        let next = twiddles.encode(&bound, 1 + FOLD_LOG);
        for (j, leaf) in codeword.chunks(1 << FOLD_LOG).enumerate() {
            let coordinates = circle::line_fibre(8, j, FOLD_LOG);
            prop_assert_eq!(circle::fold_leaf(leaf, &coordinates, &challenges), Some(next[j]));
        }
    }

    /// Batch paths authenticate exactly the leaves that they were made for.
    #[test]
    fn batch_paths(depth in 1u32..7, mask in 1u64.., flip in 0usize..64) {
        let mut random = Random(9);
        let leaves: Vec<Digest> = (0..1 << depth).map(|_| hash_base_leaf(&[random.base()])).collect();
        let layers = merkle::layers(leaves.clone());
        let root = layers[depth as usize][0];
        let mut opened: Vec<usize> = (0..1 << depth).filter(|i| mask >> i & 1 == 1).collect();
        if opened.is_empty() {
            opened.push(0);
        }
        let path = merkle::path(&opened, depth, |level, index| layers[level][index]);
        let with = |at: usize| opened.iter().map(|&i| {
            let mut digest = leaves[i];
            digest[0] ^= u8::from(i == at);
            (i, digest)
        }).collect::<Vec<_>>();
        let tree = Tree::Oracle(1);
        prop_assert_eq!(verify_batch(tree, &root, depth, with(usize::MAX), &path), Ok(()));
        let wrong = opened[flip % opened.len()];
        prop_assert_eq!(verify_batch(tree, &root, depth, with(wrong), &path), Err(OpeningError::Root { tree }));
        let mut long = path.clone();
        long.push(root);
        let error = OpeningError::PathTooLong { tree, unused: 1 };
        prop_assert_eq!(verify_batch(tree, &root, depth, with(usize::MAX), &long), Err(error));
        if let Some((_, short)) = path.split_last() {
            let error = OpeningError::PathTooShort { tree };
            prop_assert_eq!(verify_batch(tree, &root, depth, with(usize::MAX), short), Err(error));
        }
    }
}

#[test]
fn codeword_file_holds_the_columns() {
    // 19 columns of two tiles: two batches; the last column is half empty.
    let params = CommitmentParams {
        tiles: 37,
        log_message: 13,
        log_blowup: 1,
    };
    let case = Case::new(params);
    let field: Vec<BaseField> = case.weights.0.iter().map(|&w| BaseField::from(i32::from(w))).collect();
    let twiddles = Twiddles::new(13, 1);
    let columns: Vec<_> = field
        .chunks(1 << 13)
        .map(|message| {
            let mut message = message.to_vec();
            message.resize(1 << 13, BaseField::zero());
            twiddles.encode(&message, 0)
        })
        .collect();
    assert_eq!(columns.len(), params.columns());
    for leaf in [0, 1, 4000, 8191] {
        let mut row = Vec::new();
        case.codeword.leaf(leaf, &mut row);
        let expected: Vec<_> = columns.iter().flat_map(|c| [c[2 * leaf], c[2 * leaf + 1]]).collect();
        assert_eq!(row, expected);
        let (digests, path) = (vec![(leaf, hash_base_leaf(&row))], case.codeword.path(&[leaf]));
        assert_eq!(
            verify_batch(Tree::Weights, case.codeword.root(), params.log_leaves(), digests, &path),
            Ok(())
        );
    }
}

#[test]
fn combined_columns_evaluate_the_whole_array() {
    let params = CommitmentParams {
        tiles: 11,
        log_message: 13,
        log_blowup: 1,
    };
    let weights = Weights::random(11, 5);
    let point = Random(6).secures((params.log_tiles() + 12) as usize);
    let (columns, rest) = point.split_at(params.log_columns() as usize);
    let message = combine_columns(&weights, &params, &eq_table(columns));
    assert_eq!(evaluate(&message, rest), evaluate(&weights.field(), &point));
}

#[test]
fn honest_openings_are_accepted() {
    for (tiles, log_message, log_blowup) in [
        (1, 12, 1),
        (1, 13, 2),
        (2, 12, 2),
        (3, 12, 2),
        (3, 14, 1),
        (5, 13, 3),
        (17, 12, 2),
        (37, 14, 2),
        (40, 15, 2),
    ] {
        let case = Case::new(CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        });
        let (mut ours, mut theirs) = (transcript(), transcript());
        let (params, gamma, point) = (&case.params, &case.gamma, &case.point);
        let proof = open(
            &case.weights,
            &case.codeword,
            params,
            &POLICY,
            gamma,
            &case.tile_values,
            point,
            &mut ours,
        )
        .unwrap();
        let root = case.codeword.root();
        let verdict = verify(params, &POLICY, root, gamma, point, case.value, &proof, &mut theirs);
        assert_eq!(verdict, Ok(()), "{params:?}");
        assert_eq!(ours.challenge("end"), theirs.challenge("end"), "{params:?}");
    }
}

#[test]
fn small_model_is_within_its_budget() {
    for (log_blowup, queries, limit) in [(2, 110, 160 << 10), (3, 90, 150 << 10)] {
        let params = CommitmentParams::with_blowup(224, log_blowup);
        let policy = OpeningPolicy { queries, work_bits: 16 };
        let weights = Weights::random(224, 7);
        let mut bytes = Vec::new();
        let start = Instant::now();
        let root = commit(&weights, &params, &mut bytes).unwrap();
        let committed = start.elapsed();
        let codeword = map(&params, &root, &bytes);
        let mut random = Random(11);
        let (gamma, point) = (random.secures(224), random.secures(12));
        let values = weights.tile_values(&point);
        let value = gamma.iter().zip(&values).map(|(&g, &w)| g * w).sum();
        let start = Instant::now();
        let proof = open(
            &weights,
            &codeword,
            &params,
            &policy,
            &gamma,
            &values,
            &point,
            &mut transcript(),
        )
        .unwrap();
        let opened = start.elapsed();
        let start = Instant::now();
        let verdict = verify(
            &params,
            &policy,
            &root,
            &gamma,
            &point,
            value,
            &proof,
            &mut transcript(),
        );
        let verified = start.elapsed();
        assert_eq!(verdict, Ok(()));
        let size = proof_bytes(&proof);
        println!(
            "{params:?} {queries} queries: commit {committed:?}, open {opened:?}, verify {verified:?}, {size} bytes"
        );
        assert!(size < limit, "{size} bytes");
    }
}

#[test]
fn wrong_claims_are_rejected() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    assert_eq!(case.verify(&proof), Ok(()));
    assert_eq!(
        case.verify_value(case.value + SecureField::one(), &proof),
        Err(OpeningError::TileClaim)
    );
    let check = |params: &CommitmentParams, policy: &OpeningPolicy, root: &Digest, gamma: &[_], point: &[_]| {
        verify(
            params,
            policy,
            root,
            gamma,
            point,
            case.value,
            &proof,
            &mut transcript(),
        )
    };
    let (params, root) = (&case.params, case.codeword.root());
    for i in 0..case.gamma.len() {
        let mut gamma = case.gamma.clone();
        gamma[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &gamma, &case.point),
            Err(OpeningError::TileClaim)
        );
    }
    for i in 0..12 {
        let mut point = case.point.clone();
        point[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &case.gamma, &point),
            Err(OpeningError::TileClaim)
        );
    }
    let mut wrong_root = *root;
    wrong_root[31] ^= 1;
    assert!(check(params, &POLICY, &wrong_root, &case.gamma, &case.point).is_err());
    let policy = OpeningPolicy { queries: 31, ..POLICY };
    assert!(check(params, &policy, root, &case.gamma, &case.point).is_err());
    for wrong in [
        CommitmentParams { tiles: 6, ..*params },
        CommitmentParams {
            log_message: 14,
            ..*params
        },
        CommitmentParams {
            log_blowup: 3,
            ..*params
        },
    ] {
        assert!(
            check(&wrong, &POLICY, root, &case.gamma, &case.point).is_err(),
            "{wrong:?}"
        );
    }
    for (gamma, point) in [
        (&case.gamma[1..], &case.point[..]),
        (&case.gamma, &case.point[1..]),
        (&[], &[]),
    ] {
        let verdict = check(params, &POLICY, root, gamma, point);
        assert!(matches!(verdict, Err(OpeningError::Length { .. })), "{verdict:?}");
    }
}

/// Every field element, digest byte and nonce of a proof matters.
#[test]
fn tampered_proofs_are_rejected() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    let one = SecureField::one();
    let reject = |name: &str, tamper: &dyn Fn(&mut OpeningProof)| {
        let mut tampered = proof.clone();
        tamper(&mut tampered);
        assert_ne!(tampered, proof, "{name}");
        assert!(case.verify(&tampered).is_err(), "{name}");
    };
    for i in 0..proof.tile_rounds.len() {
        reject("tile round", &|p| p.tile_rounds[i][0] += one);
        reject("tile round", &|p| p.tile_rounds[i][1] += one);
    }
    reject("tile value", &|p| p.tile_value += one);
    for i in 0..proof.fold_rounds.len() {
        reject("fold round", &|p| p.fold_rounds[i][0] += one);
        reject("fold round", &|p| p.fold_rounds[i][1] += one);
    }
    for i in 0..proof.final_message.len() {
        reject("final message", &|p| p.final_message[i] += one);
    }
    reject("nonce", &|p| p.nonce ^= 1);
    for i in 0..proof.rows.values.len() {
        reject("row", &|p| p.rows.values[i] += BaseField::one());
    }
    for i in 0..proof.rows.path.len() {
        reject("row path", &|p| p.rows.path[i][i % 32] ^= 1);
    }
    for o in 0..proof.oracles.len() {
        reject("root", &|p| p.roots[o][o] ^= 0x80);
        for i in 0..proof.oracles[o].values.len() {
            reject("oracle leaf", &|p| p.oracles[o].values[i] += one);
        }
        for i in 0..proof.oracles[o].path.len() {
            reject("oracle path", &|p| p.oracles[o].path[i][i % 32] ^= 1);
        }
    }
    reject("swapped roots", &|p| p.roots.swap(0, 1));
    reject("swapped oracles", &|p| p.oracles.swap(0, 1));
}

#[test]
fn hostile_lengths_and_values_are_errors() {
    fn resize<T: Clone + Default>(v: &mut Vec<T>, how: usize) {
        match how {
            0 => drop(v.pop()),
            1 => v.push(T::default()),
            2 => v.clear(),
            3 => v.resize(v.len() * 2 + 1, T::default()),
            _ => v.resize(1 << 16, T::default()),
        }
    }
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    for how in 0..5 {
        for field in 0..7 + 2 * proof.oracles.len() {
            let mut hostile = proof.clone();
            match field {
                0 => resize(&mut hostile.tile_rounds, how),
                1 => resize(&mut hostile.fold_rounds, how),
                2 => resize(&mut hostile.roots, how),
                3 => resize(&mut hostile.final_message, how),
                4 => resize(&mut hostile.rows.values, how),
                5 => resize(&mut hostile.rows.path, how),
                6 => resize(&mut hostile.oracles, how),
                _ if field % 2 == 1 => resize(&mut hostile.oracles[(field - 7) / 2].values, how),
                _ => resize(&mut hostile.oracles[(field - 7) / 2].path, how),
            }
            let verdict = case.verify(&hostile);
            let cause = match verdict {
                Err(OpeningError::Length { .. }) => 0,
                Err(OpeningError::OpenedValues { .. }) => 1,
                Err(OpeningError::PathTooShort { .. } | OpeningError::PathTooLong { .. }) => 2,
                other => panic!("field {field}, change {how}: {other:?}"),
            };
            let expected = match field {
                0..=3 | 6 => 0,
                4 => 1,
                5 => 2,
                _ => 2 - field % 2,
            };
            assert_eq!(cause, expected, "field {field}, change {how}");
        }
    }
    assert!(case.verify(&OpeningProof::default()).is_err());

    for bad in [P, P + 1, u32::MAX] {
        let (base, secure) = (
            BaseField::from_u32_unchecked(bad),
            SecureField::from_u32_unchecked(0, 0, bad, 0),
        );
        for field in 0..6 {
            let mut hostile = proof.clone();
            match field {
                0 => hostile.tile_rounds[1][1] = secure,
                1 => hostile.tile_value = secure,
                2 => hostile.fold_rounds[3][0] = secure,
                3 => hostile.final_message[2] = secure,
                4 => hostile.rows.values[5] = base,
                _ => hostile.oracles[1].values[3] = secure,
            }
            let verdict = case.verify(&hostile);
            assert!(
                matches!(verdict, Err(OpeningError::NotCanonical { .. })),
                "field {field}: {verdict:?}"
            );
        }
    }
}

#[test]
fn bad_parameters_are_errors() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    let (root, gamma, point) = (case.codeword.root(), &case.gamma, &case.point);
    for (tiles, log_message, log_blowup) in [
        (0, 13, 2),
        (usize::MAX, 13, 2),
        (5, 0, 2),
        (5, 11, 2),
        (5, u32::MAX, 2),
        (5, 13, 0),
        (5, 13, u32::MAX),
    ] {
        let params = CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        };
        let verdict = verify(
            &params,
            &POLICY,
            root,
            gamma,
            point,
            case.value,
            &proof,
            &mut transcript(),
        );
        assert!(
            matches!(verdict, Err(OpeningError::OutOfRange { .. })),
            "{params:?}: {verdict:?}"
        );
    }
    for (queries, work_bits) in [(0, 0), (usize::MAX, 0), (30, 33), (30, u32::MAX)] {
        let policy = OpeningPolicy { queries, work_bits };
        let verdict = verify(
            &case.params,
            &policy,
            root,
            gamma,
            point,
            case.value,
            &proof,
            &mut transcript(),
        );
        assert_eq!(verdict, Err(OpeningError::Policy { queries, work_bits }));
    }
}

#[test]
fn work_is_checked() {
    let case = Case::small();
    let policy = OpeningPolicy {
        work_bits: 12,
        ..POLICY
    };
    let mut proof = case.prove(&case.weights, &policy);
    let (root, gamma, point) = (case.codeword.root(), &case.gamma, &case.point);
    let check = |proof: &_| {
        verify(
            &case.params,
            &policy,
            root,
            gamma,
            point,
            case.value,
            proof,
            &mut transcript(),
        )
    };
    assert_eq!(check(&proof), Ok(()));
    proof.nonce += 1;
    assert_eq!(
        check(&proof),
        Err(OpeningError::Work {
            bits: 12,
            nonce: proof.nonce
        })
    );
}

/// A proof about other weights, honest but for the commitment, fails at the virtual oracle.
#[test]
fn other_weights_do_not_open_the_commitment() {
    let case = Case::small();
    let mut other = case.weights.clone();
    other.0[3 * TILE_AREA + 17] += 1;
    let value = case
        .gamma
        .iter()
        .zip(other.tile_values(&case.point))
        .map(|(&g, w)| g * w)
        .sum();
    assert_ne!(value, case.value);
    let verdict = case.verify_value(value, &case.prove(&other, &POLICY));
    assert!(
        matches!(verdict, Err(OpeningError::Fold { oracle: 0, .. })),
        "{verdict:?}"
    );
}

/// A commitment to words that are no codewords cannot be opened as anything.
#[test]
fn far_words_are_rejected() {
    let mut case = Case::small();
    let mut random = Random(21);
    // One batch of three columns in this case, so the file is the leaves in order, then the tree.
    let share = case.params.columns() * FIBRE;
    let words: Vec<_> = (0..share << case.params.log_leaves()).map(|_| random.base()).collect();
    let layers = merkle::layers(words.chunks(share).map(hash_base_leaf).collect());
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.0.to_le_bytes()).collect();
    bytes.extend(layers.iter().flat_map(|layer| layer.as_flattened()));
    case.codeword = map(&case.params, &layers[layers.len() - 1][0], &bytes);
    for source in [case.weights.clone(), Weights(vec![0; 5 * TILE_AREA])] {
        let value = case
            .gamma
            .iter()
            .zip(source.tile_values(&case.point))
            .map(|(&g, w)| g * w)
            .sum();
        let verdict = case.verify_value(value, &case.prove(&source, &POLICY));
        assert!(
            matches!(verdict, Err(OpeningError::Fold { oracle: 0, .. })),
            "{verdict:?}"
        );
    }
}

/// A prover that changes the message after it committed to an oracle, so that the sumcheck still holds,
/// is caught at the next oracle, or at the final message after the last one.
#[test]
fn skipped_folding_is_rejected() {
    // One column of one tile: no tile rounds, and the message is the tile.
    let case = Case::new(CommitmentParams {
        tiles: 1,
        log_message: 12,
        log_blowup: 2,
    });
    for (cheat_at, caught) in [
        (11, "oracle 0"),
        (9, "oracle 1"),
        (8, "oracle 1"),
        (5, "final message"),
        (0, ""),
    ] {
        let mut transcript = transcript();
        let (params, root) = (&case.params, case.codeword.root());
        let tile_value = case.tile_values[0];
        tessera_verifier::opening::absorb_statement(
            &mut transcript,
            params,
            &POLICY,
            root,
            &case.gamma,
            &case.point,
            case.value,
        );
        transcript.message("opening evaluation", &[tile_value]);
        let mut folding = Folding::new(params, case.weights.field(), &case.point);
        while folding.variables() > params.log_final() {
            folding.round(&mut transcript);
            if folding.variables() == cheat_at {
                // Orthogonal to eq, so the claim stays true.
                let (a, b) = (folding.eq[0], folding.eq[1]);
                folding.message[0] += b;
                folding.message[1] -= a;
            }
            folding.commit(&mut transcript);
        }
        let start = OpeningProof {
            tile_value,
            ..Default::default()
        };
        let proof = folding.finish(&case.codeword, &POLICY, &mut transcript, start);
        let verdict = case.verify(&proof);
        match caught {
            "" => assert_eq!(verdict, Ok(())),
            _ => assert!(
                verdict.as_ref().is_err_and(|e| e.to_string().contains(caught)),
                "{cheat_at}: {verdict:?}"
            ),
        }
    }
}

#[test]
fn prover_rejects_what_does_not_fit() {
    let case = Case::small();
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), [0; 40]).unwrap();
    let opened = Codeword::open(path.path(), &case.params, case.codeword.root());
    assert!(matches!(
        opened,
        Err(OpeningProverError::CodewordLength { got: 40, .. })
    ));
    let zeros = vec![0; Codeword::file_len(&case.params) as usize];
    std::fs::write(path.path(), zeros).unwrap();
    let opened = Codeword::open(path.path(), &case.params, case.codeword.root());
    assert!(matches!(opened, Err(OpeningProverError::CodewordRoot { .. })));
    let missing = path.path().join("none");
    assert!(matches!(
        Codeword::open(&missing, &case.params, &[0; 32]),
        Err(OpeningProverError::Open { .. })
    ));

    let wrong = CommitmentParams {
        tiles: 6,
        ..case.params
    };
    assert!(matches!(
        commit(&case.weights, &wrong, &mut Vec::new()),
        Err(OpeningProverError::Length { .. })
    ));
    let (source, values, point) = (&case.weights, &case.tile_values, &case.point);
    let result = open(
        source,
        &case.codeword,
        &wrong,
        &POLICY,
        &case.gamma,
        values,
        point,
        &mut transcript(),
    );
    assert!(matches!(result, Err(OpeningProverError::CodewordParams { .. })));
}

#[test]
fn chosen_parameters_balance_the_proof() {
    assert_eq!(CommitmentParams::for_tiles(1).log_message, 12);
    for tiles in [1, 3, 224, 10_000, 300_000, 1 << 24] {
        let params = CommitmentParams::for_tiles(tiles);
        assert_eq!(params.check(), Ok(()));
        assert!(params.columns() << params.log_column_tiles() >= tiles);
        assert!(params.log_final() >= 3 && params.log_final() <= 5);
    }
    let params = CommitmentParams::for_tiles(224);
    let terms = soundness_terms(
        &params,
        &OpeningPolicy {
            queries: 118,
            work_bits: 20,
        },
    );
    assert!(terms.iter().all(|(_, bits)| *bits >= 99.9), "{terms:?}");
    assert_eq!(terms.len(), 4);
}
