//! Row spaces: which parts a proof has, how tall they are and what their row index means (docs/protocol.md, section 4). A pure
//! function of sizes and of what operators say of their parts ([`crate::ops`]), computed by both sides; no size is ever read
//! from a proof.

use std::fmt;
use std::ops::Deref;

use crate::air::lookups::Lookup;
use crate::air::Air;
use crate::model::{Limbs, MatrixId, ModelParams, MAX_CELLS_LOG, MAX_ROWS_LOG, MIN_ROWS_LOG};
use crate::sizes::{Extent, Sizes};

/// A kind of rows. Every operator names its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    number: u8,
    name: &'static str,
}

impl Part {
    /// The part of a number, by which parts are committed and clipped values are listed.
    pub const fn new(number: u8, name: &'static str) -> Self {
        Self { number, name }
    }

    /// Its number, from 0 on.
    pub const fn index(self) -> usize {
        self.number as usize
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What an operator says of one of its parts.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Which it is.
    pub part: Part,
    /// log2 of the axis lengths of its tensors, most significant first, as claims index them. The leading axis is stretched where a
    /// part would be shorter than [`MIN_ROWS_LOG`].
    pub axes: Vec<u32>,
    /// The axes along which it may be cut, ascending.
    pub extents: Vec<Extent>,
    /// Whether an entry speaks of the text alone, and not of a row behind it.
    pub of_text: OfText,
    /// The columns of a lane.
    pub air: Air,
    /// What is rounded in it.
    pub shifts: Vec<Shifts>,
}

/// The shifts with which values of a kind are rounded.
#[derive(Clone, Debug)]
pub struct Shifts {
    /// Which of the kinds of the part ([`crate::rounding::Rounded::tensor`]).
    pub tensor: u8,
    /// How the accumulators are claimed.
    pub limbs: Limbs,
    /// On which axes they depend.
    pub along: Along,
    /// That of an entry; `None` of padding.
    pub of: Shift,
}

/// Whether the entry at these indices along the axes of a part speaks of rows of the text alone.
pub type OfText = fn(&Sizes, &[usize]) -> bool;

/// The shift of an entry; `None` of padding.
pub type Shift = fn(&Entry<'_>) -> Option<u8>;

/// The axes of a part on which shifts depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// On the first axis alone: the layer or the state.
    First,
    /// On the second axis alone: channels of rows that have no layer.
    Second,
    /// On the first axis, of which the second one are the tokens, and further:
    Tokens {
        /// On the class of the token row.
        classes: bool,
        /// On the axes after the tokens.
        channels: bool,
    },
}

/// An entry of a part, of which a shift is asked.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What row spaces are computed from.
    pub sizes: &'a Sizes,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    /// Indices along the axes, 0 where there are fewer.
    pub place: [usize; 4],
    /// Number of leading rows.
    pub leading: usize,
}

/// A product of two tables in the batched product sumcheck (section 6). Every operator names its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Product {
    number: u8,
    name: &'static str,
}

impl Product {
    /// The product of a number, by which factors are listed.
    pub const fn new(number: u8, name: &'static str) -> Self {
        Self { number, name }
    }

    /// Its number, from 0 on.
    pub const fn index(self) -> usize {
        self.number as usize
    }

    /// Whether a chunk has this product.
    pub fn exists(self, shape: &Shape) -> bool {
        shape.variables(self).is_some()
    }

    /// Number of variables of this instance.
    pub fn variables(self, shape: &Shape) -> u32 {
        shape.variables(self).unwrap_or(0)
    }
}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What an operator says of one of its products.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Which it is.
    pub product: Product,
    /// Number of variables; `None` if the chunk does not have it.
    pub variables: Option<u32>,
    /// If its second factor is made of weights: the place of a matmul of a layer on the leading axis, if it is one of its own.
    pub weights: Option<Place>,
}

/// The place of a matmul of a layer on the leading axis of a product.
pub type Place = fn(&Sizes, MatrixId) -> Option<usize>;

/// An axis of a part, cut into lanes of equal length that lie side by side as columns. Only as many lanes are committed
/// as the model's real dimension needs, so that an axis need not be padded to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The axis that is cut.
    pub axis: usize,
    /// log2 of the entries of a lane along the axis.
    pub log_lane: u32,
    /// Number of lanes.
    pub lanes: usize,
}

impl Cut {
    /// Number of committed entries along the axis.
    pub const fn extent(&self) -> usize {
        self.lanes << self.log_lane
    }
}

/// A column costs a proof as much as this many cells, by what is claimed of it and looked up in it.
const COLUMN_COST: u128 = 1 << 12;

/// The axes of a part that may be cut, ascending.
pub type Cuts = Vec<Cut>;

/// The rows of a part, and how they lie.
#[derive(Clone, Debug)]
struct Laid {
    rows: Rows,
    cuts: Cuts,
}

impl Laid {
    fn new(mut rows: Rows) -> Self {
        let rest: u32 = rows.axes.iter().skip(1).sum();
        if let Some(lead) = rows.axes.first_mut() {
            *lead = (*lead).max(MIN_ROWS_LOG.saturating_sub(rest));
        }
        let cuts = cheapest(&rows);
        Self { rows, cuts }
    }
}

/// How many lookups are summed together (section 8.5). All statements have [`LeafLimits::OF_STATEMENTS`]: neither keys nor proofs can say
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafLimits {
    /// log2 of the most leaves of a tree. A taller lookup has a tree of its own.
    pub log_tree: u32,
    /// The trees of a balance group have fewer leaves than this together, padding aside.
    pub balance: u64,
}

impl LeafLimits {
    /// The limits of all statements. A balance group of one uses a tuple fewer than `2^30` times, and the field has almost `2^31` elements.
    pub const OF_STATEMENTS: Self = Self {
        log_tree: 24,
        balance: 1 << 30,
    };
}

/// Row spaces of a chunk: of all ways to cut a part, the cheapest.
#[derive(Clone, Debug)]
pub struct Shape {
    sizes: Sizes,
    limits: LeafLimits,
    parts: Vec<Part>,
    /// By [`Part::index`].
    laid: Vec<Option<Laid>>,
    /// By [`Product::index`].
    products: Vec<Instance>,
}

impl Deref for Shape {
    type Target = Sizes;

    fn deref(&self) -> &Sizes {
        &self.sizes
    }
}

impl Shape {
    /// The row spaces of the parts that there are.
    pub fn of_rows(sizes: Sizes, rows: Vec<Rows>) -> Self {
        let mut parts: Vec<Part> = rows.iter().map(|rows| rows.part).collect();
        parts.sort_unstable();
        let mut laid: Vec<Option<Laid>> = Vec::new();
        laid.resize_with(parts.last().map_or(0, |part| part.index() + 1), || None);
        for rows in rows {
            if let Some(own) = laid.get_mut(rows.part.index()) {
                *own = Some(Laid::new(rows));
            }
        }
        let products = Vec::new();
        Self {
            sizes,
            limits: LeafLimits::OF_STATEMENTS,
            parts,
            laid,
            products,
        }
    }

    /// The same with these products.
    pub fn with_products(mut self, products: Vec<Instance>) -> Self {
        self.products = products;
        self.products.sort_by_key(|own| own.product);
        self
    }

    /// All products, those that the chunk does not have included, by [`Product::index`].
    pub fn products(&self) -> &[Instance] {
        &self.products
    }

    /// The products that the chunk has, in order.
    pub fn existing(&self) -> impl Iterator<Item = Product> + '_ {
        let own = self.products.iter().filter(|own| own.variables.is_some());
        own.map(|own| own.product)
    }

    /// The products whose second factor is made of weights, in order, those that the chunk does not have included.
    pub fn weighted(&self) -> impl Iterator<Item = Product> + '_ {
        let weighted = self.products.iter().filter(|own| own.weights.is_some());
        weighted.map(|own| own.product)
    }

    /// Number of variables of a product; `None` if the chunk does not have it.
    fn variables(&self, product: Product) -> Option<u32> {
        self.products.get(product.index())?.variables
    }

    /// Largest number of variables of a product.
    pub fn product_variables(&self) -> u32 {
        self.products.iter().filter_map(|own| own.variables).max().unwrap_or(0)
    }

    /// The product that a matmul of a layer belongs to, and its place on the product's leading axis.
    pub fn product_of(&self, id: MatrixId) -> Option<(Product, usize)> {
        let mut own = self.products.iter();
        own.find_map(|own| Some((own.product, own.weights?(&self.sizes, id)?)))
    }

    /// log2 of the length of the leading axis of a part.
    pub fn lead(&self, part: Part) -> u32 {
        self.laid(part)
            .and_then(|laid| laid.rows.axes.first().copied())
            .unwrap_or(0)
    }

    /// What the row spaces are computed from.
    pub const fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The parts that there are, in commitment order: not all chunks have logits.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What every part has, by [`Part::index`]: the default where there is no such part.
    pub fn by_part<T: Default>(&self, mut of: impl FnMut(Part) -> T) -> Vec<T> {
        let own = |laid: &Option<Laid>| laid.as_ref().map_or_else(T::default, |laid| of(laid.rows.part));
        self.laid.iter().map(own).collect()
    }

    /// How many lookups are summed together.
    pub const fn leaf_limits(&self) -> LeafLimits {
        self.limits
    }

    /// Sets other limits, and leaves counts of the tables as they are ([`Self::with_leaf_limits`] makes them anew).
    pub(crate) const fn within(mut self, limits: LeafLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Appends a part, which comes after all others.
    pub(crate) fn and(mut self, rows: Rows) -> Self {
        let part = rows.part;
        self.parts.push(part);
        self.laid.resize_with(part.index(), || None);
        self.laid.push(Some(Laid::new(rows)));
        self
    }

    /// Removes the last part, if it is this one.
    pub(crate) fn without(mut self, part: Part) -> Self {
        self.parts.retain(|own| *own != part);
        self.laid.truncate(part.index());
        self
    }

    /// The same row spaces with other cuts, for tests of layouts that only large statements have.
    pub fn with_cuts(mut self, cuts: impl Fn(Part, Cuts) -> Cuts) -> Self {
        for laid in self.laid.iter_mut().flatten() {
            laid.cuts = cuts(laid.rows.part, std::mem::take(&mut laid.cuts));
        }
        self
    }

    fn laid(&self, part: Part) -> Option<&Laid> {
        self.laid.get(part.index())?.as_ref()
    }

    /// The shifts of a kind of values of a part; `None` if there are none.
    pub fn shifts(&self, part: Part, tensor: u8) -> Option<&Shifts> {
        self.laid(part)?.rows.shifts.iter().find(|own| own.tensor == tensor)
    }

    /// The layout of a part.
    pub fn cuts(&self, part: Part) -> &[Cut] {
        self.laid(part).map_or(&[], |laid| laid.cuts.as_slice())
    }

    /// Number of lanes of a part. The lane of each cut axis is a digit of a lane's number, the first axis most significant.
    pub fn lanes(&self, part: Part) -> usize {
        self.cuts(part).iter().map(|cut| cut.lanes).product()
    }

    /// Indices along the cut axes at which a lane starts.
    pub fn lane_start(&self, part: Part, lane: usize) -> Vec<(usize, usize)> {
        let mut rest = lane;
        let cuts = self.cuts(part).iter().rev();
        let start = cuts.map(|cut| {
            let own = rest % cut.lanes.max(1);
            rest /= cut.lanes.max(1);
            (cut.axis, own << cut.log_lane)
        });
        let mut start: Vec<_> = start.collect();
        start.reverse();
        start
    }

    /// Whether the entry at these indices along the axes of a part speaks of rows of the text alone.
    pub fn is_of_text(&self, part: Part, place: &[usize]) -> bool {
        self.laid(part)
            .is_some_and(|laid| (laid.rows.of_text)(&self.sizes, place))
    }

    /// log2 of the axis lengths of a part's tensors, most significant first, as claims index them ([`Rows::axes`]).
    pub fn full_axes(&self, part: Part) -> Vec<u32> {
        self.laid(part).map_or_else(Vec::new, |laid| laid.rows.axes.clone())
    }

    /// log2 of the axis lengths of a part's row index, most significant first: one lane.
    pub fn axes(&self, part: Part) -> Vec<u32> {
        let mut axes = self.full_axes(part);
        for cut in self.cuts(part) {
            if let Some(axis) = axes.get_mut(cut.axis) {
                *axis = cut.log_lane;
            }
        }
        axes
    }

    /// Number of committed entries along an axis; tensors are zero beyond.
    pub fn extent(&self, part: Part, axis: usize) -> usize {
        let cut = self.cuts(part).iter().find(|cut| cut.axis == axis);
        let whole = || self.full_axes(part).get(axis).map_or(1, |log| 1 << log);
        cut.map_or_else(whole, Cut::extent)
    }

    /// log2 of the number of rows of a part.
    pub fn log_rows(&self, part: Part) -> u32 {
        self.axes(part).iter().sum()
    }

    /// The columns of a part, lane by lane.
    pub fn air(&self, part: Part) -> Air {
        self.laid(part)
            .map_or_else(Air::default, |laid| laid.rows.air.lanes(self.lanes(part)))
    }

    /// The columns of one lane.
    pub fn lane_air(&self, part: Part) -> &Air {
        self.laid(part).map_or(const { &Air::NONE }, |laid| &laid.rows.air)
    }

    /// Number of columns of one lane of a part, public ones included.
    pub fn lane_columns(&self, part: Part) -> usize {
        self.lane_air(part).columns
    }

    /// Number of columns of a part, public ones included.
    pub fn columns(&self, part: Part) -> usize {
        self.lanes(part) * self.lane_columns(part)
    }

    /// The columns of a part that are committed to, ascending: all but the public ones.
    pub fn committed(&self, part: Part) -> Vec<usize> {
        let air = self.air(part);
        let public = |column: &usize| air.powers.iter().any(|(public, _)| public == column);
        (0..air.columns).filter(|column| !public(column)).collect()
    }

    /// Number of committed cells.
    pub fn cells(&self) -> u128 {
        let of = |part: &Part| {
            let width = self.lanes(*part) * self.lane_air(*part).committed();
            (width as u128) << self.log_rows(*part)
        };
        self.parts().iter().map(of).sum()
    }

    /// Whether there are more cells than anybody proves.
    pub fn is_too_large(&self) -> bool {
        self.cells() > 1 << MAX_CELLS_LOG
    }

    /// Number of units, `2^MIN_ROWS_LOG` cells of a column each, that are committed to: parts in order, columns ascending.
    pub fn units(&self) -> u128 {
        self.cells() >> MIN_ROWS_LOG
    }

    /// Number of lookups of all parts.
    pub fn fractions(&self) -> u128 {
        self.lookups_of(|_| 1)
    }

    /// The cost of all parts: cells, lookups, and the cost of a column beside them. No other cuts into lanes of at most `2^MAX_ROWS_LOG` rows
    /// cost less, so it only grows with the lengths of the axes.
    pub fn cost(&self) -> u128 {
        let of = |part: &Part| {
            let air = self.lane_air(*part);
            cost(air, self.lanes(*part) as u128, self.log_rows(*part))
        };
        self.parts().iter().map(of).sum()
    }

    /// The sum of a number of every lookup, over all rows of all parts.
    pub fn lookups_of(&self, number: impl Fn(&Lookup) -> u128) -> u128 {
        let of = |part: &Part| {
            let per_row: u128 = self.lane_air(*part).lookups.iter().map(&number).sum();
            (self.lanes(*part) as u128 * per_row) << self.log_rows(*part)
        };
        self.parts().iter().map(of).sum()
    }

    /// log2 of the rows of the tallest part.
    pub fn max_log_rows(&self) -> u32 {
        self.parts().iter().map(|p| self.log_rows(*p)).max().unwrap_or(0)
    }
}

/// The cost of so many lanes of `2^height` rows.
fn cost(lane: &Air, lanes: u128, height: u32) -> u128 {
    let (width, lookups) = (lane.committed() as u128, lane.lookups.len() as u128);
    lanes * (((width + lookups) << height) + width * COLUMN_COST)
}

/// The way to cut a part that costs least; the first of equal ones. Lanes of more than `2^MAX_ROWS_LOG` rows, which nobody
/// proves, are taken only where the part has more than `2^MAX_CELLS_LOG` cells without them: then nobody proves it either, and few lanes
/// are enough to say so.
fn cheapest(own: &Rows) -> Cuts {
    let rows: u32 = own.axes.iter().sum();
    // Every way to cut all axes, the first axis changing last, with the log2 by which a lane is shorter.
    let ways = own.extents.iter().fold(vec![(Cuts::new(), 0)], |ways, extent| {
        let along = lanes_along(&own.axes, *extent);
        let with = |(cuts, saved): &(Cuts, u32), (cut, also): &(Cut, u32)| {
            (cuts.iter().copied().chain([*cut]).collect(), saved + also)
        };
        let longer = ways.iter().flat_map(|way| along.iter().map(move |own| with(way, own)));
        longer.collect()
    });
    let with_cost = |(cuts, saved): &(Cuts, u32)| {
        let height = rows.checked_sub(*saved).filter(|height| *height >= MIN_ROWS_LOG)?;
        let lanes: u128 = cuts.iter().map(|cut| cut.lanes as u128).product();
        let cells = (lanes * own.air.committed() as u128) << height;
        Some((
            height > MAX_ROWS_LOG,
            cost(&own.air, lanes, height),
            cells,
            cuts.clone(),
        ))
    };
    let costs: Vec<_> = ways.iter().filter_map(with_cost).collect();
    let low = costs.iter().min_by_key(|(tall, cost, ..)| (*tall, *cost));
    let low = low.filter(|(.., cells, _)| *cells <= 1 << MAX_CELLS_LOG);
    let cheapest = low.or_else(|| costs.iter().min_by_key(|(_, cost, ..)| *cost));
    cheapest.map_or_else(Cuts::new, |(.., cuts)| cuts.clone())
}

/// Every way to cut one axis, with the log2 by which a lane is shorter.
fn lanes_along(axes: &[u32], Extent { axis, real, least }: Extent) -> Vec<(Cut, u32)> {
    let full = axes.get(axis).copied().unwrap_or(0);
    let cut = |log_lane: u32| Cut {
        axis,
        log_lane,
        lanes: real.div_ceil(1 << log_lane).max(1),
    };
    (least.min(full)..=full)
        .map(|log_lane| (cut(log_lane), full - log_lane))
        .collect()
}
