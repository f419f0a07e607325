//! The challenges of a proof, and what they make of key and statement.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::claims::{batch, Batch, Heard, Operands};
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::shape::Product;
use tessera_circuits::shape::Shape;
use tessera_circuits::trees::{lookup_trees, Forest, LeafClaim, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_testkit::place_of;
use tessera_testkit::OfStark;
use tessera_verifier::gkr::{self, between, GroupProof};
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{
    ACTIVATIONS, CLAIMED_SUM, CLAIMS, CLAIMS_WORK, LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM,
    LOOKUP_WORK, MATMULS, OPERANDS, POINTS, POINTS_WORK,
};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{self, Claim, Commitment, CommitmentName, CommitmentParams, OpeningError};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark;
use tessera_verifier::sumcheck::{self, instance_scale, round_value, SumcheckProof};
use tessera_verifier::tables::draw_relations;
use tessera_verifier::transcript::{Transcript, Work};
use tessera_verifier::verify::{
    absorb_statistics, linear_variables, open_transcript, unit_coefficients, weight_claim, weight_families,
    ChunkStatement, PROTOCOL,
};

pub type K = SecureField;

/// The part of a proof that has messages.
pub fn messages(proof: &Proof) -> &ChunkProof {
    &proof.chunks[0]
}

pub fn messages_mut(proof: &mut Proof) -> &mut ChunkProof {
    &mut proof.chunks[0]
}

/// Challenges of a proof, and what they make of key and statement.
pub struct Challenges {
    pub shape: Shape,
    pub points: Points,
    /// All challenges in the order in which they are drawn, up to the one after the claimed sum.
    pub drawn: Vec<K>,
    pub products: Vec<K>,
    pub families: Vec<(Product, K)>,
    pub claims: K,
    pub linear: Vec<K>,
    pub relations: Relations,
    pub trees: Vec<LookupTree>,
    /// The claims on the leaves of all trees.
    pub leaves: Vec<LeafClaim>,
    /// Whether weights and activations are opened as they should be.
    pub opened: Result<(), OpeningError>,
    /// How many challenges are drawn before the opening, and before the claimed sum.
    pub places: [usize; 2],
    /// The transcript before the opening, and after it.
    pub transcripts: [Transcript; 2],
}

impl Challenges {
    /// Those that the verifier draws for a proof, whatever its checks say.
    pub fn of(key: &ModelKey, proof: &Proof) -> Self {
        Self::with_root(key, proof, &messages(proof).activations)
    }

    /// The same if the activations had this root where they are opened, though not where challenges are drawn from it.
    pub fn with_root(key: &ModelKey, proof: &Proof, root: &[u8; 32]) -> Self {
        let own = messages(proof);
        let whole = Chunk::whole(key.config.layers);
        let shape = key.shape(&whole, proof.statement.lengths());
        let params = CommitmentParams::of_activations(&shape, &key.weights);
        let claim = ChunkStatement::whole(key, &proof.model, &proof.statement, &whole, None);
        let mut t = open_transcript(&claim, &params, None);
        t.send(ACTIVATIONS, &own.activations);
        absorb_statistics(&own.statistics, &mut t);
        stark::absorb(&key.tables_root, &own.of_stark().stark, &mut t).expect("the tables of the key");
        let _ = t.work(LOOKUP_WORK, own.lookup_work);
        let relations = draw_relations(&mut t, &RELATIONS);
        let mut drawn = RELATIONS.map(|r| relations.challenges(r)[0]).to_vec();
        let leaves = own
            .lookups
            .iter()
            .flat_map(|group| descend(group, &mut drawn, &mut t))
            .collect();
        let _ = t.work(POINTS_WORK, own.points_work);
        let points = t.challenges(POINTS, Points::count(&shape));
        drawn.extend(&points);
        let mut challenges = Self {
            points: Points::new(&shape, points),
            trees: lookup_trees(&shape),
            leaves,
            shape,
            drawn: Vec::new(),
            products: Vec::new(),
            families: Vec::new(),
            claims: K::zero(),
            linear: Vec::new(),
            relations,
            opened: Err(OpeningError::FoldClaim),
            places: [0; 2],
            transcripts: [Transcript::new(PROTOCOL), Transcript::new(PROTOCOL)],
        };
        let variables = challenges.shape.product_variables() as usize;
        let matmuls = &own.matmuls;
        let end = sumcheck::verify(
            MATMULS,
            matmuls.claim,
            variables,
            Unread::of(&matmuls.sumcheck),
            None,
            &mut t,
        );
        challenges.products = end.expect("as many rounds as variables").point;
        drawn.extend(&challenges.products);
        t.send(OPERANDS, matmuls.operands.as_slice());
        challenges.families = weight_families(&challenges.shape, &mut t);
        challenges.claims = t.challenge(CLAIMS);
        drawn.extend([challenges.families[0].1, challenges.claims]);
        let value = challenges.batch(key, proof).value;
        let end = sumcheck::verify(
            CLAIMS,
            value,
            linear_variables(&challenges.shape),
            Unread::of(&own.linear),
            Some((Work { bits: 0, ..CLAIMS_WORK }, Unread::of(&own.linear_work))),
            &mut t,
        );
        challenges.linear = end.expect("as many rounds as variables").point;
        drawn.extend(&challenges.linear);
        challenges.transcripts[0] = t.clone();
        challenges.openings(key, proof, root, &mut drawn, &mut t);
        challenges.transcripts[1] = t.clone();
        challenges.places[1] = drawn.len();
        t.send(CLAIMED_SUM, &own.of_stark().claimed_sum);
        drawn.push(t.challenge("whatever comes next"));
        challenges.drawn = drawn;
        challenges
    }

    /// Weights and activations.
    fn openings(&mut self, key: &ModelKey, proof: &Proof, root: &[u8; 32], drawn: &mut Vec<K>, t: &mut Transcript) {
        let own = messages(proof);
        let public = self.public(key, proof);
        let columns = key.opened(&Chunk::whole(key.config.layers));
        let gamma = public.band_coefficients(&self.products, &self.families, columns.bands(), columns.log_band());
        let local = public.local_point(&self.products, columns.log_band());
        let weights = Claim {
            commitment: key.commitment(),
            columns,
            gamma: &gamma,
            point: &local,
            value: self.weight_claim(own),
        };
        let params = CommitmentParams::of_activations(&self.shape, &key.weights);
        let batch = self.batch(key, proof);
        let units = unit_coefficients(&self.shape, &batch, &self.linear);
        let activations = Claim {
            commitment: Commitment {
                name: CommitmentName::Activations,
                params,
                root: *root,
            },
            columns: params.all(),
            gamma: &units,
            point: suffix(&self.linear, MIN_ROWS_LOG),
            value: walk(batch.value, &own.linear, &self.linear),
        };
        self.opened = opening::verify(&[weights, activations], Unread::of(&own.opening), t);
        self.places[0] = drawn.len();
        // As the next message would be absorbed after it.
        drawn.push(t.clone().challenge("whatever comes next"));
    }

    pub fn public<'a>(&'a self, key: &'a ModelKey, proof: &'a Proof) -> Public<'a> {
        Public {
            shape: &self.shape,
            params: &key.params,
            statement: &proof.statement,
            ends: Ends::default(),
            statistics: &messages(proof).statistics,
            points: &self.points,
        }
    }

    /// The value of the claim on the weights that the operands of a proof make.
    fn weight_claim(&self, own: &ChunkProof) -> K {
        weight_claim(&Operands::of(&self.shape, &own.matmuls.operands), &self.families)
    }

    pub fn batch(&self, key: &ModelKey, proof: &Proof) -> Batch {
        let public = self.public(key, proof);
        let matmuls = &messages(proof).matmuls;
        let heard = Heard {
            accumulators: matmuls.claim,
            operands: Operands::of(&self.shape, &matmuls.operands),
            denominators: self.leaves.iter().map(|leaf| leaf.denominator).collect(),
            counts: None,
            digits: None,
            boundaries: [None; 2],
        };
        let mut claims = public.trace_claims();
        claims.extend(public.operand_claims(&self.products));
        let powers = public.powers();
        for (number, (tree, leaf)) in self.trees.iter().zip(&self.leaves).enumerate() {
            claims.extend(tree.claim(&powers, &self.relations, number, leaf));
        }
        batch(
            claims.into_iter().map(|claim| claim.settled(&heard)).collect(),
            self.claims,
        )
    }

    /// The verifier with these challenges, up to the STARK: all its equations between messages. `honest` is the proof
    /// that the challenges are from; what the other equations depend on must be as there.
    pub fn accept(&self, key: &ModelKey, honest: &Proof, proof: &Proof) -> Result<(), &'static str> {
        let (own, original) = (messages(proof), messages(honest));
        let public = self.public(key, proof);
        let variables = self.shape.product_variables() as usize;
        let end = walk(own.matmuls.claim, &own.matmuls.sumcheck, &self.products);
        let operands = Operands::of(&self.shape, &own.matmuls.operands);
        let sum = operands.iter().fold(K::zero(), |sum, (product, [a, b])| {
            sum + instance_scale(variables, product.variables(&self.shape) as usize) * *a * *b
        });
        ensure(end == sum, "matmuls")?;
        ensure(
            own.matmuls.operands[place_of(&self.shape, Product::EMBED)][0] == public.embed_operand(&self.products),
            "embedding",
        )?;
        // The openings prove the values of the honest proof, and are the same as there.
        let value = |proof: &Proof| walk(self.batch(key, proof).value, &messages(proof).linear, &self.linear);
        ensure(value(proof) == value(honest), "linear")?;
        let opened = self.weight_claim(original);
        ensure(self.weight_claim(own) == opened, "weights")?;
        // The sums of the lookups are proved as in the honest proof.
        ensure(own.lookups == original.lookups, "lookups")?;
        let lookups = Forest::of(&self.shape).balance(&gkr::sums(&own.lookups), None);
        ensure((lookups + own.of_stark().claimed_sum).is_zero(), "entries")
    }

    /// Makes the linear sumcheck end where that of the honest proof does, by its last round alone.
    pub fn mend(&self, key: &ModelKey, honest: &Proof, proof: &mut Proof) {
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
pub const RELATIONS: [Relation; 5] = [
    Relation::Range16,
    Relation::Bits,
    Relation::Bytes,
    Relation::Exp,
    Relation::Silu,
];

/// Draws the challenges of a group of trees, whatever its messages are; returns the claims on their leaves. A tree is in all layers that
/// have children of it: trees of a group are not deeper than those before them.
pub fn descend(group: &GroupProof, drawn: &mut Vec<K>, t: &mut Transcript) -> Vec<LeafClaim> {
    t.send(LOOKUP_SUM, &group.roots[..]);
    let claim = |point: &[K], [numerator, denominator]: [K; 2]| LeafClaim {
        point: point.to_vec(),
        numerator,
        denominator,
    };
    let roots = group
        .roots
        .iter()
        .map(|[sum, denominator]| claim(&[], [*sum * *denominator, *denominator]));
    let (mut claims, mut point) = (roots.collect::<Vec<_>>(), Vec::new());
    for layer in &group.layers {
        drawn.push(t.challenge(LOOKUP_LAYER));
        point.clear();
        for message in &layer.rounds {
            point.push(LOOKUP_ROUND.send(message, t));
        }
        drawn.extend(&point);
        let chosen = LOOKUP_CHILDREN.send(&layer.children[..], t);
        drawn.push(chosen);
        point.insert(0, chosen);
        for (own, children) in claims.iter_mut().zip(&layer.children) {
            *own = claim(&point, between(*children, chosen));
        }
    }
    claims
}

pub fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    holds.then_some(()).ok_or(what)
}

/// Where a sumcheck ends at given challenges.
pub fn walk(claim: K, proof: &SumcheckProof, point: &[K]) -> K {
    proof
        .rounds
        .iter()
        .zip(point)
        .fold(claim, |value, (message, r)| round_value(value, *message, *r))
}
