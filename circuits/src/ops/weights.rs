//! What the matmul sumcheck ends in beside the operands: the claim on the weights (docs/protocol.md, sections 6 and 10).

use std::ops::Range;

use crate::scalar::Scalar;

use super::WEIGHTED;
use crate::mle::eq_table;
use crate::model::TILE_LOG;
use crate::wiring::{suffix, Public};

impl<K: Scalar> Public<'_, K> {
    /// Coefficients of `bands` of `2^log_band` tiles, among which are those of the chunk, in the claim on the weights,
    /// `sum_B gamma_B B~(local point) = sum_f families[f] V_f` where `V_f` is the second final evaluation of weighted product
    /// `f`. Rows of tiles must be made of such bands.
    pub fn band_coefficients(
        &self,
        point: &[K],
        families: &[K; WEIGHTED.len()],
        bands: Range<usize>,
        log_band: u32,
    ) -> Vec<K> {
        let mut gamma = vec![K::zero(); bands.len()];
        let tables = WEIGHTED.map(|product| {
            let at = suffix(point, product.variables(self.shape));
            eq_table(at.get(..at.len().saturating_sub(TILE_LOG as usize)).unwrap_or(at))
        });
        for m in self.shape.matmuls() {
            let Some((product, lead)) = self.shape.product_of(m.kind, m.layer) else {
                continue;
            };
            let own = WEIGHTED
                .iter()
                .zip(families)
                .zip(&tables)
                .find(|((w, _), _)| **w == product);
            let Some(((_, family), table)) = own else {
                continue;
            };
            let out = self.points.out(m.out_log);
            let within = (TILE_LOG + log_band) as usize;
            let out = eq_table(out.get(..out.len().saturating_sub(within)).unwrap_or(out));
            let row_bands = m.out_blocks >> log_band;
            let blocks_log = m.in_log - TILE_LOG;
            let first = lead << blocks_log;
            let start = (m.first_tile >> log_band).saturating_sub(bands.start);
            let factor = *family * self.points.matmul_weight(m.kind, m.layer);
            for b in 0..m.in_blocks {
                let row = factor * table.get(first + b).copied().unwrap_or_default();
                for (c, w) in out.iter().take(row_bands).enumerate() {
                    if let Some(g) = gamma.get_mut(start + b * row_bands + c) {
                        *g = row * *w;
                    }
                }
            }
        }
        gamma
    }

    /// Local point of the claim on the weights, in the order of the index within a band of `2^log_band` tiles: the tile (out),
    /// 6 in-coordinates, 6 out-coordinates.
    pub fn local_point(&self, point: &[K], log_band: u32) -> Vec<K> {
        let out = suffix(&self.points.out, log_band + TILE_LOG);
        let (tile, y) = out.split_at(out.len().saturating_sub(TILE_LOG as usize));
        [tile, suffix(point, TILE_LOG), y].concat()
    }
}
