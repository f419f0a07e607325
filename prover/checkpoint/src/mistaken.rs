//! Files and folders that are often given where a checkpoint should be: what they are, and how to get one.

use std::path::{Path, PathBuf};

use tessera_support::files::parent;

/// What to do with a checkpoint of PyTorch.
pub const CONVERT: &str = "only safetensors are read; convert it, for instance with transformers: \
    AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW, safe_serialization=True)";
/// The advice for somebody who gives an adapter.
const MERGE: &str =
    "is part of a LoRA adapter, which is not a model: merge it into its base model first, for instance with peft: \
    AutoPeftModelForCausalLM.from_pretrained(DIR).merge_and_unload().save_pretrained(NEW)";
/// How a file begins that stands for another one in a repository.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Files of adapters.
const ADAPTER: [&str; 3] = ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"];
/// How folders of cached repositories are called, and where in them the files are.
const CACHED: &str = "models--";
const SNAPSHOTS: &str = "snapshots";

/// Why these bytes are no tensors, if they stand for a file that was not downloaded.
pub(super) fn pointer(bytes: &[u8]) -> Option<String> {
    let text = "is a git-LFS pointer, not the tensors: fetch them with git lfs pull in the checkpoint's repository";
    bytes.starts_with(POINTER).then(|| text.to_owned())
}

/// Says what a file is that was given in place of a checkpoint's folder, and what helps; `None` if nothing is known of it.
pub fn file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    if ADAPTER.contains(&name.as_ref()) {
        return Some(MERGE.to_owned());
    }
    let folder = parent(path).display();
    match extension(path)? {
        "safetensors" => Some(format!("is one file of a checkpoint: give its folder, {folder}")),
        "json" | "model" => Some(format!(
            "is no checkpoint: give the folder of one, which {folder} may be"
        )),
        "bin" | "pth" | "pt" => Some(format!("is part of a PyTorch checkpoint: {CONVERT}")),
        _ => None,
    }
}

/// Says what a folder without `config.json` is, and what helps; `None` if nothing is known of it.
pub fn folder(dir: &Path) -> Option<String> {
    let files = files(dir);
    if let Some(adapter) = files.iter().find(|path| is_adapter(path)) {
        return Some(format!("{} {MERGE}", adapter.display()));
    }
    if let Some(snapshot) = snapshot(dir) {
        return Some(format!(
            "{} is the root of a cached repository: give its snapshot, {}",
            dir.display(),
            snapshot.display()
        ));
    }
    if files.iter().any(|path| name(path).starts_with(CACHED)) {
        return Some(format!(
            "{} is a cache of repositories: give a snapshot of one, {CACHED}NAME/{SNAPSHOTS}/REVISION",
            dir.display()
        ));
    }
    if let Some(said) = gguf(dir, &files) {
        return Some(said);
    }
    let tensors = files.iter().find(|path| extension(path) == Some("safetensors"))?;
    Some(format!(
        "{} has no config.json beside it: download it, too",
        tensors.display()
    ))
}

/// The snapshot of a cached repository: the one that its branch `main` is, or the only one.
fn snapshot(dir: &Path) -> Option<PathBuf> {
    let all = files(&dir.join(SNAPSHOTS));
    let main = std::fs::read_to_string(dir.join("refs").join("main")).unwrap_or_default();
    let main = all.iter().find(|path| name(path) == main.trim());
    main.or(all.first()).cloned()
}

/// Finds what a folder with `config.json` has in place of `model.safetensors` and of its index: the file, and what is wrong with it; `None`
/// if there are no weights of any kind.
pub(super) fn weights(dir: &Path) -> Option<(PathBuf, String)> {
    let files = files(dir);
    let ends = |ends: &[&str]| {
        files
            .iter()
            .find(|path| extension(path).is_some_and(|e| ends.contains(&e)))
    };
    if let Some(adapter) = files.iter().find(|path| is_adapter(path)) {
        return Some((adapter.clone(), MERGE.to_owned()));
    }
    if let Some(path) = ends(&["safetensors"]) {
        let index = "model.safetensors.index.json is missing, which says what each file holds: download it, too";
        let problem = match name(path).contains("-of-") {
            true => format!("is one of several shards, but their index {index}"),
            false => "has not the name model.safetensors, nor is there a model.safetensors.index.json that names it: \
                download the files in the hub layout"
                .to_owned(),
        };
        return Some((path.clone(), problem));
    }
    if let Some(path) = ends(&["bin", "pth", "pt"]) {
        return Some((path.clone(), format!("is a PyTorch checkpoint: {CONVERT}")));
    }
    if let Some(said) = gguf(dir, &files) {
        return Some((dir.to_path_buf(), said));
    }
    let path = ends(&["h5", "msgpack", "onnx", "mlmodel"])?;
    Some((path.clone(), format!("has weights of another program: {CONVERT}")))
}

/// The advice for somebody who gives a folder of GGUF files.
fn gguf(dir: &Path, files: &[PathBuf]) -> Option<String> {
    let names = files
        .iter()
        .filter(|path| extension(path) == Some("gguf"))
        .map(|path| name(path));
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} holds GGUF files: give one of them: {}",
            dir.display(),
            names.join(", ")
        )
    })
}

fn is_adapter(path: &Path) -> bool {
    ADAPTER.contains(&name(path).as_str())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|e| e.to_str())
}

/// Lists a folder in the order of the names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}
