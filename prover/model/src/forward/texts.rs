//! Several texts in one pass: every matrix is read once for the next rows of all of them.
//!
//! A row of a pass sees the keys of its own text alone, and everything else is computed row by row in exact integers. So a text has the
//! logits that it has alone, whatever texts are beside it.

use tessera_circuits::model::MatmulKind;
use tessera_kernels::device::DeviceError;

use super::kernels::HeadCache;
use super::{empty_cache, Beginning, ForwardError, ForwardState, LayerWitness, Pass, Place, Placed};
use crate::passes::Traffic;

/// The number of a text, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(usize);

/// Tokens that follow those that a text has already.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The text.
    pub text: TextId,
    /// The tokens, at least one.
    pub ids: &'a [u32],
    /// Whether the logits of the last of them are wanted.
    pub logits: bool,
}

/// Rows so far, and how they begin.
#[derive(Clone, Copy, Debug, Default)]
struct Text {
    rows: usize,
    beginning: Beginning,
}

/// Texts whose next rows pass through the model together.
pub struct Texts<'m> {
    state: ForwardState<'m>,
    /// `None` where a text was removed, for the next one.
    texts: Vec<Option<Text>>,
}

impl<'m> Texts<'m> {
    /// No texts. The model must generate tokens, and be as for [`ForwardState::new`].
    pub fn new(model: impl Into<Placed<'m>>) -> Self {
        let state = ForwardState {
            caches: Vec::new(),
            ..ForwardState::new(model)
        };
        Self {
            state,
            texts: Vec::new(),
        }
    }

    /// Adds an empty text.
    pub fn add(&mut self) -> TextId {
        let free = self.texts.iter().position(Option::is_none);
        let at = free.unwrap_or(self.texts.len());
        if free.is_none() {
            self.texts.push(None);
            self.state.caches.push(empty_cache(self.state.model));
        }
        self.texts[at] = Some(Text::default());
        TextId(at)
    }

    /// Forgets a text. Its number may be that of a later one.
    pub fn remove(&mut self, text: TextId) {
        if let Some(own) = self.texts.get_mut(text.0) {
            *own = None;
            self.state.caches[text.0] = empty_cache(self.state.model);
        }
    }

    /// Lets an empty text begin with the first rows of another one, whose ids are these: nothing is computed again.
    ///
    /// # Panics
    /// If the text is not empty, if the other one has fewer rows, or if either was removed.
    pub fn begin_as(&mut self, text: TextId, from: TextId, ids: &[u32]) {
        let [own, other] = [text, from].map(|text| self.texts[text.0].expect("a text that was not removed"));
        assert!(
            own.rows == 0 && ids.len() <= other.rows,
            "the beginning of another text"
        );
        let mut beginning = Beginning::default();
        beginning.read(&self.state.model.params.leading, 0, ids);
        let (rows, width) = (ids.len(), self.state.model.config.head_dim);
        let heads = |head: &HeadCache| head.first(rows * width);
        let cache = self.state.caches[from.0].iter();
        self.state.caches[text.0] = cache.map(|layer| layer.iter().map(heads).collect()).collect();
        self.texts[text.0] = Some(Text { rows, beginning });
    }

    /// What all passes so far have read of the weights.
    pub fn traffic(&self) -> Traffic {
        self.state.traffic
    }

    /// Processes blocks of different texts in one pass. Returns the logits of the blocks that want them, `[vocab]` each, in their order.
    ///
    /// # Errors
    /// As [`ForwardState::run`]; then nothing has changed, unless the device has failed.
    ///
    /// # Panics
    /// If two blocks are of one text, or one is of a text that was removed.
    pub fn step(&mut self, blocks: &[Block<'_>]) -> Result<Vec<Vec<i16>>, ForwardError> {
        let (mut rows, mut after) = (Vec::new(), Vec::with_capacity(blocks.len()));
        for (at, block) in blocks.iter().enumerate() {
            assert!(
                blocks[..at].iter().all(|other| other.text != block.text),
                "one block of a text"
            );
            let mut text = self.texts[block.text.0].expect("a text that was not removed");
            self.state.rows = text.rows;
            let checked = self.state.check(block.ids, false);
            self.state.rows = 0;
            checked?;
            text.beginning
                .read(&self.state.model.params.leading, text.rows, block.ids);
            let places = (text.rows..).zip(block.ids).enumerate();
            rows.extend(places.map(|(i, (position, id))| Row {
                id: *id,
                place: Place {
                    text: block.text.0,
                    position,
                },
                leading: position < text.beginning.leading,
                logits: (block.logits && i + 1 == block.ids.len()).then_some(at),
            }));
            text.rows += block.ids.len();
            after.push((block.text, text));
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // As the first rows of a text, the leading ones are the first of a pass.
        rows.sort_by_key(|row| !row.leading);
        let (model, windows) = (self.state.model, self.state.windows.clone());
        let state = &mut self.state;
        let (logits, traffic) = Pass::run(&model.weights, &windows, |pass| state.pass_rows(&rows, pass));
        self.state.traffic += traffic;
        for (text, own) in after {
            self.texts[text.0] = Some(own);
        }
        Ok(logits?)
    }
}

/// A row of a pass.
struct Row {
    id: u32,
    place: Place,
    leading: bool,
    /// The block whose logits are those of this row.
    logits: Option<usize>,
}

impl ForwardState<'_> {
    /// Processes rows of texts, the leading ones first.
    fn pass_rows(&mut self, rows: &[Row], pass: &mut Pass<'_>) -> Result<Vec<Vec<i16>>, DeviceError> {
        let config = &self.model.config;
        let ids: Vec<u32> = rows.iter().map(|row| row.id).collect();
        self.places = rows.iter().map(|row| row.place).collect();
        self.beginning.leading = rows.iter().filter(|row| row.leading).count();
        let positions = rows.iter().map(|row| row.place.position + 1);
        self.turn(positions.max().unwrap_or(0));
        let mut stream = self.embed(&ids);
        for l in 0..config.layers {
            let mut nothing = LayerWitness::default();
            (_, _, stream) = self.layer(l, &stream, false, &mut nothing, pass)?;
        }
        let mut wanted: Vec<(usize, usize)> = (0..).zip(rows).filter_map(|(i, row)| Some((row.logits?, i))).collect();
        wanted.sort_unstable();
        let of_row = |(_, i): &(usize, usize)| &stream.y[i * config.hidden..][..config.hidden];
        let y: Vec<i16> = wanted.iter().flat_map(of_row).copied().collect();
        self.places.clear();
        if y.is_empty() {
            return Ok(Vec::new());
        }
        let head = &self.model.params.head;
        let (_, logits) = self.project("logits".into(), MatmulKind::Head, 0, &y, head, pass)?;
        Ok(logits.chunks_exact(config.vocab).map(<[i16]>::to_vec).collect())
    }
}
