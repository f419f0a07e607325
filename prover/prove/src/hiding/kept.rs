//! The secret that a prover keeps in order to make reveals: everything that its proof commits to. Anybody who has it can read activations and ids.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use stwo::core::fields::m31::{BaseField, P};
use tessera_verifier::hiding::HiddenCode;
use zeroize::Zeroize;

use super::{Secrets, COORDINATES, UNIT};
use crate::column::{Cells, Column};

/// Kinds of columns in a file: integers of sixteen bits without a sign or with one, elements.
const KINDS: [u8; 3] = [0, 1, 2];
/// The sign of a cell of sixteen bits, where cells have one.
const SIGN: u16 = 1 << 15;
/// Cells that are read at once.
const RUN: usize = 1 << 16;
/// The most columns that a file may say it has, and the most cells of one: no activations have more.
const MOST: u64 = 1 << 32;

/// Everything that was committed to in a proof that hides its activations.
pub struct Kept {
    /// The columns of the activations, in the order in which they are committed.
    columns: Vec<Column>,
    /// The blind unit of each column of the code.
    blind: Vec<Column>,
    /// Mask and tape.
    coordinates: [Column; COORDINATES],
}

/// The secret of a proof for whoever takes it first. Only one may have it, because two would count their reveals without each other. Copies share it.
#[derive(Clone, Debug)]
pub struct KeptOnce(Arc<Mutex<Option<Kept>>>);

impl KeptOnce {
    /// A secret that nobody has taken yet.
    pub fn new(kept: Kept) -> Self {
        Self(Arc::new(Mutex::new(Some(kept))))
    }

    /// Takes it, if nobody has, and if what is done with it succeeds.
    ///
    /// # Errors
    /// Whatever is done with it fails with: then nobody has taken it.
    pub fn take<T, E>(&self, with: impl FnOnce(&Kept) -> Result<T, E>) -> Result<Option<T>, E> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = own.as_ref().map(with).transpose()?;
        *own = None;
        Ok(done)
    }
}

/// Shows nothing of it.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Secrets {
    /// The secret that reveals of a proof with these secrets need, given the columns of its activations in the order in which they are committed.
    pub(crate) fn kept(&self, columns: Vec<Column>) -> Kept {
        Kept {
            columns,
            blind: self.blind.clone(),
            coordinates: self.coordinates.clone(),
        }
    }
}

impl Kept {
    /// The columns of the activations, in the order in which they are committed.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// All units that were committed to in this code; `None` if they are not as many as the code has.
    pub fn units(&self, code: &HiddenCode) -> Option<Vec<Cells<'_>>> {
        let units: Vec<Cells<'_>> = self.columns.iter().flat_map(|own| own.cells().chunks(UNIT)).collect();
        let columns = code.columns.tiles().len() / code.columns.column_tiles();
        let length = code.columns.column_tiles() * UNIT;
        let whole = self.blind.len() == columns
            && self.blind.iter().all(|own| own.cells().len() == UNIT)
            && self.coordinates.iter().all(|own| own.cells().len() == length)
            && units.iter().all(|own| own.len() == UNIT)
            && units.len() + columns <= code.columns.tiles().len();
        whole.then(|| {
            let own = code.place(
                units,
                Cells::Small {
                    cells: &[0; UNIT],
                    sign: 0,
                },
                |column| self.blind[column].cells(),
            );
            let coordinates = self.coordinates.iter().flat_map(|column| column.cells().chunks(UNIT));
            own.into_iter().chain(coordinates).collect()
        })
    }

    /// Writes it, to be read again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        for list in [&self.columns[..], &self.blind, &self.coordinates] {
            to.write_all(&(list.len() as u64).to_le_bytes())?;
            for column in list {
                write_column(column, to)?;
            }
        }
        Ok(())
    }

    /// Reads what was written, up to the end.
    ///
    /// # Errors
    /// If the file cannot be read, or is not one that was written.
    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let columns = read_list(from)?;
        let blind = read_list(from)?;
        let coordinates = read_list(from)?;
        let coordinates = coordinates.try_into().map_err(|_| damaged())?;
        match from.read(&mut [0])? {
            0 => Ok(Self {
                columns,
                blind,
                coordinates,
            }),
            _ => Err(damaged()),
        }
    }
}

/// Overwrites all of it; buffers that held copies are not.
impl Drop for Kept {
    fn drop(&mut self) {
        let all = self.columns.iter_mut().chain(&mut self.blind);
        for column in all.chain(&mut self.coordinates) {
            match column {
                Column::Small { cells, .. } => cells.zeroize(),
                Column::Elements(cells) => cells.iter_mut().for_each(|cell| cell.0.zeroize()),
            }
        }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its contents are not what was written")
}

fn write_column(column: &Column, to: &mut dyn Write) -> io::Result<()> {
    let kind = match column {
        Column::Small { sign: 0, .. } => KINDS[0],
        Column::Small { .. } => KINDS[1],
        Column::Elements(_) => KINDS[2],
    };
    to.write_all(&[kind])?;
    to.write_all(&(column.cells().len() as u64).to_le_bytes())?;
    match column {
        Column::Small { cells, .. } => {
            for run in cells.chunks(RUN) {
                let bytes: Vec<u8> = run.iter().flat_map(|cell| cell.to_le_bytes()).collect();
                to.write_all(&bytes)?;
            }
        }
        Column::Elements(cells) => {
            for run in cells.chunks(RUN) {
                let bytes: Vec<u8> = run.iter().flat_map(|cell| cell.0.to_le_bytes()).collect();
                to.write_all(&bytes)?;
            }
        }
    }
    Ok(())
}

fn read_number(from: &mut dyn Read) -> io::Result<usize> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    match u64::from_le_bytes(bytes) {
        number if number <= MOST => Ok(number as usize),
        _ => Err(damaged()),
    }
}

fn read_list(from: &mut dyn Read) -> io::Result<Vec<Column>> {
    let columns = read_number(from)?;
    (0..columns).map(|_| read_column(from)).collect()
}

fn read_column(from: &mut dyn Read) -> io::Result<Column> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    let cells = read_number(from)?;
    let [without, with, elements] = KINDS;
    match kind[0] {
        kind if kind == without || kind == with => {
            let cells = read_cells(from, cells, |bytes: [u8; 2]| Some(u16::from_le_bytes(bytes)))?;
            let sign = if kind == with { SIGN } else { 0 };
            Ok(Column::Small { cells, sign })
        }
        kind if kind == elements => {
            let element = |bytes: [u8; 4]| {
                let word = u32::from_le_bytes(bytes);
                (word < P).then(|| BaseField::from_u32_unchecked(word))
            };
            Ok(Column::Elements(read_cells(from, cells, element)?))
        }
        _ => Err(damaged()),
    }
}

/// Reads so many cells, a run after the other, so that no memory is taken for cells that are not there.
fn read_cells<const N: usize, T>(
    from: &mut dyn Read,
    mut left: usize,
    cell: impl Fn([u8; N]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut cells = Vec::new();
    let mut bytes = vec![0; N * RUN.min(left)];
    while left > 0 {
        let run = left.min(RUN);
        let bytes = &mut bytes[..N * run];
        from.read_exact(bytes)?;
        for own in bytes.as_chunks::<N>().0 {
            cells.push(cell(*own).ok_or_else(damaged)?);
        }
        left -= run;
    }
    bytes.zeroize();
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let elements = |seed: u32| -> Column {
            let element = |at: u32| BaseField::from_u32_unchecked((at + 1) * seed % P);
            Column::Elements((0..UNIT as u32).map(element).collect())
        };
        Kept {
            columns: vec![
                Column::of_integers((0..UNIT as i32).map(|at| (at - 2_000) as i16).collect()),
                Column::Small {
                    cells: vec![0xfff0; 2 * UNIT],
                    sign: 0,
                },
                elements(1_000_003),
            ],
            blind: vec![elements(77), elements(78)],
            coordinates: [1, 2, 3, 4].map(elements),
        }
    }

    /// What was written is read as it was, cell by cell; and a file that ends early, goes on, or says another kind is refused.
    #[test]
    fn what_was_written_is_read_again() {
        let own = kept();
        let mut bytes = Vec::new();
        own.write(&mut bytes).unwrap();
        let again = Kept::read(&mut bytes.as_slice()).unwrap();
        let cells = |kept: &Kept| -> Vec<Vec<BaseField>> {
            let all = kept.columns.iter().chain(&kept.blind).chain(&kept.coordinates);
            all.map(Column::elements).collect()
        };
        assert_eq!(cells(&own), cells(&again));
        assert!(Kept::read(&mut &bytes[..bytes.len() - 1]).is_err());
        assert!(Kept::read(&mut [&bytes[..], &[0]].concat().as_slice()).is_err());
        let mut other = bytes.clone();
        other[8] = 3;
        assert!(Kept::read(&mut other.as_slice()).is_err());
        // A list that says it is longer than the file takes no memory for that.
        other = bytes;
        other[..8].copy_from_slice(&MOST.to_le_bytes());
        assert!(Kept::read(&mut other.as_slice()).is_err());
    }
}
