//! The rotations of queries and keys: how configs scale their frequencies. In f64 and with the software `libm`, so that
//! keys do not depend on the machine.

use std::f64::consts::PI;

use tessera_circuits::model::Rotation;

use super::description::Description;
use super::place::Pairs;
use super::reader::Reader;
use crate::config::DIVISORS;
use crate::CheckpointError;

/// No head is longer, even of models that are not supported.
const MOST_CHANNELS: usize = 1 << 12;

/// What a config says of rotations.
struct Scaling<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// The object that has the fields, and the kind that it names.
    object: Option<(&'static str, &'a str)>,
    theta: f64,
    /// Channels of a head that are rotated.
    rotated: usize,
    /// The context of the checkpoint, as it is given.
    context: usize,
}

/// Where newer configs have the rotations of all layers.
pub const NEWER: &str = "rope_parameters";

/// Reads the rotations of all layers into a description: newer configs have them under the path `newer`, `theta` is the default of their
/// base, and `part` the default of the part of the channels that are rotated. The attention factor of
/// some kinds multiplies cos and sin of queries and keys; its square goes into the queries.
pub fn read(
    reader: &mut Reader<'_>,
    description: &mut Description,
    (newer, theta, part): (&'static str, f64, f64),
) -> Result<(), CheckpointError> {
    let object = reader.rope(newer)?;
    let nested = |reader: &mut Reader<'_>, field: &str| match object {
        Some((object, _)) => reader.positive(&format!("{object}.{field}")),
        None => Ok(None),
    };
    let (inner, outer) = (nested(reader, "rope_theta")?, reader.positive("rope_theta")?);
    let theta = inner.or(outer).unwrap_or(theta);
    let (inner, outer) = (
        nested(reader, "partial_rotary_factor")?,
        reader.positive("partial_rotary_factor")?,
    );
    let head_dim = description.config.head_dim;
    // What no model has is refused for its dimensions; nothing is made of that size before.
    if !(2..=MOST_CHANNELS).contains(&head_dim) {
        description.config.rotations = vec![Rotation::Base(theta)];
        return Ok(());
    }
    // Rounded down, as transformers does.
    let rotated = (head_dim as f64 * inner.or(outer).unwrap_or(part)) as usize;
    if rotated > head_dim || !rotated.is_multiple_of(2) || rotated == 0 {
        let problem = format!("{rotated} of {head_dim} channels of a head cannot be rotated in pairs");
        let field = match inner.or(outer) {
            Some(_) => "partial_rotary_factor",
            None => "head_dim",
        };
        return Err(reader.error(field, problem));
    }
    description.pairs = Pairs {
        rotated,
        ..description.pairs
    };
    let context = reader.integer("max_position_embeddings")?;
    let mut scaling = Scaling {
        reader,
        object,
        theta,
        rotated,
        context: context.unwrap_or(description.config.context),
    };
    let kind = object.map_or("default", |(_, kind)| kind);
    // Only texts longer than the context of the checkpoint are rotated otherwise, and none of them is proved.
    if kind == "dynamic" {
        scaling.required("factor")?;
    }
    let (frequencies, factor) = match kind {
        "default" | "dynamic" if rotated == head_dim => {
            description.config.rotations = vec![Rotation::Base(theta)];
            return Ok(());
        }
        "default" | "dynamic" => (scaling.plain(), 1.0),
        "linear" => scaling.linear()?,
        "llama3" => scaling.llama3()?,
        "yarn" => scaling.yarn()?,
        // The original configs of Phi-3 called it so.
        "longrope" | "su" => scaling.longrope(description)?,
        // No config says so.
        DIVISORS if scaling.reader.converted() => scaling.divisors()?,
        other => {
            let detail = format!("{other} is none of default, linear, dynamic, llama3, yarn and longrope");
            scaling.reader.refuse("rope_scaling", detail);
            if let Some((object, _)) = object {
                scaling.reader.skip(object);
            }
            (scaling.plain(), 1.0)
        }
    };
    description.factors.rotation = factor;
    let mut all = frequencies;
    all.resize(head_dim / 2, 0.0);
    description.config.rotations = vec![Rotation::Frequencies(all)];
    Ok(())
}

/// Layers that are not rotated, where there are any: `rotated` says of every layer whether it is.
pub fn only_some(description: &mut Description, rotated: &[bool]) {
    let config = &mut description.config;
    if rotated.iter().all(|r| *r) {
        return;
    }
    let none = Rotation::Frequencies(vec![0.0; config.head_dim / 2]);
    let others: Vec<bool> = rotated.iter().map(|r| !r).collect();
    self::others(description, none, &others);
}

/// Layers that are rotated otherwise: `others` says of every layer whether it is.
pub fn others(description: &mut Description, rotation: Rotation, others: &[bool]) {
    let config = &mut description.config;
    let (any, all) = (others.contains(&true), !others.contains(&false));
    match (any, all) {
        (_, true) => config.rotations = vec![rotation],
        (true, false) => {
            config.rotations.push(rotation);
            config.rotation_of = others.iter().map(|other| u8::from(*other)).collect();
        }
        (false, false) => {}
    }
}

impl Scaling<'_, '_> {
    fn field(&self, field: &str) -> String {
        let object = self.object.map_or("rope_scaling", |(object, _)| object);
        format!("{object}.{field}")
    }

    fn given(&mut self, field: &str) -> Result<Option<f64>, CheckpointError> {
        let field = self.field(field);
        self.reader.positive(&field)
    }

    fn required(&mut self, field: &str) -> Result<f64, CheckpointError> {
        let value = self.given(field)?;
        value.ok_or_else(|| self.reader.error(&self.field(field), "missing"))
    }

    /// A list with a number for every pair that is rotated.
    fn of_pairs(&mut self, field: &str) -> Result<Vec<f64>, CheckpointError> {
        let (field, pairs) = (self.field(field), self.rotated / 2);
        let values = self.reader.positives(&field)?;
        let values = values.ok_or_else(|| self.reader.error(&field, "missing"))?;
        match values.len() == pairs {
            true => Ok(values),
            false => Err(self.reader.error(
                &field,
                format!("{} numbers, but {pairs} pairs are rotated", values.len()),
            )),
        }
    }

    /// Powers of the base.
    fn plain(&self) -> Vec<f64> {
        let power = |x| libm::pow(self.theta, -2.0 * x as f64 / self.rotated as f64);
        (0..self.rotated / 2).map(power).collect()
    }

    fn linear(&mut self) -> Result<(Vec<f64>, f64), CheckpointError> {
        let factor = self.required("factor")?;
        Ok((self.plain().iter().map(|f| f / factor).collect(), 1.0))
    }

    /// A divisor for every pair.
    fn divisors(&mut self) -> Result<(Vec<f64>, f64), CheckpointError> {
        let divisors = self.of_pairs(DIVISORS)?;
        let scaled = |(f, divisor)| f / divisor;
        Ok((self.plain().into_iter().zip(divisors).map(scaled).collect(), 1.0))
    }

    /// Long waves are stretched, short ones kept, those between them in between.
    fn llama3(&mut self) -> Result<(Vec<f64>, f64), CheckpointError> {
        let factor = self.required("factor")?;
        let (low, high) = (self.required("low_freq_factor")?, self.required("high_freq_factor")?);
        let original = self.required("original_max_position_embeddings")?;
        if low >= high {
            let problem = format!("{low} is not below high_freq_factor, which is {high}");
            return Err(self.reader.error(&self.field("low_freq_factor"), problem));
        }
        let scaled = |f: f64| {
            let wave = 2.0 * PI / f;
            if wave < original / high {
                f
            } else if wave > original / low {
                f / factor
            } else {
                let smooth = (original / wave - low) / (high - low);
                (1.0 - smooth) * f / factor + smooth * f
            }
        };
        Ok((self.plain().into_iter().map(scaled).collect(), 1.0))
    }

    /// As llama3, by a ramp over the pairs, and with an attention factor.
    fn yarn(&mut self) -> Result<(Vec<f64>, f64), CheckpointError> {
        let factor = self.required("factor")?;
        let original = self.given("original_max_position_embeddings")?;
        let original = original.unwrap_or(self.context as f64);
        let (fast, slow) = (self.given("beta_fast")?, self.given("beta_slow")?);
        let (fast, slow) = (fast.unwrap_or(32.0), slow.unwrap_or(1.0));
        let (one, all) = (self.given("mscale")?, self.given("mscale_all_dim")?);
        let truncate = self.field("truncate");
        let truncate = self.reader.switch(&truncate)?.unwrap_or(true);
        let scale = |m: f64| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * m * libm::log(factor) + 1.0
            }
        };
        let attention = match (self.given("attention_factor")?, one, all) {
            (Some(given), ..) => given,
            (None, Some(one), Some(all)) => scale(one) / scale(all),
            (None, ..) => scale(1.0),
        };
        let dim = self.rotated as f64;
        let turns = |n: f64| dim * libm::log(original / (n * 2.0 * PI)) / (2.0 * libm::log(self.theta));
        let (mut low, mut high) = (turns(fast), turns(slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
        if low == high {
            high += 0.001;
        }
        let scaled = |(x, f): (usize, f64)| {
            let ramp = ((x as f64 - low) / (high - low)).clamp(0.0, 1.0);
            f / factor * ramp + f * (1.0 - ramp)
        };
        Ok((self.plain().into_iter().enumerate().map(scaled).collect(), attention))
    }

    /// A divisor for every pair, one for short texts and one for long ones. Only short ones are proved: one text would have
    /// rows of either kind, and all of them change when the text grows beyond the limit.
    fn longrope(&mut self, description: &mut Description) -> Result<(Vec<f64>, f64), CheckpointError> {
        let (short, _) = (self.of_pairs("short_factor")?, self.of_pairs("long_factor")?);
        let (own, nested) = (
            self.reader.integer("original_max_position_embeddings")?,
            self.given("original_max_position_embeddings")?,
        );
        let original = own.or(nested.map(|n| n as usize));
        let given = self.given("factor")?;
        let (original, factor) = match original {
            Some(original) if original > 1 => {
                let ratio = self.context as f64 / original as f64;
                (original, given.unwrap_or(ratio))
            }
            Some(other) => {
                let problem = format!("{other} rows are no text");
                return Err(self.reader.error("original_max_position_embeddings", problem));
            }
            None => (self.context, given.unwrap_or(1.0)),
        };
        let scale = |factor: f64| match factor <= 1.0 {
            true => 1.0,
            false => libm::sqrt(1.0 + libm::log(factor) / libm::log(original as f64)),
        };
        let attention = self.given("attention_factor")?.unwrap_or(scale(factor));
        description.limit_context(
            original,
            "longer ones have other rotations (long_factor), which are not proved",
        );
        let scaled = |(f, divisor)| f / divisor;
        Ok((self.plain().into_iter().zip(short).map(scaled).collect(), attention))
    }
}
