//! Attacks by a prover that knows challenges in advance. Each is carried out against challenges that are frozen: then
//! it works, which shows what it would gain. Against the verifier, which draws them from what was sent, it fails.

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::air::{Component, Components};
use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo_constraint_framework::INTERACTION_TRACE_IDX;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{stream, tables, Relations};
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::claims::{batch, Batch};
use tessera_circuits::mle::index_eq;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statistics::Clip;
use tessera_circuits::trees::{lookup_trees, padding, LeafClaim, LookupTree};
use tessera_circuits::wiring::{product_variables, suffix, Points, Product, Public, PRODUCTS, WEIGHTED};
use tessera_prover::prove::trace::Columns;
use tessera_verifier::gkr::{self, absorb_root, between, child_challenge, layer_challenge, TreeProof};
use tessera_verifier::key::{ModelId, ModelKey};
use tessera_verifier::opening::{self, Claimed, Code, CommitmentParams, OpeningClaim, OpeningError};
use tessera_verifier::policy::{opening_policy, parameter_words};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::{component, draw_relations, open_scheme};
use tessera_verifier::sumcheck::{self, instance_scale, round_value, SumcheckProof};
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{
    absorb_operands, absorb_statistics, linear_variables, open_transcript, unit_coefficients, verify, weight_claim,
    weight_families, VerifyError, PROTOCOL,
};

use crate::cheat::{Hooks, Interaction, OpenTranscript, HONEST};
use crate::lookups::solve;
use crate::{assert_claims_violated, assert_constraints_violated, assert_rejected, Scene};

type K = SecureField;

/// The part of a proof that has messages.
fn messages(proof: &Proof) -> &ChunkProof {
    &proof.chunks[0]
}

fn messages_mut(proof: &mut Proof) -> &mut ChunkProof {
    &mut proof.chunks[0]
}

/// Challenges of a proof, and what they make of key and statement.
struct Challenges {
    shape: Shape,
    points: Points,
    /// All challenges in the order in which they are drawn, up to the one after the claimed sum.
    drawn: Vec<K>,
    products: Vec<K>,
    families: [K; WEIGHTED.len()],
    claims: K,
    linear: Vec<K>,
    relations: Relations,
    trees: Vec<LookupTree>,
    /// The claims on the leaves of all trees.
    leaves: Vec<LeafClaim>,
    /// Whether weights and activations are opened as they should be.
    opened: Result<(), OpeningError>,
    /// How many challenges are drawn before the opening, and before the claimed sum.
    places: [usize; 2],
    /// The transcript before the opening, and after it.
    transcripts: [Transcript; 2],
}

impl Challenges {
    /// Those that the verifier draws for a proof, whatever its checks say.
    fn of(key: &ModelKey, proof: &Proof) -> Self {
        Self::with_root(key, proof, &messages(proof).activations)
    }

    /// The same if the activations had this root where they are opened, though not where challenges are drawn from it.
    fn with_root(key: &ModelKey, proof: &Proof, root: &[u8; 32]) -> Self {
        let own = messages(proof);
        let whole = Chunk::whole(key.config.layers);
        let shape = key.shape(&whole, proof.statement.lengths());
        let params = CommitmentParams::of_activations(&shape, &key.weights);
        let ends = Ends::default();
        let mut t = open_transcript(&proof.model, &params, &proof.statement, &whole, &ends);
        t.bytes("activations", &own.activations);
        open_scheme(&key.tables_root, &own.stark, &mut t).expect("the tables of the key");
        absorb_statistics(&own.statistics, &mut t);
        let relations = draw_relations(&mut t);
        let mut drawn = RELATIONS.map(|r| relations.challenges(r)[0]).to_vec();
        let leaves = own
            .lookups
            .iter()
            .map(|tree| descend(tree, &mut drawn, &mut t))
            .collect();
        let points = t.challenges("points", Points::count(&shape));
        drawn.extend(&points);
        let mut challenges = Self {
            points: Points::new(&shape, points),
            trees: lookup_trees(&shape),
            leaves,
            shape,
            drawn: Vec::new(),
            products: Vec::new(),
            families: [K::zero(); WEIGHTED.len()],
            claims: K::zero(),
            linear: Vec::new(),
            relations,
            opened: Err(OpeningError::JoinClaim),
            places: [0; 2],
            transcripts: [Transcript::new(PROTOCOL), Transcript::new(PROTOCOL)],
        };
        let variables = product_variables(&challenges.shape) as usize;
        let matmuls = &own.matmuls;
        let end = sumcheck::verify("matmuls", matmuls.claim, variables, &matmuls.sumcheck, &mut t);
        challenges.products = end.expect("as many rounds as variables").point;
        drawn.extend(&challenges.products);
        absorb_operands(&matmuls.operands, &mut t);
        challenges.families = weight_families(&mut t);
        challenges.claims = t.challenge("claims");
        drawn.extend([challenges.families[0], challenges.claims]);
        let value = challenges.batch(key, proof).value;
        let end = sumcheck::verify(
            "claims",
            value,
            linear_variables(&challenges.shape),
            &own.linear,
            &mut t,
        );
        challenges.linear = end.expect("as many rounds as variables").point;
        drawn.extend(&challenges.linear);
        challenges.transcripts[0] = t.clone();
        challenges.openings(key, proof, root, &mut drawn, &mut t);
        challenges.transcripts[1] = t.clone();
        challenges.places[1] = drawn.len();
        t.message("claimed sum", &[own.claimed_sum]);
        drawn.push(t.challenge("whatever comes next"));
        challenges.drawn = drawn;
        challenges
    }

    /// Weights and activations.
    fn openings(&mut self, key: &ModelKey, proof: &Proof, root: &[u8; 32], drawn: &mut Vec<K>, t: &mut Transcript) {
        let own = messages(proof);
        let public = self.public(key, proof);
        let columns = key.opened(&Chunk::whole(key.config.layers));
        let gamma = public.band_coefficients(&self.products, &self.families, columns.bands(), columns.log_band);
        let local = public.local_point(&self.products, columns.log_band);
        let weights = Claimed {
            commitment: key.weights,
            root: key.weights_root,
            claim: OpeningClaim {
                columns,
                gamma: &gamma,
                local_point: &local,
                value: weight_claim(&own.matmuls.operands, &self.families),
            },
        };
        let params = CommitmentParams::of_activations(&self.shape, &key.weights);
        let batch = self.batch(key, proof);
        let units = unit_coefficients(&self.shape, &batch, &self.linear);
        let activations = Claimed {
            commitment: params,
            root: *root,
            claim: OpeningClaim {
                columns: params.columns_of(&(0..params.tiles), 0),
                gamma: &units,
                local_point: suffix(&self.linear, MIN_ROWS_LOG),
                value: walk(batch.value, &own.linear, &self.linear),
            },
        };
        let policy = opening_policy(key.weights.log_blowup);
        self.opened = opening::verify(&policy, &[weights, activations], &own.opening, t);
        self.places[0] = drawn.len();
        // As the next message would be absorbed after it.
        drawn.push(t.clone().challenge("whatever comes next"));
    }

    fn public<'a>(&'a self, key: &'a ModelKey, proof: &'a Proof) -> Public<'a> {
        Public {
            shape: &self.shape,
            params: &key.params,
            statement: &proof.statement,
            ends: Ends::default(),
            statistics: &messages(proof).statistics,
            points: &self.points,
        }
    }

    fn batch(&self, key: &ModelKey, proof: &Proof) -> Batch {
        let public = self.public(key, proof);
        let matmuls = &messages(proof).matmuls;
        let mut claims = public.trace_claims(matmuls.claim);
        claims.extend(public.operand_claims(&self.products, &matmuls.operands));
        let powers = public.powers();
        for (tree, leaf) in self.trees.iter().zip(&self.leaves) {
            claims.extend(tree.claim(&powers, &self.relations, leaf));
        }
        batch(claims, self.claims)
    }

    /// The verifier with these challenges, up to the STARK: all its equations between messages. `honest` is the proof
    /// that the challenges are from; what the other equations depend on must be as there.
    fn accept(&self, key: &ModelKey, honest: &Proof, proof: &Proof) -> Result<(), &'static str> {
        let (own, original) = (messages(proof), messages(honest));
        let public = self.public(key, proof);
        let variables = product_variables(&self.shape) as usize;
        let end = walk(own.matmuls.claim, &own.matmuls.sumcheck, &self.products);
        let products = PRODUCTS.into_iter().zip(own.matmuls.operands);
        let sum = products.fold(K::zero(), |sum, (product, [a, b])| {
            sum + instance_scale(variables, product.variables(&self.shape) as usize) * a * b
        });
        ensure(end == sum, "matmuls")?;
        ensure(
            own.matmuls.operands[Product::Embed as usize][0] == public.embed_operand(&self.products),
            "embedding",
        )?;
        // The openings prove the values of the honest proof, and are the same as there.
        let value = |proof: &Proof| walk(self.batch(key, proof).value, &messages(proof).linear, &self.linear);
        ensure(value(proof) == value(honest), "linear")?;
        let opened = weight_claim(&original.matmuls.operands, &self.families);
        ensure(weight_claim(&own.matmuls.operands, &self.families) == opened, "weights")?;
        // The sums of the lookups are proved as in the honest proof.
        ensure(own.lookups == original.lookups, "lookups")?;
        let sum = gkr::sum(&own.lookups) - padding(&self.trees) + own.claimed_sum;
        ensure(sum.is_zero(), "entries")
    }

    /// Makes the linear sumcheck end where that of the honest proof does, by its last round alone.
    fn mend(&self, key: &ModelKey, honest: &Proof, proof: &mut Proof) {
        let wanted = walk(self.batch(key, honest).value, &messages(honest).linear, &self.linear);
        let batch = self.batch(key, proof);
        let own = messages_mut(proof);
        let (r, before) = self.linear.split_last().expect("a round");
        let [last, rest] = own
            .linear
            .rounds
            .split_last()
            .map(|(l, r)| [vec![*l], r.to_vec()])
            .expect("a round");
        let claim = walk(batch.value, &SumcheckProof { rounds: rest }, before);
        let at = |s2: K| round_value(claim, [last[0][0], s2], *r);
        let slope = at(K::one()) - at(K::zero());
        own.linear.rounds.last_mut().expect("a round")[1] = (wanted - at(K::zero())) * slope.inverse();
    }
}

/// The relations, in the order in which their challenges are drawn.
const RELATIONS: [Relation; 4] = Relation::ALL;

/// Draws the challenges of a tree, whatever its messages are; returns the claim on its leaves.
fn descend(tree: &TreeProof, drawn: &mut Vec<K>, t: &mut Transcript) -> LeafClaim {
    absorb_root(tree.root, t);
    let (mut value, mut point) = (tree.root, Vec::new());
    for layer in &tree.layers {
        drawn.push(layer_challenge(t));
        point.clear();
        for message in &layer.rounds {
            point.push(gkr::round_challenge(*message, t));
        }
        drawn.extend(&point);
        let chosen = child_challenge(&layer.children, t);
        drawn.push(chosen);
        point.insert(0, chosen);
        value = between(layer.children, chosen);
    }
    let [numerator, denominator] = value;
    LeafClaim {
        point,
        numerator,
        denominator,
    }
}

fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    holds.then_some(()).ok_or(what)
}

/// Where a sumcheck ends at given challenges.
fn walk(claim: K, proof: &SumcheckProof, point: &[K]) -> K {
    proof
        .rounds
        .iter()
        .zip(point)
        .fold(claim, |value, (message, r)| round_value(value, *message, *r))
}

/// An honest proof with its key.
fn honest() -> (Scene, Proof) {
    let scene = Scene::honest();
    let proof = scene.forge(&HONEST);
    (scene, proof)
}

/// Gains any output: the last round of a sumcheck is made to end in the honest value, and all that follows is
/// the honest proof.
#[test]
fn challenges_known_in_advance_would_prove_any_output() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let frozen = Challenges::of(key, &proof);
    assert_eq!(frozen.accept(key, &proof, &proof), Ok(()));
    let mut forged = proof.clone();
    *forged.statement.output.last_mut().expect("an output") ^= 1;
    assert_eq!(frozen.accept(key, &proof, &forged), Err("linear"));
    frozen.mend(key, &proof, &mut forged);
    assert_eq!(frozen.accept(key, &proof, &forged), Ok(()));
    assert_rejected!(verify(key, &forged), VerifyError::Gkr(_));
}

/// Gains free operands of the matmuls: with their weights among the claims on trace and weights known, four of them
/// are changed so that every equation still holds.
#[test]
fn operands_are_not_chosen_after_their_weights() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let frozen = Challenges::of(key, &proof);
    let mut forged = proof.clone();
    let variables = product_variables(&frozen.shape) as usize;
    let places = [Product::Att, Product::Ff];
    let [att, mlp] = places.map(|p| instance_scale(variables, p.variables(&frozen.shape) as usize));
    let family = |product| WEIGHTED.iter().position(|w| *w == product).expect("weights");
    let [phi, psi] = places.map(|p| frozen.families[family(p)]);
    let operands = &mut messages_mut(&mut forged).matmuls.operands;
    let [[a, b], [c, d]] = places.map(|p| operands[p as usize]);
    // The claims on the two trace operands follow each other: their sum in the batch stays.
    let (da, dc) = (K::one(), -frozen.claims.inverse());
    // The claim on the weights stays, and so does the sum of the products.
    let ratio = phi * psi.inverse();
    let db = -(att * da * b + mlp * dc * d) * (att * (a + da) - mlp * (c + dc) * ratio).inverse();
    operands[places[0] as usize] = [a + da, b + db];
    operands[places[1] as usize] = [c + dc, d - db * ratio];
    assert_eq!(frozen.accept(key, &proof, &forged), Ok(()));
    let result = verify(key, &forged).map(|_| ());
    assert_rejected!(
        result,
        VerifyError::Opening(OpeningError::BandClaim { code: Code::Weights })
    );
}

/// Cells of the residual stream that an attack may alter: of one row each, in the first columns.
const CELLS: [usize; 5] = [40, 41, 42, 43, 44];

/// What a cell of the high limbs of the residual stream weighs in the opening of the activations.
fn weight_of(shape: &Shape, gamma: &[K], local: &[K], row: usize) -> K {
    assert_eq!(shape.committed(Part::Stream)[stream::X_HI], stream::X_HI);
    gamma[row >> MIN_ROWS_LOG] * index_eq(row % (1 << MIN_ROWS_LOG), local)
}

/// Gains any trace: one that is chosen when all challenges up to its opening are known, the point of the first fold among them.
/// Five cells are changed so that the one equation on the trace that is left holds. With challenges that are drawn from the root of
/// before, the opening of the one after is accepted. Against the verifier all challenges are others.
#[test]
fn activations_are_not_chosen_after_the_challenges() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let changes = RefCell::new(Vec::new());
    let late = |shape: &Shape, gamma: &[K], local: &[K], all: &mut [Columns]| {
        let weights = CELLS.map(|row| weight_of(shape, gamma, local, row));
        let [first, rest @ ..] = weights;
        // The first cell is one more, and four others make up for it.
        let others = solve(rest, -first);
        let all_changes: Vec<BaseField> = [BaseField::one()].into_iter().chain(others).collect();
        let effect = weights
            .iter()
            .zip(&all_changes)
            .fold(K::zero(), |sum, (w, by)| sum + *w * *by);
        assert!(effect.is_zero() && all_changes.iter().all(|by| !by.is_zero()));
        let column = &mut all[Part::Stream.index()][stream::X_HI];
        CELLS
            .into_iter()
            .zip(&all_changes)
            .for_each(|(row, by)| column[row] += *by);
        changes.replace(all_changes);
    };
    let hooks = Hooks {
        late: Some(&late),
        ..HONEST
    };
    let mut forged = scene.forge(&hooks);
    assert_eq!(changes.borrow().len(), CELLS.len());
    let key = &scene.model.key;
    assert_rejected!(verify(key, &forged), VerifyError::Gkr(_));
    // With the challenges of before everything is accepted.
    let root = std::mem::replace(
        &mut messages_mut(&mut forged).activations,
        messages(&honest).activations,
    );
    assert_ne!(root, messages(&honest).activations);
    let frozen = Challenges::with_root(key, &forged, &root);
    assert_eq!(frozen.opened, Ok(()));
    assert_eq!(frozen.accept(key, &honest, &forged), Ok(()));
    // Committed before, with challenges that know them, the changes are caught.
    let early = |_: &Shape, all: &mut [Columns]| {
        let column = &mut all[Part::Stream.index()][stream::X_HI];
        CELLS
            .into_iter()
            .zip(&*changes.borrow())
            .for_each(|(row, by)| column[row] += *by);
    };
    let hooks = Hooks {
        committed: &early,
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}

/// Gains the same with the coordinate of the first fold alone: what is folded stays if two neighbours change in a ratio that
/// the coordinate says. It is drawn after the root, and no ratio of numbers of the base field fits.
#[test]
fn the_first_fold_is_not_known_before_the_root() {
    let scene = Scene::honest();
    let known = Cell::new(K::zero());
    let late = |_: &Shape, _: &[K], local: &[K], _: &mut [Columns]| known.set(*local.last().expect("coordinates"));
    let hooks = Hooks {
        late: Some(&late),
        ..HONEST
    };
    let honest = scene.forge(&hooks);
    let key = &scene.model.key;
    let fold = known.get();
    assert_eq!(Challenges::of(key, &honest).linear.last(), Some(&fold));
    assert!(!fold.is_zero() && !fold.is_one());
    // The ratio of an even entry and the odd one after it that a fold at this coordinate does not see.
    let ratio = fold * (fold - K::one()).inverse();
    assert_ne!(ratio.to_m31_array()[1..], [BaseField::zero(); 3]);
    // Another trace has another coordinate.
    let cell = |_: &Shape, all: &mut [Columns]| all[Part::Stream.index()][stream::X_HI][CELLS[0]] += BaseField::one();
    let other = scene.forge(&Hooks {
        committed: &cell,
        ..hooks
    });
    assert_ne!(known.get(), fold);
    assert_ne!(messages(&other).activations, messages(&honest).activations);
}

/// A message, a change of it, and the place of the first challenge that must change with it.
type Message<'a> = (&'static str, &'a dyn Fn(&mut Proof), usize);

/// What every attack above needs: a challenge that a message does not move. There is none.
#[test]
fn every_challenge_depends_on_every_message_before_it() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let original = Challenges::of(key, &proof);
    let first_tree = RELATIONS.len();
    // A challenge for every layer, one for each of its rounds, and one for its children.
    let before_layer = |k: usize| first_tree + (0..k).map(|layer| layer + 2).sum::<usize>();
    let layers = |tree: &TreeProof| (0..tree.layers.len()).map(|layer| layer + 2).sum::<usize>();
    let trees = first_tree + messages(&proof).lookups.iter().map(layers).sum::<usize>();
    let points = trees + Points::count(&original.shape);
    let operands = points + original.products.len();
    let linear = operands + 2;
    let [opening, sum] = original.places;
    assert_eq!(opening, linear + original.linear.len());
    let one = K::one();
    let rounds: Vec<usize> = (0..original.products.len()).collect();
    let linear_rounds: Vec<usize> = (0..original.linear.len()).collect();
    let clip = Clip {
        part: 0,
        tensor: 0,
        at: 0,
        excess: 1,
    };
    let last = |rounds: &mut Vec<[K; 2]>| rounds.last_mut().expect("a round")[0] += one;
    let digest = |digest: &mut [u8; 32]| digest[7] ^= 1;
    let messages: [Message<'_>; 22] = [
        ("model", &|p| p.model.0[31] ^= 1, 0),
        ("prompt", &|p| p.statement.prompt[0] ^= 1, 0),
        ("output", &|p| p.statement.output[3] ^= 1, 0),
        ("activations", &|p| digest(&mut messages_mut(p).activations), 0),
        (
            "multiplicities",
            &|p| messages_mut(p).stark.0.commitments[1].0[0] ^= 1,
            0,
        ),
        ("output logits", &|p| messages_mut(p).statistics.tops[1] ^= 1, 0),
        (
            "clipped values",
            &|p| messages_mut(p).statistics.clips.insert(0, clip),
            0,
        ),
        (
            "sum of a tree",
            &|p| messages_mut(p).lookups[0].root[0] += one,
            first_tree,
        ),
        (
            "round of a tree",
            &|p| messages_mut(p).lookups[0].layers[5].rounds[3][1] += one,
            before_layer(5) + 1 + 3,
        ),
        (
            "children in a tree",
            &|p| messages_mut(p).lookups[0].layers[5].children[2] += one,
            before_layer(6) - 1,
        ),
        (
            "claimed accumulators",
            &|p| messages_mut(p).matmuls.claim += one,
            points,
        ),
        (
            "operands",
            &|p| messages_mut(p).matmuls.operands[Product::Value as usize][1] += one,
            operands,
        ),
        (
            "round of the bands",
            &|p| last(&mut messages_mut(p).opening.weights.band_rounds),
            opening,
        ),
        (
            "evaluation of the bands",
            &|p| messages_mut(p).opening.weights.band_value += one,
            opening,
        ),
        (
            "round of the units",
            &|p| last(&mut messages_mut(p).opening.activations.band_rounds),
            opening,
        ),
        (
            "evaluation of the units",
            &|p| messages_mut(p).opening.activations.band_value += one,
            opening,
        ),
        (
            "round that joins both",
            &|p| last(&mut messages_mut(p).opening.join_rounds),
            opening,
        ),
        (
            "joined value of the weights",
            &|p| messages_mut(p).opening.weights.joined_value += one,
            opening,
        ),
        (
            "folded oracle",
            &|p| digest(&mut messages_mut(p).opening.roots[0]),
            opening,
        ),
        ("fold", &|p| last(&mut messages_mut(p).opening.fold_rounds), opening),
        (
            "last message",
            &|p| messages_mut(p).opening.final_message[0] += one,
            opening,
        ),
        ("claimed sum", &|p| messages_mut(p).claimed_sum += one, sum),
    ];
    let check = |name: &str, alter: &dyn Fn(&mut Proof), first: usize| {
        let mut altered = proof.clone();
        alter(&mut altered);
        let drawn = Challenges::of(key, &altered).drawn;
        assert_eq!(
            drawn[..first],
            original.drawn[..first],
            "{name}: challenges before the message"
        );
        let mut after = drawn[first..].iter().zip(&original.drawn[first..]);
        assert_eq!(drawn.len(), original.drawn.len());
        assert!(
            after.len() > 0 && after.all(|(a, b)| a != b),
            "{name}: challenges after the message"
        );
    };
    for (name, alter, first) in messages {
        check(name, alter, first);
    }
    for i in rounds {
        check(
            "matmul round",
            &|p| messages_mut(p).matmuls.sumcheck.rounds[i][i % 2] += one,
            points + i,
        );
    }
    for i in linear_rounds {
        check(
            "linear round",
            &|p| messages_mut(p).linear.rounds[i][i % 2] += one,
            linear + i,
        );
    }
}

/// A proof of the same model and statement, made for another protocol version, other parameters, or with something
/// of the statement not absorbed. Gains: proofs of weaker versions pass as ones of this, statements chosen last.
#[test]
fn proofs_of_another_domain_are_rejected() {
    let scene = Scene::honest();
    let other = ModelId([7; 32]);
    let nothing: &[u32] = &[];
    let absorb = |protocol: &str, words: &[u32], model: &ModelId, prompt: &[u32], output: &[u32]| {
        let mut transcript = Transcript::new(protocol);
        transcript.words("parameters", words);
        transcript.bytes("model", &model.0);
        transcript.words("prompt", prompt);
        transcript.words("output", output);
        let layers = scene.model.key.config.layers as u32;
        transcript.words("chunk", &[0, layers, layers]);
        transcript.words("chunk input", &[]);
        transcript.words("chunk output", &[]);
        transcript
    };
    let same: &OpenTranscript<'_> =
        &|m, a, s, _, _| absorb(PROTOCOL, &parameter_words(a.words()), m, &s.prompt, &s.output);
    scene
        .attempt(&Hooks {
            transcript: same,
            ..HONEST
        })
        .expect("the verifier's own transcript");
    let domains: [&OpenTranscript<'_>; 9] = [
        // A longer code of the activations, and one of another rate.
        &|m, a, s, _, _| {
            let mut words = parameter_words(a.words());
            words[7] += 1;
            absorb(PROTOCOL, &words, m, &s.prompt, &s.output)
        },
        &|m, a, s, _, _| {
            let mut words = parameter_words(a.words());
            words[8] -= 1;
            absorb(PROTOCOL, &words, m, &s.prompt, &s.output)
        },
        &|m, a, s, _, _| absorb("tessera/0", &parameter_words(a.words()), m, &s.prompt, &s.output),
        // One query each.
        &|m, a, s, _, _| {
            let mut words = parameter_words(a.words());
            // Of the STARK, of the weights, of the activations.
            (words[1], words[5], words[9]) = (1, 1, 1);
            absorb(PROTOCOL, &words, m, &s.prompt, &s.output)
        },
        &|_, a, s, _, _| absorb(PROTOCOL, &parameter_words(a.words()), &other, &s.prompt, &s.output),
        &|m, a, s, _, _| absorb(PROTOCOL, &parameter_words(a.words()), m, nothing, &s.output),
        &|m, a, s, _, _| absorb(PROTOCOL, &parameter_words(a.words()), m, &s.prompt, nothing),
        // The same tokens, another border between prompt and output.
        &|m, a, s, _, _| {
            let (prompt, last) = s.prompt.split_at(s.prompt.len() - 1);
            absorb(
                PROTOCOL,
                &parameter_words(a.words()),
                m,
                prompt,
                &[last, &s.output].concat(),
            )
        },
        // The same words under no labels.
        &|m, a, s, _, _| {
            let mut transcript = Transcript::new(PROTOCOL);
            let channel = transcript.channel();
            channel.mix_u32s(&parameter_words(a.words()));
            channel.mix_u32s(
                &m.0.as_chunks::<4>()
                    .0
                    .iter()
                    .map(|c| u32::from_le_bytes(*c))
                    .collect::<Vec<_>>(),
            );
            channel.mix_u32s(&s.prompt);
            channel.mix_u32s(&s.output);
            transcript
        },
    ];
    for transcript in domains {
        let hooks = Hooks { transcript, ..HONEST };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Gkr(_));
    }
}

/// The out-of-domain point of a forged proof: the composition coefficient, the point, and what the composition
/// polynomial lacks there.
fn out_of_domain(scene: &Scene, proof: &Proof) -> (K, CirclePoint<SecureField>, K) {
    let (key, own) = (&scene.model.key, messages(proof));
    let challenges = Challenges::of(key, proof);
    let [_, mut transcript] = challenges.transcripts.clone();
    transcript.message("claimed sum", &[own.claimed_sum]);
    let component = component(&challenges.relations, own.claimed_sum);
    let all = Components {
        components: vec![&component as &dyn Component],
        n_preprocessed_columns: tables::PREPROCESSED.len(),
    };
    let mut scheme =
        open_scheme(&key.tables_root, &own.stark, &mut Transcript::new(PROTOCOL)).expect("the tables of the key");
    let channel = transcript.channel();
    let interaction = own.stark.commitments[INTERACTION_TRACE_IDX];
    scheme.commit(interaction, &all.column_log_sizes()[INTERACTION_TRACE_IDX], channel);
    let coefficient = channel.draw_secure_felt();
    Blake2sMerkleChannel::mix_root(channel, own.stark.commitments[3]);
    let point = CirclePoint::get_random_point(channel);
    let wanted =
        all.eval_composition_polynomial_at_point(point, &own.stark.sampled_values, coefficient, tables::LOG_ROWS);
    let sent = composition(own, point, tables::LOG_ROWS);
    (coefficient, point, wanted - sent)
}

/// The value of the composition polynomial that a proof shows at the out-of-domain point.
fn composition(own: &ChunkProof, point: CirclePoint<SecureField>, log_degree: u32) -> K {
    let samples: Vec<K> = own.stark.sampled_values[3].iter().map(|column| column[0]).collect();
    let [left, right] = [0, 4].map(|i| K::from_partial_evals(std::array::from_fn(|j| samples[i + j])));
    left + point.repeated_double(log_degree - 1).x * right
}

/// Gains any lookup: a composition polynomial that is made to fit at the out-of-domain point, which was known before
/// the polynomial was committed, or is used a second time.
#[test]
fn a_composition_polynomial_for_a_known_point_is_rejected() {
    let scene = Scene::honest();
    let alter = |_: &Interaction<'_>, columns: &mut Columns, _: &mut K| columns[7][100] += BaseField::one();
    let hooks = Hooks {
        interaction: &alter,
        ..HONEST
    };
    let attempt = |hooks: &Hooks<'_>| scene.forge(hooks);
    let first = attempt(&hooks);
    let (coefficient, point, lacks) = out_of_domain(&scene, &first);
    assert!(!lacks.is_zero(), "a constraint is violated");
    let hooks = Hooks {
        composition: lacks,
        ..hooks
    };
    let second = attempt(&hooks);
    // All challenges before the commitment are the same, so the new polynomial fits at the old point.
    let (same, redrawn, still) = out_of_domain(&scene, &second);
    assert_eq!(same, coefficient);
    assert_ne!(redrawn, point);
    assert!(!still.is_zero());
    assert_constraints_violated(verify(&scene.model.key, &second).map(|_| ()));
}
