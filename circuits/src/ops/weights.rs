//! What the matmul sumcheck ends in beside the operands: the claim on the weights (docs/protocol.md, sections 6 and 10).

use std::ops::Range;

use crate::scalar::Scalar;

use crate::mle::{eq_table, Corners};
use crate::model::TILE_LOG;
use crate::shape::Product;
use crate::wiring::{suffix, Public};

/// Coefficients of the bands of a matrix: the first band, what all of them have, and what is that of their rows and of their columns.
struct BandMatrix<K> {
    start: usize,
    factor: K,
    inputs: Vec<K>,
    outputs: Vec<K>,
}

impl<K: Scalar> Public<'_, K> {
    /// Coefficients of `bands` of `2^log_band` tiles, among which are those of the chunk, in the claim on the weights,
    /// `sum_B gamma_B B~(local point) = sum_f families[f] V_f` where `V_f` is the second final evaluation of the weighted
    /// product `f`. Rows of tiles must be made of such bands.
    pub fn band_coefficients(
        &self,
        point: &[K],
        families: &[(Product, K)],
        bands: Range<usize>,
        log_band: u32,
    ) -> Vec<K> {
        let mut gamma = vec![K::zero(); bands.len()];
        for own in self.band_matrices(point, families, bands.start, log_band) {
            for (b, input) in own.inputs.iter().enumerate() {
                let row = own.factor * *input;
                for (c, w) in own.outputs.iter().enumerate() {
                    if let Some(g) = gamma.get_mut(own.start + b * own.outputs.len() + c) {
                        *g = row * *w;
                    }
                }
            }
        }
        gamma
    }

    /// The multilinear extension of [`Self::band_coefficients`] at a point, row by row: no coefficient is calculated. The bands of all
    /// matrices must be among `bands`.
    pub fn band_extension(
        &self,
        point: &[K],
        families: &[(Product, K)],
        (bands, log_band): (Range<usize>, u32),
        at: &[K],
    ) -> K {
        let corners = Corners::new(at);
        let of_matrix = |own: BandMatrix<K>| {
            let rows = own.inputs.iter().enumerate();
            let rows = rows.map(|(b, input)| *input * corners.dot(&own.outputs, own.start + b * own.outputs.len()));
            own.factor * rows.sum::<K>()
        };
        let matrices = self.band_matrices(point, families, bands.start, log_band);
        matrices.into_iter().map(of_matrix).sum()
    }

    /// The coefficients of the bands of every matrix, which are tensors. Bands are numbered from `first` on.
    fn band_matrices(
        &self,
        point: &[K],
        families: &[(Product, K)],
        first_band: usize,
        log_band: u32,
    ) -> Vec<BandMatrix<K>> {
        let mut matrices = Vec::new();
        let table = |product: Product| {
            let at = suffix(point, product.variables(self.shape));
            eq_table(at.get(..at.len().saturating_sub(TILE_LOG as usize)).unwrap_or(at))
        };
        let tables: Vec<_> = families.iter().map(|(product, _)| table(*product)).collect();
        for m in self.shape.matmuls() {
            let Some((product, lead)) = self.shape.product_of(m.id) else {
                continue;
            };
            let mut own = families.iter().zip(&tables);
            let Some(((_, family), table)) = own.find(|((own, _), _)| *own == product) else {
                continue;
            };
            let out = self.points.out(m.out_log);
            let within = (TILE_LOG + log_band) as usize;
            let mut outputs = eq_table(out.get(..out.len().saturating_sub(within)).unwrap_or(out));
            outputs.truncate(m.out_blocks >> log_band);
            let first = lead << (m.in_log - TILE_LOG);
            matrices.push(BandMatrix {
                start: (m.first_tile >> log_band).saturating_sub(first_band),
                factor: *family * self.points.matmul_weight(m.id),
                inputs: table.iter().skip(first).take(m.in_blocks).copied().collect(),
                outputs,
            });
        }
        matrices
    }

    /// Local point of the claim on the weights, in the order of the index within a band of `2^log_band` tiles: the tile (out),
    /// 6 in-coordinates, 6 out-coordinates.
    pub fn local_point(&self, point: &[K], log_band: u32) -> Vec<K> {
        let out = suffix(&self.points.out, log_band + TILE_LOG);
        let (tile, y) = out.split_at(out.len().saturating_sub(TILE_LOG as usize));
        [tile, suffix(point, TILE_LOG), y].concat()
    }
}
