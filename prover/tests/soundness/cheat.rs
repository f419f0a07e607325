//! A cheating prover: the phases of `prove/mod.rs` with hooks at every message. Its last step is stwo's prover without
//! stwo's own check of the result, so that a forgery is a complete proof whatever constraints it violates.

use std::ops::Deref;

use num_traits::{One, Zero};
use stwo::core::channel::{Blake2sChannel, Channel};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::pcs::PcsConfig;
use stwo::core::proof::StarkProof;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::{ComponentProver, ComponentProvers};
use tessera_circuits::air::{tables, Binding, Relations, BINDING_COLUMNS};
use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::claims::{batch, Batch, LinearClaim};
use tessera_circuits::model::{LimbSet, TILE_LOG};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_circuits::trees::{lookup_trees, padding};
use tessera_circuits::wiring::{product_variables, suffix, Operands, Points, Product, Public, PRODUCTS, WEIGHTED};
use tessera_prover::model::tiles::{TileRange, TileSource};
use tessera_prover::model::QuantisedModel;
use tessera_prover::prove::bind::eval_base;
use tessera_prover::prove::gkr;
use tessera_prover::prove::matmul::{self, band_values, bind_bands, PrecomputedMatmuls};
use tessera_prover::prove::opening;
use tessera_prover::prove::stark::extend::Scheme;
use tessera_prover::prove::stark::lookups::{binding_sums, multiplicities};
use tessera_prover::prove::stark::trace::{statistics, Columns, Source};
use tessera_prover::prove::stark::{commit, twiddles, Trace};
use tessera_prover::prove::{claims, ProverModel};
use tessera_prover::run::forward::Witness;
use tessera_verifier::gkr::{sum, TreeProof};
use tessera_verifier::key::ModelId;
use tessera_verifier::opening::{CommitmentParams, OpenedColumns, OpeningClaim};
use tessera_verifier::policy::{opening_policy, TracePolicy};
use tessera_verifier::proof::{ChunkProof, MatmulProof};
use tessera_verifier::stark::{bindings, components, draw_binding, draw_relations, Stark};
use tessera_verifier::sumcheck::{instance_scale, open_batch, round_challenge, SumcheckProof};
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{
    absorb_operands, absorb_statistics, linear_variables, open_transcript, weight_claim, weight_families,
    ChunkStatement,
};

type K = SecureField;

/// How a sumcheck is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// As the honest prover does, whatever the claim is.
    Honest,
    /// The claim is what the other side expects, every round polynomial is a constant, and a final evaluation is
    /// chosen such that the last check passes.
    Constant,
    /// The same for the matmuls, with all operands honest but those of the embedding, which make up for everything.
    Embedding,
}

/// What the last hook before the aggregator sees.
pub struct Interaction<'a> {
    pub trace: &'a Trace<'a>,
    pub relations: &'a Relations,
    pub bindings: &'a [Option<Binding>],
    /// What the verifier wants from each part but the tables: the weighted sum of its evaluations.
    pub shares: &'a [K],
    /// The sum of all lookups.
    pub lookups: K,
}

impl Interaction<'_> {
    /// Recomputes the running sum of a part after its binding columns were altered; returns its claimed sum.
    pub fn rebuild(&self, part: Part, own: &mut Columns) -> K {
        let binding = self.bindings[part.index()].as_ref().expect("a part with claims");
        own.truncate(BINDING_COLUMNS);
        let (columns, sum) = binding_sums(&binding.weights, &self.trace.columns[part.index()], own);
        own.extend(columns);
        sum
    }

    /// What the claimed sums of the parts lack.
    pub fn missing(&self, sums: &[K]) -> K {
        let (_, parts) = sums.split_last().expect("the tables");
        self.shares.iter().copied().sum::<K>() - parts.iter().copied().sum::<K>()
    }

    /// What the claimed sum of the tables lacks.
    pub fn missing_entries(&self, sums: &[K]) -> K {
        -self.lookups - *sums.last().expect("the tables")
    }
}

/// Finds the names of the linear claims that do not hold of the trace.
pub type BrokenClaims<'a> = &'a dyn Fn() -> Vec<&'static str>;

/// Alters interaction columns and claimed sums.
pub type AlterInteraction<'a> = dyn Fn(&Interaction<'_>, &mut [Columns], &mut [K]) + 'a;

/// Makes the transcript that a proof starts with.
pub type OpenTranscript<'a> =
    dyn Fn(&ModelId, &CommitmentParams, TracePolicy, &Statement, &Chunk, &Ends<'_>) -> Transcript + 'a;

/// Where the prover cheats; [`HONEST`] does not.
#[derive(Clone, Copy)]
pub struct Hooks<'a> {
    /// What the prover absorbs before anything else.
    pub transcript: &'a OpenTranscript<'a>,
    /// The configuration of the STARK, if not the verifier's.
    pub pcs: Option<PcsConfig>,
    /// The model that the trace is built for, if not the proved one.
    pub source: Option<&'a QuantisedModel>,
    /// The chunk that is proved and what leaves it, if not the claimed one.
    pub proved: Option<(Chunk, &'a Boundary)>,
    /// What enters the chunk in the trace, if not what the statement says.
    pub input: Option<&'a Boundary>,
    /// How accumulators are claimed, if not as the key says.
    pub limbs: Option<LimbSet>,
    /// Alters the trace, before the lookups are counted.
    pub columns: &'a dyn Fn(&Shape, &mut [Columns]),
    /// Alters the lookup tables.
    pub tables: &'a dyn Fn(&mut Columns),
    /// Claims the honest root of altered tables.
    pub hide_tables: bool,
    /// Alters the multiplicities of the lookup tables.
    pub multiplicities: &'a dyn Fn(&mut Columns),
    /// Alters what the trace is made from, but for the clipped values, which it does not list yet.
    pub made: &'a dyn Fn(&mut Statistics),
    pub statistics: &'a dyn Fn(&mut Statistics),
    /// Alters the challenges of the lookups, as if they were known.
    pub relations: &'a dyn Fn(&mut Relations),
    /// Alters the columns whose lookups are summed.
    pub looked_up: &'a dyn Fn(&Shape, &mut [Columns]),
    /// Alters the sums of the lookups, after they are proved.
    pub lookups: &'a dyn Fn(&mut Vec<TreeProof>),
    /// Alters the statistics after they are absorbed.
    pub shown: &'a dyn Fn(&mut Statistics),
    /// The weights that the matmuls are proved with, if not the committed ones.
    pub tiles: Option<&'a dyn TileSource>,
    pub matmuls: Rounds,
    /// Alters the operands that the matmuls end in, before they are absorbed.
    pub operands: &'a dyn Fn(&mut Operands),
    pub linear: Rounds,
    /// Sees which linear claims do not hold of the trace.
    pub broken_claims: &'a dyn Fn(BrokenClaims<'_>),
    /// Alters the list of claims that are batched.
    pub claims: &'a dyn Fn(&mut Vec<LinearClaim>),
    /// Alters the evaluations of the bands in the opening, given their coefficients.
    pub band_values: &'a dyn Fn(&[K], &mut [K]),
    /// The columns of the commitment that are opened, if not those of the chunk.
    pub opened: Option<OpenedColumns>,
    /// log2 of the number of tiles of a band, if not that of the architecture.
    pub bands: Option<u32>,
    /// The point of the `eq`, `carry` and `last` columns, from the verifier's.
    pub point: &'a dyn Fn(&[K]) -> Vec<K>,
    /// Alters interaction columns and claimed sums.
    pub interaction: &'a AlterInteraction<'a>,
    /// Adds what the claimed sums lack to the first of them.
    pub balance: bool,
    /// The parts whose constraints are in the composition polynomial.
    pub constrained: &'a dyn Fn(Part) -> bool,
    /// Added to the composition polynomial.
    pub composition: K,
}

/// No cheating.
pub const HONEST: Hooks<'static> = Hooks {
    transcript: &open_transcript,
    pcs: None,
    source: None,
    proved: None,
    input: None,
    limbs: None,
    columns: &|_, _| (),
    tables: &|_| (),
    hide_tables: false,
    multiplicities: &|_| (),
    made: &|_| (),
    statistics: &|_| (),
    relations: &|_| (),
    looked_up: &|_, _| (),
    lookups: &|_| (),
    shown: &|_| (),
    tiles: None,
    matmuls: Rounds::Honest,
    operands: &|_| (),
    linear: Rounds::Honest,
    broken_claims: &|_| (),
    claims: &|_| (),
    band_values: &|_, _| (),
    opened: None,
    bands: None,
    point: &|point| point.to_vec(),
    interaction: &|_, _, _| (),
    balance: false,
    constrained: &|_| true,
    composition: K::from_u32_unchecked(0, 0, 0, 0),
};

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
fn constant_rounds(label: &str, claim: K, variables: usize, transcript: &mut Transcript) -> (SumcheckProof, Vec<K>, K) {
    open_batch(label, claim, variables, transcript);
    let half = K::from(2).inverse();
    let (mut value, mut rounds, mut point) = (claim, Vec::new(), Vec::new());
    for _ in 0..variables {
        value *= half;
        rounds.push([value; 2]);
        point.push(round_challenge(label, [value; 2], transcript));
    }
    (SumcheckProof { rounds }, point, value)
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
    let accumulators = &public.trace_claims(K::zero())[0];
    let claim = total(accumulators, columns) - accumulators.value;
    let variables = product_variables(public.shape) as usize;
    let (sumcheck, point, value) = constant_rounds("matmuls", claim, variables, t);
    let out = suffix(&public.points.out, opened.log_band + TILE_LOG);
    let (tables, traffic) = bind_bands(&TileRange::new(tiles, opened.tiles()), out, 0);
    let band_values = band_values(&tables, suffix(&point, TILE_LOG));
    // The weights are honest.
    let mut operands: Operands = Default::default();
    for (at, product) in PRODUCTS.iter().enumerate() {
        let families = WEIGHTED.map(|w| K::from(u32::from(w == *product)));
        let gamma = public.band_coefficients(&point, &families, opened.bands(), opened.log_band);
        operands[at][1] = gamma
            .iter()
            .zip(&band_values)
            .fold(K::zero(), |sum, (g, v)| sum + *g * *v);
    }
    // The normed states have an instance in two limbs, in one, or both.
    let mut norms = [Product::Norm, Product::NormLimbs]
        .into_iter()
        .filter(|p| p.exists(public.shape));
    let (embed, norm) = (
        Product::Embed as usize,
        norms.clone().next_back().expect("normed states"),
    );
    operands[embed][0] = public.embed_operand(&point);
    let scale = |product: Product| instance_scale(variables, product.variables(public.shape) as usize);
    if free == Rounds::Embedding {
        for claim in &public.operand_claims(&point, &operands) {
            let (product, side) = match claim.name {
                "normed state" => (norms.next().expect("an instance"), 0),
                other => operand_of(other),
            };
            operands[product as usize][side] = total(claim, columns);
        }
        operands[embed] = [K::one(), K::zero()];
    }
    let ends = PRODUCTS.iter().zip(&operands);
    let rest = value - ends.map(|(p, [a, b])| scale(*p) * *a * *b).sum::<K>();
    match free {
        Rounds::Embedding => operands[embed][1] = rest * scale(Product::Embed).inverse(),
        _ => operands[norm as usize][0] = rest * (scale(norm) * operands[norm as usize][1]).inverse(),
    }
    absorb_operands(&operands, t);
    let proof = MatmulProof {
        claim,
        sumcheck,
        operands,
    };
    PrecomputedMatmuls {
        proof,
        point,
        band_values,
        memory: tables,
        traffic,
    }
}

/// The operand that a claim on the end of the matmuls is about, but for the normed states.
fn operand_of(claim: &str) -> (Product, usize) {
    match claim {
        "attention output" => (Product::Att, 0),
        "mlp product" => (Product::Ff, 0),
        "queries" => (Product::Score, 0),
        "keys" => (Product::Score, 1),
        "probabilities" => (Product::Value, 0),
        "values" => (Product::Value, 1),
        "generated positions" => (Product::Head, 0),
        "gates" => (Product::Act, 0),
        "up projections" => (Product::Act, 1),
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
    open_batch("matmuls", *claim, sumcheck.rounds.len(), transcript);
    for round in &sumcheck.rounds {
        round_challenge("matmuls", *round, transcript);
    }
    absorb_operands(operands, transcript);
    proved
}

/// Proves the linear claims with constant rounds and makes up one evaluation with which the last check passes.
fn free_linear(batch: &Batch, trace: &Trace<'_>, transcript: &mut Transcript) -> (SumcheckProof, Vec<K>, Vec<Vec<K>>) {
    let (shape, variables) = (trace.shape, linear_variables(trace.shape));
    let (proof, point, value) = constant_rounds("claims", batch.value, variables, transcript);
    let claimed: Vec<Part> = shape.claimed().collect();
    let at = |part: Part| suffix(&point, shape.log_rows(part));
    let of = |part: Part, values: &[K]| {
        instance_scale(variables, shape.log_rows(part) as usize) * batch.eval(part, at(part), values)
    };
    let mut evaluations: Vec<Vec<K>> = claimed
        .iter()
        .map(|part| {
            let columns = batch.columns(*part).into_iter();
            columns
                .map(|c| eval_base(&trace.columns[part.index()][c], at(*part)))
                .collect()
        })
        .collect();
    let ends = claimed
        .iter()
        .zip(&evaluations)
        .fold(K::zero(), |sum, (p, v)| sum + of(*p, v));
    let mut unit = vec![K::zero(); evaluations[0].len()];
    unit[0] = K::one();
    evaluations[0][0] += (value - ends) * of(claimed[0], &unit).inverse();
    transcript.message("evaluations", &evaluations.concat());
    (proof, point, evaluations)
}

/// Commits tables and trace.
fn commit_trace<'a>(
    model: &ProverModel<'_>,
    hooks: &Hooks<'_>,
    shape: &'a Shape,
    mut columns: Vec<Columns>,
    twiddles: &'a stwo::prover::poly::twiddles::TwiddleTree<SimdBackend>,
    transcript: &mut Transcript,
) -> Trace<'a> {
    let parts = shape.parts().iter().zip(&columns).filter(|(_, c)| !c.is_empty());
    let mut counts = multiplicities(parts.map(|(part, c)| (shape.air(*part), c)));
    (hooks.multiplicities)(&mut counts);
    *columns.last_mut().expect("the tables") = counts;
    let honest = tables::preprocessed(&model.key.params);
    let mut tables = honest.clone();
    (hooks.tables)(&mut tables);
    let config = hooks.pcs.unwrap_or(TracePolicy::of(shape).pcs_config());
    let mut scheme = Scheme::new(config, twiddles);
    scheme.set_store_polynomials_coefficients();
    let shown = if hooks.hide_tables { &honest } else { &tables };
    commit(&mut scheme, std::iter::once(shown), transcript.channel());
    if hooks.hide_tables {
        let mut other = Scheme::new(config, twiddles);
        other.set_store_polynomials_coefficients();
        commit(&mut other, std::iter::once(&tables), &mut Blake2sChannel::default());
        scheme.trees[0] = other.trees.remove(0);
    }
    commit(&mut scheme, columns.iter(), transcript.channel());
    Trace {
        shape,
        columns,
        tables,
        scheme,
    }
}

/// `Trace::finish` and stwo's `prove_ex` without the check that the proof is one.
fn aggregate(
    trace: Trace<'_>,
    relations: &Relations,
    bindings: Vec<Option<Binding>>,
    interaction: Vec<Columns>,
    sums: &[K],
    hooks: &Hooks<'_>,
    transcript: &mut Transcript,
) -> Stark {
    transcript.message("claimed sums", sums);
    let (shape, mut scheme) = (trace.shape, trace.scheme);
    let channel = transcript.channel();
    commit(&mut scheme, interaction.iter(), channel);
    let components = components(shape, relations, bindings, sums);
    let provers = |included: &dyn Fn(Part) -> bool| ComponentProvers {
        components: shape
            .parts()
            .iter()
            .zip(&components)
            .filter(|(part, _)| included(**part))
            .map(|(_, c)| c as &dyn ComponentProver<SimdBackend>)
            .collect(),
        n_preprocessed_columns: tables::PREPROCESSED.len(),
    };
    let coefficient = channel.draw_secure_felt();
    let blowup = scheme.config.fri_config.log_blowup_factor;
    let own = provers(hooks.constrained);
    let composition = own.compute_composition_polynomial(coefficient, &scheme.trace(), scheme.twiddles, blowup);
    let (mut left, right) = composition.split_at_mid();
    for (polynomial, constant) in left.0.iter_mut().zip(hooks.composition.to_m31_array()) {
        let coefficients = polynomial.coeffs.as_mut_slice();
        coefficients[0] += constant;
    }
    let mut tree = scheme.tree_builder();
    tree.extend_polys(left.into_coordinate_polys());
    tree.extend_polys(right.into_coordinate_polys());
    tree.commit(channel);
    let oods = CirclePoint::get_random_point(channel);
    let mut points = provers(&|_| true)
        .components()
        .mask_points(oods, shape.max_log_rows(), false);
    points.push(vec![vec![oods]; 8]);
    StarkProof(scheme.prove_values(points, channel).proof)
}

/// A complete proof of a chunk from a witness, with cheating. Nothing here depends on the statement being true.
pub fn forge(model: &ProverModel<'_>, claim: &ChunkStatement<'_>, witness: &Witness, hooks: &Hooks<'_>) -> ChunkProof {
    let ChunkStatement {
        key,
        statement,
        chunk: claimed,
        ..
    } = *claim;
    let (chunk, ends) = match &hooks.proved {
        Some((other, output)) => (
            other,
            Ends {
                output: Some(output),
                ..claim.ends
            },
        ),
        None => (claimed, claim.ends),
    };
    let limbs = hooks.limbs.unwrap_or_else(|| key.params.limb_set(&key.config));
    let shape = Shape::with_limbs(&key.config, limbs, chunk, statement.lengths());
    let own_params = chunk.params(&key.params);
    let (config, params) = hooks
        .source
        .map_or((&key.config, &key.params), |m| (&m.config, &m.params));
    let mut statistics = statistics(&shape, statement, witness);
    (hooks.made)(&mut statistics);
    let source = Source {
        shape: &Shape::with_limbs(config, shape.limbs, chunk, statement.lengths()),
        params: &chunk.params(params),
        statement,
        input: hooks.input.or(ends.input),
        witness,
        statistics: &statistics,
    };
    let columns = shape.parts().iter().map(|p| source.columns(*p));
    let (mut columns, clips): (Vec<Columns>, Vec<Vec<Clip>>) = columns.unzip();
    statistics.clips = clips.concat();
    (hooks.columns)(&shape, &mut columns);
    (hooks.statistics)(&mut statistics);
    let policy = TracePolicy::of(&shape);
    let mut transcript = (hooks.transcript)(claim.model, &key.weights, policy, statement, claimed, &claim.ends);
    let twiddles = twiddles(&shape);
    let trace = commit_trace(model, hooks, &shape, columns, &twiddles, &mut transcript);
    absorb_statistics(&statistics, &mut transcript);
    (hooks.shown)(&mut statistics);

    let mut relations = draw_relations(&mut transcript);
    (hooks.relations)(&mut relations);
    let trees = lookup_trees(&shape);
    let mut looked_up = trace.columns.clone();
    (hooks.looked_up)(&shape, &mut looked_up);
    let mut lookups = gkr::prove(&trees, &looked_up, &relations, &mut transcript).expect("no degenerate challenge");
    (hooks.lookups)(&mut lookups.proofs);
    drop(looked_up);

    let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &own_params,
        statement,
        ends,
        statistics: &statistics,
        points: &points,
    };
    let tiles = hooks.tiles.unwrap_or(&model.quantised.weights);
    let opened = hooks.bands.map_or_else(
        || key.opened(chunk),
        |log_band| key.weights.columns_of(&chunk.tiles(&key.config), log_band),
    );
    let mut matmuls = altered_matmuls(hooks, &mut transcript, |t| match hooks.matmuls {
        Rounds::Honest => matmul::prove(&public, &trace.columns, tiles, &opened, t),
        free => free_matmuls(&public, &trace.columns, tiles, &opened, free, t),
    });
    let families = weight_families(&mut transcript);

    let mut claims = public.trace_claims(matmuls.proof.claim);
    claims.extend(public.operand_claims(&matmuls.point, &matmuls.proof.operands));
    for (tree, leaf) in trees.iter().zip(&lookups.claims) {
        claims.extend(tree.claims(&shape, &relations, leaf).expect("numerators that are one"));
    }
    (hooks.broken_claims)(&|| {
        let mut broken: Vec<&str> = claims
            .iter()
            .filter(|claim| total(claim, &trace.columns) != claim.value)
            .map(|claim| claim.name)
            .collect();
        broken.dedup();
        broken
    });
    (hooks.claims)(&mut claims);
    let batch = batch(claims, transcript.challenge("claims"));
    let (linear, point, evaluations) = match hooks.linear {
        Rounds::Honest => {
            let (linear, evaluations) = claims::prove(&batch, trace.shape, &trace.columns, &mut transcript);
            (linear.proof, linear.point, evaluations)
        }
        _ => free_linear(&batch, &trace, &mut transcript),
    };

    let gamma = public.band_coefficients(&matmuls.point, &families, opened.bands(), opened.log_band);
    (hooks.band_values)(&gamma, &mut matmuls.band_values);
    let opening = OpeningClaim {
        columns: hooks.opened.unwrap_or(opened),
        gamma: &gamma,
        local_point: &public.local_point(&matmuls.point, opened.log_band),
        value: weight_claim(&matmuls.proof.operands, &families),
    };
    let (opening, _) = opening::open(
        &model.quantised.weights,
        model.codeword,
        &opening_policy(key.weights.log_blowup),
        &opening,
        &matmuls.band_values,
        matmuls.memory,
        &mut transcript,
    )
    .expect("an opening");

    let bindings = bindings(&shape, &batch, &point, draw_binding(&mut transcript));
    let own_point = (hooks.point)(&point);
    let interaction = bindings.iter().enumerate().map(|(at, binding)| {
        let interaction = trace.interaction(at, &relations, binding, &own_point);
        interaction.expect("no degenerate point")
    });
    let (mut interaction, mut sums): (Vec<Columns>, Vec<K>) = interaction.unzip();
    let shares: Vec<K> = bindings
        .iter()
        .zip(shape.claimed())
        .zip(&evaluations)
        .map(|((b, part), v)| share(b, &batch, part, v))
        .collect();
    let state = Interaction {
        trace: &trace,
        relations: &relations,
        bindings: &bindings,
        shares: &shares,
        lookups: sum(&lookups.proofs) - padding(&trees),
    };
    (hooks.interaction)(&state, &mut interaction, &mut sums);
    if hooks.balance {
        let missing = state.missing(&sums);
        sums[0] += missing;
    }
    let mut stark = aggregate(trace, &relations, bindings, interaction, &sums, hooks, &mut transcript);
    if hooks.hide_tables {
        stark.0.commitments[0].0 = *key.tables_root(TracePolicy::of(&shape));
    }
    ChunkProof {
        layers: chunk.layers().len() as u32,
        statistics,
        lookups: lookups.proofs,
        matmuls: matmuls.proof,
        linear,
        evaluations,
        opening,
        claimed_sums: sums,
        stark,
    }
}

/// The weighted sum of the evaluations of a part.
fn share(binding: &Option<Binding>, batch: &Batch, part: Part, values: &[K]) -> K {
    let weights = &binding.as_ref().expect("a part with claims").weights;
    let columns = batch.columns(part).into_iter().zip(values);
    columns.fold(K::zero(), |sum, (c, v)| sum + weights[c] * *v)
}

/// A secure column given by its four coordinates, at one row.
pub fn secure(columns: &[impl Deref<Target = [BaseField]>], row: usize) -> K {
    K::from_m31_array([0, 1, 2, 3].map(|i| columns[i][row]))
}
