//! The integer forward pass of a quantised model (docs/protocol.md, sections 2 and 16), incremental with a
//! key/value cache. All arithmetic is that of `tessera_circuits::semantics`.

mod attention;
mod beginning;
mod kernels;
mod linear;
mod matmul;
mod mlp;
mod saturation;
mod texts;
mod witness;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tessera_circuits::chunk::{Boundary, Chunk};
use tessera_circuits::gains::Gains;
use tessera_circuits::model::{ChannelShift, MatmulKind, RowClass};
use tessera_circuits::ops::stream::Update;
use tessera_circuits::semantics::{direction, mlp_table, norm_element, norm_rsqrt, norm_sums, round_shift};
use tessera_circuits::statement::{class_of, norm_of};
use thiserror::Error;

use crate::passes::{Traffic, WeightPass, Window};
use crate::QuantisedModel;
use beginning::Beginning;
use kernels::{add_normed, in_rows, least, requantise_acc, requantise_stream, Clipped, HeadCache, ScoreTables};
use matmul::{embedding, windows};
use tessera_kernels::device::DeviceError;

pub use kernels::Acc;
pub use linear::{Linear, Placed, Scalar, Vectors};
pub use saturation::{Saturation, Saturations};
pub use texts::{Block, TextId, Texts};
pub use witness::{LayerWitness, NormedHeads, Stream, Witness};

use witness::Record;

/// Why a block of tokens cannot be run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ForwardError {
    #[error("no tokens to run")]
    Empty,
    #[error("token id {id} at position {position} is not below the vocabulary size {vocab}")]
    UnknownToken { id: u32, position: usize, vocab: usize },
    #[error("{rows} token rows are more than the context of {context}")]
    TooManyRows { rows: usize, context: usize },
    #[error("a witness, or the text of an encoder, begins at position 0, but {cached} rows were processed already")]
    NotFirst { cached: usize },
    #[error("the model is no encoder: it generates tokens, and makes no vectors")]
    NoVector,
    /// The device of the matrices has failed, and the state is not to be used again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What enters a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Tokens(&'a [u32]),
    /// What enters, and how many of its rows are leading ones: the tokens are not seen here.
    Stream(&'a Boundary, usize),
}

/// A chunk that was run.
#[derive(Clone, Debug)]
pub struct ChunkRun {
    /// The residual stream that leaves it.
    pub output: Boundary,
    /// What the last chunk of an encoder makes of the text.
    pub vector: Option<Vec<i32>>,
    /// As [`ForwardState::saturated`].
    pub saturated: Saturations,
    /// What was read of the weights.
    pub traffic: Traffic,
}

/// State of a forward pass: lookup tables, key/value cache and saturation counts.
pub struct ForwardState<'m> {
    model: &'m QuantisedModel,
    /// The device that multiplies by the model's matrices.
    linear: &'m dyn Linear,
    /// cos and sin by rotation, `[position][pair]`, of the positions so far.
    rope: Vec<Vec<(f64, f64)>>,
    scores: ScoreTables,
    silu: Vec<i16>,
    /// By text; there is one, but in [`Texts`].
    caches: Vec<Cache>,
    /// Where the rows that are being processed stand; empty where they are the next ones of the only text.
    places: Vec<Place>,
    rows: usize,
    beginning: Beginning,
    /// How many keys a row of an encoder sees, at most.
    keys: usize,
    /// What an encoder made of the last text.
    vector: Option<Vec<i32>>,
    /// What is kept of all blocks, if anything is.
    record: Option<Record>,
    saturated: Saturations,
    windows: Arc<[Window]>,
    traffic: Traffic,
}

/// Keys and values of a text, `[layers][kv_heads]`.
type Cache = Vec<Vec<HeadCache>>;

/// The place of a row: its text, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    text: usize,
    position: usize,
}

/// A pass over the weights.
type Pass<'a> = WeightPass<'a>;

impl<'m> ForwardState<'m> {
    /// An empty cache in front of position 0. The config must have passed `ModelConfig::check`, the
    /// matrices must have its dimensions, and the accumulators must fit i32, as a model key guarantees.
    pub fn new(model: impl Into<Placed<'m>>) -> Self {
        let Placed { model, linear } = model.into();
        let config = &model.config;
        Self {
            model,
            linear,
            rope: vec![Vec::new(); config.rotations.len()],
            scores: ScoreTables::new(&model.params, config),
            silu: mlp_table(&model.params),
            caches: vec![empty_cache(model)],
            places: Vec::new(),
            rows: 0,
            beginning: Beginning::default(),
            keys: usize::MAX,
            vector: None,
            record: None,
            saturated: Saturations::new(),
            windows: windows(model, &Chunk::whole(config.layers)).into(),
            traffic: Traffic::default(),
        }
    }

    /// As [`ForwardState::new`], and keeps what it computes of up to `rows` rows, for [`ForwardState::finish`].
    pub fn recording(model: impl Into<Placed<'m>>, rows: usize) -> Self {
        Self {
            record: Some(Record::of(rows)),
            ..Self::new(model)
        }
    }

    /// The same, of an encoder whose rows see so many keys at most. Tests lie with it.
    #[doc(hidden)]
    #[must_use]
    pub fn seeing(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// The model that is run.
    pub fn model(&self) -> &'m QuantisedModel {
        self.model
    }

    /// Rows processed so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The largest number of rows: the model's context.
    pub fn max_rows(&self) -> usize {
        self.model.config.context
    }

    /// Forgets all rows, to begin another text. Counts of saturated values go on.
    pub fn restart(&mut self) {
        (self.rows, self.beginning, self.record) = (0, Beginning::default(), None);
        let heads = self.caches.iter_mut().flatten().flatten();
        heads.for_each(|head| *head = HeadCache::default());
    }

    /// Saturated values by tensor name. Masked scores are not counted, nor is the probability 1, which is 32767 by design.
    pub fn saturated(&self) -> Saturations {
        let clipped = self.saturated.iter().filter(|(_, s)| s.total() > 0);
        clipped.map(|(name, s)| (name.clone(), *s)).collect()
    }

    /// What all passes so far have read of the weights.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Processes the tokens that follow the cached ones; returns their logits, `[rows][vocab]`. Any split
    /// of a text in blocks gives the same logits. A witness is overwritten with the values of the block,
    /// which must be the first one. On error nothing has changed, unless the device has failed.
    pub fn run(&mut self, ids: &[u32], witness: Option<&mut Witness>) -> Result<Vec<i16>, ForwardError> {
        self.check(ids, witness.is_some())?;
        self.record = witness.is_some().then(|| Record::of(ids.len()));
        let logits = self.process(ids, 0..ids.len(), witness.is_some())?;
        if let (Some(witness), Some(record)) = (witness, self.record.take()) {
            *witness = record.witness;
        }
        Ok(logits)
    }

    /// Like `run`, but computes and returns the logits of the last row only, `[vocab]`.
    pub fn run_last(&mut self, ids: &[u32]) -> Result<Vec<i16>, ForwardError> {
        self.check(ids, false)?;
        Ok(self.process(ids, ids.len() - 1..ids.len(), false)?)
    }

    /// Computes what a text that was recorded in blocks leaves for its end: the values of pairs of rows. The witness is overwritten with
    /// the values of all rows.
    ///
    /// # Panics
    /// If nothing was recorded, or the text is that of an encoder, which is run at once.
    pub fn finish(mut self, witness: &mut Witness) -> ChunkRun {
        assert!(
            self.model.config.is_causal() && self.model.config.generates(),
            "a text that comes in blocks"
        );
        *witness = self.record.take().expect("a state that records").witness;
        let saturated = self.saturated();
        // Pairs of rows have no place before all rows are known. What saturates there was counted.
        self.rows = 0;
        for (l, layer) in witness.layers.iter_mut().enumerate() {
            let q_rot = std::mem::take(&mut layer.q_rot);
            self.attend(l, &q_rot, true, layer);
            layer.q_rot = q_rot;
        }
        ChunkRun {
            output: Boundary(witness.streams.last().map_or(Vec::new(), |last| last.x.clone())),
            vector: None,
            saturated,
            traffic: Traffic::default(),
        }
    }

    /// Processes tokens that were checked; returns the logits of these of the rows. Values of pairs of rows are kept only if `pairs`.
    fn process(&mut self, ids: &[u32], logits: Range<usize>, pairs: bool) -> Result<Vec<i16>, DeviceError> {
        let (model, windows) = (self.model, self.windows.clone());
        let whole = Chunk::whole(model.config.layers);
        let run = |pass: &mut Pass<'_>| self.pass(&whole, Input::Tokens(ids), logits, pairs, pass);
        let (run, traffic) = Pass::run(&model.weights, &windows, run);
        self.traffic += traffic;
        run.map(|(_, logits)| logits)
    }

    /// Runs a chunk from position 0 on; returns the residual stream that leaves it, `[rows][hidden]`. The last chunk has the logits
    /// of the last `outputs` rows.
    ///
    /// # Panics
    /// If the chunk is the first one and `input` no tokens, or the other way round.
    pub fn run_chunk(
        model: impl Into<Placed<'m>>,
        chunk: &Chunk,
        input: Input<'_>,
        outputs: usize,
        witness: Option<&mut Witness>,
    ) -> Result<ChunkRun, ForwardError> {
        let placed: Placed<'m> = model.into();
        let model = placed.model;
        assert_eq!(
            chunk.is_first(),
            matches!(input, Input::Tokens(_)),
            "tokens enter the first chunk"
        );
        let mut state = Self {
            record: witness.is_some().then(|| Record::of(0)),
            ..Self::new(placed)
        };
        let rows = match input {
            Input::Tokens(ids) => {
                state.check(ids, false)?;
                ids.len()
            }
            Input::Stream(boundary, _) => boundary.0.len() / model.config.hidden,
        };
        let (windows, pairs) = (windows(model, chunk), witness.is_some());
        let run = |pass: &mut Pass<'_>| state.pass(chunk, input, rows.saturating_sub(outputs)..rows, pairs, pass);
        let (run, traffic) = Pass::run(&model.weights, &windows, run);
        let (output, _) = run?;
        if let (Some(witness), Some(record)) = (witness, state.record.take()) {
            *witness = record.witness;
        }
        Ok(ChunkRun {
            output: Boundary(output),
            vector: state.vector.take(),
            saturated: state.saturated(),
            traffic,
        })
    }

    /// Returns the residual stream that leaves the chunk, and the logits of these of the rows if it is the last one.
    fn pass(
        &mut self,
        chunk: &Chunk,
        input: Input<'_>,
        logits: Range<usize>,
        pairs: bool,
        pass: &mut Pass<'_>,
    ) -> Result<(Vec<i16>, Vec<i16>), DeviceError> {
        let (model, keep) = (self.model, self.record.is_some());
        let hidden = model.config.hidden;
        let mut block = Witness::default();
        let mut stream = match input {
            Input::Tokens(ids) => {
                block.ids = ids.to_vec();
                self.beginning.read(&self.model.params.leading, self.rows, ids);
                self.embed(ids)
            }
            Input::Stream(boundary, leading) => {
                self.beginning.leading = leading;
                self.enter(chunk.start, boundary.0.clone())
            }
        };
        self.turn(self.rows + stream.sums.len());
        for l in chunk.layers() {
            let mut layer = LayerWitness::default();
            let ([output, last_output], middle, end) = self.layer(l, &stream, pairs, &mut layer, pass)?;
            let start = std::mem::replace(&mut stream, end);
            if keep {
                let states = [Some(start), output, Some(middle), last_output];
                block.streams.extend(states.into_iter().flatten());
                block.layers.push(layer);
            }
        }
        if !model.config.generates() && chunk.is_last() {
            let rows = model.config.pooled_rows(stream.sums.len());
            self.vector = Some(pooled(&stream.y, hidden, rows));
        }
        let logit_rows = logits.start..logits.end.min(stream.sums.len());
        self.rows += logit_rows.start;
        let (mut acc, mut logits) = (Acc::default(), Vec::new());
        if chunk.is_last() && model.config.generates() && !logit_rows.is_empty() {
            let y = &stream.y[logit_rows.start * hidden..logit_rows.end * hidden];
            (acc, logits) = self.project("logits".into(), MatmulKind::Head, 0, y, &model.params.head, pass)?;
        }
        self.rows += stream.sums.len() - logit_rows.start;
        let output = stream.x.clone();
        if let Some(record) = &mut self.record {
            let rows = stream.sums.len();
            block.streams.push(stream);
            let block = Witness {
                first_logits: logit_rows.start,
                logits_acc_hi: acc.hi,
                logits_acc_lo: acc.lo,
                logits: logits.clone(),
                ..block
            };
            record.append(block, rows);
        }
        Ok((output, logits))
    }

    /// Runs layer `l` on a state; returns the outputs of its blocks where they are states, the state between its blocks, and the last one.
    fn layer(
        &mut self,
        l: usize,
        stream: &Stream,
        pairs: bool,
        out: &mut LayerWitness,
        pass: &mut Pass<'_>,
    ) -> Result<([Option<Stream>; 2], Stream, Stream), DeviceError> {
        let (output, middle) = self.attention(l, stream, pairs, out, pass)?;
        let read = if self.model.config.is_parallel() {
            stream
        } else {
            &middle
        };
        let h = self.mlp(l, &read.y, out, pass)?;
        let (last_output, end) = self.leave(l, &h, &middle, pass)?;
        out.h = h;
        Ok(([output, last_output], middle, end))
    }

    /// The place of row `i` of those that are being processed.
    fn place(&self, i: usize) -> Place {
        let own = || Place {
            text: 0,
            position: self.rows + i,
        };
        self.places.get(i).copied().unwrap_or_else(own)
    }

    /// Computes the angles of the first `rows` positions: most texts are much shorter than the context.
    fn turn(&mut self, rows: usize) {
        let config = &self.model.config;
        let half = config.head_dim / 2;
        for (rotation, angles) in self.rope.iter_mut().enumerate() {
            let more = (angles.len()..rows * half).into_par_iter();
            angles.par_extend(more.map(|i| direction(config, rotation, i / half, i % half)));
        }
    }

    /// The first stage of a chunk without embedding.
    fn enter(&mut self, l: usize, x: Vec<i16>) -> Stream {
        let acc = Acc {
            hi: vec![0; x.len()],
            lo: vec![0; x.len()],
        };
        // Saturation of this norm was counted where the chunk before this one ends.
        let counted = self.saturated.clone();
        let stream = self.stream(String::new(), acc, x, self.model.config.attention_state(l));
        self.saturated = counted;
        stream
    }

    /// What an encoder makes of a text: as [`ForwardState::run`], and before it everything is forgotten.
    pub fn vector(&mut self, ids: &[u32]) -> Result<Vec<i32>, ForwardError> {
        if self.model.config.generates() {
            return Err(ForwardError::NoVector);
        }
        self.restart();
        self.check(ids, false)?;
        self.process(ids, 0..0, false)?;
        self.vector.take().ok_or(ForwardError::NoVector)
    }

    fn check(&self, ids: &[u32], witness: bool) -> Result<(), ForwardError> {
        let (rows, max, vocab) = (
            self.rows.saturating_add(ids.len()),
            self.max_rows(),
            self.model.config.vocab,
        );
        if ids.is_empty() {
            return Err(ForwardError::Empty);
        }
        if rows > max {
            return Err(ForwardError::TooManyRows { rows, context: max });
        }
        if (witness || !self.model.config.generates()) && self.rows > 0 {
            return Err(ForwardError::NotFirst { cached: self.rows });
        }
        match ids.iter().position(|&id| id as usize >= vocab) {
            Some(at) => Err(ForwardError::UnknownToken {
                id: ids[at],
                position: self.rows + at,
                vocab,
            }),
            None => Ok(()),
        }
    }

    /// Leading rows among those that are being processed.
    fn leading_here(&self) -> usize {
        self.beginning.leading.saturating_sub(self.rows)
    }

    fn count(&mut self, tensor: String, clipped: Clipped, of: usize) {
        *self.saturated.entry(tensor).or_default() += Saturation {
            low: clipped.low,
            high: clipped.high,
            of: of as u64,
        };
    }

    /// A weight matmul with requantisation; `tensor` names the output.
    fn project(
        &mut self,
        tensor: String,
        kind: MatmulKind,
        l: usize,
        a: &[i16],
        s: &ChannelShift,
        pass: &mut Pass<'_>,
    ) -> Result<(Acc, Vec<i16>), DeviceError> {
        let acc = self.linear.matmul(self.model, kind.at(l), a, pass)?;
        let (_, outputs) = self.model.config.dims(kind);
        let (out, clipped) = requantise_acc(&acc, kind, s, outputs);
        self.count(tensor, clipped, out.len());
        Ok((acc, out))
    }

    /// Rounds accumulators, and what is added to them of the states before, into state `n` of the residual stream. `previous` are
    /// the last states, the one right before it the last.
    fn update(&mut self, tensor: String, n: usize, acc: &Acc, previous: &[&Stream]) -> Vec<i16> {
        let (params, hidden) = (&self.model.params, self.model.config.hidden);
        let update = |class| Update::of(params, n, class).expect("the state exists");
        let of = |class| {
            let update = update(class);
            let exponents = (0..hidden).map(|c| (update.exponents(c), update.normed_exponent(c)));
            exponents.unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let ((lead, lead_normed), (body, body_normed)) = (of(RowClass::Lead), of(RowClass::Body));
        let leading = self.leading_here();
        let Update { added, normed, .. } = update(RowClass::Body);
        let state = |back: usize| previous[previous.len() - back];
        let with_normed = normed.and_then(|back| Some((state(back), Gains::of(params, n.checked_sub(back)?)?)));
        let with_normed =
            with_normed.map(|(own, gains)| add_normed(acc, &own.y, &gains, [&lead_normed, &body_normed], leading));
        let added = added.map(|back| state(back).x.as_slice());
        let acc = with_normed.as_ref().unwrap_or(acc);
        let (x, clipped) = requantise_stream(acc, added, [&lead, &body], leading);
        self.count(tensor, clipped, x.len());
        x
    }

    /// The state that follows `before` from an output of O or Down of layer `l`, which is added to it. Where it is normed before, it
    /// is a state, too, and comes first. `norm` names the norm of the state.
    fn add(&mut self, l: usize, kind: MatmulKind, acc: Acc, before: &Stream, norm: String) -> (Option<Stream>, Stream) {
        let config = &self.model.config;
        let (at, after) = match kind {
            MatmulKind::O => (config.attention_state(l), "attn"),
            _ => (config.attention_state(l) + config.states_per_layer() / 2, "mlp"),
        };
        let name = |tensor: &str| format!("layers.{l}.{tensor}_{after}");
        if !config.norms_outputs() {
            let x = self.update(name("residual"), at + 1, &acc, &[before]);
            return (None, self.stream(norm, acc, x, at + 1));
        }
        let nothing = || Acc {
            hi: vec![0; acc.hi.len()],
            lo: vec![0; acc.hi.len()],
        };
        let (zeros, sums) = (nothing(), nothing());
        let x = self.update(name("output"), at + 1, &acc, &[]);
        let output = self.stream(name("post_norm"), acc, x, at + 1);
        let x = self.update(name("residual"), at + 2, &zeros, &[before, &output]);
        let sum = self.stream(norm, sums, x, at + 2);
        (Some(output), sum)
    }

    /// The next stage of the residual stream, state `n`, from its accumulators and values.
    fn stream(&mut self, norm_tensor: String, acc: Acc, x: Vec<i16>, n: usize) -> Stream {
        let (params, hidden) = (&self.model.params, self.model.config.hidden);
        let (norm, exponents) = (norm_of(params, n), params.exponents_of(n));
        let rows = x.par_chunks(hidden).with_min_len(least(hidden));
        let sums: Vec<_> = rows.map(|row| norm_sums(row, exponents)).collect();
        let leading = self.leading_here();
        let rsqrt = sums.iter().enumerate();
        let rsqrt: Vec<_> = rsqrt
            .map(|(i, &s)| norm_rsqrt(s, hidden, norm, class_of(i, leading)))
            .collect();
        let shifts: Vec<u8> = (0..hidden).map(|c| norm.shift.at(c)).collect();
        let (y, clipped) = in_rows([rsqrt.len(), hidden], |i, out| {
            let (row, r, mut clipped) = (&x[i * hidden..], rsqrt[i], Clipped::default());
            for ((&v, &shift), out) in row.iter().zip(&shifts).zip(out) {
                *out = norm_element(v, r, shift);
                clipped.count(*out, || round_shift(i64::from(v) * i64::from(r), 8 + u32::from(shift)));
            }
            clipped
        });
        self.count(norm_tensor, clipped, y.len());
        Stream {
            acc_hi: acc.hi,
            acc_lo: acc.lo,
            x,
            sums,
            rsqrt,
            y,
        }
    }

    fn embed(&mut self, ids: &[u32]) -> Stream {
        let params = &self.model.params;
        let hi = embedding(self.model, ids, |i| self.place(i).position);
        let hi: Vec<i32> = hi.iter().map(|&w| w << params.embed_exponent).collect();
        let acc = Acc {
            lo: vec![0; hi.len()],
            hi,
        };
        let x = self.update("embed".into(), 0, &acc, &[]);
        self.stream("layers.0.norm_attn".into(), acc, x, 0)
    }

    /// The stream after layer `l`, from what Down reads and the stream before it.
    fn leave(
        &mut self,
        l: usize,
        h: &[i16],
        stream: &Stream,
        pass: &mut Pass<'_>,
    ) -> Result<(Option<Stream>, Stream), DeviceError> {
        let model = self.model;
        let acc = self.linear.matmul(model, MatmulKind::Down.at(l), h, pass)?;
        let norm = match l + 1 < model.config.layers {
            true => format!("layers.{}.norm_attn", l + 1),
            false => "norm_final".into(),
        };
        Ok(self.add(l, MatmulKind::Down, acc, stream, norm))
    }
}

/// The cache of a text that has no rows yet.
fn empty_cache(model: &QuantisedModel) -> Cache {
    vec![vec![HeadCache::default(); model.config.kv_heads]; model.config.layers]
}

/// The sum of the first `rows` of the normed last states.
fn pooled(y: &[i16], hidden: usize, rows: usize) -> Vec<i32> {
    let mut vector = vec![0; hidden];
    for row in y.chunks_exact(hidden).take(rows) {
        vector.iter_mut().zip(row).for_each(|(sum, v)| *sum += i32::from(*v));
    }
    vector
}
