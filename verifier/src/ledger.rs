//! The soundness ledger: every source of error of a statement, added up (docs/security.md, protocol section 14).

use stwo::core::air::Component;
use stwo::core::fields::m31::P;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{tables, Relations};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Lengths;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::lookup_trees;
use tessera_circuits::wiring::{Points, MAX_CLAIMS};

use crate::key::ModelKey;
use crate::opening::{lift, CommitmentParams, OpenedColumns};
use crate::policy::{
    opening_policy, queries, OpeningPolicy, LOOKUP_GRIND_BITS, MIN_BITS, STARK_FOLD_STEP, STARK_LOG_BLOWUP,
    STARK_WORK_BITS,
};
use crate::stark::component;

/// log2 of the size of the challenge field.
pub const FIELD_BITS: f64 = 123.999_999;
/// log2 of the rows of the tallest part that anybody proves.
const MAX_LOG_ROWS: u32 = 27;

/// One error term: `2^-bits`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What can go wrong.
    pub name: String,
    /// How likely it is, as a formula.
    pub formula: String,
    /// `-log2` of it.
    pub bits: f64,
}

/// All error terms of one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// One for everything that can go wrong.
    pub terms: Vec<Term>,
}

impl Ledger {
    /// `-log2` of the sum of all terms.
    pub fn bits(&self) -> f64 {
        // Zero, where there is no security, and not its negative.
        0.0 - self.terms.iter().map(|t| (-t.bits).exp2()).sum::<f64>().log2()
    }
}

/// Adds the term `numerator / |K|`.
fn algebraic(terms: &mut Vec<Term>, name: &str, formula: String, numerator: f64) {
    terms.push(Term {
        name: name.to_owned(),
        formula,
        bits: FIELD_BITS - numerator.max(1.0).log2(),
    });
}

/// Bits of a proof in chunks of a statement of these lengths: `-log2` of the sum of all terms of all chunks. Below
/// [`MIN_BITS`] it is only known that they are below: errors add up, so the other chunks need not be looked at.
pub fn security_bits(key: &ModelKey, chunks: &[Chunk], lengths: impl Into<Lengths>) -> f64 {
    let lengths = lengths.into();
    let bits = |errors: f64| 0.0 - errors.log2();
    // Most chunks are alike, and have the same ledger.
    let kind = |chunk: &Chunk| {
        let opened = key.opened(chunk);
        (chunk.is_first(), chunk.is_last(), chunk.layers().len(), opened.params)
    };
    let mut known = Vec::new();
    let mut sum = 0.0;
    for chunk in chunks {
        let own = kind(chunk);
        let error = match known.iter().find(|(kind, _)| *kind == own) {
            Some((_, error)) => *error,
            None => {
                let error = (-ledger(key, chunk, lengths).bits()).exp2();
                known.push((own, error));
                error
            }
        };
        sum += error;
        if bits(sum) < MIN_BITS {
            break;
        }
    }
    bits(sum)
}

/// Bits of security of every source of error of an opening of weights and activations, in the unique-decoding regime
/// (proximity parameter `(1 - rho) / 2`, `rho = 2^-log_blowup`). The longer of the two codes has messages of `2^mu` values and
/// the length `n = 2^(mu + log_blowup)`:
/// - queries: each misses a far word with probability at most `(1 + rho) / 2`, after `grind_bits` bits of
///   work: `queries log2(2 / (1 + rho)) + grind_bits`;
/// - folds: `mu` folds of codes of length at most `n`, the first fold of the shorter code, and the sum of both: `n / |K|` each;
/// - sumchecks: degree 2, so `2 / |K|` per round, and `1 / |K|` each for the claims that are joined and the values that are
///   added;
/// - column batch of either commitment: combining `G'` columns with an eq tensor, `log2(G')` times the length of its own code.
pub fn soundness_terms(weights: &OpenedColumns, activations: &OpenedColumns, policy: &OpeningPolicy) -> Vec<Term> {
    let long = lift::longer(&weights.params, &activations.params);
    let rate = (-f64::from(long.log_blowup)).exp2();
    let mut terms = vec![Term {
        name: "opening: queries".to_owned(),
        formula: format!(
            "((1 + 2^-{}) / 2)^{} x 2^-{}",
            long.log_blowup, policy.queries, policy.grind_bits
        ),
        bits: policy.queries as f64 * (2.0 / (1.0 + rate)).log2() + f64::from(policy.grind_bits),
    }];
    let n = |params: &CommitmentParams| f64::from(params.log_codeword()).exp2();
    let (folds, log_n) = (long.log_message + 2, long.log_codeword());
    let formula = format!("{folds} x 2^{log_n} / |K|");
    algebraic(&mut terms, "opening: folds", formula, f64::from(folds) * n(&long));
    let bands = weights.log_bands() + activations.log_bands();
    let rounds = bands + 2 * long.log_folded() - long.log_final().min(long.log_folded());
    algebraic(
        &mut terms,
        "opening: sumchecks",
        format!("(2 x {rounds} rounds + 2) / |K|"),
        2.0 * f64::from(rounds) + 2.0,
    );
    for (what, columns) in [("weights", weights), ("activations", activations)] {
        let (log_columns, log_n) = (columns.params.log_columns(), columns.params.log_codeword());
        if log_columns > 0 {
            algebraic(
                &mut terms,
                &format!("opening: column batch of the {what}"),
                format!("{log_columns} x 2^{log_n} / |K|"),
                f64::from(log_columns) * n(&columns.params),
            );
        }
    }
    terms
}

/// What leaves a statement without any security, if anything does: that it is too large.
fn too_large(shape: &Shape) -> Option<Term> {
    let (height, lookups) = (shape.max_log_rows(), shape.fractions());
    let none = |name: &str, formula: String| {
        Some(Term {
            name: name.to_owned(),
            formula,
            bits: 0.0,
        })
    };
    if height > MAX_LOG_ROWS {
        return none(
            "height",
            format!("2^{height} rows of a part, the most are 2^{MAX_LOG_ROWS}"),
        );
    }
    if lookups >= u128::from(P) {
        return none(
            "LogUp multiplicities",
            format!("{lookups} lookups >= p, multiplicities could wrap"),
        );
    }
    None
}

/// Terms of what is claimed of columns and lookups.
fn claim_terms(shape: &Shape, terms: &mut Vec<Term>) {
    let points = Points::count(shape) as f64;
    // Powers of kappa, up to the last kind of accumulators; and six of lambda.
    let kinds = shape.last_number() as f64 + 6.0;
    algebraic(
        terms,
        "random point of claims",
        format!("({points} coordinates + {kinds} kinds and limbs) / |K|"),
        points + kinds,
    );
    let clips = Statistics::MAX_CLIPS as f64;
    algebraic(terms, "batching of clipped values", format!("{clips} / |K|"), clips);
    let trees = lookup_trees(shape);
    let claims = (MAX_CLAIMS + trees.len()) as f64;
    algebraic(terms, "batching of claims", format!("{claims} / |K|"), claims);
    let rounds = f64::from(shape.product_variables() + shape.max_log_rows());
    algebraic(terms, "sumchecks", format!("2 x {rounds} rounds / |K|"), 2.0 * rounds);
    algebraic(terms, "batching of weight claims", "6 / |K|".to_owned(), 6.0);
    // Lookups and entries of the tables; the latter once more, as a denominator of theirs may be zero.
    // A tuple of three values is of degree two in the challenges.
    let degree = |values: usize| values.saturating_sub(1).max(1);
    let fractions = shape.lookups_of(|lookup| degree(lookup.tuple.len()) as u128) as f64;
    let relations = shape.config.relations();
    let entries = relations
        .iter()
        .map(|relation| degree(relation.values()) << tables::LOG_ROWS);
    let entries = entries.sum::<usize>() as f64;
    terms.push(Term {
        name: "LogUp".to_owned(),
        formula: format!("({fractions} lookups + 2 x {entries} entries, triples twice) / |K| x 2^-{LOOKUP_GRIND_BITS}"),
        bits: FIELD_BITS - (fractions + 2.0 * entries).log2() + f64::from(LOOKUP_GRIND_BITS),
    });
    // For each layer of 2^k nodes a combination, k rounds of degree 2, and a line.
    let layers = trees.iter().map(|tree| f64::from(tree.log_leaves()));
    let layers: f64 = layers.map(|n| n * (n + 1.0)).sum();
    algebraic(
        terms,
        "sums of lookups",
        format!("{layers} in {} trees / |K|", trees.len()),
        layers,
    );
}

/// Terms of the proof that the tables balance the lookups.
fn stark_terms(relations: &[Relation], terms: &mut Vec<Term>) {
    let component = component(&Relations::dummy(relations), SecureField::default());
    let constraints = component.n_constraints() as f64;
    algebraic(
        terms,
        "STARK: composition",
        format!("{constraints} constraints / |K|"),
        constraints,
    );
    let log_n = tables::LOG_ROWS + STARK_LOG_BLOWUP;
    let n = f64::from(log_n).exp2();
    algebraic(
        terms,
        "STARK: out-of-domain sampling",
        format!("4 x 2^{log_n} / |K|"),
        4.0 * n,
    );
    // The columns with two samples, the four of the last sum, get a third for periodicity; and there is the composition.
    let columns: usize = component.trace_log_degree_bounds().iter().map(Vec::len).sum();
    let samples = columns as f64 + 8.0 + 16.0;
    algebraic(
        terms,
        "STARK: FRI batching, unique decoding",
        format!("{samples} samples x 2^{log_n} / |K|"),
        samples * n,
    );
    let fold = f64::from((1 << STARK_FOLD_STEP) - 1);
    algebraic(
        terms,
        "STARK: FRI folding, unique decoding",
        format!("2 x {fold} x 2^{log_n} / |K|"),
        2.0 * fold * n,
    );
    let (rate, queries) = ((-f64::from(STARK_LOG_BLOWUP)).exp2(), queries(STARK_LOG_BLOWUP));
    let query_bits = queries as f64 * (2.0 / (1.0 + rate)).log2() + f64::from(STARK_WORK_BITS);
    terms.push(Term {
        name: "STARK: FRI queries, unique decoding".to_owned(),
        formula: format!("((1 + 2^-{STARK_LOG_BLOWUP}) / 2)^{queries} x 2^-{STARK_WORK_BITS}"),
        bits: query_bits,
    });
}

/// The ledger of a chunk of a statement of these lengths of a model.
pub fn ledger(key: &ModelKey, chunk: &Chunk, lengths: impl Into<Lengths>) -> Ledger {
    let shape = key.shape(chunk, lengths);
    // Before anything is counted: the components of such statements have millions of columns.
    if let Some(term) = too_large(&shape) {
        return Ledger { terms: vec![term] };
    }
    let mut terms = Vec::new();
    claim_terms(&shape, &mut terms);
    stark_terms(&shape.config.relations(), &mut terms);
    let activations = CommitmentParams::of_activations(&shape, &key.weights);
    terms.extend(soundness_terms(
        &key.opened(chunk),
        &activations.columns_of(&(0..activations.tiles), 0),
        &opening_policy(key.weights.log_blowup),
    ));
    Ledger { terms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::CommitmentHeader;
    use crate::opening::{CommitmentParams, TILE_AREA_LOG};
    use crate::policy::{
        parameter_words, ACTIVATION_COLUMNS, FEW_COLUMNS, MAX_CODE_LOG, OPENING_GRIND_BITS, QUERY_BITS,
        SHORT_MESSAGE_LOG, STARK_LOG_LAST_LAYER,
    };
    use crate::suite::SuiteChannel;
    use std::collections::BTreeSet;
    use stwo::core::circle::CirclePoint;
    use tessera_circuits::model::{
        Activation, Blocks, ByClass, ChannelShift, LeadingRows, ModelConfig, ModelParams, NormParams, Rotation,
        StreamShift, WeightFormat, KINDS, MAX_CONTEXT, MAX_HEAD_DIM, MAX_VOCAB,
    };
    use tessera_circuits::shape::Part;

    /// A key with this config; the ledger reads nothing else but the parameters of the weights.
    fn key(config: ModelConfig) -> ModelKey {
        let norm = NormParams {
            scale: 30,
            eps: ByClass::both(1),
            shift: ChannelShift::one(1),
        };
        ModelKey {
            weights: CommitmentParams {
                tiles: config.total_tiles(),
                log_message: 18,
                log_blowup: 2,
            },
            config,
            params: ModelParams {
                format: WeightFormat::Int8,
                weight_bits: [8; KINDS],
                leading: LeadingRows {
                    first: 1,
                    run: true,
                    token: None,
                },
                exponents: Vec::new(),
                embed_exponent: 0,
                embed: StreamShift::one(1),
                layers: Vec::new(),
                norm_final: norm,
                head: ChannelShift(vec![1]),
                score_bits: 10,
                activation: Activation::Silu,
                gate_bits: 10,
                silu_bits: 10,
                logit_bits: 10,
                columns: Vec::new(),
                biases: Vec::new(),
            },
            header: CommitmentHeader::CURRENT,
            weights_root: [0; 32],
            tables_root: [0; 32],
            tokenizer: Vec::new(),
            tokenizer_config: Vec::new(),
            recipe: Vec::new(),
        }
    }

    /// Dimensions that are cut into lanes.
    fn laned() -> ModelConfig {
        ModelConfig {
            hidden: 576,
            layers: 12,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            ff: 1536,
            vocab: 50_257,
            context: 64,
            rms_eps: 1e-5,
            rotations: vec![Rotation::Base(1e4)],
            rotation_of: Vec::new(),
            positions: false,
            gated: true,
            head_norms: false,
            blocks: Blocks::DECODER,
            bos: None,
            eos: Vec::new(),
        }
    }

    /// Every combination of the smallest and the largest dimensions that a key may have.
    #[test]
    fn the_ledger_is_total_on_every_config() {
        for bits in 0..1u32 << 7 {
            let pick = |bit: u32, small: usize, large: usize| if bits >> bit & 1 == 1 { large } else { small };
            let heads = pick(2, 1, 1 << 8);
            let config = ModelConfig {
                hidden: pick(0, 2, 1 << 14),
                layers: pick(1, 1, 1 << 10),
                heads,
                kv_heads: pick(3, 1, heads),
                head_dim: pick(4, 2, MAX_HEAD_DIM),
                ff: pick(5, 1, 1 << 16),
                vocab: pick(6, 2, MAX_VOCAB),
                context: MAX_CONTEXT,
                rms_eps: 0.0,
                rotations: vec![Rotation::Base(1e12)],
                rotation_of: Vec::new(),
                positions: false,
                gated: true,
                head_norms: false,
                blocks: Blocks::DECODER,
                bos: None,
                eos: Vec::new(),
            };
            assert_eq!(config.check(), Ok(()));
            let key = key(config);
            for rows in [1, 2, 256, MAX_CONTEXT] {
                let shape = key.shape(&Chunk::whole(key.config.layers), rows);
                let total = ledger(&key, &Chunk::whole(key.config.layers), rows).bits();
                assert!(total.is_finite() && total < 128.0, "{shape:?}: {total} bits");
                if shape.max_log_rows() > MAX_LOG_ROWS || shape.fractions() >= P.into() {
                    assert!(total < MIN_BITS);
                }
            }
        }
    }

    /// A chain of as many chunks as a key may have layers is refused at the first chunk that makes it too long; what comes
    /// after costs nothing. Chunks that are alike are counted as often as they are there.
    #[test]
    fn long_chains_are_refused_where_they_fall_below_the_minimum() {
        let config = ModelConfig {
            layers: 1 << 10,
            ..laned()
        };
        let key = key(config);
        let chunks: Vec<Chunk> = Chunk::partition([1; 1 << 10], 1 << 10).unwrap();
        let first = ledger(&key, &chunks[0], 64).bits();
        let whole = security_bits(&key, &chunks, 64);
        assert!(
            first >= MIN_BITS && (MIN_BITS - 0.5..MIN_BITS).contains(&whole),
            "{whole}"
        );
        // As the sum of all ledgers says, up to the chunk that ends it.
        let mut sum = 0.0;
        let own = chunks.iter().map(|chunk| {
            sum += (-ledger(&key, chunk, 64).bits()).exp2();
            -f64::log2(sum)
        });
        let bits: Vec<f64> = own.take_while(|bits| *bits >= MIN_BITS).collect();
        let end = bits.len();
        assert!((10..1000).contains(&end), "{end} chunks");
        assert_eq!(security_bits(&key, &chunks[..end], 64), bits[end - 1]);
        assert_eq!(security_bits(&key, &chunks[..=end], 64), whole);
    }

    /// A key's id is shown as 64 digits.
    #[test]
    fn ids_are_shown_as_digits() {
        let id = crate::key::ModelId([0x5a; 32]);
        assert_eq!((id.to_string(), format!("{id:?}")), ("5a".repeat(32), "5a".repeat(32)));
    }

    /// Every rate that a key may have: enough queries, and not one more.
    #[test]
    fn queries_have_their_bits_at_every_rate() {
        for log_blowup in 1..=4 {
            let weights = CommitmentParams {
                tiles: 1 << 16,
                log_message: 18,
                log_blowup,
            };
            let policy = opening_policy(log_blowup);
            assert_eq!(policy.check(), Ok(()));
            let one = (2.0 / (1.0 + (-f64::from(log_blowup)).exp2())).log2();
            let bits = policy.queries as f64 * one;
            assert!((QUERY_BITS..QUERY_BITS + one).contains(&bits), "{bits}");
            let activations = CommitmentParams { tiles: 77, ..weights };
            let [of_weights, of_activations] = [weights, activations].map(|own| own.columns_of(&(0..own.tiles), 0));
            let terms = soundness_terms(&of_weights, &of_activations, &policy);
            assert_eq!(terms[0].bits, bits + f64::from(OPENING_GRIND_BITS));
            let own = parameter_words(activations.words());
            let queries = policy.queries as u32;
            let trace = [3, 97, 20, STARK_FOLD_STEP, STARK_LOG_LAST_LAYER];
            assert_eq!(own[..5], trace);
            assert_eq!(own[5..10], [queries, policy.grind_bits, log_blowup, 18, 77]);
            assert_eq!(own[10..], [LOOKUP_GRIND_BITS]);
        }
    }

    /// Terms of an opening worked out by hand: folds of the longer code, whichever it is, two more for the other one and the sum,
    /// and the columns of each in its own code.
    #[test]
    fn an_opening_counts_the_longer_code_once() {
        let of = |tiles: usize, log_message: u32| {
            let own = CommitmentParams {
                tiles,
                log_message,
                log_blowup: 2,
            };
            own.columns_of(&(0..tiles), 0)
        };
        // 224 tiles are 28 columns of 8, and 40 units as many columns.
        let (weights, activations) = (of(224, 15), of(40, 12));
        for [a, b] in [[weights, activations], [activations, weights]] {
            let terms = soundness_terms(&a, &b, &opening_policy(2));
            let expected = |numerator: f64| FIELD_BITS - numerator.log2();
            let bits: Vec<f64> = terms.iter().map(|term| term.bits).collect();
            // Rounds: 8 and 6 of bands, 14 that join, 6 down to 2^8 values.
            let own = [expected(5.0 * 131_072.0), expected(6.0 * 16_384.0)];
            assert_eq!(bits[1..3], [expected(17.0 * 131_072.0), expected(2.0 * 34.0 + 2.0)]);
            assert!(bits[3..] == own || bits[3..] == [own[1], own[0]], "{terms:?}");
        }
    }

    /// The count of lookups from the shape is that of the leaves.
    #[test]
    fn fractions_are_those_of_the_trees() {
        let shape = Shape::new(&laned(), 64);
        assert!(shape.parts().iter().any(|p| shape.lanes(*p) > 1));
        let leaves: usize = lookup_trees(&shape).iter().map(|tree| tree.leaves()).sum();
        assert_eq!(shape.fractions(), leaves as u128);
    }

    /// The code of activations: the rate of the weights. At most 64 columns as long as no code is longer than `2^22`, at most 16
    /// where messages are no longer than those of the weights and short; never longer than that needs.
    #[test]
    fn activations_have_a_code_by_their_number() {
        let key = key(laned());
        let (mut lengths, mut longest) = (BTreeSet::new(), 0);
        for rows in (0..13).map(|log| 1 << log) {
            let shape = key.shape(&Chunk::whole(12), rows);
            for (log_message, log_blowup) in [(12, 3), (17, 2), (18, 1), (24, 1)] {
                let weights = CommitmentParams {
                    log_message,
                    log_blowup,
                    ..key.weights
                };
                let own = CommitmentParams::of_activations(&shape, &weights);
                assert_eq!(own.tiles as u128, shape.units());
                assert_eq!(own.tiles as u128 * (1 << TILE_AREA_LOG), shape.cells());
                assert_eq!(own.log_blowup, log_blowup);
                assert!(own.log_codeword() <= MAX_CODE_LOG && own.log_message >= TILE_AREA_LOG);
                assert!(own.columns() <= ACTIVATION_COLUMNS || own.log_codeword() == MAX_CODE_LOG);
                let longer = own.log_message >= log_message.min(SHORT_MESSAGE_LOG);
                assert!(own.columns() <= FEW_COLUMNS || longer);
                // Half as long it would have more columns than it may.
                let most = if own.log_message > log_message.min(SHORT_MESSAGE_LOG) {
                    ACTIVATION_COLUMNS
                } else {
                    FEW_COLUMNS
                };
                assert!(own.log_message == TILE_AREA_LOG || 2 * own.columns() > most);
                assert_eq!(own.check(), Ok(()));
                lengths.insert(own.log_message);
                longest = longest.max(own.columns());
            }
        }
        assert!(
            lengths.len() > 6 && longest > ACTIVATION_COLUMNS,
            "{lengths:?}, {longest} columns"
        );
    }

    /// As many samples as stwo makes of the columns, and no fewer.
    #[test]
    fn samples_are_not_undercounted() {
        let all = [
            Relation::Range16,
            Relation::Bits,
            Relation::Exp,
            Relation::Silu,
            Relation::Cap,
        ];
        [4, 5].into_iter().for_each(|count| samples_are_counted(&all[..count]));
    }

    fn samples_are_counted(relations: &[Relation]) {
        let component = component(&Relations::dummy(relations), SecureField::default());
        let oods = CirclePoint::<SecureField>::get_random_point(&mut SuiteChannel::default());
        let points = component.mask_points(oods, tables::LOG_ROWS);
        // A column with two samples gets a third.
        let columns = points
            .iter()
            .flatten()
            .map(|points| points.len() + usize::from(points.len() == 2));
        let real = component.ids().len() + columns.sum::<usize>() + 8;
        let mut terms = Vec::new();
        stark_terms(relations, &mut terms);
        let term = terms.iter().find(|term| term.name.contains("FRI batching")).unwrap();
        let counted: usize = term.formula.split(' ').next().unwrap().parse().unwrap();
        assert!((real..2 * real).contains(&counted), "{real} samples, {counted} counted");
    }

    /// Triples count twice: their denominators have degree two in the challenges.
    #[test]
    fn triples_count_twice() {
        let shape = Shape::new(&laned(), 64);
        let rows = (shape.lanes(Part::SCORES) as u128) << shape.log_rows(Part::SCORES);
        let entries = 5 << tables::LOG_ROWS;
        let mut terms = Vec::new();
        claim_terms(&shape, &mut terms);
        let term = terms.iter().find(|term| term.name == "LogUp").unwrap();
        let expected =
            FIELD_BITS - ((shape.fractions() + rows + 2 * entries) as f64).log2() + f64::from(LOOKUP_GRIND_BITS);
        assert_eq!(term.bits, expected, "{}", term.formula);
    }
}
