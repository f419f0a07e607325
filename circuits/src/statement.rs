//! The statement (docs/protocol.md, section 1) and the row statistics that a proof carries in clear
//! (section 8.3).

use serde::{Deserialize, Serialize};

use crate::model::{LeadingRows, ModelConfig, ModelParams, NormParams, RowClass};
use crate::semantics::{norm_rsqrt, reciprocal};
use crate::shape::{Part, Shape};
use crate::wiring::shift_at;

/// "This model, on this prompt, generates these tokens" (greedy, lowest index on a tie).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub prompt: Vec<u32>,
    pub output: Vec<u32>,
}

/// Lengths of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Token rows of the forward pass.
    pub rows: usize,
    /// Output tokens.
    pub outputs: usize,
}

/// The longest output that a statement of so many rows can have: that of a prompt of one token.
impl From<usize> for Lengths {
    fn from(rows: usize) -> Self {
        Self { rows, outputs: rows }
    }
}

/// How an output ends. It follows from the ids of the statement and the end tokens of the model alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The last token ends the text.
    Stop { id: u32 },
    /// The output stops at this many tokens, not because the model ended the text.
    Length { tokens: usize },
}

impl Finish {
    /// As programs say it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Stop { .. } => "stop",
            Self::Length { .. } => "length",
        }
    }
}

/// A statement that cannot be true of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("no output token is claimed")]
    EmptyOutput,
    #[error("{rows} token rows exceed the model's context of {context}")]
    TooLong { rows: usize, context: usize },
    #[error("token id {id} at position {position} is outside the vocabulary of {vocab}")]
    UnknownToken { id: u32, position: usize, vocab: usize },
}

impl Statement {
    /// Checks lengths and ids against the model.
    pub fn check(&self, config: &ModelConfig) -> Result<(), StatementError> {
        if self.prompt.is_empty() {
            return Err(StatementError::EmptyPrompt);
        }
        if self.output.is_empty() {
            return Err(StatementError::EmptyOutput);
        }
        if self.rows() > config.context {
            return Err(StatementError::TooLong {
                rows: self.rows(),
                context: config.context,
            });
        }
        for (position, &id) in self.prompt.iter().chain(&self.output).enumerate() {
            if id as usize >= config.vocab {
                return Err(StatementError::UnknownToken {
                    id,
                    position,
                    vocab: config.vocab,
                });
            }
        }
        Ok(())
    }

    /// Token rows of the forward pass: prompt and all generated tokens but the last.
    pub fn rows(&self) -> usize {
        (self.prompt.len() + self.output.len()).saturating_sub(1)
    }

    /// What row spaces follow from.
    pub fn lengths(&self) -> Lengths {
        Lengths {
            rows: self.rows(),
            outputs: self.output.len(),
        }
    }

    /// Token of every row, padded with token 0 to `2^token_log` rows.
    pub fn row_ids(&self, token_log: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = self
            .prompt
            .iter()
            .chain(&self.output)
            .copied()
            .take(self.rows())
            .collect();
        ids.resize(1 << token_log, 0);
        ids
    }

    /// Number of leading rows among the `2^token_log` padded rows, which are the first ones.
    pub fn leading(&self, rule: &LeadingRows, token_log: u32) -> usize {
        rule.count(&self.row_ids(token_log))
    }

    /// How the output ends.
    pub fn finish(&self, config: &ModelConfig) -> Finish {
        match self.output.last() {
            Some(&id) if config.eos.contains(&id) => Finish::Stop { id },
            _ => Finish::Length {
                tokens: self.output.len(),
            },
        }
    }

    /// Positions in the output of tokens that end a text, but for the last position: there the model went on past its
    /// own end.
    pub fn ends_inside(&self, config: &ModelConfig) -> Vec<usize> {
        let before = self.output.len().saturating_sub(1);
        let inside = self.output.iter().take(before).enumerate();
        let ends = inside.filter(|(_, id)| config.eos.contains(id));
        ends.map(|(position, _)| position).collect()
    }

    /// (row, output token) of every generated position.
    pub fn generated(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let first = self.prompt.len().saturating_sub(1);
        self.output.iter().enumerate().map(move |(i, &id)| (first + i, id))
    }
}

/// Row statistics in clear: one triple per (state, token) and one sum per (layer, head, token), for all
/// padded token rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// `[state][token]`: sums over the features of `hi^2`, `hi lo`, `lo^2` of the state's limbs, each times `4^k`, `k` the
    /// exponent of the channel.
    pub norms: Vec<[i32; 3]>,
    /// `[layer][head][token]`: sum of exponentials of the softmax row.
    pub sums: Vec<u32>,
    /// `[output token]`: its logit; none without head.
    pub tops: Vec<i16>,
    /// Values that did not fit int16, by part and place.
    pub clips: Vec<Clip>,
}

/// A kind of values that were rounded to int16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rounded {
    pub part: Part,
    /// Among those of the part.
    pub tensor: u8,
}

impl Rounded {
    pub const STATE: Self = Self::of(Part::Stream, 0);
    pub const NORM: Self = Self::of(Part::Stream, 1);
    pub const VALUE: Self = Self::of(Part::V, 0);
    pub const SCORE: Self = Self::of(Part::Scores, 0);
    pub const ATTENTION: Self = Self::of(Part::Att, 0);
    pub const GATE: Self = Self::of(Part::Ff, 0);
    pub const UP: Self = Self::of(Part::Ff, 1);
    pub const PRODUCT: Self = Self::of(Part::Ff, 2);
    pub const LOGIT: Self = Self::of(Part::Logits, 0);

    const fn of(part: Part, tensor: u8) -> Self {
        Self { part, tensor }
    }

    /// A half of queries or keys before the rotation.
    pub const fn before(part: Part, half: usize) -> Self {
        Self::of(part, half as u8)
    }

    /// A half of queries or keys after it.
    pub const fn after(part: Part, half: usize) -> Self {
        Self::of(part, 2 + half as u8)
    }

    /// Number of kinds in a part.
    const fn kinds(part: Part) -> u8 {
        match part {
            Part::Stream => 2,
            Part::Q | Part::K => 4,
            Part::V | Part::Scores | Part::Att | Part::Logits => 1,
            Part::Ff => 3,
            Part::Tables => 0,
        }
    }
}

/// A value that did not fit int16 and was clipped to the largest or smallest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clip {
    /// [`Part::index`].
    pub part: u8,
    /// [`Rounded::tensor`].
    pub tensor: u8,
    /// Index of the entry in the row space of the part.
    pub at: u64,
    /// The value less what it was clipped to; not 0.
    pub excess: i32,
}

impl Clip {
    /// What the value was clipped to.
    pub const fn value(&self) -> i64 {
        match self.excess > 0 {
            true => i16::MAX as i64,
            false => i16::MIN as i64,
        }
    }

    /// The indices of the entry along axes of these log lengths.
    pub fn place(&self, axes: &[u32]) -> Vec<usize> {
        let mut rest = self.at;
        let mut place: Vec<usize> = axes
            .iter()
            .rev()
            .map(|log| {
                let index = rest & ((1 << log) - 1);
                rest >>= log;
                index as usize
            })
            .collect();
        place.reverse();
        place
    }
}

/// Statistics of the wrong length or outside the range that true sums have (an alias modulo p).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    #[error("{got} norm statistics, expected {expected}")]
    Norms { got: usize, expected: usize },
    #[error("{got} softmax sums, expected {expected}")]
    Sums { got: usize, expected: usize },
    #[error("norm statistic {index} is out of range")]
    NormRange { index: usize },
    #[error("softmax sum {index} is out of range")]
    SumRange { index: usize },
    #[error("{got} logits of output tokens, expected {expected}")]
    Tops { got: usize, expected: usize },
    #[error("output token {index} has the smallest logit there is, and is not token 0")]
    SmallestTop { index: usize },
    #[error("{got} clipped values are more than {most}")]
    TooManyClips { got: usize, most: usize },
    #[error("clipped value {index} is not one of the proof, or not after the one before it")]
    ClipPlace { index: usize },
    #[error("clipped value {index} exceeds its range by {excess}, which no accumulator can")]
    ClipRange { index: usize, excess: i32 },
}

impl Statistics {
    /// Bound of every statistic in absolute value.
    pub const BOUND: i32 = 1 << 30;

    /// The most clipped values that a proof may list.
    pub const MAX_CLIPS: usize = 1 << 16;

    /// The clipped values of a kind.
    pub fn clips(&self, rounded: Rounded) -> impl Iterator<Item = &Clip> {
        let own = move |clip: &&Clip| usize::from(clip.part) == rounded.part.index() && clip.tensor == rounded.tensor;
        self.clips.iter().filter(own)
    }

    /// Checks lengths, ranges and places.
    pub fn check(&self, shape: &Shape, params: &ModelParams, statement: &Statement) -> Result<(), StatisticsError> {
        let (config, tokens) = (&shape.config, 1 << shape.token);
        let norms = (2 * config.layers + 1) * tokens;
        if self.norms.len() != norms {
            return Err(StatisticsError::Norms {
                got: self.norms.len(),
                expected: norms,
            });
        }
        let sums = config.layers * config.heads * tokens;
        if self.sums.len() != sums {
            return Err(StatisticsError::Sums {
                got: self.sums.len(),
                expected: sums,
            });
        }
        let bad = |[hh, hl, ll]: &[i32; 3]| {
            !(0..Self::BOUND).contains(hh)
                || !(-Self::BOUND..Self::BOUND).contains(hl)
                || !(0..Self::BOUND).contains(ll)
        };
        if let Some(index) = self.norms.iter().position(bad) {
            return Err(StatisticsError::NormRange { index });
        }
        if let Some(index) = self.sums.iter().position(|s| *s >= Self::BOUND as u32) {
            return Err(StatisticsError::SumRange { index });
        }
        let outputs = if shape.chunk.is_last() { shape.outputs } else { 0 };
        if self.tops.len() != outputs {
            return Err(StatisticsError::Tops {
                got: self.tops.len(),
                expected: outputs,
            });
        }
        // Then all logits are clipped to it, and the lowest id is the arg max.
        let smallest = |(top, id): (&i16, &u32)| *top == i16::MIN && *id != 0;
        if let Some(index) = self.tops.iter().zip(&statement.output).position(smallest) {
            return Err(StatisticsError::SmallestTop { index });
        }
        self.check_clips(shape, params, statement.leading(&params.leading, shape.token))
    }

    /// Strictly ascending places of committed entries, and values that do not wrap: section 8.1.
    fn check_clips(&self, shape: &Shape, params: &ModelParams, leading: usize) -> Result<(), StatisticsError> {
        let (got, most) = (self.clips.len(), Self::MAX_CLIPS);
        if got > most {
            return Err(StatisticsError::TooManyClips { got, most });
        }
        let mut before = None;
        for (index, clip) in self.clips.iter().enumerate() {
            let order = (clip.part, clip.tensor, clip.at);
            let part = shape.claimed().find(|part| part.index() == usize::from(clip.part));
            let part = part.filter(|part| clip.tensor < Rounded::kinds(*part));
            let Some(part) = part.filter(|_| before.is_none_or(|before| before < order)) else {
                return Err(StatisticsError::ClipPlace { index });
            };
            before = Some(order);
            let axes = shape.full_axes(part);
            let place = clip.place(&axes);
            let mut extents = place.iter().enumerate();
            let within = extents.all(|(axis, i)| *i < shape.extent(part, axis));
            if !within || axes.iter().sum::<u32>() < 64 && clip.at >> axes.iter().sum::<u32>() != 0 {
                return Err(StatisticsError::ClipPlace { index });
            }
            let value = clip.value() + i64::from(clip.excess);
            let rounded = Rounded {
                part,
                tensor: clip.tensor,
            };
            let bits = shift_at(shape, params, rounded, &place, leading);
            if clip.excess == 0 || value.unsigned_abs() > 1 << (30 - bits.min(30)) {
                let excess = clip.excess;
                return Err(StatisticsError::ClipRange { index, excess });
            }
        }
        Ok(())
    }

    /// Reciprocal square root of every (state, token); the first `leading` tokens are leading rows.
    pub fn rsqrts(&self, config: &ModelConfig, params: &ModelParams, leading: usize) -> Vec<u32> {
        let tokens = self.norms.len() / (2 * config.layers + 1);
        let of = |state: usize| norm_of(params, state);
        self.norms
            .chunks(tokens.max(1))
            .enumerate()
            .flat_map(|(state, row)| {
                row.iter().enumerate().map(move |(i, s)| {
                    let class = class_of(i, leading);
                    norm_rsqrt(s.map(i64::from), config.hidden, of(state), class)
                })
            })
            .collect()
    }

    /// Reciprocal of every softmax sum.
    pub fn reciprocals(&self) -> Vec<u32> {
        self.sums.iter().map(|s| reciprocal(*s)).collect()
    }
}

/// Class of a token row, where the first `leading` ones are leading rows.
pub const fn class_of(row: usize, leading: usize) -> RowClass {
    match row < leading {
        true => RowClass::Lead,
        false => RowClass::Body,
    }
}

/// Norm parameters of a residual state.
pub fn norm_of(params: &ModelParams, state: usize) -> &NormParams {
    match params.layers.get(state / 2) {
        Some(layer) if state.is_multiple_of(2) => &layer.norm_attn,
        Some(layer) => &layer.norm_mlp,
        None => &params.norm_final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::model::{odd_config, test_params, ByClass, ChannelShift};
    use crate::shape::Cut;

    fn statement(prompt: usize, output: usize, id: u32) -> Statement {
        Statement {
            prompt: vec![id; prompt],
            output: vec![id; output],
        }
    }

    /// Not what a proof says of itself, but what its ids are under the end tokens of the model.
    #[test]
    fn an_output_that_is_cut_or_goes_on_past_its_end_is_told_from_a_complete_one() {
        let mut config = odd_config(2);
        config.eos = vec![7, 9];
        let of = |output: &[u32]| {
            let statement = Statement {
                prompt: vec![7],
                output: output.to_vec(),
            };
            (statement.finish(&config), statement.ends_inside(&config))
        };
        assert_eq!(of(&[1, 2, 9]), (Finish::Stop { id: 9 }, vec![]));
        assert_eq!(of(&[1, 2]), (Finish::Length { tokens: 2 }, vec![]));
        assert_eq!(of(&[7, 2, 9, 3]), (Finish::Length { tokens: 4 }, vec![0, 2]));
        assert_eq!(of(&[9, 9]), (Finish::Stop { id: 9 }, vec![0]));
        assert_eq!((of(&[9]).0.reason(), of(&[1]).0.reason()), ("stop", "length"));
        config.eos.clear();
        let statement = statement(1, 2, 9);
        assert_eq!(statement.finish(&config), Finish::Length { tokens: 2 });
    }

    /// All rows of the context and the last id of the vocabulary, and nothing beyond.
    #[test]
    fn statements_reach_as_far_as_the_model() {
        let check = |s: Statement| s.check(&odd_config(2));
        assert_eq!(check(statement(1, 1, 0)), Ok(()));
        assert_eq!(check(statement(5, 21, 299)), Ok(()));
        let (rows, context) = (26, 25);
        assert_eq!(
            check(statement(5, 22, 299)),
            Err(StatementError::TooLong { rows, context })
        );
        assert_eq!(check(statement(0, 3, 1)), Err(StatementError::EmptyPrompt));
        assert_eq!(check(statement(3, 0, 1)), Err(StatementError::EmptyOutput));
        let mut unknown = statement(5, 5, 299);
        unknown.output[4] = 300;
        let (id, position, vocab) = (300, 9, 300);
        assert_eq!(
            check(unknown),
            Err(StatementError::UnknownToken { id, position, vocab })
        );
    }

    /// The rows run over prompt and output but the last; the first generated token is that of the last row of the prompt.
    #[test]
    fn rows_are_those_of_the_generation() {
        let own = Statement {
            prompt: vec![7, 8, 9],
            output: vec![10, 11],
        };
        assert_eq!(own.rows(), 4);
        assert_eq!(own.row_ids(3), [7, 8, 9, 10, 0, 0, 0, 0]);
        assert!(own.generated().eq([(2, 10), (3, 11)]));
    }

    /// Leading rows follow from the ids: the first ones, and those that repeat the first; padding repeats token 0.
    #[test]
    fn leading_rows_follow_from_the_ids() {
        let of = |prompt: &[u32], first, run| {
            let (prompt, output) = (prompt.to_vec(), vec![9]);
            Statement { prompt, output }.leading(&LeadingRows { first, run }, 2)
        };
        assert_eq!(of(&[7, 8, 9], 1, true), 1);
        assert_eq!(of(&[7, 7, 9], 1, true), 2);
        assert_eq!(of(&[7, 7, 9], 1, false), 1);
        assert_eq!(of(&[7, 7, 9], 0, false), 0);
        assert_eq!(of(&[7, 8, 7], 0, true), 1);
        assert_eq!(of(&[7, 7, 7], 2, true), 3);
        assert_eq!(of(&[0, 0, 0], 1, true), 4);
        assert_eq!(of(&[7], 9, false), 4);
    }

    /// A statement of four rows and two output tokens, under parameters of two layers.
    fn setting() -> (Shape, ModelParams, Statement) {
        let own = Statement {
            prompt: vec![7, 8, 9],
            output: vec![10, 11],
        };
        let config = odd_config(2);
        (Shape::new(&config, own.lengths()), test_params(&config), own)
    }

    /// Statistics of zeros for it.
    fn zeros() -> Statistics {
        Statistics {
            norms: vec![[0; 3]; 5 * 4],
            sums: vec![0; 2 * 3 * 4],
            tops: vec![0; 2],
            clips: Vec::new(),
        }
    }

    fn check(change: impl FnOnce(&mut Statistics)) -> Result<(), StatisticsError> {
        let ((shape, params, statement), mut own) = (setting(), zeros());
        change(&mut own);
        own.check(&shape, &params, &statement)
    }

    /// True statistics are below 2^30 in absolute value, and all but `HL` are not negative: so none has an alias modulo p.
    #[test]
    fn statistics_have_the_ranges_of_true_ones() {
        let bound = Statistics::BOUND;
        assert_eq!(bound, 1 << 30);
        let with = |norm: [i32; 3], sum: u32| check(|s| (s.norms[19], s.sums[23]) = (norm, sum));
        assert_eq!(with([bound - 1; 3], bound as u32 - 1), Ok(()));
        assert_eq!(with([0, -bound, 0], 0), Ok(()));
        for norm in [
            [bound, 0, 0],
            [-1, 0, 0],
            [0, bound, 0],
            [0, -bound - 1, 0],
            [0, 0, bound],
            [0, 0, -1],
        ] {
            assert_eq!(with(norm, 0), Err(StatisticsError::NormRange { index: 19 }));
        }
        assert_eq!(with([0; 3], bound as u32), Err(StatisticsError::SumRange { index: 23 }));
        let (got, expected) = (21, 20);
        let longer = check(|s| s.norms.push([0; 3]));
        assert_eq!(longer, Err(StatisticsError::Norms { got, expected }));
        let (got, expected) = (23, 24);
        let shorter = check(|s| s.sums.truncate(23));
        assert_eq!(shorter, Err(StatisticsError::Sums { got, expected }));
    }

    /// Every output token has a logit, and only token 0 the smallest one: where all logits are clipped to it, token 0 wins.
    #[test]
    fn the_smallest_logit_is_that_of_token_0_alone() {
        assert_eq!(check(|s| s.tops = vec![i16::MAX, i16::MIN + 1]), Ok(()));
        let smallest = check(|s| s.tops[1] = i16::MIN);
        assert_eq!(smallest, Err(StatisticsError::SmallestTop { index: 1 }));
        let (shape, params, mut statement) = setting();
        statement.output[1] = 0;
        let mut own = zeros();
        own.tops[1] = i16::MIN;
        assert_eq!(own.check(&shape, &params, &statement), Ok(()));
        for got in [0, 1, 3] {
            let tops = check(|s| s.tops.resize(got, 0));
            assert_eq!(tops, Err(StatisticsError::Tops { got, expected: 2 }));
        }
        // Without a head there are no logits.
        let headless = Chunk {
            start: 0,
            end: 2,
            of: 3,
        };
        let shape = Shape::of(&odd_config(3), &headless, statement.lengths());
        assert_eq!(
            zeros().check(&shape, &params, &statement),
            Err(StatisticsError::Tops { got: 2, expected: 0 })
        );
        own.tops.clear();
        assert_eq!(own.check(&shape, &params, &statement), Ok(()));
    }

    /// A clipped value of the shape of [`setting`].
    fn clip(shape: &Shape, rounded: Rounded, place: &[usize], excess: i32) -> Clip {
        let axes = shape.full_axes(rounded.part);
        assert_eq!(axes.len(), place.len());
        let at = axes.iter().zip(place).fold(0, |at, (log, i)| (at << log) | *i as u64);
        let own = Clip {
            part: rounded.part.index() as u8,
            tensor: rounded.tensor,
            at,
            excess,
        };
        assert_eq!(own.place(&axes), place);
        own
    }

    /// The list of clipped values is one of entries that exist, each once and in order: there is one list for a trace.
    #[test]
    fn clipped_values_are_committed_entries_in_order() {
        let (shape, ..) = setting();
        // Five states of eight, and of two layers no third.
        let shape = shape.with_cuts(|_, [first, second]| {
            let lanes = [5, 2][usize::from(first.axis == 0 && first.lanes != 5)];
            [
                Cut {
                    log_lane: 0,
                    lanes,
                    ..first
                },
                second,
            ]
        });
        let (_, mut params, statement) = setting();
        params.layers[0].norm_attn.shift = 3;
        let with = |clips: &[Clip]| {
            let clips = clips.to_vec();
            Statistics { clips, ..zeros() }.check(&shape, &params, &statement)
        };
        let state = |place: [usize; 3]| clip(&shape, Rounded::STATE, &place, 9);
        let norm = |place: [usize; 3]| clip(&shape, Rounded::NORM, &place, -9);
        let product = |place: [usize; 3]| clip(&shape, Rounded::PRODUCT, &place, 1);
        let logit = clip(&shape, Rounded::LOGIT, &[1, 299], 1);
        let (a, b, c, d) = (state([0, 1, 2]), state([0, 1, 3]), norm([0, 0, 0]), product([1, 0, 0]));
        assert_eq!(with(&[a, b, c, d, logit]), Ok(()));
        let misplaced = |index| Err(StatisticsError::ClipPlace { index });
        assert_eq!(with(&[b, a]), misplaced(1), "not ascending");
        assert_eq!(with(&[a, a]), misplaced(1), "repeated");
        assert_eq!(with(&[c, a]), misplaced(1), "a kind after a later one");
        assert_eq!(with(&[a, d, c]), misplaced(2), "a part after a later one");
        let extent = shape.extent(Part::Stream, 0);
        assert!(extent < 8, "not all states are committed");
        assert_eq!(
            with(&[state([extent - 1, 3, shape.extent(Part::Stream, 2) - 1])]),
            Ok(()),
            "padding that is committed"
        );
        assert_eq!(
            with(&[a, state([extent, 0, 0])]),
            misplaced(1),
            "beyond what is committed"
        );
        let axes: u32 = shape.full_axes(Part::Stream).iter().sum();
        let beyond = Clip {
            at: a.at | 1 << axes,
            ..a
        };
        assert_eq!(
            with(&[beyond]),
            misplaced(0),
            "beyond the part, an alias of its first entries"
        );
        for (part, kinds) in [
            (0, 2),
            (1, 4),
            (2, 4),
            (3, 1),
            (4, 1),
            (5, 1),
            (6, 3),
            (7, 1),
            (8, 0),
            (9, 0),
            (255, 0),
        ] {
            let of = |tensor| Clip {
                part,
                tensor,
                at: 0,
                excess: 1,
            };
            assert_eq!(with(&[of(kinds)]), misplaced(0), "part {part} has {kinds} kinds");
            assert!(
                kinds == 0 || with(&[of(kinds - 1)]) == Ok(()),
                "part {part} has {kinds} kinds"
            );
        }
        let many = vec![a; Statistics::MAX_CLIPS + 1];
        let (got, most) = (Statistics::MAX_CLIPS + 1, 1 << 16);
        assert_eq!(with(&many), Err(StatisticsError::TooManyClips { got, most }));
        assert_eq!(with(&many[1..]), misplaced(1));
        // A chunk without head has no logits that could be clipped.
        let headless = Chunk {
            start: 0,
            end: 2,
            of: 3,
        };
        let shape = Shape::of(&odd_config(3), &headless, statement.lengths());
        let (tops, clips) = (Vec::new(), vec![a, logit]);
        let own = Statistics { tops, clips, ..zeros() };
        assert_eq!(own.check(&shape, &params, &statement), misplaced(1));
    }

    /// What a clipped value was before stays below 2^30 in the units of its claim: one unit more is refused, and so is
    /// nothing at all.
    #[test]
    fn clipped_values_have_the_range_of_accumulators() {
        let (shape, mut params, statement) = setting();
        params.layers[1].act.lead = 5;
        params.layers[1].o.lead = -2;
        params.layers[1].skip_attn.lead = 2;
        (params.layers[0].norm_mlp.shift, params.norm_final.shift) = (5, 6);
        params.exponents = vec![0; 20];
        params.exponents[6] = 3;
        assert_eq!(params.check(&odd_config(2)), Ok(()));
        // Total shifts of one limb have 8 more than those of two.
        // Padded entries of a head have the shift of the matrix if that is one, and else the smallest.
        params.layers[0].k = ChannelShift(vec![3; 6]);
        params.layers[0].v = ChannelShift(vec![3; 6]);
        let places: [(Rounded, &[usize], u32); 22] = [
            (Rounded::STATE, &[0, 1, 0], 1),
            (Rounded::STATE, &[3, 1, 19], 5),
            (Rounded::STATE, &[3, 0, 19], 3),
            (Rounded::STATE, &[3, 0, 20], 1),
            (Rounded::NORM, &[1, 0, 5], 8 + 5),
            (Rounded::NORM, &[4, 0, 6], 8 + 3),
            (Rounded::NORM, &[4, 0, 7], 8 + 6),
            (Rounded::before(Part::Q, 1), &[1, 0, 2, 1], 3),
            (Rounded::after(Part::Q, 1), &[1, 0, 2, 1], 14),
            (Rounded::before(Part::Q, 0), &[1, 0, 3, 0], 3),
            (Rounded::before(Part::K, 0), &[0, 0, 0, 2], 3),
            (Rounded::before(Part::K, 0), &[0, 0, 0, 3], 1),
            (Rounded::before(Part::K, 0), &[1, 0, 0, 3], 3),
            (Rounded::VALUE, &[0, 0, 0, 2], 3),
            (Rounded::VALUE, &[0, 0, 0, 3], 1),
            (Rounded::VALUE, &[1, 0, 0, 3], 3),
            (Rounded::SCORE, &[0, 2, 1, 0], 5),
            (Rounded::ATTENTION, &[1, 3, 1, 0], 7),
            (Rounded::GATE, &[1, 3, 43], 3),
            (Rounded::PRODUCT, &[1, 0, 0], 8 + 5),
            (Rounded::PRODUCT, &[1, 1, 0], 8 + 3),
            (Rounded::LOGIT, &[0, 299], 4),
        ];
        for (rounded, place, bits) in places {
            let with = |excess| {
                let clips = vec![clip(&shape, rounded, place, excess)];
                Statistics { clips, ..zeros() }.check(&shape, &params, &statement)
            };
            let refused = |excess| Err(StatisticsError::ClipRange { index: 0, excess });
            let most = 1 << (30 - bits);
            for excess in [1, -1, most - 32767, 32768 - most] {
                assert_eq!(with(excess), Ok(()), "{rounded:?} {place:?} {excess}");
            }
            for excess in [0, most - 32766, 32767 - most, i32::MAX, i32::MIN] {
                assert_eq!(with(excess), refused(excess), "{rounded:?} {place:?} {excess}");
            }
        }
        // With the largest shift of one limb there is one value that can be clipped.
        let with = |excess| {
            let clips = vec![clip(&shape, Rounded::NORM, &[0, 0, 5], excess)];
            Statistics { clips, ..zeros() }.check(&shape, &params, &statement)
        };
        let refused = |excess| Err(StatisticsError::ClipRange { index: 0, excess });
        assert_eq!([1, 2, -1].map(with), [Ok(()), refused(2), refused(-1)]);
    }

    /// Every state has the norm that reads it, and every statistic the parameters of its state.
    #[test]
    fn norms_are_those_of_their_states() {
        let norm = |scale| NormParams {
            scale,
            eps: ByClass { body: 1, lead: 46 },
            shift: 1,
        };
        let config = ModelConfig {
            hidden: 4,
            layers: 3,
            ..odd_config(2)
        };
        let mut params = test_params(&config);
        for (l, layer) in params.layers.iter_mut().enumerate() {
            (layer.norm_attn, layer.norm_mlp) = (norm(2 * l as u8 + 4), norm(2 * l as u8 + 5));
        }
        params.norm_final = norm(10);
        assert!((0..7).all(|state| norm_of(&params, state) == &norm(state as u8 + 4)));
        let own = Statistics {
            norms: (0..7 * 8).map(|i| [0, 0, 15 * (i % 8)]).collect(),
            sums: vec![0, 1 << 16],
            tops: Vec::new(),
            clips: Vec::new(),
        };
        // Squares and epsilon of the eight tokens of every state, of which two are leading rows.
        let eps = |token: u64| if token < 2 { 46 } else { 1 };
        let root = |scale: u32, token: u64| ((1u64 << (2 * scale + 2)) / (15 * token + eps(token))).isqrt() as u32;
        let expected: Vec<u32> = (4..11)
            .flat_map(|scale| (0..8).map(move |token| root(scale, token)))
            .collect();
        assert_eq!(own.rsqrts(&config, &params, 2), expected);
        // One below a power of two: then a probability of 1 fits int16.
        assert_eq!(own.reciprocals(), [(1 << 21) - 33, (1 << 20) - 17]);
    }
}
