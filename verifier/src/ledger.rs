//! The soundness ledger: every source of error of a statement, added up (docs/security.md, protocol section 14).

use stwo::core::air::Component;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{tables, Relations};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{MAX_CELLS_LOG, MAX_ROWS_LOG};
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Lengths;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::{depths, Forest};
use tessera_circuits::wiring::{Points, MAX_CLAIMS};

use crate::hiding::{HiddenCode, Tape};
use crate::key::ModelKey;
use crate::opening::{self, CommitmentName, CommitmentParams, OpenedColumns};
use crate::policy::{queries, LOOKUP_GRIND_BITS, MIN_BITS, STARK_LOG_BLOWUP, STARK_WORK_BITS};
use crate::public::linear_variables;
use crate::stark::component;
pub use crate::term::{Term, FIELD_BITS};

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

/// Bits of a proof in chunks of a statement of these lengths: `-log2` of the sum of all terms of all chunks. Below
/// [`MIN_BITS`] it is only known that they are below: errors add up, so the other chunks need not be looked at.
pub fn security_bits(key: &ModelKey, chunks: &[Chunk], lengths: impl Into<Lengths>) -> f64 {
    let lengths = lengths.into();
    let bits = |errors: f64| 0.0 - errors.log2();
    // Most chunks are alike, and have the same ledger.
    let kind = |chunk: &Chunk| (chunk.kind(&key.config), key.opened(chunk).tiles().len());
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

/// Bits of a proof in one piece that hides activations, of a statement of these lengths, and that leaves room for so many reveals: `-log2` of the sum of
/// all terms. `None` if no proof under this key can hide activations of such a statement.
pub fn hidden_security_bits(key: &ModelKey, lengths: impl Into<Lengths>, reveals: usize) -> Option<f64> {
    Some(hidden_ledger(key, lengths, reveals)?.bits())
}

/// The same together with all reveals that the proof leaves room for, of as many ids as there are: what a verifier has in the end who is given all of them.
pub fn revealed_security_bits(key: &ModelKey, lengths: impl Into<Lengths>, reveals: usize) -> Option<f64> {
    let lengths = lengths.into();
    let proof = hidden_security_bits(key, lengths, reveals)?;
    if reveals == 0 {
        return Some(proof);
    }
    let shape = key.hidden_shape(lengths);
    let code = HiddenCode::of(key, &Chunk::whole(key.config.layers), &shape, reveals)?;
    let (claims, variables) = (2 * (lengths.rows + 1), linear_variables(&shape));
    let mask = code.of_reveal(variables)?;
    let reveal = reveal_ledger(code.columns, &mask, claims, variables).bits();
    Some(0.0 - ((-proof).exp2() + reveals as f64 * (-reveal).exp2()).log2())
}

/// What leaves a statement without any security, if anything does: that it is too large.
fn too_large(shape: &Shape) -> Option<Term> {
    let (height, cells) = (shape.max_log_rows(), shape.cells());
    if height > MAX_ROWS_LOG {
        let formula = format!("2^{height} rows of a part, the most are 2^{MAX_ROWS_LOG}");
        return Some(Term::certain("height", formula));
    }
    shape.is_too_large().then(|| {
        let formula = format!("{cells} committed cells, the most are 2^{MAX_CELLS_LOG}");
        Term::certain("cells", formula)
    })
}

/// Terms of what is claimed of columns and lookups.
fn claim_terms(shape: &Shape, forest: &Forest, hidden: bool, terms: &mut Vec<Term>) {
    let points = Points::count(shape) as f64;
    // Powers of kappa, up to the last kind of accumulators; and six of lambda.
    let kinds = shape.last_number() as f64 + 6.0;
    terms.push(Term::algebraic(
        "random point of claims",
        format!("({points} coordinates + {kinds} kinds and limbs) / |K|"),
        points + kinds,
    ));
    let clips = Statistics::MAX_CLIPS as f64;
    terms.push(Term::algebraic(
        "batching of clipped values",
        format!("{clips} / |K|"),
        clips,
    ));
    let tables = shape.table_tree();
    let logs = forest.logs_with(tables.as_ref());
    let claims = (MAX_CLAIMS + logs.len()) as f64;
    terms.push(Term::algebraic("batching of claims", format!("{claims} / |K|"), claims));
    let digits = shape.digit_variables().unwrap_or(0) as u32;
    let rounds = f64::from(shape.product_variables() + shape.max_log_rows() + digits);
    terms.push(Term::algebraic(
        "sumchecks",
        format!("2 x {rounds} rounds / |K|"),
        2.0 * rounds,
    ));
    terms.push(Term::algebraic("batching of weight claims", "6 / |K|".to_owned(), 6.0));
    // Lookups and entries of the tables; the latter once more under a STARK, where a denominator of theirs may be zero.
    // A tuple of three values is of degree two in the challenges.
    let degree = |values: usize| values.saturating_sub(1).max(1);
    let fractions = shape.lookups_of(|lookup| degree(lookup.tuple.len()) as u128) as f64;
    let relations = shape.config.relations();
    let entries = relations
        .iter()
        .map(|relation| degree(relation.values()) << tables::LOG_ROWS);
    let entries = entries.sum::<usize>() as f64;
    // Where nobody sees denominators, each of them may be zero.
    let twice = |twice| if twice { ("2 x ", 2.0) } else { ("", 1.0) };
    let [lookups, times] = [hidden, hidden || tables.is_none()].map(twice);
    terms.push(Term::worked(
        "LogUp",
        format!(
            "({}{fractions} lookups + {}{entries} entries, triples twice) / |K|",
            lookups.0, times.0
        ),
        lookups.1 * fractions + times.1 * entries,
        LOOKUP_GRIND_BITS,
    ));
    // The uses of a tuple, a polynomial in the weight of the balance groups.
    let balances = forest.balances().len();
    if balances > 1 {
        let degree = balances as f64 - 1.0;
        terms.push(Term::algebraic(
            "weights of balance groups",
            format!("({balances} groups - 1) / |K|"),
            degree,
        ));
    }
    // For each layer of 2^k nodes of `m` trees of a group a combination of 2 m claims, k rounds of degree 2, and a line.
    let depths = depths(&logs);
    let rounds: f64 = depths.iter().map(|n| f64::from(*n)).map(|n| n * (n - 1.0)).sum();
    let layers = rounds + 2.0 * f64::from(logs.iter().sum::<u32>());
    terms.push(Term::algebraic(
        "sums of lookups",
        format!("{layers} in {} trees, {} groups / |K|", logs.len(), depths.len()),
        layers,
    ));
}

/// Terms of the proof that the tables balance the lookups.
fn stark_terms(relations: &[Relation], weighted: bool, terms: &mut Vec<Term>) {
    let component = component(&Relations::dummy(relations), weighted, SecureField::default());
    let constraints = component.n_constraints() as f64;
    terms.push(Term::algebraic(
        "STARK: composition",
        format!("{constraints} constraints / |K|"),
        constraints,
    ));
    let log_n = tables::LOG_ROWS + STARK_LOG_BLOWUP;
    let n = f64::from(log_n).exp2();
    terms.push(Term::algebraic(
        "STARK: out-of-domain sampling",
        format!("4 x 2^{log_n} / |K|"),
        4.0 * n,
    ));
    // The columns with two samples, the four of the last sum, get a third for periodicity; and there is the composition.
    let columns: usize = component.trace_log_degree_bounds().iter().map(Vec::len).sum();
    let samples = columns as f64 + 8.0 + 16.0;
    terms.push(Term::algebraic(
        "STARK: FRI batching, unique decoding",
        format!("{samples} samples x 2^{log_n} / |K|"),
        samples * n,
    ));
    // A fold of `2^s` values is a curve of degree `2^s - 1` of words of `n / 2^s` values, and all folds have less than `n` bad challenges.
    terms.push(Term::algebraic(
        "STARK: FRI folding, unique decoding",
        format!("2^{log_n} / |K|"),
        n,
    ));
    let (rate, queries) = ((-f64::from(STARK_LOG_BLOWUP)).exp2(), queries(STARK_LOG_BLOWUP));
    let query_bits = queries as f64 * (2.0 / (1.0 + rate)).log2() + f64::from(STARK_WORK_BITS);
    terms.push(Term {
        name: "STARK: FRI queries, unique decoding".to_owned(),
        formula: format!("((1 + 2^-{STARK_LOG_BLOWUP}) / 2)^{queries} x 2^-{STARK_WORK_BITS}"),
        bits: query_bits,
    });
}

/// Terms of the equations of a proof that hides activations.
fn tape_terms(tape: &Tape, terms: &mut Vec<Term>) {
    let forms: usize = tape.products.iter().map(|own| own.forms.len()).sum();
    terms.push(Term::algebraic(
        "hiding: products",
        format!("2 x {forms} quadratic forms / |K|"),
        2.0 * forms as f64,
    ));
    // Fewer than there are entries (docs/security.md, lemma 36).
    let equations = tape.entries as f64;
    terms.push(Term::algebraic(
        "hiding: equations",
        format!("({equations} + 2 of the tape) / |K|"),
        equations + 2.0,
    ));
}

/// The ledger of a chunk of a statement of these lengths of a model.
pub fn ledger(key: &ModelKey, chunk: &Chunk, lengths: impl Into<Lengths>) -> Ledger {
    let shape = key.shape(chunk, lengths);
    let of = |_: &Shape| Some(None);
    ledger_of(key, chunk, &shape, of).unwrap_or(Ledger { terms: Vec::new() })
}

/// The ledger of a proof in one piece that hides activations, and leaves room for so many reveals. `None` if no proof under this key can hide activations of
/// such a statement.
pub fn hidden_ledger(key: &ModelKey, lengths: impl Into<Lengths>, reveals: usize) -> Option<Ledger> {
    let whole = Chunk::whole(key.config.layers);
    let shape = key.hidden_shape(lengths);
    ledger_of(key, &whole, &shape, |shape| {
        HiddenCode::of(key, &whole, shape, reveals).map(Some)
    })
}

/// The ledger of a chunk with the code of hidden activations, if they are hidden; `None` if there is none.
fn ledger_of(
    key: &ModelKey,
    chunk: &Chunk,
    shape: &Shape,
    hidden: impl FnOnce(&Shape) -> Option<Option<HiddenCode>>,
) -> Option<Ledger> {
    // Before anything is counted: such statements have millions of trees.
    if let Some(term) = too_large(shape) {
        return Some(Ledger { terms: vec![term] });
    }
    let hidden = hidden(shape)?;
    let mut terms = Vec::new();
    let forest = Forest::of(shape);
    claim_terms(shape, &forest, hidden.is_some(), &mut terms);
    // All terms of a tree of the tables are among the terms of the claims.
    if shape.table_tree().is_none() {
        stark_terms(&shape.config.relations(), forest.is_weighted(), &mut terms);
    }
    let activations = match &hidden {
        Some(code) => code.columns,
        None => CommitmentParams::of_activations(shape, &key.weights).all(),
    };
    let mut opened = vec![
        (CommitmentName::Weights, key.opened(chunk)),
        (CommitmentName::Activations, activations),
    ];
    opened.extend(key.opened_boundaries(chunk, shape.rows));
    terms.extend(opening::terms(&opened, usize::from(hidden.is_some())));
    if let Some(code) = hidden {
        tape_terms(&code.tape, &mut terms);
    }
    Some(Ledger { terms })
}

/// The ledger of a reveal (docs/protocol.md, section 17.7), by the columns of the proof's activations, the code of its own mask, and the numbers of its
/// claims and of the variables of their sumcheck.
pub(crate) fn reveal_ledger(activations: OpenedColumns, mask: &HiddenCode, claims: usize, variables: usize) -> Ledger {
    let opened = [
        (CommitmentName::Revealed, activations),
        (CommitmentName::Mask, mask.columns),
    ];
    let mut terms = opening::terms(&opened, 1);
    tape_terms(&mask.tape, &mut terms);
    let claims = claims as f64;
    terms.push(Term::algebraic("batching of claims", format!("{claims} / |K|"), claims));
    let rounds = variables as f64;
    terms.push(Term::algebraic(
        "sumchecks",
        format!("2 x {rounds} rounds / |K|"),
        2.0 * rounds,
    ));
    Ledger { terms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHeader;
    use crate::length::most_bytes;
    use crate::opening::parts::{Layout, TILE_AREA_LOG};
    use crate::policy::{ACTIVATION_COLUMNS, FEW_COLUMNS, MAX_CODE_LOG, SHORT_MESSAGE_LOG};
    use crate::suite::SuiteChannel;
    use std::collections::BTreeSet;
    use stwo::core::circle::CirclePoint;
    use tessera_circuits::model::{
        Activation, Blocks, ByClass, ChannelShift, LeadingRows, Mask, ModelConfig, ModelParams, NormParams, Rotation,
        StreamShift, WeightBits, WeightFormat, Windows, MAX_CONTEXT, MAX_HEAD_DIM, MAX_VOCAB,
    };
    use tessera_circuits::shape::Part;
    use tessera_circuits::table_tree::TableArgument;
    use tessera_circuits::trees::{lookup_trees, LookupTree};

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
                weight_bits: WeightBits::all(8),
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
            header: KeyHeader::CURRENT,
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
            let mut key = key(config);
            key.header = key.header.with_tables(TableArgument::Gkr);
            assert!(most_bytes(&key) > 0);
            key.header = KeyHeader::CURRENT;
            for rows in [1, 2, 256, MAX_CONTEXT] {
                let shape = key.shape(&Chunk::whole(key.config.layers), rows);
                let total = ledger(&key, &Chunk::whole(key.config.layers), rows).bits();
                assert!(total.is_finite() && total < 128.0, "{shape:?}: {total} bits");
                if shape.max_log_rows() > MAX_ROWS_LOG || shape.cells() > 1 << MAX_CELLS_LOG {
                    assert!(total < MIN_BITS);
                }
                // No tape is laid out for what is too large.
                let hidden = hidden_security_bits(&key, rows, 0);
                assert!(hidden.is_none_or(|bits| bits.is_finite() && bits < 128.0), "{shape:?}");
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

    /// Chunks of as many layers are not alike if one has a window in the place of all keys: a text may be too long for one of them alone.
    #[test]
    fn chunks_with_windows_have_ledgers_of_their_own() {
        let config = ModelConfig {
            layers: 6,
            context: 1 << 13,
            blocks: Blocks {
                mask: Mask::Windows(Windows::new(1, [1, 3, 4])),
                ..Blocks::DECODER
            },
            ..laned()
        };
        let key = key(config);
        let chunks = Chunk::partition([1; 6], 6).expect("six layers");
        let error = |chunk: &Chunk| (-ledger(&key, chunk, 600).bits()).exp2();
        assert!(error(&chunks[2]) > error(&chunks[1]));
        let bits = -chunks.iter().map(error).sum::<f64>().log2();
        assert!((security_bits(&key, &chunks, 600) - bits).abs() < 1e-9, "{bits}");
    }

    /// A key's id is shown as 64 digits.
    #[test]
    fn ids_are_shown_as_digits() {
        let id = crate::key::ModelId([0x5a; 32]);
        assert_eq!((id.to_string(), format!("{id:?}")), ("5a".repeat(32), "5a".repeat(32)));
    }

    /// The count of lookups from the shape is that of the leaves.
    #[test]
    fn fractions_are_those_of_the_trees() {
        let shape = Shape::new(&laned(), 64);
        assert!(shape.parts().iter().any(|p| shape.lanes(*p) > 1));
        let leaves: usize = lookup_trees(&shape).iter().map(LookupTree::leaves).sum();
        assert_eq!(shape.fractions(), leaves as u128);
    }

    /// The code of activations has the rate of the weights. It has at most 64 columns unless its length would exceed both `2^22` and the
    /// length of the weights' code, and at most 16 columns while its messages are short and no longer than those of the weights. No code
    /// is longer than these rules need.
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
                let limit = MAX_CODE_LOG.max(weights.log_codeword());
                assert!(own.log_codeword() <= limit && own.log_message >= TILE_AREA_LOG);
                assert!(own.columns() <= ACTIVATION_COLUMNS || own.log_codeword() == limit);
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
        for (count, weighted) in [(5, false), (6, false), (5, true), (6, true)] {
            samples_are_counted(&Relation::ALL[..count], weighted);
        }
    }

    fn samples_are_counted(relations: &[Relation], weighted: bool) {
        let component = component(&Relations::dummy(relations), weighted, SecureField::default());
        let oods = CirclePoint::<SecureField>::get_random_point(&mut SuiteChannel::default());
        let points = component.mask_points(oods, tables::LOG_ROWS);
        // A column with two samples gets a third.
        let columns = points
            .iter()
            .flatten()
            .map(|points| points.len() + usize::from(points.len() == 2));
        let real = component.ids().len() + columns.sum::<usize>() + 8;
        let mut terms = Vec::new();
        stark_terms(relations, weighted, &mut terms);
        let term = terms.iter().find(|term| term.name.contains("FRI batching")).unwrap();
        let counted: usize = term.formula.split(' ').next().unwrap().parse().unwrap();
        assert!((real..2 * real).contains(&counted), "{real} samples, {counted} counted");
    }

    /// Triples count twice: their denominators have degree two in the challenges.
    #[test]
    fn triples_count_twice() {
        let shape = Shape::new(&laned(), 64);
        let rows = (shape.lanes(Part::SCORES) as u128) << shape.log_rows(Part::SCORES);
        let entries = 6 << tables::LOG_ROWS;
        let mut terms = Vec::new();
        claim_terms(&shape, &Forest::of(&shape), false, &mut terms);
        let term = terms.iter().find(|term| term.name == "LogUp").unwrap();
        let expected =
            FIELD_BITS - ((shape.fractions() + rows + 2 * entries) as f64).log2() + f64::from(LOOKUP_GRIND_BITS);
        assert_eq!(term.bits, expected, "{}", term.formula);
    }
}
