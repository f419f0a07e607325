//! Measures quantisation options against each other: the integer model against the float model, on texts and on random
//! first tokens.
//!
//!     fidelity_table CHECKPOINT CALIBRATION TEXTS.. -- VARIANT..
//!
//! Files are JSON lines with `text` or `ids`; `bundled` stands for the bundled texts, those to calibrate on or those held out. A variant is `NAME[,KEY=VALUE]..` with the keys `strategy`, `headroom`,
//! `first`, `run`, `exponents`, `feedback`, `rotation`, `tokens` and `heads` of `QuantiseOptions`. Every file of texts is two
//! columns of a row: KL divergence (mean, 99th percentile) and top-1 agreement with the ratio of perplexities; the last
//! column is the KL of 32 short texts with a random first token (median, worst).

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tessera_checkpoint::Checkpoint;
use tessera_circuits::bounds::normed_bound;
use tessera_circuits::model::Limbs;
use tessera_circuits::model::{ChannelShift, MatmulKind, NormParams, LAYER_KINDS};
use tessera_float::FloatModel;
use tessera_model::forward::{ForwardState, Saturations};
use tessera_model::QuantisedModel;
use tessera_quantise::texts::TextReader;
use tessera_quantise::{compare_logits, Fidelity, QuantiseOptions, Strategy};
use tessera_testkit::{quantised, random_ids};

type Failure = Box<dyn Error>;

/// Texts with a random first token, and their length.
const HEADS: usize = 32;
const HEAD_ROWS: usize = 24;

/// Token sequences with their float logits.
struct Set {
    texts: Vec<(Vec<u32>, Vec<f32>)>,
}

impl Set {
    fn new(float: &FloatModel<'_>, texts: Vec<Vec<u32>>) -> Result<Self, Failure> {
        let with_logits = |ids: Vec<u32>| float.forward(&ids).map(|logits| (ids, logits));
        Ok(Self {
            texts: texts.into_iter().map(with_logits).collect::<Result<_, _>>()?,
        })
    }

    /// Fidelity of each row of each text.
    fn measure(&self, model: &QuantisedModel, clipped: &mut Saturations) -> Result<Vec<Vec<Fidelity>>, Failure> {
        let (vocab, bits) = (model.config.vocab, model.params.logit_bits);
        let mut measured = Vec::new();
        for (ids, float) in &self.texts {
            let mut state = ForwardState::new(model);
            let int = state.run(ids, None)?;
            for (tensor, count) in state.saturated() {
                *clipped.entry(tensor).or_default() += count;
            }
            let rows = float.chunks_exact(vocab).zip(int.chunks_exact(vocab)).enumerate();
            let row = |(i, (float, int))| compare_logits(float, int, bits, vocab, &ids[i..ids.len().min(i + 2)]);
            measured.push(rows.map(row).collect());
        }
        Ok(measured)
    }
}

fn sum(rows: impl IntoIterator<Item = Fidelity>) -> Fidelity {
    let mut total = Fidelity::default();
    rows.into_iter().for_each(|row| total += row);
    total
}

/// What is in two limbs, and how close matmuls that read a norm come to it: the largest shifts and log2 of the bounds.
fn limbs(model: &QuantisedModel) -> String {
    let (config, params) = (&model.config, &model.params);
    let kinds = LAYER_KINDS.into_iter().chain([MatmulKind::Embed, MatmulKind::Head]);
    let two: Vec<_> = kinds.filter(|k| params.limbs(config, *k) == Limbs::Two).collect();
    let norms = params.norm_limbs(config);
    let mut text = format!("two limbs {two:?}, norms {norms:?}");
    let mut add = |kind: MatmulKind, matmuls: Vec<(&NormParams, &ChannelShift)>| {
        let (mut total, mut bound, mut bits) = (0, 0.0f64, Vec::new());
        for (layer, (norm, shift)) in matmuls.into_iter().enumerate() {
            let output = params.normed_bits(norm);
            let square = params.norms(kind.at(layer)).map_or(0, |n| n.square);
            bound = bound.max((normed_bound(config.hidden, output, square) as f64).log2());
            total = total.max(8 + shift.0.iter().copied().max().unwrap_or(0));
            bits.push((output, norm.scale));
        }
        text += &format!("\n    {kind:?}: shift up to {total}, bound 2^{bound:.2}, (bits, scale) of norms {bits:?}");
    };
    let layers = &params.layers;
    add(
        MatmulKind::Q,
        layers.iter().map(|l| (&l.attention.norm, &l.attention.q)).collect(),
    );
    add(
        MatmulKind::K,
        layers.iter().map(|l| (&l.attention.norm, &l.attention.k)).collect(),
    );
    add(
        MatmulKind::V,
        layers.iter().map(|l| (&l.attention.norm, &l.attention.v)).collect(),
    );
    add(
        MatmulKind::Gate,
        layers.iter().map(|l| (&l.mlp.norm, &l.mlp.gate)).collect(),
    );
    add(
        MatmulKind::Up,
        layers.iter().map(|l| (&l.mlp.norm, &l.mlp.up)).collect(),
    );
    add(MatmulKind::Head, vec![(&params.norm_final, &params.head)]);
    text
}

fn option(options: &mut QuantiseOptions, key: &str, value: &str) -> Result<(), Failure> {
    match key {
        "strategy" => {
            let strategy = Strategy::named(value).ok_or_else(|| format!("no such strategy: {value}"))?;
            let own = QuantiseOptions::from(strategy);
            (options.strategy, options.feedback_bits) = (strategy, own.feedback_bits);
        }
        "headroom" => options.headroom = value.parse()?,
        "first" => options.leading.first = value.parse()?,
        "run" => options.leading.run = value.parse()?,
        "exponents" => options.exponents = Some(value.parse()?),
        "feedback" => options.feedback_bits = value.parse()?,
        "rotation" => options.rotation = Some(value.parse()?),
        "tokens" => options.first_tokens = value.parse()?,
        "heads" => options.heads = value.parse()?,
        other => return Err(format!("no such option: {other}").into()),
    }
    Ok(())
}

/// Prints the row of a variant; what else is worth knowing goes to stderr.
fn row(
    checkpoint: &Checkpoint,
    calibration: &[Vec<u32>],
    (sets, heads): (&[Set], &Set),
    variant: &str,
) -> Result<(), Failure> {
    let mut parts = variant.split(',');
    let name = parts.next().unwrap_or_default();
    let mut options = QuantiseOptions::default();
    for part in parts {
        let (key, value) = part.split_once('=').ok_or("KEY=VALUE")?;
        option(&mut options, key, value)?;
    }
    let clock = Instant::now();
    let (model, report) = quantised(checkpoint, options, calibration)?;
    let time = clock.elapsed().as_secs_f64();
    eprintln!("{name}: {}; leading {:?}", limbs(&model), model.params.leading);
    let mut clipped = Saturations::new();
    print!("| {name} |");
    for set in sets {
        let rows = set.measure(&model, &mut clipped)?.concat();
        let mut kl: Vec<f64> = rows.iter().map(Fidelity::kl).collect();
        kl.sort_by(f64::total_cmp);
        let total = sum(rows);
        let ratio = total.perplexity_integer() / total.perplexity_float() - 1.0;
        eprintln!(
            "{name}: {} of {} rows agree, worst KL {:.1e}",
            total.top1_count,
            total.rows,
            kl[kl.len() - 1]
        );
        let p99 = kl[kl.len() * 99 / 100];
        print!(
            " {:.3e}, {p99:.1e} | {:.1} %, {:+.2} % |",
            total.kl(),
            100.0 * total.top1(),
            100.0 * ratio
        );
    }
    let mut kl: Vec<f64> = heads
        .measure(&model, &mut Saturations::new())?
        .into_iter()
        .map(|rows| sum(rows).kl())
        .collect();
    kl.sort_by(f64::total_cmp);
    println!(" {:.1e}, {:.1e} |", kl[kl.len() / 2], kl[kl.len() - 1]);
    let exponents: Vec<_> = report.exponents.iter().map(|e| (e.channel, e.exponent)).collect();
    let products: Vec<usize> = report.products.iter().map(Vec::len).collect();
    clipped.retain(|_, count| count.total() > 0);
    let clipped: Vec<_> = clipped
        .iter()
        .map(|(t, c)| format!("{t} -{} +{}", c.low, c.high))
        .collect();
    eprintln!(
        "{name}: {time:.1} s; exponents {exponents:?}; products' by layer {products:?}; heads {:?}; saturated {clipped:?}",
        report.heads
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let at = args.iter().position(|a| a == "--").ok_or("no variants")?;
    let ([dir, calibration, files @ ..], variants) = (&args[..at], &args[at + 1..]) else {
        return Err("CHECKPOINT CALIBRATION TEXTS.. -- VARIANT..".into());
    };
    let checkpoint = Checkpoint::open(Path::new(dir))?;
    let tokenizer = checkpoint.id_files()?.files.parse_alone()?;
    let reader = TextReader {
        config: checkpoint.config(),
        tokenizer: tokenizer.as_ref(),
    };
    let calibration = match calibration.as_str() {
        "bundled" => reader.calibration()?,
        path => reader.read(Path::new(path))?,
    };
    let float = FloatModel::new(&checkpoint);
    let mut sets = Vec::new();
    let mut texts = Vec::new();
    for file in files {
        let read = match file.as_str() {
            "bundled" => reader.held_out()?,
            path => reader.read(Path::new(path))?,
        };
        eprintln!("{file}: {} tokens", read.iter().map(Vec::len).sum::<usize>());
        texts.extend(read.clone());
        sets.push(Set::new(&float, read)?);
    }
    let firsts = random_ids(checkpoint.config(), HEADS, 7);
    let heads = firsts.into_iter().enumerate().map(|(i, first)| {
        let text = &texts[i % texts.len()];
        let start = 1 + i % 7;
        let rest = &text[start.min(text.len())..text.len().min(start + HEAD_ROWS - 1)];
        [&[first], rest].concat()
    });
    let heads = Set::new(&float, heads.collect())?;
    variants
        .iter()
        .try_for_each(|variant| row(&checkpoint, &calibration, (&sets, &heads), variant))
}
