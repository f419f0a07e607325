//! A commitment whose codewords and tree are in memory.

use std::sync::Arc;

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::{circle_fibre, hash_base_leaf, line_coordinate, Layout, LeafOpening, FIBRE};
use tessera_verifier::opening::{Commitment, CommitmentName, CommitmentParams, OpenedColumns};
use tessera_verifier::suite::{Digest, Suite};

use crate::device::DeviceError;
use crate::opening::{merkle_path, Committed, OpeningProverError, Twiddles};
use tessera_kernels::table::Table;

/// Columns with their codewords.
pub(super) struct Codewords {
    name: CommitmentName,
    params: CommitmentParams,
    /// The messages of all columns, the last one filled with zeros.
    messages: Vec<Vec<BaseField>>,
    codewords: Vec<Vec<BaseField>>,
    /// The tree, leaves first.
    levels: Vec<Vec<Digest>>,
}

impl Codewords {
    /// Commits to cells that fill the columns one after the other.
    pub fn commit(suite: Suite, name: CommitmentName, mut cells: Vec<BaseField>, params: CommitmentParams) -> Self {
        cells.resize(params.columns() << params.log_message, BaseField::zero());
        let messages: Vec<Vec<BaseField>> = cells.chunks(1 << params.log_message).map(<[_]>::to_vec).collect();
        let coordinates = coordinates(params.log_codeword());
        let encode = |message: &Vec<BaseField>| encode(message, &coordinates);
        let codewords: Vec<Vec<BaseField>> = messages.iter().map(encode).collect();
        let mut own = Self {
            name,
            params,
            messages,
            codewords,
            levels: Vec::new(),
        };
        let leaves = (0..1 << params.log_leaves()).map(|leaf| hash_base_leaf(suite, &own.leaf(leaf)));
        let mut levels: Vec<Vec<Digest>> = vec![leaves.collect()];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let parents = last.chunks(2).map(|pair| suite.node(&pair[0], &pair[1]));
            let parents = parents.collect();
            levels.push(parents);
        }
        own.levels = levels;
        own
    }

    /// The fibre of every column in a leaf.
    fn leaf(&self, leaf: usize) -> Vec<BaseField> {
        let fibre = |codeword: &Vec<BaseField>| codeword[leaf * FIBRE..][..FIBRE].to_vec();
        self.codewords.iter().flat_map(fibre).collect()
    }
}

/// For every domain of `2^0, 2^1, .. 2^log` points one coordinate for each pair of neighbours: the largest domain is on the circle and
/// has those of its fibres, the others are on the line.
fn coordinates(log: u32) -> Vec<Vec<BaseField>> {
    let pairs = |own: u32| 0..1usize << own >> 1;
    let line = |own: u32| pairs(own).map(|pair| line_coordinate(own, 2 * pair)).collect();
    let mut all: Vec<Vec<BaseField>> = (0..log).map(line).collect();
    all.push(pairs(log).map(|pair| circle_fibre(log - 1, pair)).collect());
    all
}

/// The codeword of a message on the last domain of `coordinates`. Its values at two neighbours are `f0 + t f1` and `f0 - t f1`, where
/// `t` is their coordinate, and the coefficients of `f0` and of `f1` are the even and the odd ones.
fn encode(message: &[BaseField], coordinates: &[Vec<BaseField>]) -> Vec<BaseField> {
    let (own, smaller) = coordinates.split_last().expect("a domain");
    if let [constant] = message {
        return vec![*constant; 1 << smaller.len()];
    }
    let half = |odd: usize| {
        let coefficients: Vec<BaseField> = message.iter().skip(odd).step_by(2).copied().collect();
        encode(&coefficients, smaller)
    };
    let pairs = half(0).into_iter().zip(half(1)).zip(own);
    pairs.flat_map(|((f0, f1), t)| [f0 + f1 * *t, f0 - f1 * *t]).collect()
}

impl Committed for Codewords {
    fn commitment(&self) -> Commitment {
        Commitment {
            name: self.name,
            params: self.params,
            root: self.levels[self.levels.len() - 1][0],
        }
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        Arc::new(Twiddles::new(self.params.log_message, self.params.log_blowup))
    }

    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError> {
        let first = columns.tiles().start >> self.params.log_column_tiles();
        let opened = &self.messages[first..][..columns.params().columns()];
        let entry = |z: usize| -> SecureField { opened.iter().zip(weights).map(|(column, w)| *w * column[z]).sum() };
        let folded = (0..1 << (self.params.log_message - 1)).map(|z| {
            let [even, odd] = [2 * z, 2 * z + 1].map(entry);
            even + fold * (odd - even)
        });
        Ok(Table::from(&folded.collect::<Vec<_>>()[..]))
    }

    fn open(&mut self, _: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        Ok(LeafOpening {
            values: leaves.iter().flat_map(|leaf| self.leaf(*leaf)).collect(),
            path: merkle_path(leaves, self.params.log_leaves(), |level, index| {
                self.levels[level][index]
            }),
        })
    }
}
