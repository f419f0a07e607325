//! Ranges of all activations on calibration text.

mod maxima;

use std::iter::repeat;
use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::model::{LeadingRows, MatmulKind, ModelConfig, RowClass, ScoreCap};

use super::folded::Folded;
use super::QuantiseError;
use maxima::{abs_max, add_squares, gate_max, grow_each, mean_square, pair_max, row_max, score_max, uncapped, SMALL};
use tessera_checkpoint::CheckpointError;
use tessera_float::{Observer, Site};

/// Of a normed row with a root mean square of 1, what most channels stay below where one is nearly all of it.
const MASSIVE: f64 = 0.25;
/// Only rows of one token are leading if that makes units finer by so much, as the square of what it does to units.
const FINER: f64 = 4.0;
/// A token that calibration did not see may have a smaller embedding than those that it saw; down to this
/// part (of the mean square) the first norm is made exact for it, too.
const UNSEEN_SQUARES: f64 = 1.0 / 256.0;

/// Largest absolute values in one layer.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerRanges {
    pub norm_attn: NormRange,
    /// Of queries and keys: after the worst rotation.
    pub q: f32,
    pub k: f32,
    pub v: f32,
    pub scores: f32,
    pub attention: f32,
    pub norm_mlp: NormRange,
    pub gate: Classes<f32>,
    pub silu: Classes<f32>,
    pub product: ProductRange,
}

/// What was seen of the channels of a norm's outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct NormRange {
    /// Largest absolute values.
    pub max: Vec<f32>,
    pub rows: usize,
    /// Sums of squares.
    pub squares: Vec<f64>,
    /// Largest absolute values in first rows with any token.
    pub first: Vec<f32>,
}

impl NormRange {
    /// Mean squares of the channels.
    pub fn mean_squares(&self) -> impl Iterator<Item = f64> + '_ {
        let rows = self.rows.max(1) as f64;
        self.squares.iter().map(move |sum| sum / rows)
    }

    fn add_first(&mut self, width: usize, values: &[f32], rows: &[Row]) {
        let rows = values.chunks_exact(width).zip(rows);
        let first = rows.filter(|(_, row)| **row == Row::First);
        first.for_each(|(values, _)| grow_each(&mut self.first, values));
    }

    fn add(&mut self, width: usize, values: &[f32]) {
        for row in values.chunks_exact(width) {
            grow_each(&mut self.max, row);
            add_squares(&mut self.squares, row);
            self.rows += 1;
        }
    }

    /// Median of the root mean squares of the channels; `None` if no row was seen.
    pub fn median(&self) -> Option<f64> {
        let mut rms: Vec<f64> = self.mean_squares().map(f64::sqrt).collect();
        rms.sort_by(f64::total_cmp);
        rms.get(rms.len() / 2).copied()
    }

    /// Largest absolute value of all channels.
    pub fn largest(&self) -> f32 {
        row_max(&self.max)
    }
}

/// What was seen of the channels of an MLP, each with its largest absolute value.
#[derive(Clone, Debug, Default)]
pub(super) struct ProductRange {
    pub up: Vec<f32>,
    /// Of the product; none of a class without rows.
    pub max: Classes<Vec<f32>>,
    /// Of the product in first rows with tokens that do not begin the texts.
    pub others: Vec<f32>,
    /// Rows of the body, and the sums of their squares: of the product, and of what Up's output is multiplied by.
    pub rows: usize,
    pub squares: Vec<f64>,
    pub silu_squares: Vec<f64>,
}

/// A value for the rows of the body, and one for leading rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Classes<T> {
    pub body: T,
    pub lead: T,
}

impl<T> Classes<T> {
    pub fn of(&self, class: RowClass) -> &T {
        match class {
            RowClass::Body => &self.body,
            RowClass::Lead => &self.lead,
        }
    }

    fn of_mut(&mut self, class: RowClass) -> &mut T {
        match class {
            RowClass::Body => &mut self.body,
            RowClass::Lead => &mut self.lead,
        }
    }
}

/// What was seen of a state of the residual stream in the rows of a class.
#[derive(Clone, Debug)]
pub(super) struct StateRange {
    /// Largest absolute value, by channel.
    pub max: Vec<f32>,
    /// Smallest mean square of a row.
    pub min_square: f64,
    /// Root mean squares of all rows.
    rms: Vec<f32>,
}

impl StateRange {
    fn new(hidden: usize) -> Self {
        Self {
            max: vec![0.0; hidden],
            min_square: f64::INFINITY,
            rms: Vec::new(),
        }
    }

    fn add(&mut self, row: &[f32]) {
        self.add_with(row, mean_square(row));
    }

    /// Adds a row of this mean square.
    fn add_with(&mut self, row: &[f32], square: f64) {
        self.max.iter_mut().zip(row).for_each(|(m, v)| *m = m.max(v.abs()));
        self.min_square = self.min_square.min(square);
        self.rms.push(square.sqrt() as f32);
    }

    /// Takes in the rows of another range.
    fn merge(&mut self, other: &Self) {
        self.max.iter_mut().zip(&other.max).for_each(|(m, v)| *m = m.max(*v));
        self.min_square = self.min_square.min(other.min_square);
        self.rms.extend(&other.rms);
    }

    /// Median of the root mean squares of rows, 0 if there were none.
    pub fn median(&self) -> f64 {
        let mut rms = self.rms.clone();
        rms.sort_by(f32::total_cmp);
        rms.get(rms.len() / 2).copied().map_or(0.0, f64::from)
    }
}

/// Which sequences are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Calibration texts.
    Texts,
    /// Lone first tokens, and first tokens with one more.
    Heads,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// One of a text, of this class.
    Of(RowClass),
    /// The first row of a head, which may have any token.
    First,
    /// A row of a head after those that are leading.
    Second,
}

/// Sequences on their way through the model.
#[derive(Clone, Debug)]
struct Sequences {
    set: Set,
    /// Number of rows and of leading rows.
    lengths: Vec<(usize, usize)>,
}

impl Sequences {
    /// What the rows of some of them are.
    fn classes(&self, sequences: Range<usize>) -> impl Iterator<Item = Row> + '_ {
        let set = self.set;
        let class = move |lead: usize| {
            move |row: usize| match (row < lead, set) {
                (true, Set::Texts) => Row::Of(RowClass::Lead),
                (false, Set::Texts) => Row::Of(RowClass::Body),
                (false, Set::Heads) if row > 0 => Row::Second,
                (_, Set::Heads) => Row::First,
            }
        };
        let lengths = self.lengths[sequences].iter();
        lengths.flat_map(move |(rows, lead)| (0..*rows).map(class(*lead)))
    }

    /// How many second rows some of them have.
    fn seconds(&self, sequences: Range<usize>) -> usize {
        self.classes(sequences).filter(|row| *row == Row::Second).count()
    }
}

/// Second rows of heads, which may be as large as leading rows although they are none.
#[derive(Clone, Debug, Default)]
pub(super) struct SecondRows {
    /// By state, `[heads][hidden]`.
    states: Vec<Vec<f32>>,
    /// By layer: MLP products that are larger than in any text, as head, channel and absolute value.
    products: Vec<Vec<(usize, usize, f32)>>,
    heads: usize,
}

impl SecondRows {
    /// How many heads there are, and how many of them have a value in the second row beyond the limit of its channel and
    /// state, or of its channel in the product of a layer.
    pub fn beyond(&self, state: impl Fn(usize, usize) -> f64, product: impl Fn(usize, usize) -> f64) -> (usize, usize) {
        let mut beyond = vec![false; self.heads];
        for (l, products) in self.products.iter().enumerate() {
            for (head, channel, value) in products {
                beyond[*head] |= f64::from(*value) > product(l, *channel);
            }
        }
        for (n, rows) in self.states.iter().enumerate() {
            let width = rows.len() / self.heads.max(1);
            for (beyond, row) in beyond.iter_mut().zip(rows.chunks_exact(width.max(1))) {
                let mut row = row.iter().enumerate();
                *beyond |= row.any(|(c, v)| f64::from(v.abs()) > state(n, c));
            }
        }
        (self.heads, beyond.into_iter().filter(|beyond| *beyond).count())
    }
}

/// Largest absolute values of all activations.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub layers: Vec<LayerRanges>,
    /// The states of the residual stream; the first is exact for the whole vocabulary.
    pub residual: Vec<Classes<StateRange>>,
    /// First rows with any token, by state, until [`Ranges::finish`] finds out of which class they are.
    others: Vec<StateRange>,
    pub norm_final: NormRange,
    pub logits: f32,
    pub second_rows: SecondRows,
    /// Which rows are leading.
    pub leading: LeadingRows,
    hidden: usize,
    ff: usize,
    head_dim: usize,
    cap: Option<ScoreCap>,
    running: Sequences,
    /// The rows that come, and how many second rows of heads came before.
    rows: Vec<Row>,
    seconds: usize,
    broken: Option<Site>,
}

/// Rows of the embedding of which a thread finds the maxima at once.
const EMBEDDING_ROWS: usize = 64;

impl Ranges {
    pub(super) fn new(config: &ModelConfig, leading: LeadingRows) -> Self {
        let states = config.states();
        let state = StateRange::new(config.hidden);
        Self {
            layers: vec![LayerRanges::default(); config.layers],
            others: vec![state.clone(); states],
            residual: vec![
                Classes {
                    body: state.clone(),
                    lead: state,
                };
                states
            ],
            norm_final: NormRange::default(),
            logits: 0.0,
            second_rows: SecondRows {
                states: vec![Vec::new(); states],
                products: vec![Vec::new(); config.layers],
                heads: 0,
            },
            leading,
            hidden: config.hidden,
            ff: config.ff,
            head_dim: config.head_dim,
            cap: config.score_cap(),
            running: Sequences {
                set: Set::Texts,
                lengths: Vec::new(),
            },
            rows: Vec::new(),
            seconds: 0,
            broken: None,
        }
    }

    /// What was seen of the norm that a matmul reads.
    pub(super) fn normed(&self, kind: MatmulKind, layer: usize) -> &NormRange {
        match (kind, self.layers.get(layer)) {
            (MatmulKind::Q | MatmulKind::K | MatmulKind::V, Some(layer)) => &layer.norm_attn,
            (MatmulKind::Gate | MatmulKind::Up, Some(layer)) => &layer.norm_mlp,
            _ => &self.norm_final,
        }
    }

    /// Whether one channel is nearly all of most rows: in more than half of the norms, most channels are small.
    pub(super) fn are_massive(&self) -> bool {
        let layers = self.layers.iter().flat_map(|l| [&l.norm_attn, &l.norm_mlp]);
        let medians: Vec<Option<f64>> = layers.chain([&self.norm_final]).map(NormRange::median).collect();
        let small = medians.iter().flatten().filter(|median| **median < MASSIVE);
        2 * small.count() > medians.len()
    }

    /// Tells of which sequences the tensors are that come next.
    pub(super) fn expect(&mut self, set: Set, sequences: &[&[u32]]) {
        let lengths = sequences.iter().map(|ids| (ids.len(), self.leading.count(ids)));
        self.running = Sequences {
            set,
            lengths: lengths.collect(),
        };
        if set == Set::Heads {
            self.second_rows.heads = self.running.seconds(0..sequences.len());
        }
    }

    /// Names an activation that was not finite.
    pub(super) fn check(&self) -> Result<(), QuantiseError> {
        match self.broken {
            Some(site) => Err(QuantiseError::Activation {
                site: format!("{site:?}"),
            }),
            None => Ok(()),
        }
    }

    /// Ends calibration: takes in the embeddings of all tokens, and gives a class of which no row was seen the ranges of
    /// the other one.
    ///
    /// `first` is the token with which every text begins, if there is one.
    pub(super) fn finish(
        &mut self,
        embedding: &Folded<'_>,
        config: &ModelConfig,
        first: Option<u32>,
    ) -> Result<(), CheckpointError> {
        self.place_first_rows(first);
        for state in &mut self.residual {
            match (state.body.rms.is_empty(), state.lead.rms.is_empty()) {
                (true, _) => state.body = state.lead.clone(),
                (_, true) => state.lead = state.body.clone(),
                _ => {}
            }
        }
        for layer in &mut self.layers {
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
            let state = self.residual[0].of_mut(class);
            // Any token may be at any position.
            let both = tokens.max.iter().zip(&positions.max).map(|(a, b)| a + b);
            state.max = both.collect();
            if !config.positions {
                state.min_square = state.min_square.min(tokens.min_square);
            }
        }
        Ok(())
    }

    /// Finds out of which class first rows with other tokens than that of all texts are: leading ones, as all first rows, or, where those
    /// would make the units of that token's rows far coarser than it makes those of the body, of the body. Then only rows of that token
    /// are leading.
    fn place_first_rows(&mut self, first: Option<u32>) {
        let all = LeadingRows {
            first: 1,
            run: true,
            token: None,
        };
        let token = first.filter(|_| self.leading == all && FINER * self.coarseness(true) <= self.coarseness(false));
        self.leading.token = token;
        let class = match token.is_none() && self.leading.count(&[0]) > 0 {
            true => RowClass::Lead,
            false => RowClass::Body,
        };
        for (state, others) in self.residual.iter_mut().zip(&self.others) {
            state.of_mut(class).merge(others);
        }
        for layer in &mut self.layers {
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
        self.residual.iter().zip(&self.others).map(of).sum()
    }

    /// Rows of the embedding; those that are far smaller than what was seen do not count among the smallest.
    fn rows_of(&self, embedding: &Folded<'_>, range: Range<usize>) -> Result<StateRange, CheckpointError> {
        let state = &self.residual[0];
        let least = state.body.min_square.min(state.lead.min_square) * UNSEEN_SQUARES;
        let width = self.hidden;
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
        let squares: Vec<f64> = values.par_chunks_exact(self.hidden).map(mean_square).collect();
        let rows = values.chunks_exact(self.hidden).zip(squares);
        for ((row, square), class) in rows.zip(&self.rows) {
            match class {
                Row::Of(class) => self.residual[n].of_mut(*class).add_with(row, square),
                Row::First => self.others[n].add_with(row, square),
                Row::Second => self.second_rows.states[n].extend(row),
            }
        }
    }

    /// Rows of all classes; those of second rows, which come after the texts, where they are larger than in these.
    fn add_product(&mut self, l: usize, values: &[f32]) {
        let (range, second) = (&mut self.layers[l].product, &mut self.second_rows);
        let mut head = self.seconds;
        for (row, class) in values.chunks_exact(self.ff).zip(&self.rows) {
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

    /// Gates' SiLU: the largest one of a class, and squares of the body's channels.
    fn add_silu(&mut self, l: usize, values: &[f32]) {
        let layer = &mut self.layers[l];
        for (row, class) in values.chunks_exact(self.ff).zip(&self.rows) {
            let Row::Of(class) = class else { continue };
            let range = layer.silu.of_mut(*class);
            *range = range.max(row_max(row));
            if *class == RowClass::Body {
                add_squares(&mut layer.product.silu_squares, row);
            }
        }
    }
}

impl Observer for Ranges {
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
                self.layers[l].norm_attn.add_first(self.hidden, values, &self.rows);
            }
            Site::NormMlp(l) if self.running.set == Set::Heads => {
                self.layers[l].norm_mlp.add_first(self.hidden, values, &self.rows);
            }
            // What has one unit for all rows follows from the texts: rare first tokens would make it coarser for all.
            _ if self.running.set == Set::Heads => {}
            Site::NormAttn(l) => self.layers[l].norm_attn.add(self.hidden, values),
            Site::Q(l) => grow(&mut self.layers[l].q, pair_max(values, self.head_dim)),
            Site::K(l) => grow(&mut self.layers[l].k, pair_max(values, self.head_dim)),
            Site::V(l) => grow(&mut self.layers[l].v, abs_max(values)),
            Site::Scores(l) => {
                let largest = score_max(values);
                let range = self.cap.map_or(largest, |cap| uncapped(largest, cap.value() as f32));
                grow(&mut self.layers[l].scores, range);
            }
            Site::Attention(l) => grow(&mut self.layers[l].attention, abs_max(values)),
            Site::NormMlp(l) => self.layers[l].norm_mlp.add(self.hidden, values),
            Site::Gate(l) => {
                for (row, class) in values.chunks_exact(self.ff).zip(&self.rows) {
                    let Row::Of(class) = class else { continue };
                    grow(self.layers[l].gate.of_mut(*class), gate_max(row));
                }
            }
            Site::Silu(l) => self.add_silu(l, values),
            Site::Up(l) => {
                let up = &mut self.layers[l].product.up;
                values.chunks_exact(self.ff).for_each(|row| grow_each(up, row));
            }
            Site::NormFinal => self.norm_final.add(self.hidden, values),
            Site::Logits => grow(&mut self.logits, abs_max(values)),
        }
    }
}
#[cfg(test)]
mod tests;
