//! GGUF files of models of some families: one file that holds tensors, dimensions and tokenizer. Tensors stay in the mapped file, as
//! those of safetensors files do, and blocks are decoded where they are read.

mod config;
mod container;
mod names;
#[cfg(test)]
mod tests;
mod tokenizer;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

pub use config::architectures;
pub use container::MAGIC;

use super::encoding::Encoding;
use super::error::{CheckpointError, Unsupported};
use super::families;
use super::source::{Source, TokenizerSource};
use super::storage::{Info, Storage};
use super::tensors::HEAD;
use config::Described;
use container::Container;
use tessera_support::files;
use tessera_text::tokenizer::TokenizerFiles;
use value::Problem;

/// The tensor of divisors of the frequencies.
const DIVISORS: &str = "rope_freqs.weight";

/// Opens a file, whatever model it holds.
pub(super) fn open(path: &Path) -> Result<Source, CheckpointError> {
    let map = files::map(path)?;
    let header = Header::read(map.bytes()).map_err(|problem| CheckpointError::Format {
        path: path.to_path_buf(),
        problem,
    })?;
    let Header {
        mut tensors,
        end,
        described,
        tokenizer,
    } = header;
    let Described {
        hub,
        mut unsupported,
        paired,
        canonical,
    } = described;
    let tokenizer = tokenizer.unwrap_or_else(|detail| {
        unsupported.push(Unsupported {
            feature: "tokenizer".to_string(),
            detail,
            tensors: Vec::new(),
        });
        TokenizerFiles::default()
    });
    let head_dim = families::read(&hub).description.ok().map(|d| d.config.head_dim);
    for (name, info) in &mut tensors {
        // Rows of q and k are stored in the order of the pairs that are rotated together.
        if paired && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight")) {
            info.paired = head_dim.filter(|d| *d > 0 && d.is_multiple_of(2));
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source {
        hub,
        storage: Storage::of_file(path.to_path_buf(), map, end, tensors, canonical),
        weights: true,
        tokenizer: TokenizerSource::Made(name, tokenizer),
        unsupported,
    })
}

/// What the header says.
struct Header {
    tensors: BTreeMap<String, Info>,
    /// Where it ends.
    end: usize,
    described: Described,
    /// The tokenizer, or what of it is not supported.
    tokenizer: Result<TokenizerFiles, Problem>,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let Container {
            metadata,
            mut tensors,
            end,
        } = Container::read(bytes)?;
        let divisors = divisors(bytes, &mut tensors);
        let tied = !tensors.keys().any(|name| names::canonical(name) == HEAD);
        let biased = tensors.contains_key("blk.0.attn_q.bias");
        let made = tokenizer::read(&metadata);
        let tokens = made.as_ref().ok().and_then(|made| Some(made.as_ref()?.tokens));
        let mut described = config::describe(&metadata, (tied, biased), tokens)?;
        described.hub.divide_frequencies(divisors);
        Ok(Self {
            tensors,
            end,
            described,
            tokenizer: made.map(|made| made.map(|made| made.files).unwrap_or_default()),
        })
    }
}

/// Reads the divisor of every frequency of the rotations, where a file has them: for example, files of Llama 3.x say their scaling so.
/// The tensor is taken off the list, unless its type or its values are ones that no such tensor has; then it is refused as unknown.
fn divisors(bytes: &[u8], tensors: &mut BTreeMap<String, Info>) -> Vec<f32> {
    let read = |info: &Info| {
        let stored = bytes.get(info.range.clone())?;
        let (len, [_]) = (info.shape.iter().product(), info.shape.as_slice()) else {
            return None;
        };
        let mut values = vec![0.0; len];
        (info.encoding == Encoding::F32 && stored.len() == 4 * len)
            .then(|| info.encoding.read(stored, 0, &mut values))?;
        values.iter().all(|x| x.is_finite() && *x > 0.0).then_some(values)
    };
    let values = tensors.get(DIVISORS).and_then(read);
    if values.is_some() {
        tensors.remove(DIVISORS);
    }
    values.unwrap_or_default()
}
