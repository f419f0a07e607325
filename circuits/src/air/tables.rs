//! The lookup tables, all of 2^16 rows in one component: preprocessed values, committed multiplicities.

use num_traits::Zero;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use super::lookups::{Relation, TableColumn};
use super::{base, Relations};
use crate::model::{Activation, ModelConfig, ModelParams, ScoreCap};
use crate::semantics::{activation_table, cap_table, exp_table};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SECURE_EXTENSION_DEGREE;

/// log2 of the number of rows.
pub const LOG_ROWS: u32 = 16;

impl TableColumn {
    /// The id as stwo takes it.
    pub fn id(self) -> PreProcessedColumnId {
        PreProcessedColumnId {
            id: self.name().to_owned(),
        }
    }

    /// The values of the column, in row order.
    fn values(self, of: &TableParams) -> Vec<BaseField> {
        let rows = 0..1u32 << LOG_ROWS;
        // The first row repeats `(1, 0)`.
        let bound = |row: u32| 1 << row.checked_ilog2().unwrap_or(0);
        match self {
            Self::Index => rows.map(BaseField::from_u32_unchecked).collect(),
            Self::BitsBound => rows.map(|row| BaseField::from_u32_unchecked(bound(row))).collect(),
            Self::BitsValue => rows
                .map(|row| BaseField::from_u32_unchecked(row.saturating_sub(bound(row))))
                .collect(),
            Self::High => rows.map(|row| BaseField::from_u32_unchecked(row >> 8)).collect(),
            Self::Exp => elements(exp_table(of.score_bits)),
            Self::Zero => rows.map(|row| base(i64::from(row == 0))).collect(),
            Self::Silu => elements(activation_table(of.activation, of.gate_bits, of.silu_bits)),
            Self::Cap => {
                let table = of.score_cap.map(|cap| cap_table(cap, of.score_bits));
                table.map_or_else(Vec::new, elements)
            }
        }
    }
}

fn elements<T: Into<i64>>(table: Vec<T>) -> Vec<BaseField> {
    table.into_iter().map(|v| base(v.into())).collect()
}

/// The preprocessed columns of a model with these relations, in commitment order: each column once, where
/// it occurs first.
pub fn columns(relations: &[Relation]) -> Vec<TableColumn> {
    let mut columns = Vec::new();
    for column in relations.iter().flat_map(|relation| relation.columns()) {
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
    columns
}

/// Row of `(2^b, v)` in the bits table: `2^b + v`; row 0 repeats `(1, 0)`.
pub const fn bits_row(bound: u32, v: u32) -> usize {
    (bound + v) as usize
}

impl Relation {
    /// Whether the second value of a tuple decides in which row it is, too.
    #[inline]
    pub const fn has_row_by_both(self) -> bool {
        match self {
            Self::Bits => true,
            Self::Range16 | Self::Bytes | Self::Exp | Self::Silu | Self::Cap => false,
        }
    }

    /// The row of the tables that has a tuple, if any has: the second value is not looked at where the first decides.
    #[inline]
    pub fn row(self, first: BaseField, second: BaseField) -> Option<usize> {
        let row = match self.has_row_by_both() {
            true => u64::from(first.0) + u64::from(second.0),
            false => u64::from(first.0),
        };
        usize::try_from(row).ok().filter(|row| *row < 1 << LOG_ROWS)
    }
}

/// The parameters that decide the lookup tables. Models with equal parameters share their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableParams {
    /// The relations, in the order of the columns of multiplicities.
    pub relations: Vec<Relation>,
    activation: Activation,
    score_bits: i32,
    gate_bits: i32,
    silu_bits: i32,
    score_cap: Option<ScoreCap>,
}

impl TableParams {
    /// Reads the parameters of a model's tables.
    pub fn of(params: &ModelParams, config: &ModelConfig) -> Self {
        Self {
            relations: config.relations(),
            activation: params.activation,
            score_bits: params.score_bits,
            gate_bits: params.gate_bits,
            silu_bits: params.silu_bits,
            score_cap: config.blocks.score_cap,
        }
    }
}

/// The lookup tables of a model.
#[derive(Clone, Debug)]
pub struct LookupTables {
    /// The parameters that decide the tables.
    pub params: TableParams,
    /// The preprocessed columns, in the order of [`columns`], each in row order.
    pub columns: Vec<Vec<BaseField>>,
    names: Vec<TableColumn>,
}

impl LookupTables {
    /// The tables of a model.
    pub fn new(params: &ModelParams, config: &ModelConfig) -> Self {
        TableParams::of(params, config).into()
    }

    /// A column; `None` if no relation of the model has it.
    pub fn column(&self, column: TableColumn) -> Option<&[BaseField]> {
        let at = self.names.iter().position(|own| *own == column)?;
        self.columns.get(at).map(Vec::as_slice)
    }

    /// The columns of the tuples of a relation; none of a relation that the model does not have.
    pub fn of(&self, relation: Relation) -> Vec<&[BaseField]> {
        let columns = relation.columns().iter().map(|column| self.column(*column));
        columns.collect::<Option<_>>().unwrap_or_default()
    }

    /// Whether a relation has a tuple. The relation ignores values that its tuples do not have.
    pub fn has(&self, relation: Relation, tuple: [BaseField; 3]) -> bool {
        let [first, second, _] = tuple;
        let Some(row) = relation.row(first, second) else {
            return false;
        };
        let mut values = relation.columns().iter().zip(tuple);
        values.all(|(column, value)| self.column(*column).and_then(|own| own.get(row)) == Some(&value))
    }
}

impl From<TableParams> for LookupTables {
    fn from(params: TableParams) -> Self {
        let names = columns(&params.relations);
        Self {
            columns: names.iter().map(|column| column.values(&params)).collect(),
            names,
            params,
        }
    }
}

/// The lookup tables, as a component of the STARK: every entry with minus its multiplicity.
#[derive(Clone, Debug)]
pub struct TableEntries {
    /// The challenges of the lookups.
    pub relations: Relations,
    /// The preprocessed columns, in commitment order.
    columns: Vec<TableColumn>,
    /// Whether multiplicities are weighed with powers of a challenge, and so elements of the extension: four columns each.
    weighted: bool,
}

impl TableEntries {
    /// The entries of the tables of a model whose relations have these challenges. `weighted` says whether the multiplicities are sums of
    /// several balance groups ([`crate::trees::Forest::is_weighted`]).
    pub fn new(relations: &Relations, weighted: bool) -> Self {
        let own: Vec<Relation> = relations.drawn.iter().map(|drawn| drawn.relation).collect();
        Self {
            relations: relations.clone(),
            columns: columns(&own),
            weighted,
        }
    }

    /// The next multiplicity.
    fn count<E: EvalAtRow>(&self, e: &mut E) -> E::EF {
        match self.weighted {
            true => E::combine_ef([(); SECURE_EXTENSION_DEGREE].map(|()| e.next_trace_mask())),
            false => e.next_trace_mask().into(),
        }
    }

    /// The ids of the preprocessed columns, in commitment order.
    pub fn ids(&self) -> Vec<PreProcessedColumnId> {
        self.columns.iter().map(|column| column.id()).collect()
    }
}

impl FrameworkEval for TableEntries {
    fn log_size(&self) -> u32 {
        LOG_ROWS
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        LOG_ROWS + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut e: E) -> E {
        let drawn = &self.relations.drawn;
        let counts: Vec<E::EF> = drawn.iter().map(|_| self.count(&mut e)).collect();
        let columns = self.columns.iter();
        let columns: Vec<(TableColumn, E::F)> = columns
            .map(|column| (*column, e.get_preprocessed_column(column.id())))
            .collect();
        for (own, count) in drawn.iter().zip(counts) {
            let tuple = own.relation.columns().iter().filter_map(|column| {
                let found = columns.iter().find(|(other, _)| other == column);
                found.map(|(_, value)| value.clone())
            });
            let tuple: Vec<E::F> = tuple.collect();
            e.add_to_relation(RelationEntry::new(own, E::EF::zero() - count, &tuple));
        }
        e.finalize_logup_in_pairs();
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, test_params};

    /// Columns are committed in the order in which relations name them first, and a model without
    /// a relation lacks only the columns that no other relation uses.
    #[test]
    fn columns_follow_the_relations() {
        let names = |relations: &[Relation]| columns(relations).iter().map(|own| own.name()).collect::<Vec<_>>();
        let all = Relation::ALL;
        let expected = [
            "index",
            "bits bound",
            "bits value",
            "high",
            "exp",
            "zero",
            "silu",
            "cap",
        ];
        assert_eq!(names(&all), expected);
        assert_eq!(names(&all[..5]), expected[..7]);
        assert_eq!(
            names(&[Relation::Bits, Relation::Silu]),
            ["bits bound", "bits value", "index", "silu"]
        );
    }

    /// A table has its tuples, and no others; one that the model lacks has none.
    #[test]
    fn tables_have_their_tuples() {
        let config = odd_config(1);
        let tables = LookupTables::new(&test_params(&config), &config);
        let exp = tables.of(Relation::Exp)[1][7];
        for (relation, tuple, has) in [
            (Relation::Range16, [base(65_535), base(9), base(9)], true),
            (Relation::Range16, [base(65_536), base(0), base(0)], false),
            (Relation::Bits, [base(8), base(7), base(0)], true),
            (Relation::Bits, [base(8), base(8), base(0)], false),
            (Relation::Bytes, [base(256 * 7 + 9), base(7), base(0)], true),
            (Relation::Bytes, [base(256 * 7 + 9), base(6), base(0)], false),
            (Relation::Bytes, [base(256 * 7 + 256), base(7), base(0)], false),
            (Relation::Bytes, [base(256 * 7 - 1), base(7), base(0)], false),
            (Relation::Bytes, [base(1 << 16), base(256), base(0)], false),
            (Relation::Bytes, [base(-1), base(0), base(0)], false),
            (Relation::Exp, [base(7), exp, base(0)], true),
            (Relation::Exp, [base(7), exp, base(1)], false),
            (Relation::Exp, [base(7), exp + base(1), base(0)], false),
            (Relation::Cap, [base(1 << 15), base(0), base(0)], false),
        ] {
            assert_eq!(tables.has(relation, tuple), has, "{relation:?} {tuple:?}");
        }
        assert!(tables.of(Relation::Cap).is_empty());
    }

    /// Every entry of every table is found in its row; nothing else has one.
    #[test]
    fn tuples_have_the_row_of_their_table() {
        for b in 0..16u32 {
            for v in [0, 1, (1 << b) / 2, (1 << b) - 1] {
                let (first, second) = (base(1 << b), base(i64::from(v.min((1 << b) - 1))));
                let expected = bits_row(first.0, second.0);
                assert_eq!(Relation::Bits.row(first, second), Some(expected));
            }
        }
        for relation in [
            Relation::Range16,
            Relation::Bytes,
            Relation::Exp,
            Relation::Silu,
            Relation::Cap,
        ] {
            assert_eq!(relation.row(base(0), base(7)), Some(0));
            assert_eq!(relation.row(base(0xffff), base(7)), Some(0xffff));
            assert_eq!(relation.row(base(1 << 16), base(7)), None);
        }
        assert_eq!(Relation::Bits.row(base(-1), base(-1)), None);
        assert_eq!(Relation::Bits.row(base(1 << 15), base(1 << 15 | 1)), None);
    }
}
