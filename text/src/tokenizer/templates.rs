//! Chat templates in files of their own.

use std::fs;

use serde_json::{json, Value};

use super::error::TokenizerError;
use super::sources::{IdFile, Sources};

/// The chat template of newer checkpoints, a file of its own.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";
/// Further templates, each named after its file.
const ADDITIONAL: &str = "additional_chat_templates";
/// A template for processors of pictures and sound, which `AutoTokenizer` does not read.
const PROCESSOR_FILE: &str = "chat_template.json";
/// Folders are listed up to so many files.
const MOST: usize = 256;

/// The field `chat_template` that the files make: a text, or a list of named texts; `None` if there are no such files.
pub(super) fn read(
    sources: &Sources<'_>,
    has_other: bool,
    record: &mut Vec<IdFile>,
    notes: &mut Vec<String>,
) -> Result<Option<Value>, TokenizerError> {
    let mut named = Vec::new();
    if let Some((text, digest)) = sources.text(CHAT_TEMPLATE_FILE)? {
        record.push(IdFile::whole(CHAT_TEMPLATE_FILE, digest, "default"));
        named.push(("default".to_owned(), text));
    }
    let folder = sources.dir.join(ADDITIONAL);
    if folder.is_dir() {
        let failed = |source| TokenizerError::Read {
            path: folder.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)?.take(MOST) {
            let name = entry.map_err(failed)?.file_name();
            names.extend(
                name.to_str()
                    .and_then(|name| name.strip_suffix(".jinja"))
                    .map(str::to_owned),
            );
        }
        names.sort();
        for name in names {
            let file = format!("{ADDITIONAL}/{name}.jinja");
            if let Some((text, digest)) = sources.text(&file)? {
                record.push(IdFile::whole(&file, digest, &name));
                named.retain(|(own, _)| *own != name);
                named.push((name, text));
            }
        }
    }
    if sources.dir.join(PROCESSOR_FILE).exists() {
        if let Some((value, digest)) = sources.json(PROCESSOR_FILE)? {
            let fields = value.as_object().cloned().unwrap_or_default();
            record.push(IdFile::of(PROCESSOR_FILE, digest, &fields, &[]));
        }
        if named.is_empty() && !has_other {
            notes.push(format!(
                "{PROCESSOR_FILE} is for processors of pictures and sound, and AutoTokenizer does not read it: to use its template, \
                 give it with --chat-template"
            ));
        }
    }
    Ok(match named.as_slice() {
        [] => None,
        [(name, text)] if name == "default" => Some(json!(text)),
        list => Some(
            list.iter()
                .map(|(name, text)| json!({"name": name, "template": text}))
                .collect(),
        ),
    })
}
