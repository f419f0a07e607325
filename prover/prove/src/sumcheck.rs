//! Batched product sumcheck of degree 2, the twin of the verifier's `sumcheck` (see there for the statement). A device binds the
//! tables.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::message::Exchange;
use tessera_verifier::sumcheck::{begin_batch, instance_scale, rounds_of, SumcheckProof};
use tessera_verifier::transcript::Work;

use crate::device::{Device, DeviceError, Products, Table};
use crate::grind;
use crate::speak::Speaker;

/// One instance of a batch: `sum_z sum_pairs A(z) B(z)` over `2^variables` entries.
#[derive(Clone, Debug)]
pub struct Instance<T = Vec<SecureField>> {
    /// The tables `(A, B)`, each of `2^variables` entries.
    pub pairs: Vec<(T, T)>,
    pub variables: usize,
}

/// An instance in two stages: as it is over its first variables, and, once these are bound, over the others.
pub struct Staged<'a> {
    /// Products of functions of the first variables that add up to those of all, summed over the others.
    pub first: Instance<Table>,
    /// Of both stages.
    pub variables: usize,
    pub second: Second<'a>,
}

/// The pairs of the second stage, from the evaluations of those of the first, and the point where they are.
pub type Second<'a> = Box<
    dyn FnOnce(&[(SecureField, SecureField)], &[SecureField]) -> Result<Vec<(Table, Table)>, DeviceError>
        + Send
        + Sync
        + 'a,
>;

/// A proved batch.
#[derive(Clone, Debug)]
pub struct Proved {
    /// The claim as it was absorbed.
    pub claim: SecureField,
    pub proof: SumcheckProof,
    /// The nonce of the proof of work before the last challenge, if there is one.
    pub nonce: Option<u64>,
    /// The challenges; an instance is bound at its last ones.
    pub point: Vec<SecureField>,
    /// Per instance and pair the evaluations `(A~, B~)`.
    pub finals: Vec<Vec<(SecureField, SecureField)>>,
}

/// Proves that the values of the instances add up to `claim`. A false claim gives a proof whose final
/// claim does not hold.
///
/// # Panics
/// If a table does not have `2^variables` entries.
pub fn prove<T: Into<Table> + Send>(
    device: &dyn Device,
    label: &'static str,
    claim: SecureField,
    instances: Vec<Instance<T>>,
    speaker: &mut dyn Speaker,
) -> Result<Proved, DeviceError> {
    run(label, Claim::Known(claim), begin(device, instances)?, None, speaker)
}

/// Proves what the instances add up to, and returns it.
///
/// # Panics
/// As [`prove`].
pub fn prove_sum<T: Into<Table> + Send>(
    device: &dyn Device,
    label: &'static str,
    instances: Vec<Instance<T>>,
    speaker: &mut dyn Speaker,
) -> Result<(SecureField, Proved), DeviceError> {
    let states = begin(device, instances)?;
    let values: Result<Vec<_>, _> = states.par_iter().map(State::value).collect();
    let claim = values?.into_iter().sum();
    Ok((claim, run(label, Claim::Said(claim), states, None, speaker)?))
}

/// Proves that the values of the instances add up to `claim`, with a proof of work before the last challenge if one is asked for: what
/// [`prove`] sends for instances in one stage.
///
/// # Panics
/// As [`prove`].
pub fn prove_staged(
    device: &dyn Device,
    label: &'static str,
    claim: SecureField,
    instances: Vec<Staged<'_>>,
    last: Option<Work>,
    speaker: &mut dyn Speaker,
) -> Result<Proved, DeviceError> {
    let variables = instances.iter().map(|i| i.variables).max().unwrap_or(0);
    let states = instances
        .into_par_iter()
        .map(|i| State::new(device, i.first, i.variables, Some(i.second), variables));
    run(
        label,
        Claim::Known(claim),
        states.collect::<Result<_, _>>()?,
        last,
        speaker,
    )
}

/// Gives the instances of a batch, all in one stage, to the device.
fn begin<T: Into<Table> + Send>(
    device: &dyn Device,
    instances: Vec<Instance<T>>,
) -> Result<Vec<State<'_>>, DeviceError> {
    let variables = instances.iter().map(|i| i.variables).max().unwrap_or(0);
    let states = instances.into_par_iter().map(|i| {
        let own = i.variables;
        State::new(device, i, own, None, variables)
    });
    states.collect()
}

/// The claim of a batch.
enum Claim {
    /// The prover says it.
    Said(SecureField),
    /// It follows from what both sides know.
    Known(SecureField),
}

fn run(
    label: &'static str,
    claim: Claim,
    mut states: Vec<State<'_>>,
    last: Option<Work>,
    speaker: &mut dyn Speaker,
) -> Result<Proved, DeviceError> {
    let variables = states.iter().map(|state| state.start + state.own).max().unwrap_or(0);
    begin_batch(label, variables, speaker.transcript());
    let claim = match claim {
        Claim::Said(claim) => speaker.say(label, &claim),
        Claim::Known(claim) => {
            let known = speaker.known(claim);
            speaker.transcript().send(label, &known);
            known
        }
    };
    let mut point = Vec::with_capacity(variables);
    let mut rounds = Vec::with_capacity(variables);
    let mut nonce = None;
    for round in 0..variables {
        let messages = states.iter().map(|s| s.round_message(round));
        let message = messages.fold([SecureField::zero(); 2], |[a, b], [c, d]| [a + c, b + d]);
        let Exchange(said, answer) = rounds_of(label);
        let message = speaker.say(said, &message);
        if round + 1 == variables {
            nonce = last.map(|work| grind::send(work, speaker.transcript()));
        }
        let r = speaker.transcript().challenge(answer);
        states.par_iter_mut().try_for_each(|s| s.bind(round, r))?;
        rounds.push(message);
        point.push(r);
    }
    let finals: Result<Vec<_>, _> = states.iter().map(State::finals).collect();
    Ok(Proved {
        claim,
        proof: SumcheckProof { rounds },
        nonce,
        point,
        finals: finals?,
    })
}

/// An instance during the proof.
struct State<'a> {
    device: &'a dyn Device,
    /// Rounds before the first variable of this instance.
    start: usize,
    /// Number of variables of all stages.
    own: usize,
    /// What the embedding multiplies the instance with.
    scale: SecureField,
    /// Value of the instance, as long as it waits.
    value: SecureField,
    /// `[s(0), s(2)]` of the next round, without `scale`.
    message: [SecureField; 2],
    tables: Box<dyn Products + 'a>,
    /// Variables that are bound before the second stage, and what it is.
    second: Option<(usize, Second<'a>)>,
    /// The variables that are bound.
    point: Vec<SecureField>,
}

impl<'a> State<'a> {
    /// `own` is the number of variables of all stages of the instance, `variables` the number of those of the batch.
    fn new<T: Into<Table>>(
        device: &'a dyn Device,
        instance: Instance<T>,
        own: usize,
        second: Option<Second<'a>>,
        variables: usize,
    ) -> Result<Self, DeviceError> {
        let entries = 1 << instance.variables;
        let pairs = instance.pairs.into_iter().map(|(a, b)| {
            let (a, b): (Table, Table) = (a.into(), b.into());
            assert_eq!(
                (a.entry_count(), b.entry_count()),
                (entries, entries),
                "tables of an instance"
            );
            (a, b)
        });
        let tables = device.products(pairs.collect())?;
        let start = variables - own;
        let mut state = Self {
            device,
            start,
            own,
            scale: instance_scale(variables, own),
            value: match start {
                0 => SecureField::zero(),
                _ => tables.value()?,
            },
            message: tables.message()?,
            tables,
            second: second.map(|second| (instance.variables, second)),
            point: Vec::new(),
        };
        state.advance()?;
        Ok(state)
    }

    /// The value of the instance, before any variable is bound.
    fn value(&self) -> Result<SecureField, DeviceError> {
        match self.start {
            0 => self.tables.value(),
            _ => Ok(self.value),
        }
    }

    /// Begins the second stage when the variables of the first are bound.
    fn advance(&mut self) -> Result<(), DeviceError> {
        let bound = self.point.len();
        if let Some((_, second)) = self.second.take_if(|(first, _)| *first == bound) {
            let pairs = second(&self.finals()?, &self.point)?;
            self.tables = self.device.products(pairs)?;
            self.message = self.tables.message()?;
        }
        Ok(())
    }

    /// Contribution to the message of `round`: constant as long as the instance waits.
    fn round_message(&self, round: usize) -> [SecureField; 2] {
        if round < self.start {
            [self.value * instance_scale(round + 1, 0); 2]
        } else {
            self.message.map(|s| s * self.scale)
        }
    }

    /// Binds the variable of `round`.
    fn bind(&mut self, round: usize, r: SecureField) -> Result<(), DeviceError> {
        if round < self.start {
            return Ok(());
        }
        self.message = self.tables.bind(r)?;
        self.point.push(r);
        self.advance()
    }

    fn finals(&self) -> Result<Vec<(SecureField, SecureField)>, DeviceError> {
        let values = self.tables.finish()?;
        Ok(values.as_chunks().0.iter().map(|[a, b]| (*a, *b)).collect())
    }
}

#[cfg(test)]
mod tests;
