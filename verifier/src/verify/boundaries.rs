//! Committed boundaries of a chunk: what the transcript absorbs of them, and what their openings show (docs/protocol.md, section 15).

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::PublicBoundary;
use tessera_circuits::statement::Statement;
use tessera_circuits::wiring::Public;

use crate::key::ModelKey;
use crate::listen::Listener;
use crate::opening::{Claim, Commitment, CommitmentName};

/// How a boundary of the statement is committed to: the number of its units, and log2 of the length of a message; zeros where it is in
/// clear.
pub(super) fn boundary_words(key: &ModelKey, statement: &Statement) -> [u32; 2] {
    let params = key.boundary(statement.rows()).map(|(_, params)| params);
    params.map_or([0; 2], |params| [params.tiles as u32, params.log_message])
}

/// The claim on a committed boundary at the random point, as an opening takes it.
#[derive(Debug)]
pub struct BoundaryClaim<V = SecureField> {
    /// The commitment.
    pub commitment: Commitment,
    /// The coefficient of every unit.
    pub units: Vec<SecureField>,
    /// The point of a unit.
    pub point: Vec<SecureField>,
    /// The value.
    pub value: V,
}

impl<V: Clone> BoundaryClaim<V> {
    /// The claims about the committed boundaries of a chunk, input first.
    pub fn of(key: &ModelKey, public: &Public<'_>, values: &[Option<V>; 2]) -> Vec<Self> {
        let Some((units, params)) = key.boundary(public.statement.rows()) else {
            return Vec::new();
        };
        let token = &public.points.token;
        let feature = public.points.out(public.shape.padded.hidden);
        let ends = public.ends.both().into_iter().zip(values);
        let claim = |(end, value): (Option<&PublicBoundary>, &Option<V>), name| match (end, value) {
            (Some(PublicBoundary::Committed(root)), Some(value)) => Some(Self {
                commitment: Commitment {
                    name,
                    params,
                    root: *root,
                },
                units: units.coefficients(token, feature),
                point: units.local_point(token, feature),
                value: value.clone(),
            }),
            _ => None,
        };
        let names = [CommitmentName::Input, CommitmentName::Output];
        ends.zip(names).filter_map(|(end, name)| claim(end, name)).collect()
    }

    /// The claim, to be opened.
    pub fn claim(&self) -> Claim<'_, V> {
        Claim {
            commitment: self.commitment,
            columns: self.commitment.params.all(),
            point: &self.point,
            gamma: &self.units,
            value: self.value.clone(),
        }
    }
}

/// The values that the prover says of both ends of a chunk. It says zero of an end that is not committed to, or this is the error.
pub(super) fn said_of<L: Listener, E>(
    committed: [bool; 2],
    said: Option<[L::Value; 2]>,
    wrong: impl Fn() -> E,
    listener: &mut L,
) -> Result<[Option<L::Value>; 2], E> {
    let Some(said) = said else { return Ok([None, None]) };
    let mut ends = [None, None];
    for ((committed, value), end) in committed.into_iter().zip(said).zip(&mut ends) {
        match committed {
            true => *end = Some(value),
            false => listener.zero(value, wrong())?,
        }
    }
    Ok(ends)
}
