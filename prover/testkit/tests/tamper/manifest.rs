//! The tamper manifest: for every place in a proof and everything that can be done to it, the error.

use stwo::core::fields::m31::P;
use tessera_circuits::chunk::{BoundaryError, ChunkError};
use tessera_circuits::statement::StatementError;
use tessera_circuits::statistics::StatisticsError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::gkr::{GkrError, GroupProof};
use tessera_verifier::labels::{CLAIMS_WORK, COLUMN_WORK, FOLD_WORK, LOOKUP_WORK, POINTS_WORK, SUM_WORK};
use tessera_verifier::listen::TapeError;
use tessera_verifier::opening::parts::{parts_of, ProofParts};
use tessera_verifier::opening::{CommitmentName, OpeningError, TreeName};
use tessera_verifier::policy::{OPENING_GRIND_BITS, STARK_LOG_LAST_LAYER};
use tessera_verifier::proof::TableProof;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::VerifyError;

use crate::hidden;
use crate::tree::{Op, Pattern};

/// Places, an operation on them, and how the verifier must answer.
pub struct Row {
    pub places: Pattern,
    pub op: Op,
    expected: Box<dyn Fn(&VerifyError) -> bool>,
    /// The expected error as it is written in the manifest.
    pub text: &'static str,
    /// What may be found in place of the expected error, by chance.
    other: Option<fn(&VerifyError) -> bool>,
}

impl Row {
    pub fn new(places: &str, op: Op, text: &'static str, expected: impl Fn(&VerifyError) -> bool + 'static) -> Self {
        Self {
            places: Pattern(places.to_owned()),
            op,
            expected: Box::new(expected),
            text,
            other: None,
        }
    }

    /// Is this the error of the row itself?
    pub fn is_expected(&self, error: &VerifyError) -> bool {
        (self.expected)(error)
    }

    /// May chance lead to another error than the expected one?
    pub fn depends_on_chance(&self) -> bool {
        self.other.is_some()
    }

    /// Its places without the number of their chunk.
    pub fn within_chunk(&self) -> &str {
        self.places.0.split_once("].").map_or(&self.places.0, |(_, rest)| rest)
    }

    /// The same row for a proof that hides activations. The folding proves all equations between messages there, so the verifier finds a broken one in the
    /// folding, and no earlier.
    pub fn when_hidden(self) -> Self {
        let equations = ["GkrError::Layer", "VerifyError::Matmuls", "OpeningError::BandClaim"];
        let folds: fn(&VerifyError) -> bool = |e| matches!(e, VerifyError::Opening(OpeningError::FoldClaim));
        match (&self.other, equations.iter().any(|own| self.text.contains(own))) {
            (Some(_), _) => Self {
                other: Some(folds),
                ..self
            },
            (None, true) => Self::new(&self.places.0, self.op, "OpeningError::FoldClaim", folds),
            (None, false) => self,
        }
    }

    /// Does the row allow this error?
    pub fn allows(&self, error: &VerifyError) -> bool {
        self.is_expected(error) || self.other.is_some_and(|other| other(error))
    }
}

/// One row: operation, places, pattern of the error.
macro_rules! row {
    ($op:ident $places:expr => $error:pat $(if $guard:expr)?) => {
        Row::new($places.as_ref(), Op::$op, stringify!($error $(if $guard)?), move |e| matches!(e, $error $(if $guard)?))
    };
}
pub(crate) use row;

/// The rows of a sequence whose length follows from statement and key: one entry less, one more, none. The
/// error names what it is, as [`length`] does, and both lengths.
pub fn lengths(places: &str, name: impl Into<String>) -> [Row; 3] {
    let name = name.into();
    let row = |op, fits: fn(usize, usize) -> bool| {
        let name = name.clone();
        Row::new(places, op, "a wrong length, by name", move |error| {
            length(error).is_some_and(|(what, got, expected)| what == name && fits(got, expected))
        })
    };
    [
        row(Op::Truncate, |got, expected| got + 1 == expected),
        row(Op::Extend, |got, expected| got == expected + 1),
        row(Op::Empty, |got, expected| got == 0 && expected > 0),
    ]
}

/// What has a wrong length according to an error, what it has and what it should have.
fn length(error: &VerifyError) -> Option<(String, usize, usize)> {
    let (what, got, expected) = match error {
        VerifyError::Products { got, expected } => ("products".to_owned(), got, expected),
        VerifyError::Digits { got, expected } => ("digits".to_owned(), got, expected),
        VerifyError::Boundaries(BoundaryError::Length { index, got, expected }) => {
            (format!("boundary {index}"), got, expected)
        }
        VerifyError::Sumcheck(SumcheckError::Rounds { label, got, expected }) => {
            (format!("sumcheck: {label}"), got, expected)
        }
        VerifyError::Opening(error) => return opening_length(error),
        VerifyError::Stark(StarkError::Length { what, got, expected }) => (format!("stark: {what}"), got, expected),
        VerifyError::Gkr(GkrError::Groups { got, expected }) => ("lookups: groups".to_owned(), got, expected),
        VerifyError::Gkr(GkrError::Trees { got, expected, .. }) => ("lookups: trees".to_owned(), got, expected),
        VerifyError::Gkr(GkrError::Children { got, expected, .. }) => ("lookups: children".to_owned(), got, expected),
        VerifyError::Gkr(GkrError::Layers { got, expected, .. }) => ("lookups: layers".to_owned(), got, expected),
        VerifyError::Gkr(GkrError::Rounds { got, layer, .. }) => ("lookups: rounds".to_owned(), got, layer),
        _ => return None,
    };
    Some((what, *got, *expected))
}

/// The same of an opening.
fn opening_length(error: &OpeningError) -> Option<(String, usize, usize)> {
    match error {
        OpeningError::Length { what, got, expected } => Some((format!("opening: {what}"), *got, *expected)),
        OpeningError::Tape(TapeError::Answers { got, expected }) => {
            Some(("opening: answers".to_owned(), *got, *expected))
        }
        OpeningError::OpenedValues { tree, got, expected } => Some((format!("opening: {tree}"), *got, *expected)),
        _ => None,
    }
}

/// A change that stwo's verifier finds, with its message.
fn stwo(places: &str, op: Op, message: impl Into<String>) -> Row {
    let message = message.into();
    Row::new(
        places,
        op,
        "VerifyError::Stark(StarkError::Invalid(the message of the row))",
        move |e| matches!(e, VerifyError::Stark(StarkError::Invalid(m)) if *m == message),
    )
}

/// A change of something that the transcript absorbs before the query positions are drawn. Some of these may coincide that did not, or
/// no longer; then the number of answers is wrong before anything else is.
fn redrawn(row: Row) -> Row {
    let answers = |e: &VerifyError| matches!(e, VerifyError::Stark(StarkError::Length { what, .. }) if *what == "answers of a column");
    Row {
        other: Some(answers),
        ..row
    }
}

/// A nonce of the proof of work before a challenge, which was changed. Some nonce of 256 has the work, too: then `other` finds the
/// other challenge.
pub fn nonce(place: &str, label: &'static str, other: fn(&VerifyError) -> bool) -> [Row; 2] {
    let missing = move |e: &VerifyError| match e {
        VerifyError::Work(own) => own.work.label == label,
        VerifyError::Sumcheck(SumcheckError::Work(own)) => own.work.label == label,
        VerifyError::Opening(OpeningError::Work(own) | OpeningError::Tape(TapeError::Work(own))) => {
            own.work.label == label
        }
        _ => false,
    };
    [Op::Change, Op::Modulus].map(|op| Row {
        other: Some(other),
        ..Row::new(place, op, "NoWork with the label of the place", missing)
    })
}

const WORK: &str = "Proof of work verification failed.";
const ROOT: &str = "Root mismatch.";
const OODS: &str = "The composition polynomial OODS value does not match the trace OODS values
    (DEEP-ALI failure).";

/// All rows; where two of them match, the first one counts.
pub fn rows(proof: &Proof) -> Vec<Row> {
    if proof.hidden.is_some() {
        return hidden::rows(proof);
    }
    let mut rows = statement();
    rows.extend(chain(proof.boundaries.len()));
    for (i, own) in proof.chunks.iter().enumerate() {
        rows.extend(of_chunk(own).into_iter().map(|mut row| {
            row.places.0 = format!("chunks[{i}].{}", row.places.0);
            row
        }));
    }
    rows
}

/// The rows of the proof of a chunk.
pub fn of_chunk(proof: &ChunkProof) -> Vec<Row> {
    let mut rows = clips(proof);
    rows.extend(lookups(&proof.lookups));
    rows.extend(sumchecks());
    // The root of the activations is absorbed before the first challenge.
    rows.push(row!(Change "activations" => VerifyError::Gkr(GkrError::Layer { .. })));
    rows.extend(nonce("lookup_work", LOOKUP_WORK.label, |e| {
        matches!(e, VerifyError::Gkr(GkrError::Layer { .. }))
    }));
    rows.extend(nonce("points_work", POINTS_WORK.label, |e| {
        matches!(e, VerifyError::Matmuls)
    }));
    // The challenges of the band sumcheck are others then: their own work is missing, or the claim is another one.
    rows.extend(nonce("linear_work", CLAIMS_WORK.label, |e| {
        let work = |own: &VerifyError| matches!(own, VerifyError::Opening(OpeningError::Work(own)) if own.work.label == COLUMN_WORK);
        band_claim(e) || work(e)
    }));
    rows.extend(opening(parts_of(&proof.opening)));
    if let TableProof::Stark(tables) = &proof.tables {
        // One sum, which is in one equation with the sums of the lookups.
        rows.push(row!(Change "tables.Stark.claimed_sum" => VerifyError::Stark(StarkError::Lookups)));
        rows.extend(stark());
        rows.extend(samples());
        rows.extend(answers());
        rows.extend(fri(tables.stark.fri_proof.inner_layers.len()));
    }
    let of_tables = proof.tables.stark().is_some();
    rows.extend(
        fields()
            .into_iter()
            .filter(|row| of_tables || !row.places.0.starts_with("tables.")),
    );
    rows
}

/// What is proved. The transcript absorbs it first, so every other challenge is drawn, and the first check
/// against a challenge fails.
fn statement() -> Vec<Row> {
    vec![
        row!(Change "model" => VerifyError::OtherModel { .. }),
        row!(Change "statement.prompt[*]" => VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Modulus "statement.prompt[*]" => VerifyError::Statement(StatementError::UnknownToken { id: P, .. })),
        row!(Truncate "statement.prompt" => VerifyError::Boundaries(BoundaryError::Length { .. })),
        row!(Extend "statement.prompt" => VerifyError::Boundaries(BoundaryError::Length { .. })),
        row!(Empty "statement.prompt" => VerifyError::Statement(StatementError::EmptyPrompt)),
        row!(Change "statement.output[*]" => VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Modulus "statement.output[*]" => VerifyError::Statement(StatementError::UnknownToken { id: P, .. })),
        row!(Truncate "statement.output" => VerifyError::Boundaries(BoundaryError::Length { .. })),
        row!(Extend "statement.output" => VerifyError::Boundaries(BoundaryError::Length { .. })),
        row!(Empty "statement.output" => VerifyError::Statement(StatementError::EmptyOutput)),
    ]
}

/// What holds the chunks together. The transcripts of both neighbours absorb a boundary.
fn chain(boundaries: usize) -> Vec<Row> {
    let mut rows = vec![
        row!(Change "chunks[*].layers" => VerifyError::Chunks(ChunkError::Layers { .. } | ChunkError::Empty { .. })),
        row!(Modulus "chunks[*].layers" => VerifyError::Chunks(ChunkError::Layers { .. })),
        row!(Truncate "chunks" => VerifyError::Chunks(ChunkError::Layers { .. })),
        row!(Extend "chunks" => VerifyError::Chunks(ChunkError::Layers { .. })),
        row!(Empty "chunks" => VerifyError::Chunks(ChunkError::Layers { got: 0, .. })),
        row!(Truncate "boundaries" => VerifyError::Boundaries(BoundaryError::Number { .. })),
        row!(Extend "boundaries" => VerifyError::Boundaries(BoundaryError::Number { .. })),
        row!(Empty "boundaries" => VerifyError::Boundaries(BoundaryError::Number { got: 0, .. })),
    ];
    for i in 0..boundaries {
        let (own, values) = (format!("boundaries[{i}]"), format!("boundaries[{i}][*]"));
        rows.push(row!(Change values => VerifyError::Gkr(GkrError::Layer { .. })));
        // Without values it is one that is committed to, with what follows as its root.
        let of_values = lengths(&own, format!("boundary {i}"));
        rows.extend(of_values.into_iter().filter(|row| row.op != Op::Empty));
        rows.push(row!(Empty own => VerifyError::Malformed(_)));
    }
    rows
}

/// Clipped values, of a chunk that has some: a list of another order or range is none, and any other list draws other points.
fn clips(proof: &ChunkProof) -> Vec<Row> {
    if proof.statistics.clips.is_empty() {
        return Vec::new();
    }
    type E = StatisticsError;
    vec![
        row!(Change "statistics.clips[*].part" => VerifyError::Statistics(E::ClipPlace { .. } | E::ClipRange { .. }) | VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Change "statistics.clips[*].tensor" => VerifyError::Statistics(E::ClipPlace { .. } | E::ClipRange { .. }) | VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Change "statistics.clips[*].at" => VerifyError::Statistics(E::ClipPlace { .. } | E::ClipRange { .. }) | VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Modulus "statistics.clips[*].at" => VerifyError::Statistics(E::ClipPlace { .. })),
        row!(Change "statistics.clips[*].excess" => VerifyError::Statistics(E::ClipRange { .. }) | VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Modulus "statistics.clips[*].excess" => VerifyError::Statistics(E::ClipRange { excess: i32::MAX, .. })),
        row!(Truncate "statistics.clips" => VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Extend "statistics.clips" => VerifyError::Statistics(E::ClipPlace { .. })),
        row!(Empty "statistics.clips" => VerifyError::Gkr(GkrError::Layer { .. })),
    ]
}

/// The sums of lookups in some groups of trees: every message is in an equation with the next one.
fn lookups(groups: &[GroupProof]) -> Vec<Row> {
    let mut rows = vec![
        row!(Change "lookups[*].roots[*]" => VerifyError::Gkr(GkrError::Layer { .. } | GkrError::ZeroDenominator { .. })),
        row!(Change "lookups[*].layers[*].rounds[*]" => VerifyError::Gkr(GkrError::Layer { .. })),
        row!(Change "lookups[*].layers[*].children[*]" => VerifyError::Gkr(GkrError::Layer { .. })),
    ];
    // One less than one is none.
    let mut more = |length: usize, place: &str, name: &str| {
        let number = lengths(place, name).into_iter();
        rows.extend(number.filter(|row| length > 1 || row.op != Op::Truncate));
    };
    let trees = groups.iter().map(|group| group.roots.len()).max().unwrap_or(0);
    more(groups.len(), "lookups", "lookups: groups");
    more(trees, "lookups[*].roots", "lookups: trees");
    more(trees, "lookups[*].layers[*].children", "lookups: children");
    rows.extend(lengths("lookups[*].layers", "lookups: layers"));
    rows.extend(lengths("lookups[*].layers[*].rounds", "lookups: rounds"));
    rows
}

fn sumchecks() -> Vec<Row> {
    let mut rows = vec![
        row!(Change "matmuls.claim" => VerifyError::Matmuls),
        row!(Change "matmuls.operands[*]" => VerifyError::Matmuls),
        row!(Change "matmuls.sumcheck.rounds[*]" => VerifyError::Matmuls),
        // What the rounds end in is claimed of the activations; both openings have the challenges that follow from the rounds.
        row!(Change "linear.rounds[*]" => VerifyError::Opening(OpeningError::BandClaim { .. })),
    ];
    rows.extend(lengths("matmuls.operands", "products"));
    rows.extend(lengths("matmuls.sumcheck.rounds", "sumcheck: matmuls"));
    rows.extend(lengths("linear.rounds", "sumcheck: claims"));
    rows
}

/// What an opening is about, in its order.
const NAMES: [CommitmentName; 2] = [CommitmentName::Weights, CommitmentName::Activations];

/// Either opening has the challenges that follow from the rounds before it.
fn band_claim(error: &VerifyError) -> bool {
    matches!(error, VerifyError::Opening(OpeningError::BandClaim { .. }))
}

/// The rows of the opening.
fn opening(proof: &ProofParts) -> Vec<Row> {
    let row = |place: &str, op, text, expected: fn(&OpeningError) -> bool| {
        Row::new(&format!("opening.{place}"), op, text, move |e| match e {
            VerifyError::Opening(own) => expected(own),
            _ => false,
        })
    };
    let fold = |e: &OpeningError| matches!(e, OpeningError::FoldClaim);
    let work = |e: &OpeningError| matches!(e, OpeningError::Work(own) if own.work.bits == OPENING_GRIND_BITS);
    let (fold_text, work_text) = ("OpeningError::FoldClaim", "OpeningError::Work");
    let mut rows = vec![
        row("cross_values[*]", Op::Change, fold_text, fold),
        row("fold_rounds[*]", Op::Change, fold_text, fold),
        row("roots[*]", Op::Change, fold_text, fold),
        row("final_message[*]", Op::Change, fold_text, fold),
        row("nonce", Op::Change, work_text, work),
        row("nonce", Op::Modulus, work_text, work),
    ];
    let folds = |e: &VerifyError| matches!(e, VerifyError::Opening(OpeningError::FoldClaim));
    rows.extend(nonce("opening.sum_work", SUM_WORK, folds));
    rows.extend(nonce("opening.fold_work[*]", FOLD_WORK, folds));
    for (i, code) in proof
        .codes
        .iter()
        .enumerate()
        .filter(|(_, code)| !code.column_work.is_empty())
    {
        let place = format!("opening.codes[{i}].column_work");
        rows.extend(nonce(&format!("{place}[*]"), COLUMN_WORK, band_claim));
        let one = code.column_work.len() == 1;
        let number = lengths(&place, "opening: work before weights of columns").into_iter();
        // One less than one is none.
        rows.extend(number.filter(|row| !one || row.op != Op::Truncate));
    }
    for (i, commitment) in NAMES.into_iter().enumerate() {
        for place in ["band_rounds[*]", "band_value"] {
            let error = VerifyError::Opening(OpeningError::BandClaim { commitment });
            let text = "OpeningError::BandClaim of the commitment";
            rows.push(Row::new(
                &format!("opening.codes[{i}].{place}"),
                Op::Change,
                text,
                move |e| e.to_string() == error.to_string(),
            ));
        }
        rows.extend(lengths(
            &format!("opening.codes[{i}].band_rounds"),
            "opening: band sumcheck",
        ));
    }
    for (places, name) in [
        ("codes", "openings of claims"),
        ("cross_values", "cross values"),
        ("fold_rounds", "folding sumcheck"),
        ("fold_work", "work before folds"),
        ("roots", "roots of folded oracles"),
        ("final_message", "final message"),
        ("oracles", "opened folded oracles"),
    ] {
        rows.extend(lengths(&format!("opening.{places}"), format!("opening: {name}")));
    }
    let rows_of = |(i, name)| (format!("codes[{i}].rows"), TreeName::Committed(name));
    let mut trees: Vec<_> = NAMES.into_iter().enumerate().map(rows_of).collect();
    trees.extend((0..proof.oracles.len()).map(|i| (format!("oracles[{i}]"), TreeName::Oracle(i))));
    for (name, tree) in trees {
        rows.extend(opened(&format!("opening.{name}"), tree));
        rows.extend(lengths(&format!("opening.{name}.values"), format!("opening: {tree}")));
    }
    rows
}

/// Opened leaves of one tree, and their paths.
fn opened(name: &str, tree: TreeName) -> Vec<Row> {
    type E = OpeningError;
    let row = |place: &str, op, text, expected: E| {
        Row::new(&format!("{name}.{place}"), op, text, move |e| match e {
            VerifyError::Opening(own) => *own == expected,
            _ => false,
        })
    };
    let root = "OpeningError::Root";
    vec![
        row("values[*]", Op::Change, root, E::Root { tree }),
        row("path[*]", Op::Change, root, E::Root { tree }),
        row(
            "path",
            Op::Truncate,
            "OpeningError::PathTooShort",
            E::PathTooShort { tree },
        ),
        row(
            "path",
            Op::Extend,
            "OpeningError::PathTooLong",
            E::PathTooLong { tree, unused: 1 },
        ),
        row(
            "path",
            Op::Empty,
            "OpeningError::PathTooShort",
            E::PathTooShort { tree },
        ),
    ]
}

/// Configuration, commitments, work.
fn stark() -> Vec<Row> {
    let mut rows = Vec::new();
    for name in [
        "pow_bits",
        "lifting_log_size",
        "fri_config.log_blowup_factor",
        "fri_config.log_last_layer_degree_bound",
        "fri_config.n_queries",
        "fri_config.fold_step",
    ] {
        let places = format!("tables.Stark.stark.config.{name}");
        rows.push(row!(Change places => VerifyError::Stark(StarkError::Config)));
        rows.push(row!(Modulus places => VerifyError::Stark(StarkError::Config)));
    }
    rows.extend([
        row!(Change "tables.Stark.stark.commitments[0]" => VerifyError::Stark(StarkError::Tables)),
        // The multiplicities: other challenges.
        row!(Change "tables.Stark.stark.commitments[1]" => VerifyError::Gkr(GkrError::Layer { .. })),
        // Interaction and composition: another out-of-domain point, where the samples do not fit each other.
        redrawn(stwo("tables.Stark.stark.commitments[2]", Op::Change, OODS)),
        redrawn(stwo("tables.Stark.stark.commitments[3]", Op::Change, OODS)),
        redrawn(stwo("tables.Stark.stark.proof_of_work", Op::Change, WORK)),
        redrawn(stwo("tables.Stark.stark.proof_of_work", Op::Modulus, WORK)),
    ]);
    rows.extend(lengths("tables.Stark.stark.commitments", "stark: commitments"));
    rows
}

/// Out-of-domain samples, all of which are in one equation with the composition polynomial.
fn samples() -> Vec<Row> {
    let mut rows = vec![redrawn(stwo(
        "tables.Stark.stark.sampled_values[*][*][*]",
        Op::Change,
        OODS,
    ))];
    for (places, name) in [
        ("tables.Stark.stark.sampled_values", "sampled trees"),
        ("tables.Stark.stark.sampled_values[*]", "sampled columns"),
        ("tables.Stark.stark.sampled_values[*][*]", "samples of a column"),
    ] {
        rows.extend(lengths(places, format!("stark: {name}")));
    }
    rows
}

/// Answers to the queries, and their Merkle paths.
fn answers() -> Vec<Row> {
    let witness = "tables.Stark.stark.decommitments[*].hash_witness";
    let mut rows = vec![
        stwo("tables.Stark.stark.queried_values[*][*][*]", Op::Change, ROOT),
        stwo("tables.Stark.stark.decommitments[*].hash_witness[*]", Op::Change, ROOT),
        stwo(witness, Op::Truncate, "Witness is too short."),
        stwo(witness, Op::Extend, "Witness is too long."),
        stwo(witness, Op::Empty, "Witness is too short."),
    ];
    for (places, name) in [
        ("tables.Stark.stark.decommitments", "decommitments"),
        ("tables.Stark.stark.queried_values", "queried trees"),
        ("tables.Stark.stark.queried_values[*]", "queried columns"),
        ("tables.Stark.stark.queried_values[*][*]", "answers of a column"),
    ] {
        rows.extend(lengths(places, format!("stark: {name}")));
    }
    rows
}

fn fri(inner_layers: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut layers = vec![("first_layer".to_owned(), "the first layer".to_owned())];
    layers.extend((0..inner_layers).map(|i| (format!("inner_layers[{i}]"), format!("inner layer {i}"))));
    for (field, name) in layers {
        let commitment = format!("tables.Stark.stark.fri_proof.{field}.commitment");
        let witness = format!("tables.Stark.stark.fri_proof.{field}.fri_witness");
        let path = format!("tables.Stark.stark.fri_proof.{field}.decommitment.hash_witness");
        let unresolved = format!("queries do not resolve to their commitment in {name}");
        let invalid = format!("evaluations are invalid in {name}");
        rows.push(redrawn(stwo(&commitment, Op::Change, WORK)));
        rows.push(stwo(&format!("{witness}[*]"), Op::Change, &unresolved));
        rows.push(stwo(&format!("{path}[*]"), Op::Change, &unresolved));
        for op in [Op::Truncate, Op::Extend, Op::Empty] {
            rows.push(stwo(&witness, op, &invalid));
            rows.push(stwo(&path, op, &unresolved));
        }
    }
    for op in [Op::Truncate, Op::Extend, Op::Empty] {
        rows.push(Row::new(
            "tables.Stark.stark.fri_proof.inner_layers",
            op,
            "VerifyError::Stark(StarkError::Fri(number of layers))",
            |e| matches!(e, VerifyError::Stark(StarkError::Fri(m)) if m == "proof contains an invalid number of FRI layers"),
        ));
    }
    const LAST: usize = 1 << STARK_LOG_LAST_LAYER;
    const LESS: usize = LAST - 1;
    const MORE: usize = LAST + 1;
    let last = "tables.Stark.stark.fri_proof.last_layer_poly";
    let (coefficients, size) = (format!("{last}.coeffs"), format!("{last}.log_size"));
    type E = CodecError;
    rows.extend([
        redrawn(stwo(&format!("{coefficients}[*]"), Op::Change, WORK)),
        row!(Truncate coefficients => VerifyError::Malformed(E::LastLayer { coefficients: LESS })),
        row!(Extend coefficients => VerifyError::Malformed(E::LastLayer { coefficients: MORE })),
        row!(Empty coefficients => VerifyError::Malformed(E::LastLayer { coefficients: 0 })),
        row!(Change size => VerifyError::Malformed(E::LastLayer { coefficients: LAST })),
        row!(Modulus size => VerifyError::Malformed(E::LastLayer { coefficients: LAST })),
    ]);
    rows
}

/// Field elements that are not reduced. Every field element is listed, so that a new one needs a row.
fn fields() -> Vec<Row> {
    [
        "lookups[*].roots[*]",
        "lookups[*].layers[*].rounds[*]",
        "lookups[*].layers[*].children[*]",
        "matmuls.claim",
        "matmuls.operands[*]",
        "matmuls.sumcheck.rounds[*]",
        "linear.rounds[*]",
        "tables.Stark.claimed_sum",
        "opening.codes[*].band_rounds[*]",
        "opening.codes[*].band_value",
        "opening.codes[*].rows.values[*]",
        "opening.cross_values[*]",
        "opening.fold_rounds[*]",
        "opening.final_message[*]",
        "opening.oracles[*].values[*]",
        "tables.Stark.stark.sampled_values[*][*][*]",
        "tables.Stark.stark.queried_values[*][*][*]",
        "tables.Stark.stark.fri_proof.first_layer.fri_witness[*]",
        "tables.Stark.stark.fri_proof.inner_layers[*].fri_witness[*]",
        "tables.Stark.stark.fri_proof.last_layer_poly.coeffs[*]",
    ]
    .into_iter()
    .map(|places| row!(Modulus places => VerifyError::Malformed(CodecError::NonCanonicalField { value: P })))
    .collect()
}
