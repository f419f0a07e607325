//! A chunk (docs/protocol.md): everything that is said of it, then its opening, in the same phases and order as in the verifier's
//! `verifier/src/verify/chunk.rs`.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::claims::{batch, Heard, LinearClaim};
use tessera_circuits::shape::{LeafLimits, Product};
use tessera_circuits::statement::Statement;
use tessera_circuits::trees::{lookup_trees, Forest, LookupTree};
use tessera_circuits::wiring::{Points, Public};
use tessera_model::forward::{ForwardState, Saturations};
use tessera_model::passes::Traffic;
use tessera_verifier::hiding::{Hearing, HiddenProof, TapeProof};
use tessera_verifier::labels::{ACTIVATIONS, CLAIMS, LOOKUP_WORK, POINTS, POINTS_WORK};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{sum_of_claims, CommitmentParams, OpenedColumns, OpeningError, OpeningProof};
use tessera_verifier::proof::{ChunkProof, TableProof};
use tessera_verifier::tables::{draw_relations, draw_weight};
use tessera_verifier::verify::{
    absorb_statistics, hear, open_transcript, verify_chunk_with, verify_heard, weight_families, ChunkStatement,
    Conversation,
};

use crate::activations::{committed_columns, Activations, UnitClaim};
use crate::boundary::{Boundaries, BoundaryValues};
use crate::device::{Bands, DeviceError};
use crate::digits::{self, HiddenDigits};
use crate::error::ProveError;
use crate::hiding::{Kept, Secrets, Veiled};
use crate::matmul::{self, PrecomputedMatmuls};
use crate::model::ProverModel;
use crate::opening::{self, Equations, OpeningProverError, ProverClaim, Veil};
use crate::run::Run;
use crate::speak::Speaker;
use crate::stopwatch::Stopwatch;
use crate::tables::{add_counts, Tables, Twiddles};
use crate::{claims, gkr, grind};

/// A chunk, proved.
pub(crate) struct Made {
    pub proof: ChunkProof,
    /// The messages that hide activations, if they are hidden.
    pub hidden: Option<HiddenProof>,
    /// The secret that reveals need, if the proof leaves room for any.
    pub kept: Option<Kept>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
}

/// The verifier's side of the conversation before the opening. The prover of a hiding proof keeps it, because the opening proves its equations; other provers
/// have none.
type HeardHidden<'a> = Option<Conversation<Hearing<'a>>>;

/// The statement with all of its ids, what was recorded while it was generated, whether clipped values are refused, and the secrets that hide.
pub(crate) type Asked<'a, 'b> = (&'a Statement, Option<ForwardState<'b>>, bool, Option<&'a Secrets>);

/// Proves a chunk, whose activations secrets hide, and checks the proof.
pub(crate) fn checked(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    boundaries: Boundaries<'_>,
    limits: LeafLimits,
    (witness, recorded, without_clips, secrets): Asked<'_, '_>,
    watch: &mut Stopwatch<'_>,
) -> Result<Made, ProveError> {
    let mut run = Run::of(
        model.placed(),
        claim,
        witness,
        secrets.is_some(),
        boundaries.input,
        recorded,
        watch,
    )?;
    run.shape = run.shape.with_leaf_limits(limits);
    let got = run.statistics.clips.len();
    if got > 0 && secrets.is_some() {
        return Err(ProveError::HiddenClips { got });
    }
    if got > 0 && without_clips {
        return Err(ProveError::Clips { got });
    }
    let (made, heard) = unchecked(model, claim, boundaries, run, (limits, secrets), watch)?;
    // What was heard for the opening is not heard again.
    let check = || match heard.as_ref().zip(made.hidden.as_ref()) {
        Some((heard, hidden)) => verify_heard(claim, heard, &made.proof.opening, &hidden.tape),
        None => verify_chunk_with(claim, limits, &made.proof),
    };
    watch.phase("check", check).map_err(ProveError::Check)?;
    Ok(made)
}

/// The phases of the protocol.
pub(crate) fn unchecked<'s>(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    mut boundaries: Boundaries<'_>,
    run: Run,
    (limits, secrets): (LeafLimits, Option<&'s Secrets>),
    watch: &mut Stopwatch<'_>,
) -> Result<(Made, HeardHidden<'s>), ProveError> {
    let (key, statement, chunk, shape) = (claim.key, claim.statement, claim.chunk, &run.shape);
    let device = model.device;
    // Commitments before any challenge.
    let code = secrets.map(Secrets::code);
    let params = code.map_or_else(
        || CommitmentParams::of_activations(shape, &key.weights),
        |code| code.params,
    );
    let suite = key.header.hash_suite;
    let mut transcript = open_transcript(claim, &params, code);
    let (relations, trees, forest) = (shape.config.relations(), lookup_trees(shape), Forest::of(shape));
    let hidden_digits = HiddenDigits::of(shape, &run.columns);
    let mut held = device.columns(run.columns)?;
    let change_counts = secrets.and_then(Secrets::rehearsal).and_then(|own| own.change_counts);
    add_counts(&mut *held, shape, (&trees, &forest), change_counts, watch)?;
    let columns = &*held;
    let mut activations = watch.phase("commit activations", || {
        Activations::commit(suite, shape, columns, params, secrets)
    })?;
    transcript.send(ACTIVATIONS, &activations.root());
    absorb_statistics(&run.statistics, &mut transcript);
    let (twiddles, weight) = (Twiddles::new(), draw_weight(&forest, &mut transcript));
    let tables = watch.phase("count lookups", || {
        let (of, lookups) = ((shape, &run.params), (&trees[..], &forest));
        Tables::absorb(of, columns, lookups, weight, &twiddles, &mut transcript)
    })?;

    // Lookups.
    let lookup_work = grind::send(LOOKUP_WORK, &mut transcript);
    let relations = draw_relations(&mut transcript, &relations);
    let mut speaker: Box<dyn Speaker + '_> = match secrets {
        Some(secrets) => Box::new(Veiled::new(transcript, secrets)),
        None => Box::new(transcript),
    };
    let speaker = &mut *speaker;
    let lookups = watch.phase("lookups", || {
        let entries = tables.entries();
        gkr::prove((&trees, entries.as_ref()), columns, &relations, speaker)
    })?;

    // Matmuls.
    let points_work = grind::send(POINTS_WORK, speaker.transcript());
    let points = Points::new(shape, speaker.transcript().challenges(POINTS, Points::count(shape)));
    let public = Public {
        shape,
        params: &run.params,
        statement,
        ends: claim.ends,
        statistics: &run.statistics,
        points: &points,
    };
    let (weights, opened) = (&model.quantised.weights, key.opened(chunk));
    let (said, boundary_values) = boundaries.said(key, &public);
    let (matmuls, bands) = watch.phase("matmuls", || {
        matmul::prove(
            &public,
            device,
            (columns, &hidden_digits),
            weights,
            &opened,
            said,
            speaker,
        )
    })?;
    watch.read("matmuls", matmuls.traffic);
    let digits = digits::prove(&public, device, &hidden_digits, &matmuls.point, speaker)?;
    let families = weight_families(shape, speaker.transcript());

    // Linear claims.
    let (batch, linear) = watch.phase("claims", || {
        let mut claims = linear_claims(&public, &trees, &relations, &lookups, (&matmuls.point, &digits.point));
        let (own, entries) = lookups.claims.split_at(trees.len());
        claims.extend(tables.side(entries.first()));
        let batch = batch(claims, speaker.transcript().challenge(CLAIMS));
        let heard = Heard {
            accumulators: matmuls.claim,
            operands: matmuls.operands.clone(),
            digits: digits.factors,
            denominators: own.iter().map(|leaf| leaf.denominator).collect(),
            counts: entries.first().map(|leaf| leaf.numerator),
            boundaries: said.map_or([None; 2], |said| said.map(Some)),
        };
        // Products and trees are those of the chunk, so none is without a value.
        let value = batch.total(&heard).unwrap_or_default();
        let linear = claims::prove(&batch, value, shape, device, columns, speaker)?;
        Ok::<_, DeviceError>((batch, linear))
    })?;

    let mut proof = ChunkProof {
        layers: chunk.layers().len() as u32,
        statistics: run.statistics.clone(),
        activations: activations.root(),
        lookup_work,
        lookups: lookups.proofs.clone(),
        points_work,
        matmuls: matmuls.proof.clone(),
        linear: linear.proof.clone(),
        linear_work: linear.nonce.unwrap_or_default(),
        // Both follow.
        opening: OpeningProof::default(),
        tables: TableProof::Gkr,
    };

    // Weights and activations.
    let mut hidden = code.map(|code| HiddenProof {
        reveals: code.reveals as u32,
        digits: digits.proof,
        tape: TapeProof::default(),
    });
    let hears = code.zip(hidden.as_ref());
    let hears = hears.map(|(code, hidden)| watch.phase("check", || hear(claim, limits, &proof, code, hidden)));
    let heard = hears.transpose().map_err(ProveError::Check)?;
    let mut equations = |opening: &OpeningProof, tape: &TapeProof| {
        let heard = heard.as_ref();
        heard.map_or_else(|| Ok(Equations::default()), |heard| left(claim, heard, opening, tape))
    };
    let mut veil = secrets.map(|secrets| Veil {
        secrets,
        equations: &mut equations,
        said: TapeProof::default(),
    });
    let (opening, traffic) = watch.phase("open", || {
        let units = UnitClaim::of(shape, &batch, &linear.point, &activations)?;
        open(
            model,
            &public,
            opened,
            &families,
            (&matmuls, bands),
            (&units, &mut activations, &boundary_values, &mut boundaries),
            (veil.as_mut(), speaker),
        )
    })?;
    watch.read("open", traffic);
    let tape = veil.map(|veil| veil.said);
    for (hidden, tape) in hidden.iter_mut().zip(tape) {
        hidden.tape = tape;
    }
    proof.opening = opening;
    drop(activations);

    // Aggregator.
    proof.tables = tables.close(&relations, watch, speaker.transcript())?;

    let revealing = secrets.filter(|own| own.code().reveals > 0);
    let keep = |secrets: &Secrets| Ok::<_, DeviceError>(secrets.kept(held.take(&committed_columns(shape))?));
    let kept = revealing.map(keep).transpose()?;
    let made = Made {
        proof,
        hidden,
        kept,
        saturated: run.saturated,
    };
    Ok((made, heard))
}

/// The equations of a proof that hides activations, as the verifier has them when it has heard everything up to the folding of the opening.
fn left(
    claim: &ChunkStatement<'_>,
    heard: &Conversation<Hearing<'_>>,
    opening: &OpeningProof,
    tape: &TapeProof,
) -> Result<Equations, OpeningProverError> {
    let refused = |error: OpeningError| OpeningProverError::Equations(Box::new(error));
    let mut listener = heard.transcript.opening(Unread::of(tape));
    let claims = heard.claims(claim.key, claim.chunk);
    let value = sum_of_claims(&claims, Unread::of(opening), &mut listener).map_err(refused)?;
    listener.equations(value).map_err(|e| refused(e.into()))
}

/// Everything that is claimed of sums of columns.
fn linear_claims(
    public: &Public<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    lookups: &gkr::Proved,
    (products, hidden_rows): (&[SecureField], &[SecureField]),
) -> Vec<LinearClaim> {
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(products));
    claims.extend(public.digit_claims(products, hidden_rows));
    let powers = public.powers();
    for (number, (tree, leaf)) in trees.iter().zip(&lookups.claims).enumerate() {
        claims.extend(tree.claim(&powers, relations, number, leaf));
    }
    claims
}

/// Activations and boundaries, each with what is claimed of them.
type Held<'s, 'a, 'b> = (
    &'s UnitClaim<'s>,
    &'s mut Activations<'a>,
    &'s [BoundaryValues],
    &'s mut Boundaries<'b>,
);

/// Opens the weights that the matmuls have read, in memory that these leave, the activations where the linear claims end, and committed
/// boundaries at the random point.
fn open(
    model: &ProverModel<'_>,
    public: &Public<'_>,
    columns: OpenedColumns,
    families: &[(Product, SecureField)],
    (matmuls, bands): (&PrecomputedMatmuls, Box<dyn Bands + '_>),
    (units, activations, values, boundaries): Held<'_, '_, '_>,
    (veil, speaker): (Option<&mut Veil<'_>>, &mut dyn Speaker),
) -> Result<(OpeningProof, Traffic), OpeningProverError> {
    let log_band = columns.log_band();
    let gamma = public.band_coefficients(&matmuls.point, families, columns.bands(), log_band);
    let point = public.local_point(&matmuls.point, log_band);
    let mut committed = bands.into_committed(&model.quantised.weights, model.codeword)?;
    let weights = ProverClaim::new(&mut *committed, columns, &point, &gamma, &matmuls.band_values);
    let mut claims = vec![weights, units.claim(activations)];
    claims.extend(boundaries.claims(values));
    let proof = opening::open(&mut claims, veil, speaker)?;
    drop(claims);
    Ok((proof, committed.traffic()))
}
