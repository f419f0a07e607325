//! What the head of a reranker makes of the last states, in floats.

use super::{FloatError, FloatRun};
use tessera_checkpoint::families::HeadPart;

impl FloatRun<'_> {
    /// After the last layer: the logits that a reranker makes of all sequences; none of a model without a head.
    pub fn logits_of_pairs(&self) -> Result<Vec<Vec<f32>>, FloatError> {
        let part = |part| {
            let mut values = self.checkpoint.head_part(part)?.unwrap_or_default();
            self.precision.store_here(&mut values);
            Ok::<_, FloatError>(values)
        };
        let dense = [part(HeadPart::Dense)?, part(HeadPart::DenseBias)?];
        let scores = [part(HeadPart::Scores)?, part(HeadPart::ScoresBias)?];
        let logits = |state: Vec<f32>| {
            let mut pooled = self.layer_of_head(&dense, &state);
            pooled.iter_mut().for_each(|v| *v = f64::from(*v).tanh() as f32);
            self.precision.store_here(&mut pooled);
            self.layer_of_head(&scores, &pooled)
        };
        Ok(self.vectors()?.into_iter().map(logits).collect())
    }

    /// A row times weights, output by output, and a bias.
    fn layer_of_head(&self, [weights, bias]: &[Vec<f32>; 2], row: &[f32]) -> Vec<f32> {
        let sum = |weights: &[f32]| {
            let terms = weights.iter().zip(row).map(|(w, v)| f64::from(*w) * f64::from(*v));
            terms.sum::<f64>() as f32
        };
        let mut out: Vec<f32> = weights.chunks_exact(row.len().max(1)).map(sum).collect();
        self.precision.store_here(&mut out);
        out.iter_mut().zip(bias).for_each(|(v, b)| *v += b);
        self.precision.store_here(&mut out);
        out
    }
}
