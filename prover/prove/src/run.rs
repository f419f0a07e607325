//! The computation of a chunk, laid out as a trace.

use tessera_circuits::chunk::Boundary;
use tessera_circuits::model::ModelParams;
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_model::forward::{ForwardState, Input, Placed, Saturations, Witness};
use tessera_verifier::verify::ChunkStatement;

use crate::column::Column;
use crate::error::ProveError;
use crate::stopwatch::Stopwatch;
use crate::trace::{tops, Source};

/// A chunk's computation, laid out as a trace.
pub(crate) struct Run {
    pub shape: Shape,
    pub params: ModelParams,
    pub statistics: Statistics,
    pub columns: Vec<Vec<Column>>,
    pub saturated: Saturations,
}

impl Run {
    /// Runs the chunk of a statement, or what was not run of it while it was recorded, for a proof that hides its activations or not. `witnessed` is the
    /// statement with the ids that the claim hides.
    pub fn of(
        model: Placed<'_>,
        claim: &ChunkStatement<'_>,
        witnessed: &Statement,
        hides: bool,
        input: Option<&Boundary>,
        recorded: Option<ForwardState<'_>>,
        watch: &mut Stopwatch<'_>,
    ) -> Result<Self, ProveError> {
        let (key, statement, chunk) = (claim.key, witnessed, claim.chunk);
        let shape = key.shape(chunk, claim.statement.lengths());
        let shape = shape.with_tables(key.tables_of_proof(hides));
        let params = chunk.params(&key.params);
        let mut witness = Witness::default();
        let run = watch.phase("forward pass", || {
            if let Some(state) = recorded {
                return Ok(state.finish(&mut witness));
            }
            let (ids, leading) = (statement.row_ids(), statement.leading(&key.params.leading));
            let entering = |boundary| Input::Stream(boundary, leading);
            let input = input.map_or(Input::Tokens(&ids), entering);
            ForwardState::run_chunk(model, chunk, input, shape.outputs, Some(&mut witness))
        })?;
        if run.traffic.bytes > 0 {
            watch.read("forward pass", run.traffic);
        }

        let tops = tops(&shape, statement, &witness);
        if let Some(output) = tops.iter().position(|top| *top == i64::from(i16::MIN)) {
            return Err(ProveError::SmallestLogit { output });
        }
        let (columns, clips): (Vec<Vec<Column>>, Vec<Vec<Clip>>) = watch.phase("trace", || {
            let of_part = |part| {
                let source = Source {
                    shape: &shape,
                    params: &params,
                    statement,
                    said: claim.statement,
                    input,
                    witness: &witness,
                    tops: &tops,
                };
                let made = source.columns(part);
                // The columns of the next part take the place of what was recorded for this one.
                witness.forget(part, &shape);
                made
            };
            shape.by_part(of_part).into_iter().unzip()
        });
        let statistics = Statistics { clips: clips.concat() };
        statistics.check(&shape, &params, statement)?;
        Ok(Self {
            shape,
            params,
            statistics,
            columns,
            saturated: run.saturated,
        })
    }
}
