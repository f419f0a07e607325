//! What is wrong with a file that should be safetensors: the library says which check failed, this says where.

use safetensors::tensor::{Dtype, TensorInfo};
use safetensors::SafeTensorError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use tessera_text::json;

/// The length of the header precedes it in so many bytes.
const LENGTH: usize = 8;

/// The field of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// The problem of a file with these bytes, which the library does not read, and what helps.
pub(super) fn problem(bytes: &[u8], error: &SafeTensorError) -> String {
    let (length, header) = match header(bytes) {
        Ok(found) => found,
        Err(problem) => return problem,
    };
    if let Some(problem) = header.get(METADATA).and_then(metadata) {
        return format!("{METADATA}: {problem}, and safetensors has only texts there; write the file anew");
    }
    let tensors = header.iter().filter(|(name, _)| *name != METADATA);
    let mut end = 0;
    for (name, value) in tensors {
        match tensor(value) {
            Ok(info) => end = end.max(info.data_offsets.1),
            Err(problem) => return format!("tensor {name}: {problem}; download the file again, or make it anew"),
        }
    }
    let expected = end.saturating_add(LENGTH + length);
    match error {
        SafeTensorError::MetadataIncompleteBuffer if bytes.len() < expected => format!(
            "the file is cut off: it has {} bytes, and its tensors end at byte {expected}; download it again",
            bytes.len()
        ),
        SafeTensorError::MetadataIncompleteBuffer => format!(
            "the file goes on after its tensors: it has {} bytes, and they end at byte {expected}; download it again",
            bytes.len()
        ),
        SafeTensorError::InvalidOffset(name) => format!(
            "tensor {name}: data_offsets {} do not begin where the tensor before it ends; download the file again, or \
             make it anew",
            header.get(name).map_or(&Value::Null, |tensor| &tensor["data_offsets"])
        ),
        other => format!("{other}; download the file again, or make it anew"),
    }
}

/// The header and its length, or what is wrong with them.
fn header(bytes: &[u8]) -> Result<(usize, Map<String, Value>), String> {
    if bytes.is_empty() {
        return Err("the file is empty: download it again".to_owned());
    }
    let cut = || {
        format!(
            "the file is cut off: it ends after {} bytes, within its header; download it again",
            bytes.len()
        )
    };
    let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or_else(cut)?;
    let length = u64::from_le_bytes(*length);
    // Every header is an object.
    if rest.first().is_some_and(|first| *first != b'{') {
        return Err("the file is not safetensors: no header follows its first 8 bytes".to_owned());
    }
    let length = usize::try_from(length).map_err(|_| cut())?;
    let text = rest.get(..length).ok_or_else(cut)?;
    let header = serde_json::from_slice(text).map_err(|e| format!("header: {}", json::problem(text, &e)))?;
    Ok((length, header))
}

/// Says what is wrong with `__metadata__`, the field of texts about the file.
fn metadata(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(texts) => {
            let (name, value) = texts.iter().find(|(_, value)| !value.is_string())?;
            Some(format!("{name} is {value}"))
        }
        other => Some(format!("it is {other}")),
    }
}

/// What the header says of a tensor, or the field that is wrong.
fn tensor(value: &Value) -> Result<TensorInfo, String> {
    let dtype: Dtype = field(value, "dtype")?;
    let shape: Vec<usize> = field(value, "shape")?;
    let data_offsets: (usize, usize) = field(value, "data_offsets")?;
    let values = shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    let bytes = values
        .and_then(|n| n.checked_mul(dtype.bitsize()))
        .map(|bits| bits.div_ceil(8));
    let (start, end) = data_offsets;
    match end.checked_sub(start) {
        Some(given) if bytes != Some(given) => Err(format!(
            "type {dtype} and shape {shape:?} do not take the {given} bytes that data_offsets give it"
        )),
        // Offsets that run backwards are the library's finding.
        _ => Ok(TensorInfo {
            dtype,
            shape,
            data_offsets,
        }),
    }
}

fn field<T: DeserializeOwned>(tensor: &Value, name: &str) -> Result<T, String> {
    T::deserialize(&tensor[name]).map_err(|e| format!("{name}: {e}"))
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;
    use serde_json::json;

    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length, header.as_bytes(), &vec![0; data]].concat()
    }

    fn said(bytes: &[u8]) -> String {
        problem(bytes, &SafeTensors::read_metadata(bytes).unwrap_err())
    }

    #[test]
    fn the_tensor_and_the_field_are_named() {
        let good = json!({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]});
        let whole = file(&json!({"x": good}).to_string(), 24);
        SafeTensors::read_metadata(&whole).unwrap();
        for (field, value, words) in [
            ("dtype", json!("Q9"), "tensor x: dtype: unknown variant `Q9`"),
            (
                "dtype",
                json!("I64"),
                "tensor x: type I64 and shape [2, 3] do not take the 24 bytes",
            ),
            ("shape", json!("2"), "tensor x: shape: "),
            (
                "shape",
                json!([2]),
                "tensor x: type F32 and shape [2] do not take the 24 bytes",
            ),
            ("shape", json!([u64::MAX, 2]), "do not take the 24 bytes"),
            ("shape", Value::Null, "tensor x: shape: "),
            ("data_offsets", json!([0]), "tensor x: data_offsets: "),
            (
                "data_offsets",
                json!([4, 28]),
                "tensor x: data_offsets [4,28] do not begin",
            ),
            (
                "data_offsets",
                json!([4, 2]),
                "tensor x: data_offsets [4,2] do not begin",
            ),
        ] {
            let mut bad = good.clone();
            bad[field] = value;
            let said = said(&file(&json!({"x": bad}).to_string(), 24));
            assert!(said.contains(words), "{said}");
        }
        for (metadata, words) in [
            (json!({"format": "pt", "epoch": 7}), "__metadata__: epoch is 7"),
            (json!({"a": null}), "__metadata__: a is null"),
            (json!({"a": {"b": "c"}}), "__metadata__: a is {"),
            (json!(["pt"]), "__metadata__: it is ["),
            (json!(7), "__metadata__: it is 7"),
        ] {
            let said = said(&file(&json!({"__metadata__": metadata, "x": good}).to_string(), 24));
            assert!(said.contains(words) && !said.contains("download"), "{said}");
        }
        for metadata in [json!({}), Value::Null] {
            let header = json!({"__metadata__": metadata, "x": good}).to_string();
            SafeTensors::read_metadata(&file(&header, 24)).unwrap();
        }
        for (bytes, words) in [
            (&whole[..0], "is empty"),
            (&whole[..5], "cut off: it ends after 5 bytes"),
            (&whole[..30], "cut off: it ends after 30 bytes"),
            (&whole[..whole.len() - 1], "cut off: it has"),
            (&[whole.as_slice(), b"!"].concat(), "goes on after its tensors"),
            (b"hello, this is not a checkpoint", "is not safetensors"),
            (&file("{\"x\": [", 24), "header: the file is cut off"),
        ] {
            let said = said(bytes);
            assert!(said.contains(words), "{said}");
        }
    }
}
