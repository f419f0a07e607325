//! Attacks on the sumchecks: polynomials of a degree that the verifier does not read, sums claimed by a prover that
//! knows the challenges, and claims that are left out of the batch or counted twice.

use std::cell::RefCell;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::claims::{Group, LinearClaim};
use tessera_prover::sumcheck::{prove, Instance};
use tessera_prover::vectors::Vectors;
use tessera_verifier::message::Unread;
use tessera_verifier::sumcheck::{open_batch, round_value, rounds_of, verify, SumcheckProof};
use tessera_verifier::transcript::Transcript;

use crate::cheat::{Hooks, HONEST};
use crate::{assert_claims_violated, Scene};

type K = SecureField;

const LABEL: &str = "attack";

fn elements(seed: u32, n: u32) -> Vec<K> {
    (0..n)
        .map(|i| K::from_u32_unchecked(seed * 7919 + i * i, 3 * i + seed, i + 1, seed))
        .collect()
}

fn bind(table: &mut Vec<K>, r: K) {
    let half = table.len() / 2;
    *table = (0..half).map(|i| table[i] + r * (table[half + i] - table[i])).collect();
}

/// Gains false products: the sum of a product of three tables, whose round polynomials have degree 3, passed off as
/// one of degree 2. The verifier reads the polynomial of degree 2 through what is sent, and ends elsewhere.
#[test]
fn polynomials_of_a_higher_degree_are_read_as_of_degree_two() {
    let mut tables = [elements(1, 16), elements(2, 16), elements(3, 16)];
    let product = |tables: &[Vec<K>; 3], i: usize| tables[0][i] * tables[1][i] * tables[2][i];
    let claim = (0..16).fold(K::zero(), |sum, i| sum + product(&tables, i));
    let mut transcript = Transcript::new(LABEL);
    open_batch(LABEL, claim, 4, &mut transcript);
    let (mut rounds, mut value) = (Vec::new(), claim);
    let mut read_as = Vec::new();
    for _ in 0..4 {
        let at = |x: u32| {
            let mut bound = tables.clone();
            bound.iter_mut().for_each(|t| bind(t, K::from(x)));
            (0..bound[0].len()).fold(K::zero(), |sum, i| sum + product(&bound, i))
        };
        let message = [at(0), at(2)];
        let third = round_value(value, message, K::from(3));
        read_as.push(third == at(3));
        let r = rounds_of(LABEL).send(&message, &mut transcript);
        value = round_value(value, message, r);
        tables.iter_mut().for_each(|t| bind(t, r));
        rounds.push(message);
    }
    assert!(read_as.iter().all(|same| !same), "the polynomials have degree 3");
    let end = verify(
        LABEL,
        claim,
        4,
        Unread::of(&SumcheckProof { rounds }),
        None,
        &mut Transcript::new(LABEL),
    )
    .expect("four rounds");
    assert_eq!(end.value, value);
    assert_ne!(
        end.value,
        product(&tables, 0),
        "the sumcheck must not end in the product"
    );
}

/// Gains any sum: with the challenge of any one round known in advance, that round carries a false claim to the true
/// end. Drawn from the round, the challenge is another one and so is the end.
#[test]
fn a_round_is_not_chosen_after_its_challenge() {
    let instance = || Instance {
        pairs: vec![(elements(4, 16), elements(5, 16))],
        variables: 4,
    };
    let sum: K = elements(4, 16).iter().zip(elements(5, 16)).map(|(a, b)| *a * b).sum();
    let claim = sum + K::one();
    // The rounds of an honest prover that is told a false sum.
    let told = prove(&Vectors, LABEL, claim, vec![instance()], &mut Transcript::new(LABEL)).expect("rounds");
    let (a, b) = told.finals[0][0];
    let end = |rounds: &[[K; 2]]| {
        let rounds = rounds.iter().zip(&told.point);
        rounds.fold(claim, |value, (message, r)| round_value(value, *message, *r))
    };
    assert_ne!(end(&told.proof.rounds), a * b);
    for at in 0..4 {
        let with = |s2: K| {
            let mut rounds = told.proof.rounds.clone();
            rounds[at][1] = s2;
            rounds
        };
        // Where it ends depends on every number of a round by a line.
        let [zero, one] = [K::zero(), K::one()].map(|s2| end(&with(s2)));
        let rounds = with((a * b - zero) * (one - zero).inverse());
        assert_eq!(end(&rounds), a * b, "frozen challenges accept");
        let drawn = verify(
            LABEL,
            claim,
            4,
            Unread::of(&SumcheckProof { rounds }),
            None,
            &mut Transcript::new(LABEL),
        )
        .expect("four rounds");
        assert_eq!(drawn.point[..at], told.point[..at]);
        assert_ne!(drawn.point[at], told.point[at]);
        assert_ne!(drawn.value, a * b, "round {at}");
    }
}

/// Gains the freedom of every column that the claim covers: one claim is left out of what is proved.
#[test]
fn no_claim_is_left_out() {
    // With clipped values, as there is a claim on these.
    let scene = Scene::quiet();
    for left_out in 0..claims(&scene).len() {
        let omit = |claims: &mut Vec<LinearClaim>| {
            // The others keep their coefficients, and what is claimed of the sum stays.
            silence(&mut claims[left_out].groups);
        };
        let hooks = Hooks {
            claims: &omit,
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
}

/// Gains the same: a claim takes the place of the one before it, so that it is proved twice and the other never.
#[test]
fn no_claim_is_used_twice() {
    let scene = Scene::quiet();
    // Neighbours of one value may say the same.
    let values = claims(&scene);
    let differ: Vec<usize> = (1..values.len()).filter(|i| values[*i] != values[i - 1]).collect();
    assert!(differ.len() > 12, "{differ:?}");
    for twice in differ.into_iter().step_by(6) {
        let repeat = |claims: &mut Vec<LinearClaim>| {
            let groups = claims[twice].groups.clone();
            let other = &mut claims[twice - 1];
            silence(&mut other.groups);
            other.groups.extend(groups);
        };
        let hooks = Hooks {
            claims: &repeat,
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
}

/// Makes groups say nothing about their columns.
fn silence(groups: &mut [Group]) {
    let columns = groups.iter_mut().flat_map(|group| &mut group.columns);
    columns.for_each(|(_, coefficient)| *coefficient = K::zero());
}

/// The values of the claims of an honest proof.
fn claims(scene: &Scene) -> Vec<K> {
    let values = RefCell::new(Vec::new());
    let look = |claims: &mut Vec<LinearClaim>| {
        values.replace(claims.iter().map(|claim| claim.value).collect());
    };
    let hooks = Hooks {
        claims: &look,
        ..HONEST
    };
    scene.attempt(&hooks).expect("an honest proof");
    let values = values.into_inner();
    assert!(values.len() >= 20, "{} claims", values.len());
    values
}
