//! Watches the float model on the calibration texts.

use std::iter::repeat;
use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::model::{LeadingRows, MatmulKind, ModelConfig, RowClass, ScoreCap};

use super::maxima::{
    abs_max, add_squares, gate_max, grow_each, mean_square, pair_max, row_max, score_max, uncapped, SMALL,
};
use super::sequences::{Row, Sequences, Set};
use super::{Classes, LayerRanges, NormRange, Ranges, SecondRows, StateRange};
use crate::folded::Folded;
use crate::QuantiseError;
use tessera_checkpoint::CheckpointError;
use tessera_float::{Observer, Site};

/// Only rows of one token are leading if that makes units finer by so much, as the square of what it does to units.
const FINER: f64 = 4.0;
/// A token that calibration did not see may have a smaller embedding than those that it saw; down to this
/// part (of the mean square) the first norm is made exact for it, too.
const UNSEEN_SQUARES: f64 = 1.0 / 256.0;
/// Rows of the embedding of which a thread finds the maxima at once.
const EMBEDDING_ROWS: usize = 64;

/// Calibration on its way through the model.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    pub(super) ranges: Ranges,
    /// First rows with any token, by state, until [`Calibration::finish`] finds out of which class they are.
    pub(super) others: Vec<StateRange>,
    widths: Widths,
    running: Sequences,
    /// The rows that come.
    rows: Vec<Row>,
    /// How many second rows of heads came before them.
    seconds: usize,
    /// The first activation that was not finite.
    broken: Option<Site>,
}

/// How rows are divided, and how scores are capped.
#[derive(Clone, Copy, Debug)]
struct Widths {
    hidden: usize,
    ff: usize,
    head_dim: usize,
    cap: Option<ScoreCap>,
}

impl Calibration {
    /// Before anything was seen, with these leading rows.
    pub fn new(config: &ModelConfig, leading: LeadingRows) -> Self {
        let states = config.states();
        let state = StateRange::new(config.hidden);
        let both = Classes {
            body: state.clone(),
            lead: state.clone(),
        };
        let ranges = Ranges {
            layers: vec![LayerRanges::default(); config.layers],
            residual: vec![both; states],
            norm_final: NormRange::default(),
            logits: 0.0,
            second_rows: SecondRows {
                states: vec![Vec::new(); states],
                products: vec![Vec::new(); config.layers],
                heads: 0,
            },
            leading,
        };
        Self {
            ranges,
            others: vec![state; states],
            widths: Widths {
                hidden: config.hidden,
                ff: config.ff,
                head_dim: config.head_dim,
                cap: config.blocks.score_cap,
            },
            running: Sequences {
                set: Set::Texts,
                lengths: Vec::new(),
            },
            rows: Vec::new(),
            seconds: 0,
            broken: None,
        }
    }

    /// Returns the ranges that were seen so far.
    pub const fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Tells of which sequences the tensors are that come next.
    pub fn expect(&mut self, set: Set, sequences: &[&[u32]]) {
        let lengths = sequences.iter().map(|ids| (ids.len(), self.ranges.leading.count(ids)));
        self.running = Sequences {
            set,
            lengths: lengths.collect(),
        };
        if set == Set::Heads {
            self.ranges.second_rows.heads = self.running.seconds(0..sequences.len());
        }
    }

    /// Ends calibration: takes in the embeddings of all tokens, and gives a class of which no row was seen the ranges of
    /// the other one.
    ///
    /// `first` is the token with which every text begins, if there is one.
    ///
    /// # Errors
    /// Names an activation that was not finite.
    pub fn finish(
        mut self,
        embedding: &Folded<'_>,
        config: &ModelConfig,
        first: Option<u32>,
    ) -> Result<Ranges, QuantiseError> {
        self.place_first_rows(first);
        for state in &mut self.ranges.residual {
            match (state.body.rms.is_empty(), state.lead.rms.is_empty()) {
                (true, _) => state.body = state.lead.clone(),
                (_, true) => state.lead = state.body.clone(),
                _ => {}
            }
        }
        for layer in &mut self.ranges.layers {
            let product = &mut layer.product.max;
            match (product.body.is_empty(), product.lead.is_empty()) {
                (true, _) => product.body.clone_from(&product.lead),
                (_, true) => product.lead.clone_from(&product.body),
                _ => {}
            }
        }
        let tokens = self.rows_of(embedding, 0..config.vocab)?;
        let positions = config.vocab..config.dims(MatmulKind::Embed).0;
        let positions = self.rows_of(embedding, positions)?;
        for class in [RowClass::Body, RowClass::Lead] {
            let state = self.ranges.residual[0].of_mut(class);
            // Any token may be at any position.
            let both = tokens.max.iter().zip(&positions.max).map(|(a, b)| a + b);
            state.max = both.collect();
            if !config.positions {
                state.min_square = state.min_square.min(tokens.min_square);
            }
        }
        match self.broken {
            Some(site) => Err(QuantiseError::Activation {
                site: format!("{site:?}"),
            }),
            None => Ok(self.ranges),
        }
    }

    /// Finds out of which class first rows with other tokens than the first token of all texts are: leading ones, as all first rows, or, where those
    /// would make the units of that token's rows far coarser than it makes those of the body, of the body. Then only rows of that token
    /// are leading.
    pub(super) fn place_first_rows(&mut self, first: Option<u32>) {
        let all = LeadingRows {
            first: 1,
            run: true,
            token: None,
        };
        let token =
            first.filter(|_| self.ranges.leading == all && FINER * self.coarseness(true) <= self.coarseness(false));
        self.ranges.leading.token = token;
        let class = match token.is_none() && self.ranges.leading.count(&[0]) > 0 {
            true => RowClass::Lead,
            false => RowClass::Body,
        };
        for (state, others) in self.ranges.residual.iter_mut().zip(&self.others) {
            state.of_mut(class).merge(others);
        }
        for layer in &mut self.ranges.layers {
            let product = &mut layer.product;
            if !product.others.is_empty() {
                grow_each(product.max.of_mut(class), &product.others);
            }
        }
    }

    /// Squares of the units that both classes need for their largest values, relative to what their rows are: the sum over all states, with
    /// first rows of other tokens in the body, or among leading rows.
    fn coarseness(&self, in_body: bool) -> f64 {
        let of = |(state, others): (&Classes<StateRange>, &StateRange)| {
            let with = |range: &StateRange, both: bool| {
                let own = f64::from(row_max(&range.max));
                let largest = if both {
                    own.max(row_max(&others.max).into())
                } else {
                    own
                };
                (largest / range.median().max(f64::MIN_POSITIVE)).powi(2)
            };
            with(&state.body, in_body) + with(&state.lead, !in_body)
        };
        self.ranges.residual.iter().zip(&self.others).map(of).sum()
    }

    /// Rows of the embedding; those that are far smaller than what was seen do not count among the smallest.
    fn rows_of(&self, embedding: &Folded<'_>, range: Range<usize>) -> Result<StateRange, CheckpointError> {
        let state = &self.ranges.residual[0];
        let least = state.body.min_square.min(state.lead.min_square) * UNSEEN_SQUARES;
        let width = self.widths.hidden;
        let piece = |rows: &mut Vec<f32>, first: usize| {
            rows.resize(width, 0.0);
            let mut all = StateRange::new(width);
            for token in first..range.end.min(first + EMBEDDING_ROWS) {
                embedding.read(token, 0..width, rows)?;
                all.add(rows);
            }
            let squares = all.rms.iter().map(|rms| f64::from(*rms) * f64::from(*rms));
            all.min_square = squares.filter(|s| *s >= least).fold(f64::INFINITY, f64::min);
            Ok(all)
        };
        let merge = |mut all: StateRange, piece: StateRange| {
            all.max.iter_mut().zip(&piece.max).for_each(|(m, v)| *m = m.max(*v));
            all.min_square = all.min_square.min(piece.min_square);
            Ok::<_, CheckpointError>(all)
        };
        let rows = range.clone().into_par_iter().step_by(EMBEDDING_ROWS);
        rows.map_init(Vec::new, piece)
            .try_reduce(|| StateRange::new(width), merge)
    }

    fn add_state(&mut self, n: usize, values: &[f32]) {
        let squares: Vec<f64> = values.par_chunks_exact(self.widths.hidden).map(mean_square).collect();
        let rows = values.chunks_exact(self.widths.hidden).zip(squares);
        for ((row, square), class) in rows.zip(&self.rows) {
            match class {
                Row::Of(class) => self.ranges.residual[n].of_mut(*class).add_with(row, square),
                Row::First => self.others[n].add_with(row, square),
                Row::Second => self.ranges.second_rows.states[n].extend(row),
            }
        }
    }

    /// Rows of all classes; those of second rows, which come after the texts, where they are larger than in these.
    fn add_product(&mut self, l: usize, values: &[f32]) {
        let (range, second) = (&mut self.ranges.layers[l].product, &mut self.ranges.second_rows);
        let mut head = self.seconds;
        for (row, class) in values.chunks_exact(self.widths.ff).zip(&self.rows) {
            match class {
                Row::Of(class) => grow_each(range.max.of_mut(*class), row),
                Row::First => grow_each(&mut range.others, row),
                Row::Second => {
                    let texts = range.max.body.iter().copied().chain(repeat(0.0));
                    let larger = row.iter().map(|v| v.abs()).zip(texts).enumerate();
                    let larger = larger.filter(|(_, (v, most))| v > most);
                    second.products[l].extend(larger.map(|(c, (v, _))| (head, c, v)));
                    head += 1;
                }
            }
            if *class == Row::Of(RowClass::Body) {
                range.rows += 1;
                add_squares(&mut range.squares, row);
            }
        }
    }

    /// The SiLU of gates: the largest one of a class, and squares of the body's channels.
    fn add_silu(&mut self, l: usize, values: &[f32]) {
        let layer = &mut self.ranges.layers[l];
        for (row, class) in values.chunks_exact(self.widths.ff).zip(&self.rows) {
            let Row::Of(class) = class else { continue };
            let range = layer.silu.of_mut(*class);
            *range = range.max(row_max(row));
            if *class == RowClass::Body {
                add_squares(&mut layer.product.silu_squares, row);
            }
        }
    }
}

impl Observer for Calibration {
    fn sequences(&mut self, sequences: Range<usize>) {
        self.seconds = self.running.seconds(0..sequences.start);
        self.rows = self.running.classes(sequences).collect();
    }

    fn observe(&mut self, site: Site, values: &[f32]) {
        // Absolute values up to the largest finite one, which NaN is not.
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & (v.abs() <= f32::MAX));
        if self.broken.is_none() && !values.par_chunks(SMALL).all(finite) {
            self.broken = Some(site);
        }
        let grow = |range: &mut f32, max: f32| *range = range.max(max);
        match site {
            Site::Residual(n) => self.add_state(n, values),
            Site::Product(l) => self.add_product(l, values),
            Site::NormAttn(l) if self.running.set == Set::Heads => {
                self.ranges.layers[l]
                    .norm_attn
                    .add_first(self.widths.hidden, values, &self.rows);
            }
            Site::NormMlp(l) if self.running.set == Set::Heads => {
                self.ranges.layers[l]
                    .norm_mlp
                    .add_first(self.widths.hidden, values, &self.rows);
            }
            // What has one unit for all rows follows from the texts: rare first tokens would make it coarser for all.
            _ if self.running.set == Set::Heads => {}
            Site::NormAttn(l) => self.ranges.layers[l].norm_attn.add(self.widths.hidden, values),
            Site::Q(l) => grow(&mut self.ranges.layers[l].q, pair_max(values, self.widths.head_dim)),
            Site::K(l) => grow(&mut self.ranges.layers[l].k, pair_max(values, self.widths.head_dim)),
            Site::V(l) => grow(&mut self.ranges.layers[l].v, abs_max(values)),
            Site::Scores(l) => {
                let largest = score_max(values);
                let range = self
                    .widths
                    .cap
                    .map_or(largest, |cap| uncapped(largest, cap.value() as f32));
                grow(&mut self.ranges.layers[l].scores, range);
            }
            Site::Attention(l) => grow(&mut self.ranges.layers[l].attention, abs_max(values)),
            Site::NormMlp(l) => self.ranges.layers[l].norm_mlp.add(self.widths.hidden, values),
            Site::Gate(l) => {
                for (row, class) in values.chunks_exact(self.widths.ff).zip(&self.rows) {
                    let Row::Of(class) = class else { continue };
                    grow(self.ranges.layers[l].gate.of_mut(*class), gate_max(row));
                }
            }
            Site::Silu(l) => self.add_silu(l, values),
            Site::Up(l) => {
                let up = &mut self.ranges.layers[l].product.up;
                values.chunks_exact(self.widths.ff).for_each(|row| grow_each(up, row));
            }
            Site::NormFinal => self.ranges.norm_final.add(self.widths.hidden, values),
            Site::Logits => grow(&mut self.ranges.logits, abs_max(values)),
        }
    }
}
