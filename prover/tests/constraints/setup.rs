//! An honest trace with all its claims.

use std::collections::BTreeMap;

use num_traits::Zero;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::tables;
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::claims::LinearClaim;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::shape::{Cut, Cuts, Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::wiring::{Points, Public};
use tessera_prover::forward::{ForwardState, Input, Witness};
use tessera_prover::generate::{generate, GenerateOptions};
use tessera_prover::matmul;
use tessera_prover::model::QuantisedModel;
use tessera_prover::stark::lookups::multiplicities;
use tessera_prover::stark::trace::{statistics, Columns, Source};
use tessera_prover::testing::{extreme_model, odd_config, random_ids, random_model, unrooted_key, TestRng};
use tessera_verifier::transcript::Transcript;

/// Three layers, padded to four, and no dimension a power of two.
pub fn three_layers() -> ModelConfig {
    ModelConfig {
        layers: 3,
        ..odd_config()
    }
}

/// Every part in lanes, along each of the axes that may be cut, with entries beyond the real ones and without.
pub fn in_lanes(part: Part, [first, second]: Cuts) -> Cuts {
    let cut = |whole: Cut, log_lane, lanes| Cut {
        log_lane,
        lanes,
        ..whole
    };
    match part {
        Part::Stream => [cut(first, 1, 4), cut(second, 3, 3)],
        Part::Q => [first, cut(second, 0, 3)],
        Part::K => [cut(first, 0, 3), second],
        Part::V => [cut(first, 1, 2), cut(second, 1, 1)],
        Part::Scores => [cut(first, 0, 3), cut(second, 1, 2)],
        Part::Att => [cut(first, 1, 2), second],
        Part::Ff => [cut(first, 0, 3), cut(second, 4, 3)],
        Part::Logits => [cut(first, 2, 4), cut(second, 7, 3)],
        Part::Tables => [first, second],
    }
}

/// Cases that together reach every constraint: shifts per channel, shifts per tensor, saturation, lanes; and a first, a
/// middle (in lanes) and a last chunk.
pub fn cases() -> [Case; 7] {
    let [first, middle, last] = [(0, 2), (2, 5), (5, 7)].map(|(start, end)| {
        let config = ModelConfig {
            layers: 7,
            ..odd_config()
        };
        let chunk = Chunk { start, end, of: 7 };
        let model = random_model(config, WeightFormat::Int8, 15);
        // The middle one has as many layers as the models.
        match chunk.layers().len() {
            3 => Case::of_chunk(model, &chunk, 6, 5, in_lanes),
            _ => Case::of_chunk(model, &chunk, 6, 5, |_, whole| whole),
        }
    });
    [
        Case::with_cuts(random_model(three_layers(), WeightFormat::Int8, 14), 6, 5, in_lanes),
        Case::new(random_model(three_layers(), WeightFormat::Int8, 11), 6, 5),
        Case::new(random_model(three_layers(), WeightFormat::Int16, 12), 6, 5),
        Case::new(extreme_model(three_layers(), WeightFormat::Int8, 13), 6, 5),
        first,
        middle,
        last,
    ]
}

/// An honest trace.
pub struct Case {
    pub shape: Shape,
    /// By part, in row order; those of the tables are the multiplicities.
    pub columns: Vec<Columns>,
    pub tables: Columns,
    /// All linear claims at a random point, with their honest values.
    pub claims: Vec<LinearClaim>,
}

impl Case {
    /// The trace of a generation of `tokens` tokens from a prompt of `prompt` tokens.
    pub fn new(model: QuantisedModel, prompt: usize, tokens: usize) -> Self {
        Self::with_cuts(model, prompt, tokens, |_, whole| whole)
    }

    /// As [`Self::new`], in a layout that only larger statements have.
    pub fn with_cuts(model: QuantisedModel, prompt: usize, tokens: usize, cuts: impl Fn(Part, Cuts) -> Cuts) -> Self {
        let whole = Chunk::whole(model.config.layers);
        Self::of_chunk(model, &whole, prompt, tokens, cuts)
    }

    /// As [`Self::with_cuts`], of some of the layers.
    pub fn of_chunk(
        model: QuantisedModel,
        chunk: &Chunk,
        prompt: usize,
        tokens: usize,
        cuts: impl Fn(Part, Cuts) -> Cuts,
    ) -> Self {
        let prompt = random_ids(&model.config, prompt, 5);
        let options = GenerateOptions {
            tokens,
            ignore_eos: true,
        };
        let output = generate(&model, &prompt, &options, |_| ()).expect("a generation").ids;
        let statement = Statement { prompt, output };
        let shape = Shape::of(&model.config, chunk, statement.rows()).with_cuts(cuts);
        let params = chunk.params(&model.params);
        let ids = statement.row_ids(shape.token);
        let enters = (!chunk.is_first()).then(|| {
            let before = Chunk {
                start: 0,
                end: chunk.start,
                of: chunk.of,
            };
            let run = ForwardState::run_chunk(&model, &before, Input::Tokens(&ids), usize::MAX, None);
            run.expect("a forward pass").output
        });
        let leading = params.leading.count(&ids);
        let entering = |boundary| Input::Stream(boundary, leading);
        let input = enters.as_ref().map_or(Input::Tokens(&ids), entering);
        let mut witness = Witness::default();
        let run =
            ForwardState::run_chunk(&model, chunk, input, usize::MAX, Some(&mut witness)).expect("a forward pass");
        let ends = Ends {
            input: enters.as_ref(),
            output: (!chunk.is_last()).then_some(&run.output),
        };
        let source = Source {
            shape: &shape,
            params: &params,
            statement: &statement,
            input: ends.input,
            witness: &witness,
        };
        let mut columns: Vec<Columns> = shape.parts().iter().map(|p| source.columns(*p)).collect();
        let counts = multiplicities(shape.claimed().zip(&columns).map(|(p, c)| (shape.air(p), c)));
        *columns.last_mut().expect("the tables") = counts;

        let mut transcript = Transcript::new("constraints");
        let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
        let public = Public {
            shape: &shape,
            params: &params,
            statement: &statement,
            ends,
            statistics: &statistics(&witness),
            points: &points,
        };
        let opened = unrooted_key(&model).opened(chunk);
        let proved = matmul::prove(&public, &columns, &model.weights, &opened, &mut transcript);
        let mut claims = public.trace_claims(proved.proof.claim);
        claims.extend(public.operand_claims(&proved.point, &proved.proof.operands));
        Self {
            tables: tables::preprocessed(&params),
            columns,
            claims,
            shape,
        }
    }

    /// What every claim weighs the cells of a part with.
    pub fn coverage(&self, part: Part) -> Coverage {
        let of = |claim: &LinearClaim| {
            let mut own: BTreeMap<usize, Vec<SecureField>> = BTreeMap::new();
            for group in claim.groups.iter().filter(|g| g.part == part) {
                let weights = group.table();
                for (column, factor) in &group.columns {
                    let sum = own
                        .entry(*column)
                        .or_insert_with(|| vec![SecureField::zero(); weights.len()]);
                    sum.iter_mut().zip(&weights).for_each(|(s, w)| *s += *factor * *w);
                }
            }
            own
        };
        Coverage {
            claims: self.claims.iter().map(of).filter(|own| !own.is_empty()).collect(),
        }
    }

    /// The lane of a column and its number in the lane.
    pub fn lane(&self, part: Part, column: usize) -> (usize, usize) {
        let width = self.shape.lane_columns(part);
        (column / width, column % width)
    }

    /// Indices along the axes of a part of a row's entry in a lane.
    pub fn unpack(&self, part: Part, lane: usize, row: usize) -> Vec<usize> {
        let mut rest = row;
        let mut indices: Vec<usize> = self.shape.axes(part).iter().rev().fold(Vec::new(), |mut list, log| {
            list.push(rest & ((1 << log) - 1));
            rest >>= log;
            list
        });
        indices.reverse();
        for (axis, first) in self.shape.lane_start(part, lane) {
            if let Some(index) = indices.get_mut(axis) {
                *index += first;
            }
        }
        indices
    }

    /// Whether the leading index of an entry is a layer or state of the model.
    pub fn in_model(&self, part: Part, lane: usize, row: usize) -> bool {
        let lead = self.unpack(part, lane, row)[0];
        match part {
            Part::Stream => lead < self.shape.states(),
            Part::Logits | Part::Tables => true,
            _ => lead < self.shape.config.layers,
        }
    }
}

/// Weights of the cells of one part: for every claim that touches it, by column, one weight per row.
pub struct Coverage {
    pub claims: Vec<BTreeMap<usize, Vec<SecureField>>>,
}

impl Coverage {
    /// Whether a change of this cell alone breaks a claim.
    pub fn covers(&self, column: usize, row: usize) -> bool {
        self.claims
            .iter()
            .any(|claim| claim.get(&column).is_some_and(|w| !w[row].is_zero()))
    }

    /// Whether changes of several cells of one row together break a claim.
    pub fn breaks(&self, row: usize, changes: &[(usize, BaseField)]) -> bool {
        self.claims.iter().any(|claim| {
            let sum = changes.iter().fold(SecureField::zero(), |sum, (column, by)| {
                sum + claim.get(column).map_or(SecureField::zero(), |w| w[row] * *by)
            });
            !sum.is_zero()
        })
    }
}

/// A random field element.
pub fn random(rng: &mut TestRng) -> BaseField {
    BaseField::from_u32_unchecked(rng.below(u64::from(P)) as u32)
}
