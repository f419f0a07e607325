//! Reveals (docs/protocol.md, section 17.7): a proof hides ids, and whoever made it says some of them later, with a second opening of the same commitment.
//!
//! The claims are about single cells of the committed columns: digits of ids, and the entry of the vocabulary that was chosen last. All else that the opening
//! shows is under a mask and a tape of its own, which the reveal commits to.

use serde::{Deserialize, Serialize};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::claims::{batch, Batch};
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::reveal::{check_revealed, reveal_claims, RevealedError};
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;
use tessera_circuits::wiring::suffix;
use thiserror::Error;

use crate::codec::{decode, encode, CodecError, FileKind};
use crate::hiding::{Hearing, HiddenCode, Padded, TapeProof};
use crate::key::{ModelId, ModelKey};
use crate::labels::{CLAIMS, CLAIMS_WORK, IDS, MASK, POSITIONS, PROOF, REVEALS};
use crate::ledger::reveal_ledger;
use crate::length::most_reveal_bytes;
use crate::message::{NotCanonical, Unread};
use crate::opening::{self, Claim, Commitment, CommitmentName, OpeningError, OpeningProof};
use crate::policy::{CHALLENGE_GRIND_BITS, WORKED_FOLDS};
use crate::proof::Proof;
use crate::public::{linear_variables, unit_coefficients};
use crate::suite::{Digest, Suite};
use crate::sumcheck::{self, SumcheckError, SumcheckProof};
use crate::transcript::Transcript;

/// The bytes that the digest of a proof hashes before the file.
const DIGEST_TAG: &[u8] = b"tessera proof";

/// Ids that a proof hides, with the proof that it does (docs/format.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reveal {
    /// The digest of the proof that hides them ([`proof_digest`]).
    pub proof: Digest,
    /// Positions of the text, prompt first, each with the id there; positions ascend.
    pub ids: Vec<(u32, u32)>,
    /// Root of the commitment to mask and tape.
    pub mask: Digest,
    /// The sumcheck of the claims.
    pub linear: SumcheckProof,
    /// The nonce of the proof of work before its last challenge.
    pub linear_work: u64,
    /// The messages of the opening that are about its tape.
    pub tape: TapeProof,
    /// Opening of the proof's activations, and of the mask.
    pub opening: OpeningProof,
}

impl Reveal {
    /// Decodes a reveal: bounded, canonical, no trailing bytes. Total on hostile bytes.
    ///
    /// # Errors
    /// If the bytes are no reveal.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        decode(FileKind::Reveal, bytes)
    }

    /// The canonical encoding.
    ///
    /// # Errors
    /// If it is too long, or has a field element that is not reduced.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        encode(FileKind::Reveal, self)
    }

    /// Whether these bytes are a reveal that says it is about a proof, given the suite of the key and the bytes of the proof. Nothing is verified.
    pub fn is_about(reveal: &[u8], suite: Suite, proof: &[u8]) -> bool {
        Self::from_bytes(reveal).is_ok_and(|own| own.proof == proof_digest(suite, proof))
    }

    /// The positions with their ids.
    fn pairs(&self) -> Vec<(usize, u32)> {
        let pairs = self.ids.iter();
        pairs.map(|(position, id)| (*position as usize, *id)).collect()
    }
}

/// Why a reveal is rejected.
#[derive(Debug, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RevealError {
    #[error("malformed: {0}")]
    Malformed(#[from] CodecError),
    #[error("it has more than {most} bytes, but no reveal of this model does")]
    TooLong { most: usize },
    #[error("it is about another proof")]
    OtherProof,
    #[error("the proof hides no ids")]
    NothingHidden,
    #[error("{0}")]
    Ids(#[from] RevealedError),
    #[error("the proof hides activations that are too many for a code with a tape")]
    Code,
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error("{0}")]
    Sumcheck(#[from] SumcheckError),
    #[error("opening: {0}")]
    Opening(#[from] OpeningError),
}

/// The digest to which a reveal is bound: of the bytes of the proof, by the hash of the key's suite.
pub fn proof_digest(suite: Suite, proof: &[u8]) -> Digest {
    let mut hasher = suite.hasher();
    hasher.update(DIGEST_TAG);
    hasher.update(proof);
    hasher.finalize()
}

/// The public part of a reveal: everything that both sides know before its first message.
#[derive(Clone, Debug)]
pub struct Revealing<'a> {
    key: &'a ModelKey,
    model: ModelId,
    statement: &'a Statement,
    /// The root of the proof's activations.
    root: Digest,
    digest: Digest,
    /// Positions with their ids, ascending.
    ids: Vec<(usize, u32)>,
    /// The shape of the proof's one chunk.
    pub shape: Shape,
    /// The code of its activations.
    pub code: HiddenCode,
    /// The code of mask and tape of the reveal.
    pub mask: HiddenCode,
}

impl<'a> Revealing<'a> {
    /// Of ids that a proof hides, which is encoded as `bytes`. Key and proof must have been verified.
    ///
    /// # Errors
    /// If the proof hides no ids, or not those at these positions.
    pub fn of(key: &'a ModelKey, proof: &'a Proof, bytes: &[u8], ids: Vec<(usize, u32)>) -> Result<Self, RevealError> {
        let (statement, hidden) = (&proof.statement, proof.hidden.as_ref());
        let (hidden, part) = hidden.zip(proof.chunks.first()).ok_or(RevealError::NothingHidden)?;
        if !statement.hides_ids() {
            return Err(RevealError::NothingHidden);
        }
        let chunk = Chunk::whole(key.config.layers);
        let shape = key.hidden_shape(statement.lengths());
        check_revealed(&shape, statement, &ids)?;
        let code = HiddenCode::of(key, &chunk, &shape, hidden.reveals as usize).ok_or(RevealError::Code)?;
        let mask = code.of_reveal(linear_variables(&shape)).ok_or(RevealError::Code)?;
        Ok(Self {
            key,
            model: proof.model,
            statement,
            root: part.activations,
            digest: proof_digest(key.header.hash_suite, bytes),
            ids,
            shape,
            code,
            mask,
        })
    }

    /// The positions that are revealed, with their ids.
    pub fn ids(&self) -> &[(usize, u32)] {
        &self.ids
    }

    /// The digest of the proof.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The root of the proof's activations.
    pub const fn root(&self) -> Digest {
        self.root
    }

    /// The transcript before the first message.
    pub fn open_transcript(&self) -> Transcript {
        let mut transcript = Transcript::of(self.key.header.hash_suite, REVEALS);
        let others = [CHALLENGE_GRIND_BITS, WORKED_FOLDS as u32];
        transcript.words("parameters", &[&self.mask.params.words()[..], &others].concat());
        transcript.bytes("model", &self.model.0);
        transcript.bytes(PROOF, &self.digest);
        transcript.words("hiding", &self.mask.words());
        let words = |of: fn(&(usize, u32)) -> u32| self.ids.iter().map(of).collect::<Vec<u32>>();
        transcript.words(POSITIONS, &words(|(position, _)| *position as u32));
        transcript.words(IDS, &words(|(_, id)| *id));
        transcript
    }

    /// The claims, batched with a challenge.
    pub fn batch(&self, challenge: SecureField) -> Batch {
        batch(reveal_claims(&self.shape, self.statement, &self.ids), challenge)
    }

    /// Verifies what a reveal says up to its opening.
    ///
    /// # Errors
    /// If a message is malformed.
    pub fn hear<'b>(&'b self, reveal: &'b Reveal) -> Result<Conversation<'b>, RevealError> {
        let said = Unread::of(reveal);
        let mut transcript = self.open_transcript();
        let root = *transcript.receive(MASK, said.part(|p| &p.mask))?;
        let batch = self.batch(transcript.challenge(CLAIMS));
        let mut listener = Hearing::new(transcript, &self.mask.tape);
        let (rounds, nonce) = (said.part(|p| &p.linear), said.part(|p| &p.linear_work));
        let end = sumcheck::verify(
            CLAIMS,
            batch.value.into(),
            linear_variables(&self.shape),
            rounds,
            Some((CLAIMS_WORK, nonce)),
            &mut listener,
        )?;
        let zero = SecureField::default();
        let units = unit_coefficients(&self.shape, &batch, &end.point);
        Ok(Conversation {
            listener,
            mask: root,
            gamma: [
                self.code.place(units, zero, |_| zero),
                self.mask.place(Vec::new(), zero, |_| zero),
            ],
            point: suffix(&end.point, MIN_ROWS_LOG).to_vec(),
            value: end.value,
        })
    }

    /// Bits of security of the reveal: `-log2` of the sum of all that can go wrong.
    pub fn security_bits(&self) -> f64 {
        let claims = 2 * self.ids.len();
        reveal_ledger(self.code.columns, &self.mask, claims, linear_variables(&self.shape)).bits()
    }
}

/// The state of both sides before the opening of a reveal, with the claims that the opening has to prove.
#[derive(Debug)]
pub struct Conversation<'a> {
    /// The listener after it.
    pub listener: Hearing<'a>,
    /// The root of mask and tape.
    mask: Digest,
    /// What weighs the units of activations, and those of the mask: nothing is claimed of the latter.
    gamma: [Vec<SecureField>; 2],
    point: Vec<SecureField>,
    /// The value of the claim on the activations.
    value: Padded,
}

impl Conversation<'_> {
    /// The claims that the opening proves: on the activations of the proof, and one that zero times the columns of the mask is zero.
    pub fn claims(&self, revealing: &Revealing<'_>) -> [Claim<'_, Padded>; 2] {
        let claim = |name, code: &HiddenCode, root, gamma, value| Claim {
            commitment: Commitment {
                name,
                params: code.params,
                root,
            },
            columns: code.columns,
            point: &self.point,
            gamma,
            value,
        };
        let [units, blind] = &self.gamma;
        let nothing = SecureField::default().into();
        [
            claim(
                CommitmentName::Revealed,
                &revealing.code,
                revealing.root,
                units,
                self.value.clone(),
            ),
            claim(CommitmentName::Mask, &revealing.mask, self.mask, blind, nothing),
        ]
    }
}

/// The content of an accepted reveal.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundIds {
    /// Positions, each with the id that the proof hides there.
    pub ids: Vec<(usize, u32)>,
    /// Bits of security of the reveal alone.
    pub security_bits: f64,
}

/// Verifies an encoded reveal of ids that a proof hides, which was verified and is encoded as `bytes`. Total on hostile bytes.
///
/// # Errors
/// If the reveal is not one of the proof, or not true.
pub fn verify_reveal(key: &ModelKey, proof: &Proof, bytes: &[u8], reveal: &[u8]) -> Result<FoundIds, RevealError> {
    let most = most_reveal_bytes(key);
    if reveal.len() > most {
        return Err(RevealError::TooLong { most });
    }
    let reveal = Reveal::from_bytes(reveal)?;
    if reveal.proof != proof_digest(key.header.hash_suite, bytes) {
        return Err(RevealError::OtherProof);
    }
    let revealing = Revealing::of(key, proof, bytes, reveal.pairs())?;
    let said = revealing.hear(&reveal)?;
    let claims = said.claims(&revealing);
    let reveal = Unread::of(&reveal);
    let mut listener = said.listener.opening(reveal.part(|p| &p.tape));
    opening::verify(&claims, reveal.part(|p| &p.opening), &mut listener)?;
    Ok(FoundIds {
        security_bits: revealing.security_bits(),
        ids: revealing.ids,
    })
}
