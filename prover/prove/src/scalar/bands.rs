//! Sums of bands of weights.

use std::ops::Range;

use crate::bind::eq_table;
use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE;
use tessera_verifier::opening::CommitmentName;

use super::commitment::Codewords;
use crate::device::{Bands, DeviceError};
use crate::opening::{Codeword, Committed, OpeningProverError};
use tessera_model::tiles::{TileSource, TILE_WEIGHTS};

type K = SecureField;

/// The sums of bands, by lane.
pub(super) struct Sums(Vec<[K; TILE]>);

impl Sums {
    pub fn new(source: &dyn TileSource, point: &[K]) -> Self {
        let eq = eq_table(point);
        let tiles_of_band = eq.len() / TILE;
        let mut sums = vec![[K::zero(); TILE]; source.tiles() / tiles_of_band];
        let mut weights = [0; TILE_WEIGHTS];
        for tile in 0..source.tiles() {
            source.tile(tile, &mut weights);
            let own = &eq[tile % tiles_of_band * TILE..][..TILE];
            for (sum, row) in sums[tile / tiles_of_band].iter_mut().zip(weights.chunks(TILE)) {
                let terms = row.iter().zip(own).map(|(w, eq)| *eq * BaseField::from(i32::from(*w)));
                *sum += terms.sum::<K>();
            }
        }
        Self(sums)
    }
}

impl Bands for Sums {
    fn rows(&self, bands: Range<usize>, factors: &[K]) -> Result<Vec<K>, DeviceError> {
        let row = |row: &[[K; TILE]]| {
            let mut sums = [K::zero(); TILE];
            for (band, factor) in row.iter().zip(factors) {
                sums.iter_mut().zip(band).for_each(|(sum, v)| *sum += *factor * *v);
            }
            sums
        };
        Ok(self.0[bands].chunks(factors.len()).flat_map(row).collect())
    }

    fn values(&self, point: &[K]) -> Result<Vec<K>, DeviceError> {
        let eq = eq_table(point);
        let value = |band: &[K; TILE]| band.iter().zip(&eq).map(|(v, eq)| *v * *eq).sum();
        Ok(self.0.iter().map(value).collect())
    }

    fn into_committed<'a>(
        self: Box<Self>,
        source: &'a dyn TileSource,
        codeword: &'a Codeword,
    ) -> Result<Box<dyn Committed + 'a>, OpeningProverError>
    where
        Self: 'a,
    {
        let mut weights = [0; TILE_WEIGHTS];
        let tile = |tile: usize| {
            source.tile(tile, &mut weights);
            weights.map(|w| BaseField::from(i32::from(w)))
        };
        let cells = (0..source.tiles()).flat_map(tile).collect();
        let own = Codewords::commit(codeword.suite(), CommitmentName::Weights, cells, *codeword.params());
        match own.commitment().root == *codeword.root() {
            true => Ok(Box::new(own)),
            false => Err(OpeningProverError::OtherWeights),
        }
    }
}
