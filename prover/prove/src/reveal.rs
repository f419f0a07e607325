//! Reveals ids that a proof hides (docs/protocol.md, section 17.7): the twin of the verifier's `reveal.rs`.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::shape::Part;
use tessera_circuits::wiring::suffix;
use tessera_verifier::hiding::TapeProof;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{CLAIMS, MASK};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{sum_of_claims, CommitmentName, OpeningError, OpeningProof};
use tessera_verifier::proof::Proof;
use tessera_verifier::public::unit_coefficients;
use tessera_verifier::reveal::{verify_reveal, Reveal, RevealError, Revealing};
use thiserror::Error;

use crate::bind::bind_trailing;
use crate::claims;
use crate::column::{Cells, Column};
use crate::device::{Device as _, DeviceError};
use crate::hiding::{Kept, NoRandomness, Secrets, TapeKey, Veiled};
use crate::opening::{self, CommittedUnits, Equations, OpeningProverError, ProverClaim, Veil};
use crate::speak::Speaker;
use crate::vectors::Vectors;

type K = SecureField;

/// Why no reveal was made.
#[derive(Debug, Error)]
pub enum RevealProverError {
    /// The proof hides no such ids.
    #[error(transparent)]
    Ids(RevealError),
    /// The secret is of other activations than the proof.
    #[error("the activations and masks in it are not those that the proof commits to")]
    OtherActivations,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Opening(#[from] OpeningProverError),
    /// The reveal is not true, or a verifier does not follow it.
    #[error("the reveal does not verify: {0}")]
    Check(#[source] RevealError),
}

/// Reveals these ids, by their positions in the text, ascending: prompt first, from 0 on. `bytes` are those of the proof, which must have been verified, and
/// `kept` is its secret. A reveal that leaves the caller counts, so the caller counts it before.
///
/// # Errors
/// If the proof hides no such ids, or if the secret is of another proof. A reveal that no verifier would accept is an error, too.
pub fn reveal(
    key: &ModelKey,
    proof: &Proof,
    bytes: &[u8],
    kept: &Kept,
    ids: Vec<(usize, u32)>,
) -> Result<Vec<u8>, RevealProverError> {
    let revealing = Revealing::of(key, proof, bytes, ids).map_err(RevealProverError::Ids)?;
    let tape_key = TapeKey::of_reveal(&revealing)?;
    let secrets = Secrets::draw(revealing.mask.clone(), &tape_key);
    let reveal = reveal_with_secrets(key, &revealing, kept, &secrets)?;
    let encoded = reveal.to_bytes().map_err(|e| RevealProverError::Check(e.into()))?;
    verify_reveal(key, proof, bytes, &encoded).map_err(RevealProverError::Check)?;
    Ok(encoded)
}

/// Makes a reveal with these secrets, which serve for one, and does not check it: for tests.
#[doc(hidden)]
pub fn reveal_with_secrets(
    key: &ModelKey,
    revealing: &Revealing<'_>,
    kept: &Kept,
    secrets: &Secrets,
) -> Result<Reveal, RevealProverError> {
    let suite = key.header.hash_suite;
    let (code, mask, shape) = (&revealing.code, &revealing.mask, &revealing.shape);
    let units = kept.units(code).ok_or(RevealProverError::OtherActivations)?;
    let mut activations = CommittedUnits::commit(suite, CommitmentName::Revealed, units.clone(), code.params);
    if opening::Committed::commitment(&activations).root != revealing.root() {
        return Err(RevealProverError::OtherActivations);
    }

    // The mask before any challenge.
    let blind = secrets.units(Vec::new());
    let mut masks = CommittedUnits::commit(suite, CommitmentName::Mask, blind, mask.params);
    let mut transcript = revealing.open_transcript();
    let root = opening::Committed::commitment(&masks).root;
    transcript.send(MASK, &root);
    let batch = revealing.batch(transcript.challenge(CLAIMS));

    // Claims on cells.
    let (mut speaker, device) = (Veiled::new(transcript, secrets), Vectors);
    let speaker: &mut dyn Speaker = &mut speaker;
    let columns = device.columns(claimed(kept, revealing))?;
    let linear = claims::prove(&batch, batch.value, shape, &device, &*columns, speaker)?;
    let mut reveal = Reveal {
        proof: revealing.digest(),
        ids: revealing.ids().iter().map(|(at, id)| (*at as u32, *id)).collect(),
        mask: root,
        linear: linear.proof.clone(),
        linear_work: linear.nonce.unwrap_or_default(),
        // Both follow.
        tape: TapeProof::default(),
        opening: OpeningProof::default(),
    };

    // The activations where the claims end, and nothing of the mask.
    let point = suffix(&linear.point, MIN_ROWS_LOG);
    let zero = K::default();
    let gamma = code.place(unit_coefficients(shape, &batch, &linear.point), zero, |_| zero);
    let own: Vec<Cells<'_>> = units.into_iter().take(code.columns.tiles().len()).collect();
    let values = bind_trailing(&own, point);
    let nothing = mask.place(Vec::new(), zero, |_| zero);
    let mask_values = secrets.unit_values(Vec::new(), point);
    let said = reveal.clone();
    let mut equations = |opening: &OpeningProof, tape: &TapeProof| {
        let said = Reveal {
            tape: tape.clone(),
            opening: opening.clone(),
            ..said.clone()
        };
        heard(revealing, &said)
    };
    let mut veil = Veil {
        secrets,
        equations: &mut equations,
        said: TapeProof::default(),
    };
    let mut opened = [
        ProverClaim::new(&mut activations, code.columns, point, &gamma, &values),
        ProverClaim::new(&mut masks, mask.columns, point, &nothing, &mask_values),
    ];
    reveal.opening = opening::open(&mut opened, Some(&mut veil), speaker)?;
    reveal.tape = veil.said;
    Ok(reveal)
}

/// The columns of the parts that claims are about, by part; no other columns are read.
fn claimed(kept: &Kept, revealing: &Revealing<'_>) -> Vec<Vec<Column>> {
    let shape = &revealing.shape;
    let mut columns = kept.columns().iter();
    let mut parts: Vec<Vec<Column>> = Vec::new();
    for &part in shape.parts() {
        let read = part == Part::IDS || part == Part::LOGITS;
        parts.resize_with(parts.len().max(part.index() + 1), Vec::new);
        for index in shape.committed(part) {
            let own = columns.next();
            if let Some(own) = own.filter(|_| read) {
                let to = &mut parts[part.index()];
                to.resize(to.len().max(index + 1), Column::of_integers(Vec::new()));
                to[index] = own.clone();
            }
        }
    }
    parts
}

/// The equations of a reveal, as the verifier has them when it has heard everything up to the folding of the opening.
fn heard(revealing: &Revealing<'_>, said: &Reveal) -> Result<Equations, OpeningProverError> {
    let refused = |error: RevealError| OpeningProverError::Equations(Box::new(error));
    let conversation = revealing.hear(said).map_err(refused)?;
    let said = Unread::of(said);
    let mut listener = conversation.listener.opening(said.part(|p| &p.tape));
    let claims = conversation.claims(revealing);
    let value = sum_of_claims(&claims, said.part(|p| &p.opening), &mut listener).map_err(|e| refused(e.into()))?;
    listener
        .equations(value)
        .map_err(|e| refused(OpeningError::from(e).into()))
}
