//! A device that is lost at one of its calls.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::model::MatrixId;
use tessera_circuits::shape::Part;
use tessera_circuits::trees::LookupTree;
use tessera_kernels::table::Table as Pages;
use tessera_model::forward::{Acc, Linear};
use tessera_model::passes::{Traffic, WeightPass};
use tessera_model::tiles::TileSource;
use tessera_model::QuantisedModel;
use tessera_prover::column::Column;
use tessera_prover::device::{
    Bands, ColumnId, Columns, Device, DeviceError, Entries, Layers, Products, Rounds, Table, Weights,
};
use tessera_prover::hiding::Secrets;
use tessera_prover::opening::{Codeword, Committed, OpeningProverError, Twiddles};
use tessera_prover::vectors::Vectors;
use tessera_verifier::opening::parts::LeafOpening;
use tessera_verifier::opening::{Commitment, CommitmentParams, OpenedColumns};
use tessera_verifier::suite::Suite;

type K = SecureField;

/// The cores of the machine, until they are lost.
pub struct Failing {
    /// The call, counted from 0, at which the device is lost.
    at: usize,
    calls: AtomicUsize,
}

impl Failing {
    /// A device that is lost at call `at`.
    pub fn at(at: usize) -> Self {
        let calls = AtomicUsize::new(0);
        Self { at, calls }
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// The error of all calls from the one on at which the device is lost.
    fn call(&self) -> Result<(), DeviceError> {
        match self.calls.fetch_add(1, Ordering::Relaxed) >= self.at {
            true => Err(DeviceError::Lost(format!("call {}", self.at))),
            false => Ok(()),
        }
    }

    /// A handle on this device.
    fn on<T: ?Sized>(&self, own: Box<T>) -> Box<On<'_, T>> {
        Box::new(On { device: self, own })
    }
}

impl Device for Failing {
    fn linear(&self) -> &dyn Linear {
        self
    }

    fn columns(&self, cells: Vec<Vec<Column>>) -> Result<Box<dyn Columns + '_>, DeviceError> {
        self.call()?;
        Ok(self.on(Vectors.columns(cells)?))
    }

    fn products(&self, pairs: Vec<(Table, Table)>) -> Result<Box<dyn Products + '_>, DeviceError> {
        self.call()?;
        Ok(self.on(Vectors.products(pairs)?))
    }

    fn bands(
        &self,
        tiles: &dyn TileSource,
        point: &[K],
        room: usize,
    ) -> Result<(Box<dyn Bands + '_>, Traffic), DeviceError> {
        self.call()?;
        let (bands, traffic) = Vectors.bands(tiles, point, room)?;
        Ok((self.on(bands), traffic))
    }
}

impl Linear for Failing {
    fn matmul(
        &self,
        model: &QuantisedModel,
        id: MatrixId,
        activations: &[i16],
        pass: &mut WeightPass<'_>,
    ) -> Result<Acc, DeviceError> {
        self.call()?;
        Vectors.linear().matmul(model, id, activations, pass)
    }
}

/// What lies on the device.
struct On<'a, T: ?Sized> {
    device: &'a Failing,
    own: Box<T>,
}

impl Columns for On<'_, dyn Columns + '_> {
    fn read(&self, column: ColumnId) -> Result<Vec<BaseField>, DeviceError> {
        self.device.call()?;
        self.own.read(column)
    }

    fn count(&self, relations: &[Relation], trees: &[LookupTree]) -> Result<Vec<Vec<BaseField>>, DeviceError> {
        self.device.call()?;
        self.own.count(relations, trees)
    }

    fn bind(&self, terms: &[(ColumnId, K)], weights: Weights<'_>, axes: [usize; 2]) -> Result<Vec<K>, DeviceError> {
        self.device.call()?;
        self.own.bind(terms, weights, axes)
    }

    fn bind_leading(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<Vec<K>>, DeviceError> {
        self.device.call()?;
        self.own.bind_leading(columns, point)
    }

    fn bind_trailing(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<K>, DeviceError> {
        self.device.call()?;
        self.own.bind_trailing(columns, point)
    }

    fn add(&mut self, part: Part, cells: Vec<Column>) -> Result<(), DeviceError> {
        self.device.call()?;
        self.own.add(part, cells)
    }

    fn layers<'a>(
        &'a self,
        trees: &[LookupTree],
        entries: Option<&Entries<'_>>,
        relations: &Relations,
    ) -> Result<Box<dyn Layers + 'a>, DeviceError> {
        self.device.call()?;
        Ok(self.device.on(self.own.layers(trees, entries, relations)?))
    }

    fn commit<'a>(
        &'a self,
        suite: Suite,
        columns: Vec<ColumnId>,
        params: CommitmentParams,
        secrets: Option<&'a Secrets>,
    ) -> Result<Box<dyn Committed + 'a>, DeviceError> {
        self.device.call()?;
        Ok(self.device.on(self.own.commit(suite, columns, params, secrets)?))
    }
}

impl<T: Rounds + ?Sized> Rounds for On<'_, T> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        self.device.call()?;
        self.own.message()
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        self.device.call()?;
        self.own.bind(challenge)
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        self.device.call()?;
        self.own.finish()
    }
}

impl<T: Products + ?Sized> Products for On<'_, T> {
    fn value(&self) -> Result<K, DeviceError> {
        self.device.call()?;
        self.own.value()
    }
}

impl Layers for On<'_, dyn Layers + '_> {
    fn roots(&mut self, trees: Range<usize>) -> Result<Vec<[K; 2]>, DeviceError> {
        self.device.call()?;
        self.own.roots(trees)
    }

    fn layer<'a>(
        &'a mut self,
        trees: &[usize],
        point: &'a [K],
        lambda: K,
    ) -> Result<Box<dyn Rounds + 'a>, DeviceError> {
        self.device.call()?;
        Ok(self.device.on(self.own.layer(trees, point, lambda)?))
    }
}

impl Bands for On<'_, dyn Bands + '_> {
    fn rows(&self, bands: Range<usize>, factors: &[K]) -> Result<Vec<K>, DeviceError> {
        self.device.call()?;
        self.own.rows(bands, factors)
    }

    fn values(&self, point: &[K]) -> Result<Vec<K>, DeviceError> {
        self.device.call()?;
        self.own.values(point)
    }

    fn into_committed<'a>(
        self: Box<Self>,
        source: &'a dyn TileSource,
        codeword: &'a Codeword,
    ) -> Result<Box<dyn Committed + 'a>, OpeningProverError>
    where
        Self: 'a,
    {
        self.device.call()?;
        Ok(self.device.on(self.own.into_committed(source, codeword)?))
    }
}

impl Committed for On<'_, dyn Committed + '_> {
    fn commitment(&self) -> Commitment {
        self.own.commitment()
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        self.own.twiddles()
    }

    fn combine(&mut self, columns: &OpenedColumns, weights: &[K], fold: K) -> Result<Pages<K>, DeviceError> {
        self.device.call()?;
        self.own.combine(columns, weights, fold)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        self.device.call()?;
        self.own.open(twiddles, leaves)
    }
}
