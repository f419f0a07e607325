//! An honest trace with all its claims.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::Zero;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::chunk::{Boundary, Chunk, Ends, PublicBoundary};
use tessera_circuits::claims::{Heard, LinearClaim};
use tessera_circuits::model::{LimbSet, Limbs, ModelConfig, ModelParams, WeightFormat};
use tessera_circuits::ops::logits;
use tessera_circuits::shape::{Cut, Cuts, Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_circuits::wiring::{Points, Public};
use tessera_model::forward::{ForwardState, Input, Witness};
use tessera_model::generate::{generate, GenerateOptions};
use tessera_model::QuantisedModel;
use tessera_prover::column::{elements, of_elements};
use tessera_prover::device::Device;
use tessera_prover::digits::HiddenDigits;
use tessera_prover::matmul::{self, PrecomputedMatmuls};
use tessera_prover::trace::{tops, Columns, Source};
use tessera_prover::vectors::Vectors;
use tessera_testkit::{
    capped_config, extreme_model, normed_config, odd_config, post_normed_config, random_ids, random_model,
    unrooted_key, windowed_config, SplitMix,
};
use tessera_verifier::transcript::Transcript;

/// Three layers, padded to four, and no dimension a power of two.
pub fn three_layers() -> ModelConfig {
    ModelConfig {
        layers: 3,
        ..odd_config()
    }
}

/// Every part in lanes, along each of the axes that may be cut, with entries beyond the real ones and without; tokens in lanes of a block,
/// or of two and more, so that lanes go on behind the text, or as a whole.
pub fn in_lanes(part: Part, mut cuts: Cuts) -> Cuts {
    // Axis, log2 of a lane's entries, and lanes. Other axes are whole.
    let own: &[(usize, u32, usize)] = match part {
        Part::STREAM => &[(0, 1, 4), (1, 5, 2), (2, 3, 3)],
        Part::NORMS => &[(0, 1, 4), (1, 4, 3)],
        Part::Q => &[(1, 4, 3), (2, 0, 3)],
        Part::K => &[(0, 0, 3), (1, 5, 2)],
        Part::V => &[(0, 1, 2), (2, 1, 1)],
        Part::SCORES | Part::WINDOWED => &[
            (0, 0, 3),
            (1, 1, 2),
            (2, 1, cuts.last().map_or(1, |c| c.extent().div_ceil(2))),
        ],
        Part::SOFTMAX => &[(0, 1, 2), (1, 0, 3), (2, 5, 2)],
        Part::ATT => &[(0, 1, 2), (1, 4, 3)],
        Part::FF => &[(0, 0, 3), (2, 4, 3)],
        Part::LOGITS => &[(0, 1, 3), (1, 7, 3)],
        Part::Q_NORMS => &[(2, 0, 3)],
        Part::K_NORMS => &[(0, 0, 3), (1, 4, 3)],
        Part::TOPS => &[(0, 4, 2)],
        _ => panic!("how is {part:?} cut?"),
    };
    for cut in &mut cuts {
        let whole = cut.extent().next_power_of_two().trailing_zeros();
        let known = own.iter().find(|(axis, ..)| *axis == cut.axis);
        let (_, log_lane, lanes) = known.copied().unwrap_or((cut.axis, whole, 1));
        // A shorter text has fewer lanes, and shorter ones.
        let log_lane = log_lane.min(whole);
        *cut = Cut {
            log_lane,
            lanes: lanes.min(1 << (whole - log_lane)),
            ..*cut
        };
    }
    cuts
}

/// Some matmuls in one limb, some in two.
pub const MIXED: LimbSet = LimbSet {
    q: Limbs::One,
    k: Limbs::Two,
    v: Limbs::One,
    gate: Limbs::Two,
    up: Limbs::One,
    head: Limbs::Two,
};

/// Cases that together reach every lookup: shifts per channel, shifts per tensor, saturation, lanes, accumulators in one
/// limb and in two; outputs that are normed, and scores that are capped; heads that are normed, in lanes and in a chunk without head; and a first, a middle (in lanes) and a last chunk.
pub fn cases() -> [Case; 17] {
    let [first, middle, last] = [(0, 2), (2, 5), (5, 7)].map(|(start, end)| {
        let config = ModelConfig {
            layers: 7,
            ..odd_config()
        };
        let chunk = Chunk { start, end, of: 7 };
        let model = random_model(config, WeightFormat::Int8, 15);
        // The middle one has as many layers as the models.
        match chunk.layers().len() {
            3 => Case::of_chunk(model, &chunk, 15, 5, None, in_lanes),
            _ => Case::of_chunk(model, &chunk, 6, 5, None, |_, whole| whole),
        }
    });
    let with_limbs = |seed, limbs| {
        let model = random_model(three_layers(), WeightFormat::Int8, seed);
        Case::with_limbs(model, 6, 5, limbs, |_, whole| whole)
    };
    let several_blocks = ModelConfig {
        context: 48,
        ..three_layers()
    };
    let normed_blocks = ModelConfig {
        head_norms: true,
        ..several_blocks.clone()
    };
    let normed = ModelConfig {
        layers: 4,
        ..normed_config()
    };
    // Three layers, padded to four, before the last one.
    let without_head = Chunk {
        start: 0,
        end: 3,
        of: 4,
    };
    let normed_chunk = random_model(normed.clone(), WeightFormat::Int8, 20);
    let post_normed = ModelConfig {
        layers: 3,
        ..post_normed_config()
    };
    let capped = ModelConfig {
        layers: 3,
        head_norms: false,
        ..capped_config()
    };
    // One block that the window cuts, and several, in lanes.
    let window = random_model(windowed_config(4, [1]), WeightFormat::Int8, 23);
    let windows = random_model(windowed_config(20, [0, 2]), WeightFormat::Int8, 24);
    [
        Case::with_limbs(
            random_model(several_blocks, WeightFormat::Int8, 14),
            34,
            5,
            MIXED,
            in_lanes,
        ),
        Case::new(random_model(three_layers(), WeightFormat::Int8, 11), 6, 5),
        Case::new(random_model(three_layers(), WeightFormat::Int16, 12), 6, 5),
        Case::new(extreme_model(three_layers(), WeightFormat::Int8, 13), 6, 5),
        with_limbs(16, LimbSet::all(Limbs::One)),
        with_limbs(17, LimbSet::all(Limbs::Two)),
        with_limbs(18, MIXED),
        Case::with_limbs(
            random_model(normed_blocks, WeightFormat::Int8, 19),
            34,
            5,
            MIXED,
            in_lanes,
        ),
        Case::of_chunk(normed_chunk, &without_head, 6, 5, None, |_, whole| whole),
        Case::new(random_model(normed, WeightFormat::Int16, 21), 6, 5),
        Case::new(random_model(post_normed, WeightFormat::Int8, 21), 6, 5),
        Case::new(random_model(capped, WeightFormat::Int8, 22), 6, 5),
        Case::new(window, 6, 5),
        Case::with_limbs(windows, 34, 5, MIXED, in_lanes),
        first,
        middle,
        last,
    ]
}

/// An honest trace.
pub struct Case {
    pub shape: Shape,
    /// Of the chunk alone.
    pub params: ModelParams,
    pub statement: Statement,
    /// What enters and leaves the chunk.
    pub input: Option<PublicBoundary>,
    pub output: Option<PublicBoundary>,
    pub points: Points,
    /// The matmuls, proved.
    pub matmuls: PrecomputedMatmuls,
    pub statistics: Statistics,
    /// By part, in row order.
    pub columns: Vec<Columns>,
    pub tables: LookupTables,
    /// All linear claims at a random point, with their honest values.
    pub claims: Vec<LinearClaim>,
}

/// What enters a chunk that is not the first: what the layers before it make of the tokens.
fn what_enters(model: &QuantisedModel, chunk: &Chunk, ids: &[u32]) -> Boundary {
    let before = Chunk {
        start: 0,
        end: chunk.start,
        of: chunk.of,
    };
    let run = ForwardState::run_chunk(model, &before, Input::Tokens(ids), 0, None);
    run.expect("a forward pass").output
}

/// The columns of all parts, and all values that are clipped.
fn trace_of(source: &Source<'_>) -> (Vec<Columns>, Vec<Clip>) {
    let parts = source.shape.by_part(|part| source.columns(part)).into_iter();
    let parts = parts.map(|(columns, clips)| (elements(&columns), clips));
    let (columns, clips): (Vec<Columns>, Vec<Vec<Clip>>) = parts.unzip();
    (columns, clips.concat())
}

impl Case {
    /// The trace of a generation of `tokens` tokens from a prompt of `prompt` tokens, in the limbs that the key gives.
    pub fn new(model: QuantisedModel, prompt: usize, tokens: usize) -> Self {
        let whole = Chunk::whole(model.config.layers);
        Self::of_chunk(model, &whole, prompt, tokens, None, |_, whole| whole)
    }

    /// As [`Self::new`], in other limbs and a layout that only larger statements have.
    pub fn with_limbs(
        model: QuantisedModel,
        prompt: usize,
        tokens: usize,
        limbs: LimbSet,
        cuts: impl Fn(Part, Cuts) -> Cuts,
    ) -> Self {
        let whole = Chunk::whole(model.config.layers);
        Self::of_chunk(model, &whole, prompt, tokens, Some(limbs), cuts)
    }

    /// As [`Self::with_limbs`], of some of the layers.
    pub fn of_chunk(
        model: QuantisedModel,
        chunk: &Chunk,
        prompt: usize,
        tokens: usize,
        limbs: Option<LimbSet>,
        cuts: impl Fn(Part, Cuts) -> Cuts,
    ) -> Self {
        let prompt = random_ids(&model.config, prompt, 5);
        let options = GenerateOptions {
            tokens,
            ignore_eos: true,
        };
        let output = generate(&model, &prompt, &options, |_| ()).expect("a generation").ids;
        let statement = Statement { prompt, output };
        let limbs = limbs.unwrap_or_else(|| model.params.limb_set(&model.config));
        let shape = Shape::with_limbs(&model.config, limbs, chunk, statement.lengths()).with_cuts(cuts);
        let params = chunk.params(&model.params);
        let ids = statement.row_ids();
        let enters = (!chunk.is_first()).then(|| what_enters(&model, chunk, &ids));
        let leading = params.leading.count(&ids);
        let entering = |boundary| Input::Stream(boundary, leading);
        let input = enters.as_ref().map_or(Input::Tokens(&ids), entering);
        let mut witness = Witness::default();
        let run =
            ForwardState::run_chunk(&model, chunk, input, shape.outputs, Some(&mut witness)).expect("a forward pass");
        let output = (!chunk.is_last()).then_some(run.output);
        let [before, after] = [&enters, &output].map(|end| end.clone().map(PublicBoundary::Clear));
        let ends = Ends {
            input: before.as_ref(),
            output: after.as_ref(),
        };
        let tops = tops(&shape, &statement, &witness);
        let source = Source {
            shape: &shape,
            params: &params,
            statement: &statement,
            said: &statement,
            input: enters.as_ref(),
            witness: &witness,
            tops: &tops,
        };
        let (columns, clips) = trace_of(&source);
        let statistics = Statistics { clips };
        statistics
            .check(&shape, &params, &statement)
            .expect("honest statistics");

        let mut transcript = Transcript::new("constraints");
        let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
        let public = Public {
            shape: &shape,
            params: &params,
            statement: &statement,
            ends,
            statistics: &statistics,
            points: &points,
        };
        let opened = unrooted_key(&model).opened(chunk);
        let matmuls = matmul::prove(
            &public,
            &Vectors,
            (
                &*Vectors.columns(of_elements(&columns)).expect("columns"),
                &HiddenDigits::default(),
            ),
            &model.weights,
            &opened,
            None,
            &mut transcript,
        );
        let (matmuls, _) = matmuls.expect("products");
        let mut own = Self {
            tables: LookupTables::new(&params, &shape.config),
            columns,
            claims: Vec::new(),
            shape,
            params,
            statement,
            statistics,
            input: before,
            output: after,
            points,
            matmuls,
        };
        own.claims = own.claims_with(&own.statistics);
        own
    }

    /// The logit of an output token.
    pub fn top(&self, output: usize) -> i64 {
        let value = i64::from(self.columns[Part::TOPS.index()][logits::TOP][output].0);
        match value < 1 << 30 {
            true => value,
            false => value - i64::from(P),
        }
    }

    /// What is public at the random point, with these statistics.
    pub fn public<'a>(&'a self, statistics: &'a Statistics) -> Public<'a> {
        Public {
            shape: &self.shape,
            params: &self.params,
            statement: &self.statement,
            ends: Ends {
                input: self.input.as_ref(),
                output: self.output.as_ref(),
            },
            statistics,
            points: &self.points,
        }
    }

    /// All linear claims with these statistics, with whole sums as their values.
    pub fn claims_with(&self, statistics: &Statistics) -> Vec<LinearClaim> {
        let (public, matmuls) = (self.public(statistics), &self.matmuls);
        let heard = Heard {
            accumulators: matmuls.proof.claim,
            operands: matmuls.operands.clone(),
            denominators: Vec::new(),
            counts: None,
            digits: None,
            boundaries: [None; 2],
        };
        let mut claims = public.trace_claims();
        claims.extend(public.operand_claims(&matmuls.point));
        claims.into_iter().map(|claim| claim.settled(&heard)).collect()
    }

    /// The names of the claims that changes of cells break, all together.
    pub fn broken(&self, changes: &[(Part, usize, usize, BaseField)]) -> BTreeSet<&'static str> {
        let effect = |claim: &LinearClaim| {
            claim.groups.iter().fold(SecureField::zero(), |sum, group| {
                let own = changes.iter().filter(|(part, ..)| *part == group.part);
                let mut own = own.peekable();
                if own.peek().is_none() {
                    return sum;
                }
                let weights = group.table();
                own.fold(sum, |sum, (_, column, row, by)| {
                    let factors = group.columns.iter().filter(|(c, _)| c == column);
                    factors.fold(sum, |sum, (_, k)| sum + *k * weights[*row] * *by)
                })
            })
        };
        let broken = self.claims.iter().filter(|claim| !effect(claim).is_zero());
        broken.map(|claim| claim.name).collect()
    }

    /// What every claim weighs the cells of a part with.
    pub fn coverage(&self, part: Part) -> Coverage {
        let of = |claim: &LinearClaim| -> Weights {
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
            claims: self
                .claims
                .iter()
                .map(|claim| (claim.name, of(claim)))
                .filter(|(_, own)| !own.is_empty())
                .collect(),
        }
    }

    /// The lane of a column and its number in the lane.
    pub fn lane(&self, part: Part, column: usize) -> (usize, usize) {
        let width = self.shape.lane_columns(part);
        (column / width, column % width)
    }

    /// Whether an entry is of a head that the model does not have, of parts in which such entries say nothing.
    pub fn padded_head(&self, part: Part, at: &[usize]) -> bool {
        let config = &self.shape.config;
        match part {
            Part::SCORES | Part::WINDOWED | Part::SOFTMAX => at[1] >= config.heads,
            Part::Q_NORMS => at[2] >= config.heads,
            Part::K_NORMS => at[2] >= config.kv_heads,
            _ => false,
        }
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

    /// Whether the token row that owns an entry is behind the text.
    pub fn is_behind(&self, part: Part, at: &[usize]) -> bool {
        let row = match part {
            Part::LOGITS | Part::TOPS => None,
            Part::SCORES | Part::WINDOWED => self.tokens(part, at).map(|(query, _)| query),
            Part::SOFTMAX => at.get(2).copied(),
            _ => at.get(1).copied(),
        };
        row.is_some_and(|row| row >= self.shape.rows)
    }

    /// Whether an entry is one of the model, and owned by a row of the text.
    pub fn is_owned(&self, part: Part, lane: usize, row: usize) -> bool {
        self.in_model(part, lane, row) && !self.is_behind(part, &self.unpack(part, lane, row))
    }

    /// Whether an entry is one of a layer or state of the model, or of an output token and an entry of its vocabulary.
    pub fn in_model(&self, part: Part, lane: usize, row: usize) -> bool {
        let at = self.unpack(part, lane, row);
        match part {
            Part::STREAM | Part::NORMS => at[0] < self.shape.states(),
            Part::LOGITS => at[0] < self.shape.outputs && at[1] < self.shape.config.vocab,
            Part::TOPS => at[0] < self.shape.outputs,
            Part::SCORES | Part::WINDOWED => {
                self.shape.layer_of(part, at[0]).is_some() && self.tokens(part, &at).is_some()
            }
            _ => at[0] < self.shape.config.layers,
        }
    }

    /// Query and key of an entry of a part of scores, of these indices.
    pub fn tokens(&self, part: Part, at: &[usize]) -> Option<(usize, usize)> {
        let mut kinds = self.shape.kinds().into_iter();
        let kind = kinds.find(|kind| kind.part == part).expect("a part of scores");
        kind.pairs.tokens([at[2], at[3], at[4]])
    }

    /// Whether the query of an entry of a part of scores sees its key, of these indices.
    pub fn is_open(&self, part: Part, at: &[usize]) -> bool {
        let (layer, tokens) = (self.shape.layer_of(part, at[0]), self.tokens(part, at));
        let sees = |(layer, (query, key))| self.shape.config.visible(layer, query, self.shape.rows).contains(&key);
        layer.zip(tokens).is_some_and(sees)
    }
}

/// Weights of a claim by column, one per row.
pub type Weights = BTreeMap<usize, Vec<SecureField>>;

/// Weights of the cells of one part: those of every claim that touches it.
pub struct Coverage {
    pub claims: Vec<(&'static str, Weights)>,
}

impl Coverage {
    /// The claims that a change of this cell alone breaks.
    pub fn names(&self, column: usize, row: usize) -> BTreeSet<&'static str> {
        let covers = |claim: &Weights| claim.get(&column).is_some_and(|w| !w[row].is_zero());
        let own = self.claims.iter().filter(|(_, claim)| covers(claim));
        own.map(|(name, _)| *name).collect()
    }

    /// Whether a change of this cell alone breaks a claim.
    pub fn covers(&self, column: usize, row: usize) -> bool {
        !self.names(column, row).is_empty()
    }

    /// Whether changes of several cells of one row together break a claim.
    pub fn breaks(&self, row: usize, changes: &[(usize, BaseField)]) -> bool {
        self.claims
            .iter()
            .any(|(_, claim)| !effect(claim, row, changes).is_zero())
    }

    /// Whether changes of several cells of one row together break the claims of this name.
    pub fn breaks_named(&self, name: &str, row: usize, changes: &[(usize, BaseField)]) -> bool {
        let mut named = self.claims.iter().filter(|(own, _)| *own == name).peekable();
        assert!(named.peek().is_some(), "a claim of this name");
        named.any(|(_, claim)| !effect(claim, row, changes).is_zero())
    }
}

/// By how much changes of cells of one row change the sum of a claim.
fn effect(claim: &Weights, row: usize, changes: &[(usize, BaseField)]) -> SecureField {
    changes.iter().fold(SecureField::zero(), |sum, (column, by)| {
        sum + claim.get(column).map_or(SecureField::zero(), |w| w[row] * *by)
    })
}

/// A random field element.
pub fn random(rng: &mut SplitMix) -> BaseField {
    BaseField::from_u32_unchecked(rng.below(u64::from(P)) as u32)
}
