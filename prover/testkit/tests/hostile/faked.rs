//! A proof that is faked as far as can be without any columns. Lookups, matmuls and linear claims are sumchecks: whoever chooses
//! their messages can let each follow from the one before. Only the opening knows that what they end in is false. So this is what
//! makes a verifier work the most.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::shape::Product;
use tessera_circuits::trees::{groups, Forest};
use tessera_circuits::wiring::{Points, Public};
use tessera_prover::grind;
use tessera_testkit::{place_of, reworked, OfStark};
use tessera_verifier::gkr::{self, GroupProof, LayerProof};
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{
    ACTIVATIONS, LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM, LOOKUP_WORK, MATMULS, POINTS, POINTS_WORK,
};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::proof::Proof;
use tessera_verifier::stark;
use tessera_verifier::sumcheck::{self, SumcheckProof};
use tessera_verifier::tables::{draw_relations, draw_weight};
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{absorb_statistics, linear_variables, open_transcript, ChunkStatement};

type K = SecureField;

/// The proof of one chunk with all that is said before the opening made anew for a key that it is not about.
pub fn faked(key: &ModelKey, mut proof: Proof) -> Proof {
    proof.model = key.id().expect("an id");
    proof.chunks[0].layers = key.config.layers as u32;
    let statement = &proof.statement;
    let ends = Ends::default();
    let chunk = Chunk::whole(key.config.layers);
    let (shape, params) = (key.shape(&chunk, statement.lengths()), chunk.params(&key.params));
    let own = &mut proof.chunks[0];

    let activations = CommitmentParams::of_activations(&shape, &key.weights);
    let claim = ChunkStatement {
        key,
        model: &proof.model,
        statement,
        chunk: &chunk,
        ends,
        context: None,
    };
    let mut transcript = open_transcript(&claim, &activations, None);
    transcript.send(ACTIVATIONS, &own.activations);
    absorb_statistics(&own.statistics, &mut transcript);
    let forest = Forest::of(&shape);
    draw_weight(&forest, &mut transcript);
    stark::absorb(&key.tables_root, &own.of_stark().stark, &mut transcript).expect("the tables of the key");
    own.lookup_work = grind::send(LOOKUP_WORK, &mut transcript);
    draw_relations(&mut transcript, &key.config.relations());
    let logs = forest.logs();
    let groups = groups(&logs).into_iter();
    own.lookups = groups.map(|group| faked_group(&logs[group], &mut transcript)).collect();

    own.points_work = grind::send(POINTS_WORK, &mut transcript);
    let points = Points::new(&shape, transcript.challenges(POINTS, Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &params,
        statement,
        ends,
        statistics: &own.statistics,
        points: &points,
    };
    // Nothing but zeros: their sums are zero, too. One operand is public, and the other one may be zero.
    let zeros = |variables: usize| SumcheckProof {
        rounds: vec![[K::zero(); 2]; variables],
    };
    own.matmuls.claim = K::zero();
    own.matmuls.sumcheck = zeros(shape.product_variables() as usize);
    let rounds = &own.matmuls.sumcheck;
    let end = sumcheck::verify(
        MATMULS,
        K::zero(),
        rounds.rounds.len(),
        Unread::of(rounds),
        None,
        &mut transcript,
    )
    .expect("as many rounds");
    own.matmuls.operands = vec![Default::default(); shape.existing().count()];
    own.matmuls.operands[place_of(&shape, Product::EMBED)][0] = public.embed_operand(&end.point);
    own.linear = zeros(linear_variables(&shape));
    reworked(key, proof)
}

/// Trees of `2^log` leaves that nobody has: numerators are one, as those of leaves are, and the denominators what they have to be. Those of
/// the first tree that is left make up for all.
fn faked_group(logs: &[u32], transcript: &mut Transcript) -> GroupProof {
    let roots = vec![[K::one(); 2]; logs.len()];
    transcript.send(LOOKUP_SUM, &roots[..]);
    let (mut claims, mut point) = (vec![[K::one(); 2]; logs.len()], Vec::<K>::new());
    let mut layers = Vec::new();
    for layer in 0..logs.iter().max().copied().unwrap_or(0) {
        let lambda = transcript.challenge(LOOKUP_LAYER);
        let active: Vec<usize> = (0..logs.len()).filter(|own| logs[*own] > layer).collect();
        let weighed = |value: &dyn Fn(usize) -> K| {
            let terms = active.iter().zip(gkr::weights(lambda));
            terms.fold(K::zero(), |sum, (own, weight)| sum + weight * value(*own))
        };
        let (mut claim, mut next) = (weighed(&|own| claims[own][0] + lambda * claims[own][1]), Vec::new());
        for own in &point {
            let message = [K::zero(); 2];
            let at_one = claim * own.inverse();
            let c = LOOKUP_ROUND.send(&message, transcript);
            claim = c * at_one;
            next.push(c);
        }
        // claim = n0 d1 + n1 d0 + lambda d0 d1, with n0 = n1 = d1 = 1; that of all trees but the first with d0 = 1, too.
        let others = weighed(&|own| {
            if own == active[0] {
                K::zero()
            } else {
                K::one() + K::one() + lambda
            }
        });
        let d0 = (claim - others - K::one()) * (K::one() + lambda).inverse();
        let mut children = vec![[K::one(); 4]; active.len()];
        children[0][1] = d0;
        let t = LOOKUP_CHILDREN.send(&children[..], transcript);
        for (own, children) in active.iter().zip(&children) {
            claims[*own] = gkr::between(*children, t);
        }
        next.insert(0, t);
        let rounds = vec![[K::zero(); 2]; point.len()];
        layers.push(LayerProof { rounds, children });
        point = next;
    }
    GroupProof { roots, layers }
}
