//! The randomness of a proof that hides activations (docs/protocol.md, section 17): blind units, the mask, and the tape whose entries are the pads.
//!
//! It is drawn anew for every proof and every reveal, and overwritten when this is made; it lives in memory only, unless a proof leaves room for reveals ([`Kept`]). No option, file or variable of the environment chooses it; functions for tests do ([`Secrets::of`], [`Rehearsal`]).

mod kept;
mod rehearsal;

use blake2::{Blake2s256, Digest as _};
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::statement::Statement;
use tessera_verifier::hiding::{HiddenCode, TapeProducts};
use tessera_verifier::listen::{evaluate, Form};
use tessera_verifier::reveal::Revealing;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::ChunkStatement;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use crate::bind::bind_trailing;
use crate::column::{Cells, Column};
use crate::speak::Speaker;

pub use self::kept::{Kept, KeptOnce};
pub use self::rehearsal::{Record, Rehearsal, Script};

type K = SecureField;

/// Values of a unit.
const UNIT: usize = 1 << MIN_ROWS_LOG;
/// Coordinates of an element of the extension field.
const COORDINATES: usize = 4;
/// The number of the stream of the first coordinate of the mask; blind units have those from zero on.
const MASK_STREAM: u64 = 1 << 32;

/// The operating system has no randomness.
#[derive(Clone, Debug, Error)]
#[error("the operating system gives no random bytes, without which nothing can be hidden: {0}")]
pub struct NoRandomness(getrandom::Error);

/// The key of the streams of one proof.
pub struct TapeKey(Zeroizing<[u8; 32]>);

impl TapeKey {
    /// A fresh key: of the operating system's randomness, and of what is proved, so that a machine that was copied with its randomness still has another key for
    /// another statement, or for another number of reveals. Activations follow from the model and from `witness`, the statement with the ids that the claim
    /// hides; and all that the transcript says beside them of the code is in `code`.
    pub fn fresh(claim: &ChunkStatement<'_>, witness: &Statement, code: &HiddenCode) -> Result<Self, NoRandomness> {
        let mut hasher = of_system()?;
        hasher.update(claim.model.0);
        let (hidden, all) = (claim.statement, witness);
        for ids in [&hidden.prompt, &hidden.output, &all.prompt, &all.output] {
            hasher.update((ids.len() as u64).to_le_bytes());
            ids.iter().for_each(|id| hasher.update(id.to_le_bytes()));
        }
        hasher.update(claim.context.as_ref().map_or(&[0; 32], |context| context.bytes()));
        code.words().iter().for_each(|word| hasher.update(word.to_le_bytes()));
        hasher.update(env!("CARGO_PKG_VERSION"));
        Ok(Self(Zeroizing::new(hasher.finalize().into())))
    }

    /// A fresh key for a reveal: of the operating system's randomness, and of what is revealed.
    pub fn of_reveal(revealing: &Revealing<'_>) -> Result<Self, NoRandomness> {
        let mut hasher = of_system()?;
        hasher.update(b"reveal");
        hasher.update(revealing.digest());
        for (position, id) in revealing.ids() {
            hasher.update((*position as u64).to_le_bytes());
            hasher.update(id.to_le_bytes());
        }
        hasher.update(env!("CARGO_PKG_VERSION"));
        Ok(Self(Zeroizing::new(hasher.finalize().into())))
    }

    /// A key that is no secret, for tests, which make the same proof twice.
    #[doc(hidden)]
    pub fn of_test(seed: u8) -> Self {
        Self(Zeroizing::new([seed; 32]))
    }

    /// Uniform elements of one of the streams.
    fn draw(&self, stream: u64, count: usize) -> Vec<BaseField> {
        let mut random = ChaCha20Rng::from_seed(*self.0);
        random.set_stream(stream);
        // 31 bits are below the order, or the order itself, which is drawn again.
        let mut element = || loop {
            let word = random.next_u32() >> 1;
            if word != P {
                return BaseField::from_u32_unchecked(word);
            }
        };
        (0..count).map(|_| element()).collect()
    }
}

/// A hash that has absorbed fresh randomness of the operating system.
fn of_system() -> Result<Blake2s256, NoRandomness> {
    let mut random = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *random).map_err(NoRandomness)?;
    let mut hasher = Blake2s256::new();
    hasher.update(b"tessera tape");
    hasher.update(*random);
    Ok(hasher)
}

/// The secrets of a proof that hides activations.
pub struct Secrets {
    code: HiddenCode,
    /// The last unit of each column.
    blind: Vec<Column>,
    /// Coordinates of a message over the extension field: its even coefficients are the mask, its odd ones the tape.
    coordinates: [Column; COORDINATES],
    mask: Vec<K>,
    tape: Vec<K>,
    empty: Column,
    /// The changes that a test makes to the proof; only tests make any.
    rehearsal: Option<Rehearsal>,
}

impl Secrets {
    /// Draws all secrets, and calculates the scalars of products on the tape.
    pub fn draw(code: HiddenCode, key: &TapeKey) -> Self {
        let columns = code.columns.tiles().len() / code.columns.column_tiles();
        let blind = (0..columns as u64).map(|column| key.draw(column, UNIT));
        let length = code.columns.column_tiles() * UNIT;
        let coordinates: [Vec<BaseField>; COORDINATES] =
            std::array::from_fn(|coordinate| key.draw(MASK_STREAM + coordinate as u64, length));
        Self::of(code, blind.collect(), coordinates)
    }

    /// The secrets of these uniform values; the scalars of products take the place of some of them.
    pub fn of(code: HiddenCode, blind: Vec<Vec<BaseField>>, mut coordinates: [Vec<BaseField>; COORDINATES]) -> Self {
        let length = coordinates[0].len();
        let element = |coordinates: &[Vec<BaseField>; COORDINATES], at: usize| {
            K::from_m31_array(std::array::from_fn(|coordinate| coordinates[coordinate][at]))
        };
        let half = |odd: usize| -> Vec<K> {
            let all = (odd..length).step_by(2);
            all.map(|at| element(&coordinates, at)).collect()
        };
        let [mask, mut tape] = [0, 1].map(half);
        for products in &code.tape.products {
            fill(products, &mut tape);
        }
        for (at, value) in tape.iter().enumerate() {
            let words = value.to_m31_array();
            for (coordinate, word) in coordinates.iter_mut().zip(words) {
                coordinate[2 * at + 1] = word;
            }
        }
        Self {
            blind: blind.into_iter().map(Column::Elements).collect(),
            coordinates: coordinates.map(Column::Elements),
            mask,
            tape,
            empty: Column::of_integers(vec![0; UNIT]),
            rehearsal: None,
            code,
        }
    }

    /// Rehearses a proof: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn rehearsing(mut self, rehearsal: Rehearsal) -> Self {
        self.rehearsal = Some(rehearsal);
        self
    }

    /// The changes that a test makes to the proof, if a test makes it.
    pub(crate) const fn rehearsal(&self) -> Option<&Rehearsal> {
        self.rehearsal.as_ref()
    }

    /// Replaces an entry of the tape by a value that does not fit the others, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_entry(mut self, entry: usize, value: K) -> Self {
        self.tape[entry] = value;
        for (column, word) in self.coordinates.iter_mut().zip(value.to_m31_array()) {
            if let Column::Elements(cells) = column {
                cells[2 * entry + 1] = word;
            }
        }
        self
    }

    /// The code of the activations.
    pub const fn code(&self) -> &HiddenCode {
        &self.code
    }

    /// All units that are committed to: the units of the activations with the blind ones among them, then the units of mask and tape.
    pub fn units<'a>(&'a self, units: Vec<Cells<'a>>) -> Vec<Cells<'a>> {
        let own = self
            .code
            .place(units, self.empty.cells(), |column| self.blind[column].cells());
        let coordinates = self.coordinates.iter().flat_map(|column| column.cells().chunks(UNIT));
        own.into_iter().chain(coordinates).collect()
    }

    /// The values of all units of activations, blind ones among them, at a point of a unit.
    pub fn unit_values(&self, values: Vec<K>, point: &[K]) -> Vec<K> {
        let blind: Vec<Cells<'_>> = self.blind.iter().map(Column::cells).collect();
        let blind = bind_trailing(&blind, point);
        self.code.place(values, K::default(), |column| blind[column])
    }

    /// The even coefficients, which make the folded word uniform.
    pub fn mask(&self) -> &[K] {
        &self.mask
    }

    /// The odd coefficients.
    pub fn tape(&self) -> &[K] {
        &self.tape
    }

    /// The answers about products: masks plus a challenge times pads.
    pub fn answers(&self, challenge: K) -> Vec<K> {
        let of = |own: &TapeProducts| {
            let operands = own.masks().zip(&own.operands);
            let answer = |(mask, pad): (usize, &usize)| self.tape[mask] + challenge * self.tape[*pad];
            operands.map(answer).collect::<Vec<_>>()
        };
        let answers = self.code.tape.products.iter().flat_map(of).collect();
        match &self.rehearsal {
            Some(rehearsal) => rehearsal.answers(answers),
            None => answers,
        }
    }
}

/// Puts the scalars of an equation with products on the tape: of the pads, of pads and masks, of the masks.
fn fill(products: &TapeProducts, tape: &mut [K]) {
    let mut pads: Vec<K> = products.operands.iter().map(|pad| tape[*pad]).collect();
    let mut masks: Vec<K> = products.masks().map(|mask| tape[mask]).collect();
    for (at, form) in products.forms.iter().enumerate() {
        let scalars = [
            evaluate(form, &pads),
            polar(form, &pads, &masks),
            evaluate(form, &masks),
        ];
        for (entry, scalar) in products.scalars(at).into_iter().zip(scalars) {
            tape[entry] = scalar;
        }
    }
    erase(pads.iter_mut().chain(&mut masks));
}

/// Overwrites elements.
fn erase<'a>(elements: impl Iterator<Item = &'a mut K>) {
    for value in elements {
        for word in [&mut value.0 .0, &mut value.0 .1, &mut value.1 .0, &mut value.1 .1] {
            word.0.zeroize();
        }
    }
}

/// The polar form of a quadratic form.
fn polar(form: &Form, x: &[K], y: &[K]) -> K {
    form.iter()
        .map(|(a, b, factor)| (x[*a] * y[*b] + x[*b] * y[*a]) * *factor)
        .sum()
}

impl Drop for Secrets {
    fn drop(&mut self) {
        for column in self.blind.iter_mut().chain(&mut self.coordinates) {
            if let Column::Elements(cells) = column {
                cells.iter_mut().for_each(|cell| cell.0.zeroize());
            }
        }
        erase(self.mask.iter_mut().chain(&mut self.tape));
    }
}

/// Says messages under the pads of a tape.
pub struct Veiled<'a> {
    transcript: Transcript,
    secrets: &'a Secrets,
    /// The pad of the next element.
    next: usize,
}

impl<'a> Veiled<'a> {
    /// A conversation whose transcript has absorbed everything up to the first message under pads.
    pub const fn new(transcript: Transcript, secrets: &'a Secrets) -> Self {
        Self {
            transcript,
            secrets,
            next: secrets.code.tape.unused,
        }
    }
}

impl Speaker for Veiled<'_> {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn cover(&mut self, element: K) -> K {
        let tape = &self.secrets.code.tape;
        // Behind the messages are masks and scalars.
        if self.next == tape.messages {
            self.next = tape.cross;
        }
        let entry = self.next;
        self.next += 1;
        let pad = self.secrets.tape[entry];
        match &self.secrets.rehearsal {
            Some(rehearsal) => rehearsal.say(entry, pad, element),
            None => element + pad,
        }
    }

    fn known(&self, _: K) -> K {
        K::default()
    }
}
