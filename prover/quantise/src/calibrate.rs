//! Ranges of all activations on calibration text.

mod maxima;
mod observer;
mod sequences;

use tessera_circuits::model::{LeadingRows, MatmulKind, MatrixId, RowClass};

use maxima::{add_squares, grow_each, mean_square, row_max};
pub(super) use observer::Calibration;
use sequences::Row;
pub(super) use sequences::Set;

/// Most channels of a normed row with a root mean square of 1 stay below this where one channel is nearly all of the row.
const MASSIVE: f64 = 0.25;

/// Largest absolute values in one layer.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerRanges {
    pub norm_attn: NormRange,
    /// The largest query after the worst rotation; `k` is the largest key.
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
    /// Largest absolute values of the product; none of a class without rows.
    pub max: Classes<Vec<f32>>,
    /// The same in first rows with tokens that do not begin the texts.
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

/// The ranges that calibration saw: largest absolute values of all activations.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub layers: Vec<LayerRanges>,
    /// The states of the residual stream; the first is exact for the whole vocabulary.
    pub residual: Vec<Classes<StateRange>>,
    pub norm_final: NormRange,
    pub logits: f32,
    pub second_rows: SecondRows,
    /// Which rows are leading.
    pub leading: LeadingRows,
}

impl Ranges {
    /// What was seen of the norm that a matmul reads.
    pub fn normed(&self, id: MatrixId) -> &NormRange {
        let (kind, layer) = (id.kind(), id.layer());
        match (kind, self.layers.get(layer)) {
            (MatmulKind::Q | MatmulKind::K | MatmulKind::V, Some(layer)) => &layer.norm_attn,
            (MatmulKind::Gate | MatmulKind::Up, Some(layer)) => &layer.norm_mlp,
            _ => &self.norm_final,
        }
    }

    /// Whether one channel is nearly all of most rows: in more than half of the norms, most channels are small.
    pub fn are_massive(&self) -> bool {
        let layers = self.layers.iter().flat_map(|l| [&l.norm_attn, &l.norm_mlp]);
        let medians: Vec<Option<f64>> = layers.chain([&self.norm_final]).map(NormRange::median).collect();
        let small = medians.iter().flatten().filter(|median| **median < MASSIVE);
        2 * small.count() > medians.len()
    }
}

#[cfg(test)]
mod tests;
