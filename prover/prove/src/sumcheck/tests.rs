use super::*;
use num_traits::One;
use proptest::collection::vec;
use proptest::prelude::*;
use stwo::core::fields::m31::P;
use tessera_circuits::mle::eval_dense;
use tessera_verifier::message::Unread;
use tessera_verifier::sumcheck::{verify, SumcheckClaim, SumcheckError};
use tessera_verifier::transcript::Transcript;

use crate::scalar::Scalar;
use crate::vectors::Vectors;

/// Deterministic field elements.
pub fn elements(seed: u64, n: usize) -> Vec<SecureField> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % P
    };
    (0..n)
        .map(|_| SecureField::from_u32_unchecked(word(), word(), word(), word()))
        .collect()
}

fn batch(shape: &[(usize, usize)], seed: u64) -> Vec<Instance> {
    let instance = |(i, &(variables, pairs)): (usize, &(usize, usize))| Instance {
        pairs: (0..pairs)
            .map(|p| {
                let seed = seed + 1000 * i as u64 + 2 * p as u64;
                (elements(seed, 1 << variables), elements(seed + 1, 1 << variables))
            })
            .collect(),
        variables,
    };
    shape.iter().enumerate().map(instance).collect()
}

fn dot(a: &[SecureField], b: &[SecureField]) -> SecureField {
    a.iter().zip(b).map(|(&x, &y)| x * y).sum()
}

fn total(instances: &[Instance]) -> SecureField {
    instances.iter().flat_map(|i| &i.pairs).map(|(a, b)| dot(a, b)).sum()
}

/// What the final claim must be, from the tables themselves.
fn expected(instances: &[Instance], claim: &SumcheckClaim) -> SecureField {
    let mut sum = SecureField::zero();
    for instance in instances {
        let point = claim.instance_point(instance.variables).unwrap();
        let scale = instance_scale(claim.point.len(), instance.variables);
        for (a, b) in &instance.pairs {
            sum += scale * eval_dense(a, point).unwrap() * eval_dense(b, point).unwrap();
        }
    }
    sum
}

fn run(instances: &[Instance], claim: SecureField, tamper: impl Fn(&mut SumcheckProof)) -> (Proved, SumcheckClaim) {
    let mut prover = Transcript::new("test");
    let mut proved = prove(&Vectors, "batch", claim, instances.to_vec(), &mut prover).unwrap();
    let mut other = Transcript::new("test");
    let expected = prove(&Scalar, "batch", claim, instances.to_vec(), &mut other).unwrap();
    assert_eq!((&proved.proof, &proved.finals), (&expected.proof, &expected.finals));
    tamper(&mut proved.proof);
    let mut verifier = Transcript::new("test");
    let variables = instances.iter().map(|i| i.variables).max().unwrap_or(0);
    let result = verify(
        "batch",
        claim,
        variables,
        Unread::of(&proved.proof),
        None,
        &mut verifier,
    )
    .unwrap();
    if result.point == proved.point {
        assert_eq!(
            prover.challenge("next"),
            verifier.challenge("next"),
            "both sides end in one state"
        );
    }
    (proved, result)
}

fn check_honest(shape: &[(usize, usize)], seed: u64) {
    let instances = batch(shape, seed);
    let (proved, claim) = run(&instances, total(&instances), |_| ());
    assert_eq!(claim.point, proved.point);
    assert_eq!(claim.value, expected(&instances, &claim));
    for (instance, finals) in instances.iter().zip(&proved.finals) {
        let point = claim.instance_point(instance.variables).unwrap();
        let evaluate = |table: &[SecureField]| eval_dense(table, point).unwrap();
        let direct: Vec<_> = instance.pairs.iter().map(|(a, b)| (evaluate(a), evaluate(b))).collect();
        assert_eq!(finals, &direct);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn honest_batches_of_any_shape_hold(shape in vec((0usize..9, 0usize..4), 0..6), seed in any::<u32>()) {
        check_honest(&shape, u64::from(seed));
    }

    #[test]
    fn every_tampered_round_is_rejected(
        shape in vec((0usize..7, 1usize..3), 1..4),
        seed in any::<u32>(),
        coordinate in 0usize..4,
    ) {
        let instances = batch(&shape, u64::from(seed));
        let rounds = shape.iter().map(|s| s.0).max().unwrap();
        for (round, half) in (0..rounds).flat_map(|round| [(round, 0), (round, 1)]) {
            let (_, claim) = run(&instances, total(&instances), |proof| {
                let mut unit = [0, 0, 0, 0];
                unit[coordinate] = 1;
                let [a, b, c, d] = unit;
                proof.rounds[round][half] += SecureField::from_u32_unchecked(a, b, c, d);
            });
            prop_assert_ne!(claim.value, expected(&instances, &claim));
        }
    }

    #[test]
    fn a_wrong_claim_is_rejected(shape in vec((0usize..7, 1usize..3), 1..4), seed in any::<u32>()) {
        let instances = batch(&shape, u64::from(seed));
        let (_, claim) = run(&instances, total(&instances) + SecureField::one(), |_| ());
        prop_assert_ne!(claim.value, expected(&instances, &claim));
    }
}

#[test]
fn long_tables_hold() {
    check_honest(&[(14, 1), (13, 2), (5, 1), (0, 1), (16, 1)], 7);
}

#[test]
fn an_instance_without_variables_is_its_product() {
    let instances = batch(&[(0, 2)], 3);
    let (proved, claim) = run(&instances, total(&instances), |_| ());
    assert!(proved.proof.rounds.is_empty() && proved.point.is_empty());
    assert_eq!(claim.value, total(&instances));
    assert_eq!(
        proved.finals[0],
        instances[0].pairs.iter().map(|(a, b)| (a[0], b[0])).collect::<Vec<_>>()
    );
}

#[test]
fn embedding_keeps_the_value() {
    // The embedded instance as an explicit table of n variables has the value of the small one.
    let instances = batch(&[(3, 1)], 11);
    let (a, b) = &instances[0].pairs[0];
    let n = 6;
    let scale = instance_scale(n, 3);
    let embedded = Instance {
        pairs: vec![(
            (0..1 << n).map(|z| scale * a[z % a.len()]).collect(),
            (0..1 << n).map(|z| b[z % b.len()]).collect(),
        )],
        variables: n,
    };
    assert_eq!(total(std::slice::from_ref(&embedded)), total(&instances));
    // A batch with it as a short instance and one with it as a long one send the same messages.
    let mut short = batch(&[(n, 1)], 12);
    let mut long = short.clone();
    short.push(instances[0].clone());
    long.push(embedded);
    let claim = total(&short);
    assert_eq!(run(&short, claim, |_| ()).0.proof, run(&long, claim, |_| ()).0.proof);
}

#[test]
fn too_few_and_too_many_rounds_are_named() {
    let instances = batch(&[(4, 1), (2, 2)], 5);
    let claim = total(&instances);
    let proved = prove(&Vectors, "batch", claim, instances, &mut Transcript::new("test")).unwrap();
    for got in [0, 3, 5] {
        let mut proof = proved.proof.clone();
        proof.rounds.resize(got, [SecureField::zero(); 2]);
        let result = verify(
            "batch",
            claim,
            4,
            Unread::of(&proof),
            None,
            &mut Transcript::new("test"),
        );
        let expected = SumcheckError::Rounds {
            label: "batch".to_owned(),
            got,
            expected: 4,
        };
        assert_eq!(result, Err(expected));
    }
}

#[test]
fn label_claim_and_size_separate_transcripts() {
    let proof = SumcheckProof {
        rounds: vec![[SecureField::one(); 2]; 2],
    };
    let point = |label: &'static str, claim: u32| {
        verify(
            label,
            claim.into(),
            2,
            Unread::of(&proof),
            None,
            &mut Transcript::new("test"),
        )
        .unwrap()
        .point
    };
    assert_eq!(point("a", 1), point("a", 1));
    assert_ne!(point("a", 1), point("b", 1));
    assert_ne!(point("a", 1), point("a", 2));
}
