//! A column of the trace. Whatever an honest trace has is an integer of sixteen bits, with a sign or without one, so that a cell
//! takes two bytes: tables are read several times and entered once, and both cost by their bytes.

use std::ops::Range;
use std::simd::cmp::SimdOrd;
use std::simd::num::SimdUint;
use std::simd::{u16x16, u32x16};

use stwo::core::fields::m31::{BaseField, P};

/// Cells of a vector.
const LANES: usize = 16;
/// The sign of a cell of sixteen bits, where cells have one.
const SIGN: u16 = 1 << 15;

/// The cells of a column, in row order.
#[derive(Clone, Debug)]
pub enum Column {
    /// Integers of sixteen bits. `sign` is `2^15` if they have one, 0 if not.
    Small { cells: Vec<u16>, sign: u16 },
    /// Any elements: of a trace that no honest prover makes.
    Elements(Vec<BaseField>),
}

/// Smallest and largest of some cells, as integers around zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    least: i32,
    most: i32,
}

impl Bounds {
    /// Of no cells.
    pub const NONE: Self = Self {
        least: i32::MAX,
        most: i32::MIN,
    };

    /// Writes the low sixteen bits of elements, which are below the order, as integers around zero; says how far these go.
    pub fn write(elements: &[u32], cells: &mut [u16]) -> Self {
        let mut bounds = Self::NONE;
        for (cell, element) in cells.iter_mut().zip(elements) {
            let v = element.cast_signed();
            let v = if v > (P / 2) as i32 { v - P as i32 } else { v };
            (bounds.least, bounds.most) = (bounds.least.min(v), bounds.most.max(v));
            *cell = v as u16;
        }
        bounds
    }

    /// Of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }

    /// The sign of cells within these bounds; `None` if sixteen bits do not hold them.
    const fn sign(self) -> Option<u16> {
        match (self.least, self.most) {
            (0.., ..=0xffff) => Some(0),
            (-0x8000.., ..=0x7fff) => Some(SIGN),
            _ => None,
        }
    }
}

impl Column {
    /// Of the low bits of cells within some bounds, if these say what the cells are.
    pub fn small(cells: Vec<u16>, bounds: Bounds) -> Option<Self> {
        bounds.sign().map(|sign| Self::Small { cells, sign })
    }

    /// Of integers of sixteen bits with a sign.
    pub fn of_integers(integers: Vec<i16>) -> Self {
        Self::Small {
            cells: integers.into_iter().map(i16::cast_unsigned).collect(),
            sign: SIGN,
        }
    }

    /// The cells, to be read.
    pub fn cells(&self) -> Cells<'_> {
        match self {
            Self::Small { cells, sign } => Cells::Small { cells, sign: *sign },
            Self::Elements(cells) => Cells::Elements(cells),
        }
    }

    /// The cells as elements.
    pub fn elements(&self) -> Vec<BaseField> {
        match self {
            Self::Small { cells, sign } => {
                let element = |cell: &u16| BaseField::from_u32_unchecked(word(*cell, *sign));
                cells.iter().map(element).collect()
            }
            Self::Elements(cells) => cells.clone(),
        }
    }
}

impl From<Vec<BaseField>> for Column {
    fn from(elements: Vec<BaseField>) -> Self {
        let words: Vec<u32> = elements.iter().map(|v| v.0).collect();
        let mut cells = vec![0; words.len()];
        let bounds = Bounds::write(&words, &mut cells);
        Self::small(cells, bounds).unwrap_or(Self::Elements(elements))
    }
}

/// The columns of all parts, of elements.
pub fn of_elements(parts: &[Vec<Vec<BaseField>>]) -> Vec<Vec<Column>> {
    let of_part = |part: &Vec<Vec<BaseField>>| part.iter().cloned().map(Column::from).collect();
    parts.iter().map(of_part).collect()
}

/// The cells of the columns of a part, as elements.
pub fn elements(columns: &[Column]) -> Vec<Vec<BaseField>> {
    columns.iter().map(Column::elements).collect()
}

/// Cells of a column one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    Small { cells: &'a [u16], sign: u16 },
    Elements(&'a [BaseField]),
}

impl<'a> From<&'a [BaseField]> for Cells<'a> {
    fn from(cells: &'a [BaseField]) -> Self {
        Self::Elements(cells)
    }
}

/// The word of a small cell.
#[inline(always)]
fn word(cell: u16, sign: u16) -> u32 {
    // A negative one is a large word, and adding P wraps it back.
    let word = u32::from(cell ^ sign).wrapping_sub(u32::from(sign));
    word.min(word.wrapping_add(P))
}

impl<'a> Cells<'a> {
    /// How many there are.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        match self {
            Self::Small { cells, .. } => cells.len(),
            Self::Elements(cells) => cells.len(),
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    #[inline(always)]
    pub fn get(&self, row: usize) -> BaseField {
        match self {
            Self::Small { cells, sign } => BaseField::from_u32_unchecked(word(cells[row], *sign)),
            Self::Elements(cells) => cells[row],
        }
    }

    /// Some of them.
    #[inline(always)]
    pub fn range(&self, rows: Range<usize>) -> Self {
        match self {
            Self::Small { cells, sign } => Self::Small {
                cells: &cells[rows],
                sign: *sign,
            },
            Self::Elements(cells) => Self::Elements(&cells[rows]),
        }
    }

    /// All of them, so many at a time; the last ones may be fewer.
    pub fn chunks(self, size: usize) -> impl Iterator<Item = Self> + 'a {
        let starts = (0..self.len()).step_by(size);
        starts.map(move |start| self.range(start..self.len().min(start + size)))
    }

    /// The sixteen from `16 at` on.
    #[inline(always)]
    pub fn vector(&self, at: usize) -> u32x16 {
        match self {
            Self::Small { cells, sign } => {
                let cells = u16x16::from_array(cells.as_chunks::<LANES>().0[at]);
                let sign = u16x16::splat(*sign);
                // As [`word`].
                let words: u32x16 = (cells ^ sign).cast::<u32>() - sign.cast::<u32>();
                words.simd_min(words + u32x16::splat(P))
            }
            Self::Elements(cells) => {
                let cells: [BaseField; LANES] = cells.as_chunks().0[at];
                u32x16::from_array(cells.map(|v| v.0))
            }
        }
    }

    /// The cells, and the sign that makes them positive, if that makes sixteen bits of all of them.
    pub const fn short(&self) -> Option<(&'a [u16], u16)> {
        match self {
            Self::Small { cells, sign } => Some((cells, *sign)),
            Self::Elements(_) => None,
        }
    }

    /// What makes cells of sixteen bits positive.
    pub const fn offset(&self) -> u32 {
        match self {
            Self::Small { sign, .. } => *sign as u32,
            Self::Elements(_) => 0,
        }
    }

    /// Shows the cells plus their [offset](Self::offset), sixteen from `16 from` on with each item: to `short` if all are below `2^16`,
    /// or else to `long`.
    #[inline(always)]
    pub fn each<T>(&self, from: usize, items: &mut [T], short: impl Fn(&mut T, u32x16), long: impl Fn(&mut T, u32x16)) {
        let own = LANES * from..LANES * (from + items.len());
        match self {
            Self::Small { cells, sign } => {
                let sign = u16x16::splat(*sign);
                let cells = cells[own].as_chunks::<LANES>().0;
                for (item, cells) in items.iter_mut().zip(cells) {
                    short(item, (u16x16::from_array(*cells) ^ sign).cast());
                }
            }
            Self::Elements(cells) => {
                let cells = cells[own].as_chunks::<LANES>().0;
                for (item, cells) in items.iter_mut().zip(cells) {
                    long(item, u32x16::from_array(cells.map(|v| v.0)));
                }
            }
        }
    }

    /// Writes the words of those from `from` on, plus their [offset](Self::offset).
    #[inline(always)]
    pub fn read_with_offset(&self, from: usize, to: &mut [u32]) {
        match self {
            Self::Small { cells, sign } => {
                let cells = cells[from..][..to.len()].iter();
                to.iter_mut()
                    .zip(cells)
                    .for_each(|(to, cell)| *to = u32::from(cell ^ sign));
            }
            Self::Elements(cells) => {
                let cells = cells[from..][..to.len()].iter();
                to.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[i64]) -> (Vec<BaseField>, Column) {
        let element = |v: &i64| BaseField::from_u32_unchecked(v.rem_euclid(P.into()) as u32);
        let elements: Vec<BaseField> = values.iter().map(element).collect();
        let column = Column::from(elements.clone());
        (elements, column)
    }

    /// Sixteen bits hold integers with a sign or without one, but not both; whatever they do not hold is kept as it is.
    #[test]
    fn columns_have_the_cells_they_were_made_of() {
        for (ends, small) in [
            (&[0, 0xffff][..], true),
            (&[-0x8000, 0x7fff], true),
            (&[0x8000, 1], true),
            (&[-1, 0x8000], false),
            (&[-0x8001, 0], false),
            (&[0, 0x1_0000], false),
            (&[1 << 30, 5], false),
            (&[], true),
        ] {
            let values: Vec<i64> = ends.iter().copied().cycle().take(ends.len().min(1) * 80).collect();
            let (elements, column) = column(&values);
            assert_eq!(matches!(column, Column::Small { .. }), small, "{ends:?}");
            assert_eq!(column.elements(), elements);
            let cells = column.cells();
            for (at, expected) in elements.as_chunks::<LANES>().0.iter().enumerate() {
                assert_eq!(cells.vector(at).to_array(), expected.map(|v| v.0));
                let mut words = [0; LANES];
                cells.read_with_offset(16 * at, &mut words);
                assert_eq!(words, expected.map(|v| (v + BaseField::from(cells.offset())).0));
                assert!(cells.short().is_none() || words.iter().all(|word| *word < 1 << 16));
                let mut shown = [[0; LANES]];
                let show = |to: &mut [u32; LANES], own: u32x16| *to = own.to_array();
                cells.each(at, &mut shown, show, show);
                assert_eq!(shown[0], words);
            }
            let parts = cells.chunks(7).flat_map(|own| (0..own.len()).map(move |i| own.get(i)));
            assert_eq!(parts.collect::<Vec<_>>(), elements);
        }
    }
}
