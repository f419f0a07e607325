//! Committing to the boundaries of a chunk, and opening them (docs/protocol.md, section 15).

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::{Boundary, Ends, PublicBoundary};
use tessera_circuits::wiring::Public;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::{CommitmentName, CommitmentParams};
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::BoundaryClaim;

use super::bind::bind_trailing;
use super::column::{Cells, Column};
use super::opening::{value, Committed, CommittedUnits, ProverClaim, TILE_AREA};

type K = SecureField;

/// A boundary of so many token rows as a proof has it.
pub fn public_boundary(key: &ModelKey, rows: usize, boundary: &Boundary) -> PublicBoundary {
    match BoundaryCells::of(key, rows, boundary, &|_| ()) {
        None => PublicBoundary::Clear(boundary.clone()),
        Some(cells) => cells.commit(CommitmentName::Output).public(),
    }
}

/// The cells of the units of a boundary.
struct BoundaryCells {
    suite: Suite,
    params: CommitmentParams,
    column: Column,
}

impl BoundaryCells {
    /// The units of a boundary of so many token rows; `None` if it is in clear.
    fn of(key: &ModelKey, rows: usize, boundary: &Boundary, alter: &dyn Fn(&mut Vec<i16>)) -> Option<Self> {
        let (units, params) = key.boundary(rows)?;
        let mut values = units.values(&boundary.0);
        alter(&mut values);
        Some(Self {
            suite: key.header.hash_suite,
            params,
            column: Column::of_integers(values),
        })
    }

    fn commit(&self, name: CommitmentName) -> CommittedBoundary<'_> {
        let units: Vec<Cells<'_>> = self.column.cells().chunks(TILE_AREA).collect();
        CommittedBoundary {
            committed: CommittedUnits::commit(self.suite, name, units.clone(), self.params),
            units,
        }
    }
}

/// A boundary that is committed to.
pub struct CommittedBoundary<'a> {
    units: Vec<Cells<'a>>,
    committed: CommittedUnits<'a>,
}

impl CommittedBoundary<'_> {
    /// The boundary as a proof has it.
    fn public(&self) -> PublicBoundary {
        PublicBoundary::Committed(self.committed.commitment().root)
    }
}

/// The boundaries of a chunk as its prover has them.
#[derive(Default)]
pub struct Boundaries<'a> {
    /// What enters the chunk.
    pub input: Option<&'a Boundary>,
    /// What enters and what leaves, as far as it is committed to.
    committed: [Option<CommittedBoundary<'a>>; 2],
}

/// A committed boundary at the random point.
pub struct BoundaryValues {
    claim: BoundaryClaim,
    /// The values of all units.
    units: Vec<K>,
}

impl<'a> Boundaries<'a> {
    /// Calls `then` with the boundaries of a chunk of so many token rows, and with what a proof has of them.
    pub fn with<T>(
        key: &ModelKey,
        rows: usize,
        ends: Ends<&Boundary>,
        then: impl FnOnce(Boundaries<'_>, Ends<&PublicBoundary>) -> T,
    ) -> T {
        Self::with_units(key, rows, ends, &|_| (), then)
    }

    /// As [`Self::with`], with other values in the units. Tests commit to what no boundary has.
    #[doc(hidden)]
    pub fn with_units<T>(
        key: &ModelKey,
        rows: usize,
        ends: Ends<&Boundary>,
        alter: &dyn Fn(&mut Vec<i16>),
        then: impl FnOnce(Boundaries<'_>, Ends<&PublicBoundary>) -> T,
    ) -> T {
        let cells = ends.both().map(|end| BoundaryCells::of(key, rows, end?, alter));
        let [input, output] = &cells;
        let committed = [(input, CommitmentName::Input), (output, CommitmentName::Output)];
        let committed = committed.map(|(cells, name)| Some(cells.as_ref()?.commit(name)));
        let public = |(end, committed): (Option<&Boundary>, &Option<CommittedBoundary<'_>>)| match committed {
            Some(committed) => Some(committed.public()),
            None => end.cloned().map(PublicBoundary::Clear),
        };
        let [before, after] = &committed;
        let [before, after] = [(ends.input, before), (ends.output, after)].map(public);
        let boundaries = Boundaries {
            input: ends.input,
            committed,
        };
        let public = Ends {
            input: before.as_ref(),
            output: after.as_ref(),
        };
        then(boundaries, public)
    }

    /// What the committed boundaries are at the random point, zero where there is none; `None` if there are none at all.
    pub fn said(&self, key: &ModelKey, public: &Public<'_>) -> (Option<[K; 2]>, Vec<BoundaryValues>) {
        let committed = || self.committed.iter().flatten();
        let every = self.committed.each_ref().map(|own| own.as_ref().map(|_| K::default()));
        let claims = BoundaryClaim::of(key, public, &every);
        let values = committed().zip(claims).map(|(own, mut claim)| {
            let units = bind_trailing(&own.units, &claim.point);
            claim.value = value(&claim.units, &units);
            BoundaryValues { claim, units }
        });
        let values: Vec<BoundaryValues> = values.collect();
        let mut left = values.iter().map(|own| own.claim.value);
        let of_end = |own: Option<K>| own.and_then(|_| left.next()).unwrap_or_default();
        let said = every.map(of_end);
        ((!values.is_empty()).then_some(said), values)
    }

    /// The claims about the committed boundaries, as they are opened.
    pub fn claims<'s>(&'s mut self, values: &'s [BoundaryValues]) -> Vec<ProverClaim<'s>> {
        let committed = self.committed.iter_mut().flatten().zip(values);
        let claim = |(own, values): (&'s mut CommittedBoundary<'a>, &'s BoundaryValues)| {
            let all = values.claim.commitment.params.all();
            let BoundaryClaim { point, units, .. } = &values.claim;
            ProverClaim::new(&mut own.committed, all, point, units, &values.units)
        };
        committed.map(claim).collect()
    }
}
