//! A cheating prover: the phases of `prove/src/chunk.rs` with hooks at every message. If a STARK proves the tables, its last step is stwo's prover without
//! stwo's own check of the result, so that a forgery is a complete proof whatever constraints it violates.

mod hooks;
mod opening;
mod tables;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::{base, Relations};
use tessera_circuits::boundary::BoundaryUnits;
use tessera_circuits::chunk::{Boundary, Chunk, Ends, PublicBoundary};
use tessera_circuits::claims::{batch, Batch, Heard, LinearClaim, Operands, PLACES};
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{ModelParams, MIN_ROWS_LOG, TILE_LOG};
use tessera_circuits::shape::Product;
use tessera_circuits::shape::Shape;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_circuits::trees::{lookup_trees, Forest, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_model::forward::Witness;
use tessera_model::tiles::{TileRange, TileSource};
use tessera_prover::activations::Activations;
use tessera_prover::boundary::Boundaries;
use tessera_prover::column::{elements, of_elements};
use tessera_prover::device::{self, Device, Entries};
use tessera_prover::digits::HiddenDigits;
use tessera_prover::gkr;
use tessera_prover::matmul::{self, PrecomputedMatmuls};
use tessera_prover::stark::{self, twiddles};
use tessera_prover::trace::{tops, Columns, Source};
use tessera_prover::vectors::Vectors;
use tessera_prover::{claims, grind, ProverModel};
use tessera_verifier::gkr::sums;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{ACTIVATIONS, CLAIMS, CLAIMS_WORK, LOOKUP_WORK, MATMULS, OPERANDS, POINTS, POINTS_WORK};
use tessera_verifier::message::Exchange;
use tessera_verifier::opening::{CommitmentName, CommitmentParams, OpenedColumns};
use tessera_verifier::proof::{ChunkProof, MatmulProof};
use tessera_verifier::suite::{Digest, Suite};
use tessera_verifier::sumcheck::{instance_scale, open_batch, round_value, rounds_of, SumcheckProof};
use tessera_verifier::tables::{draw_relations, draw_weight};
use tessera_verifier::transcript::{Transcript, Work};
use tessera_verifier::verify::{
    absorb_statistics, linear_variables, open_transcript, unit_coefficients, weight_claim, weight_families,
    ChunkStatement,
};

pub use self::hooks::{BrokenClaims, Fit, Hooks, Interaction, Rounds, HONEST};
use self::opening::{open, told, BandClaim, Claim};
use self::tables::{add_counts, Side};

type K = SecureField;
type Scheme<'a> = stark::Scheme<'a>;

/// What a boundary is at the random point.
fn boundary_at(public: &Public<'_>, boundary: &Boundary) -> K {
    let units = BoundaryUnits::of(public.statement.rows(), public.shape.config.hidden).expect("many values");
    let feature = public.points.out(public.shape.padded.hidden);
    let local = eq_table(&units.local_point(&public.points.token, feature));
    let values = units.values(&boundary.0);
    let units = units.coefficients(&public.points.token, feature).into_iter();
    let of_unit = |unit: &[i16]| {
        let terms = unit.iter().zip(&local);
        terms.fold(K::zero(), |sum, (v, w)| sum + *w * base(i64::from(*v)))
    };
    let terms = units.zip(values.chunks(local.len()));
    terms.fold(K::zero(), |sum, (k, unit)| sum + k * of_unit(unit))
}

/// Columns as a device has them.
fn held(columns: &[Columns]) -> Box<dyn device::Columns> {
    Vectors.columns(of_elements(columns)).expect("columns")
}

/// Sum of a linear claim over a trace.
fn total(claim: &LinearClaim, columns: &[Columns]) -> K {
    claim.groups.iter().fold(K::zero(), |sum, group| {
        let weights = group.table();
        group.columns.iter().fold(sum, |sum, (column, factor)| {
            let own = weights.iter().zip(&columns[group.part.index()][*column]);
            sum + *factor * own.fold(K::zero(), |sum, (w, v)| sum + *w * *v)
        })
    })
}

/// A sumcheck whose round polynomials are all constant: the proof, the point and the value that remains.
fn constant_rounds(
    label: &'static str,
    claim: K,
    variables: usize,
    last: Option<Work>,
    transcript: &mut Transcript,
) -> (SumcheckProof, u64, Vec<K>, K) {
    open_batch(label, claim, variables, transcript);
    let half = K::from(2).inverse();
    let (mut value, mut rounds, mut point) = (claim, Vec::new(), Vec::new());
    let (Exchange(said, answer), mut nonce) = (rounds_of(label), 0);
    for round in 1..=variables {
        value *= half;
        rounds.push([value; 2]);
        transcript.send(said, &[value; 2]);
        if let Some(work) = last.filter(|_| round == variables) {
            nonce = grind::send(work, transcript);
        }
        point.push(transcript.challenge(answer));
    }
    (SumcheckProof { rounds }, nonce, point, value)
}

/// Claims what the accumulators of the trace are, and makes up an operand with which the products end there: a normed
/// state and no other, or an embedding next to operands that are all honest.
fn free_matmuls(
    public: &Public<'_>,
    columns: &[Columns],
    tiles: &dyn TileSource,
    opened: &OpenedColumns,
    free: Rounds,
    t: &mut Transcript,
) -> PrecomputedMatmuls {
    let accumulators = &public.trace_claims()[0];
    let claim = total(accumulators, columns) - accumulators.value;
    let variables = public.shape.product_variables() as usize;
    let (sumcheck, _, point, value) = constant_rounds(MATMULS, claim, variables, None, t);
    let out = suffix(&public.points.out, opened.log_band() + TILE_LOG);
    let bands = Vectors.bands(&TileRange::new(tiles, opened.tiles()), out, 0);
    let (bands, traffic) = bands.expect("bands");
    let band_values = bands.values(suffix(&point, TILE_LOG)).expect("bands");
    // The weights are honest.
    // By number, those that the chunk does not have included.
    let mut operands = [[K::zero(); 2]; PLACES];
    let listed = |operands: &[[K; 2]; PLACES]| {
        Operands::new(
            public
                .shape
                .existing()
                .map(|own| (own, operands[own.index()]))
                .collect(),
        )
    };
    for product in public.shape.weighted() {
        let families = [(product, K::one())];
        let gamma = public.band_coefficients(&point, &families, opened.bands(), opened.log_band());
        operands[product.index()][1] = gamma
            .iter()
            .zip(&band_values)
            .fold(K::zero(), |sum, (g, v)| sum + *g * *v);
    }
    // The normed states have an instance in two limbs, in one, or both.
    let mut norms = [Product::NORM, Product::NORM_LIMBS]
        .into_iter()
        .filter(|p| p.exists(public.shape));
    let (embed, norm) = (
        Product::EMBED.index(),
        norms.clone().next_back().expect("normed states"),
    );
    operands[embed][0] = public.embed_operand(&point);
    let scale = |product: Product| instance_scale(variables, product.variables(public.shape) as usize);
    if free == Rounds::Embedding {
        for claim in &public.operand_claims(&point) {
            let (product, side) = match claim.name {
                "normed state" => (norms.next().expect("an instance"), 0),
                other => operand_of(other),
            };
            operands[product.index()][side] = total(claim, columns);
        }
        operands[embed] = [K::one(), K::zero()];
    }
    let ends = public
        .shape
        .products()
        .iter()
        .map(|own| (own.product, operands[own.product.index()]));
    let rest = value - ends.map(|(p, [a, b])| scale(p) * a * b).sum::<K>();
    match free {
        Rounds::Embedding => operands[embed][1] = rest * scale(Product::EMBED).inverse(),
        _ => operands[norm.index()][0] = rest * (scale(norm) * operands[norm.index()][1]).inverse(),
    }
    let own = listed(&operands);
    // An embedding that the chunk does not have is told, too.
    let told = public.shape.products().iter().map(|own| own.product);
    let told = told.filter(|own| own.exists(public.shape) || (free == Rounds::Embedding && *own == Product::EMBED));
    let told: Vec<[K; 2]> = told.map(|own| operands[own.index()]).collect();
    t.send(OPERANDS, told.as_slice());
    let proof = MatmulProof {
        claim,
        sumcheck,
        operands: told,
    };
    PrecomputedMatmuls {
        proof,
        claim,
        operands: own,
        point,
        band_values,
        traffic,
    }
}

/// The operand that a claim on the end of the matmuls is about, but for the normed states.
fn operand_of(claim: &str) -> (Product, usize) {
    match claim {
        "attention output" => (Product::ATT, 0),
        "mlp product" => (Product::FF, 0),
        "queries" => (Product::SCORE, 0),
        "keys" => (Product::SCORE, 1),
        "probabilities" => (Product::VALUE, 0),
        "values" => (Product::VALUE, 1),
        "generated positions" => (Product::HEAD, 0),
        "gates" => (Product::ACT, 0),
        "up projections" => (Product::ACT, 1),
        "weighted states" => (Product::SQUARE, 0),
        "states" => (Product::SQUARE, 1),
        "reciprocals" => (Product::RECIPROCAL, 0),
        "sums and exponentials" => (Product::RECIPROCAL, 1),
        "reciprocal roots" => (Product::ROOT, 0),
        "states, sums of squares and roots" => (Product::ROOT, 1),
        other => panic!("{other} is no operand"),
    }
}

/// Proves the matmuls honestly, but for the operands at their end.
fn altered_matmuls(
    hooks: &Hooks<'_>,
    transcript: &mut Transcript,
    prove: impl FnOnce(&mut Transcript) -> PrecomputedMatmuls,
) -> PrecomputedMatmuls {
    let mut proved = prove(&mut transcript.clone());
    let MatmulProof {
        claim,
        sumcheck,
        operands,
    } = &mut proved.proof;
    (hooks.operands)(operands);
    open_batch(MATMULS, *claim, sumcheck.rounds.len(), transcript);
    for round in &sumcheck.rounds {
        rounds_of(MATMULS).send(round, transcript);
    }
    transcript.send(OPERANDS, operands.as_slice());
    proved
}

/// The columns of weights that are opened.
fn opened_columns(key: &ModelKey, chunk: &Chunk, hooks: &Hooks<'_>) -> OpenedColumns {
    hooks.bands.map_or_else(
        || key.opened(chunk),
        |log_band| key.weights.columns_of(&chunk.tiles(&key.config), log_band),
    )
}

/// Proves the matmuls, with rounds that are free and other operands if the attack has such.
fn prove_matmuls(
    model: &ProverModel<'_>,
    hooks: &Hooks<'_>,
    public: &Public<'_>,
    columns: &[Columns],
    opened: &OpenedColumns,
    boundaries: Option<[K; 2]>,
    transcript: &mut Transcript,
) -> PrecomputedMatmuls {
    let tiles = hooks.tiles.unwrap_or(&model.quantised.weights);
    altered_matmuls(hooks, transcript, |t| match hooks.matmuls {
        Rounds::Honest => {
            matmul::prove(
                public,
                &Vectors,
                (&*held(columns), &HiddenDigits::default()),
                tiles,
                opened,
                boundaries,
                t,
            )
            .expect("products")
            .0
        }
        free => free_matmuls(public, columns, tiles, opened, free, t),
    })
}

/// What is proved of a chunk, as the prover has it.
struct Proved<'a> {
    shape: Shape,
    params: ModelParams,
    chunk: Chunk,
    ends: Ends<&'a PublicBoundary>,
    columns: Vec<Columns>,
    statistics: Statistics,
}

impl<'a> Proved<'a> {
    fn of(claim: &ChunkStatement<'a>, input: Option<&Boundary>, witness: &Witness, hooks: &Hooks<'a>) -> Self {
        let ChunkStatement { key, statement, .. } = *claim;
        let (chunk, ends) = match hooks.proved {
            Some((other, output)) => (
                other,
                Ends {
                    output: Some(output),
                    ..claim.ends
                },
            ),
            None => (*claim.chunk, claim.ends),
        };
        let limbs = hooks.limbs.unwrap_or_else(|| key.params.limb_set(&key.config));
        let shape = Shape::with_limbs(&key.config, limbs, &chunk, statement.lengths())
            .with_tables(key.table_argument())
            .with_leaf_limits(hooks.limits);
        let (config, params) = hooks
            .source
            .map_or((&key.config, &key.params), |m| (&m.config, &m.params));
        let mut tops = tops(&shape, statement, witness);
        (hooks.made)(&mut tops);
        let source = Source {
            shape: &Shape::with_limbs(config, shape.limbs, &chunk, statement.lengths()),
            params: &chunk.params(params),
            statement,
            said: statement,
            input: hooks.input.or(input),
            witness,
            tops: &tops,
        };
        let columns = shape.by_part(|part| source.columns(part)).into_iter();
        let columns = columns.map(|(columns, clips)| (elements(&columns), clips));
        let (mut columns, clips): (Vec<Columns>, Vec<Vec<Clip>>) = columns.unzip();
        let mut statistics = Statistics { clips: clips.concat() };
        (hooks.columns)(&shape, &mut columns);
        add_counts(hooks, &shape, &mut columns);
        (hooks.statistics)(&mut statistics);
        Self {
            params: chunk.params(&key.params),
            shape,
            chunk,
            ends,
            columns,
            statistics,
        }
    }
}

/// Proves the linear claims and says where they end.
fn prove_linear(
    hooks: &Hooks<'_>,
    batch: &Batch,
    shape: &Shape,
    columns: &[Columns],
    transcript: &mut Transcript,
) -> (SumcheckProof, u64, Vec<K>, K) {
    if hooks.linear != Rounds::Honest {
        let last = Some(CLAIMS_WORK);
        return constant_rounds(CLAIMS, batch.value, linear_variables(shape), last, transcript);
    }
    let proved = claims::prove(batch, batch.value, shape, &Vectors, &*held(columns), transcript).expect("rounds");
    let rounds = proved.proof.rounds.iter().zip(&proved.point);
    let value = rounds.fold(batch.value, |value, (message, r)| round_value(value, *message, *r));
    (proved.proof, proved.nonce.expect("work"), proved.point, value)
}

/// The names of the claims that do not hold of the trace.
fn broken(claims: Vec<LinearClaim>, columns: &[Columns]) -> Vec<&'static str> {
    let claims = claims.into_iter();
    let mut broken: Vec<&str> = claims
        .filter(|claim| total(claim, columns) != claim.value)
        .map(|claim| claim.name)
        .collect();
    broken.dedup();
    broken
}

/// The claims as the verifier sums them, and as the prover does, with the verifier's value.
fn batches(hooks: &Hooks<'_>, claims: &dyn Fn() -> Vec<LinearClaim>, challenge: K) -> (Batch, Batch) {
    let wanted = batch(claims(), challenge);
    let mut altered = claims();
    (hooks.claims)(&mut altered);
    let summed = Batch {
        value: wanted.value,
        ..batch(altered, challenge)
    };
    (wanted, summed)
}

/// Proves the sums of the lookups of these columns.
fn prove_lookups(
    hooks: &Hooks<'_>,
    shape: &Shape,
    mut columns: Vec<Columns>,
    (trees, entries): (&[LookupTree], Option<&Entries<'_>>),
    relations: &Relations,
    transcript: &mut Transcript,
) -> gkr::Proved {
    (hooks.looked_up)(shape, &mut columns);
    let trees = (trees, entries);
    let mut lookups = gkr::prove(trees, &*held(&columns), relations, transcript).expect("no degenerate challenge");
    (hooks.lookups)(&mut lookups.proofs);
    lookups
}

/// The linear claims, as the verifier makes them, with whole sums as their values.
fn linear_claims(
    public: &Public<'_>,
    (trees, entries): (&[LookupTree], Option<&Entries<'_>>),
    relations: &Relations,
    lookups: &gkr::Proved,
    matmuls: &PrecomputedMatmuls,
    boundaries: [K; 2],
) -> Vec<LinearClaim> {
    let (leaves, last) = lookups.claims.split_at(trees.len());
    let heard = Heard {
        accumulators: matmuls.proof.claim,
        operands: Operands::of(public.shape, &matmuls.proof.operands),
        denominators: leaves.iter().map(|leaf| leaf.denominator).collect(),
        counts: last.first().map(|leaf| leaf.numerator),
        digits: None,
        boundaries: boundaries.map(Some),
    };
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(&matmuls.point));
    let powers = public.powers();
    for (number, (tree, leaf)) in trees.iter().zip(leaves).enumerate() {
        let own = tree.claim(&powers, relations, number, leaf);
        claims.push(own.expect("numerators that are one"));
    }
    let entries = entries.zip(last.first());
    claims.extend(entries.map(|(own, leaf)| own.tree.claim(own.weight, &leaf.point)));
    claims.into_iter().map(|claim| claim.settled(&heard)).collect()
}

/// A complete proof of a chunk from a witness, with cheating. Nothing here depends on the statement being true.
pub fn forge(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    mut boundaries: Boundaries<'_>,
    witness: &Witness,
    hooks: &Hooks<'_>,
) -> ChunkProof {
    let ChunkStatement { key, statement, .. } = *claim;
    let claim_ends = claim.ends;
    let proved = Proved::of(claim, boundaries.input, witness, hooks);
    let Proved {
        shape,
        chunk,
        ends,
        columns,
        mut statistics,
        ..
    } = proved;
    // The code is the verifier's.
    let asked = key
        .shape(claim.chunk, statement.lengths())
        .with_leaf_limits(hooks.limits);
    let params = CommitmentParams::of_activations(&asked, &key.weights);
    let mut transcript = (hooks.transcript)(claim, &params);
    let own_params = params;
    // The code of what is committed to, which is another one if the trace has other columns.
    let params = CommitmentParams::of_activations(&shape, &key.weights);
    let mut committed = columns.clone();
    (hooks.committed)(&shape, &mut committed);
    let small = held(&committed);
    let activations = Activations::commit(Suite::default(), &shape, &*small, params, None).expect("a tree");
    let mut root = activations.root();
    let first = transcript.clone();
    transcript.send(ACTIVATIONS, &root);
    let second = transcript.clone();
    absorb_statistics(&statistics, &mut transcript);
    let forest = Forest::of(&shape);
    let mut weight = draw_weight(&forest, &mut transcript);
    weight
        .iter_mut()
        .for_each(|weight| (hooks.weight)(weight, [&first, &second]));
    let twiddles = twiddles();
    let side = Side::absorb(key, hooks, (&shape, &columns), weight, &twiddles, &mut transcript);
    (hooks.shown)(&mut statistics);

    // The verifier asks for work over what it is shown, whatever the challenges are drawn from.
    let mut heard = open_transcript(claim, &own_params, None);
    heard.send(ACTIVATIONS, &root);
    absorb_statistics(&statistics, &mut heard);
    draw_weight(&forest, &mut heard);
    side.shown(key, hooks, &mut heard);
    let lookup_work = grind::send(LOOKUP_WORK, &mut heard);
    let _ = transcript.work(LOOKUP_WORK, lookup_work);
    let mut relations = draw_relations(&mut transcript, &shape.config.relations());
    (hooks.relations)(&mut relations);
    let trees = lookup_trees(&shape);
    let entries = side.entries();
    let all = (&trees[..], entries.as_ref());
    let lookups = prove_lookups(hooks, &shape, columns.clone(), all, &relations, &mut transcript);

    let points_work = grind::send(POINTS_WORK, &mut transcript);
    let points = Points::new(&shape, transcript.challenges(POINTS, Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &proved.params,
        statement,
        ends,
        statistics: &statistics,
        points: &points,
    };
    let opened = opened_columns(key, &chunk, hooks);
    let (mut said, boundary_values) = boundaries.said(key, &public);
    if let (Some([input, _]), Some(told)) = (&mut said, hooks.told) {
        *input = boundary_at(&public, told);
    }
    let mut matmuls = prove_matmuls(model, hooks, &public, &columns, &opened, said, &mut transcript);
    let families = weight_families(&shape, &mut transcript);
    let said = said.and(matmuls.proof.operands.last().copied());

    let claims = || linear_claims(&public, all, &relations, &lookups, &matmuls, said.unwrap_or_default());
    (hooks.broken_claims)(&|| broken(claims(), &columns));
    let (wanted, summed) = batches(hooks, &claims, transcript.challenge(CLAIMS));
    let (linear, linear_work, point, value) = prove_linear(hooks, &summed, &shape, &columns, &mut transcript);

    let claim = Claim {
        gamma: &unit_coefficients(&shape, &wanted, &point),
        local: suffix(&point, MIN_ROWS_LOG),
        value,
    };
    if let Some(late) = hooks.late {
        late(&shape, claim.gamma, claim.local, &mut committed);
    }
    let small = held(&committed);
    let activations = Activations::commit(Suite::default(), &shape, &*small, params, None).expect("a tree");
    root = activations.root();
    let operands = Operands::of(&shape, &matmuls.proof.operands);
    let weights = BandClaim {
        opened,
        gamma: public.band_coefficients(&matmuls.point, &families, opened.bands(), opened.log_band()),
        local: public.local_point(&matmuls.point, opened.log_band()),
        value: weight_claim(&operands, &families),
    };
    let ends = [CommitmentName::Input, CommitmentName::Output]
        .into_iter()
        .zip(claim_ends.both());
    let claimed = ends.filter_map(|(name, end)| match end {
        Some(PublicBoundary::Committed(root)) => Some((name, *root)),
        _ => None,
    });
    let values = said.into_iter().flatten().zip(claim_ends.both());
    let values = values.filter_map(|(value, end)| end.map(|_| value));
    let claimed: Vec<((CommitmentName, Digest), K)> = claimed.zip(values).collect();
    let opening = open(
        model,
        hooks,
        (weights, &mut matmuls),
        told(hooks, activations, &claim),
        &claim,
        (&mut boundaries, &boundary_values, &claimed),
        &mut transcript,
    );

    let lookups_sum = forest.balance(&sums(&lookups.proofs), weight);
    let last = (&relations, forest.is_weighted(), lookups_sum);
    let tables = side.close(last, key, hooks, &mut transcript);
    ChunkProof {
        layers: chunk.layers().len() as u32,
        statistics,
        activations: root,
        lookup_work,
        lookups: lookups.proofs,
        points_work,
        matmuls: matmuls.proof,
        linear,
        linear_work,
        opening,
        tables,
    }
}
