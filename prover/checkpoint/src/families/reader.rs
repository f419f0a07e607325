//! A reader of configs that remembers what it was asked for. What is left in the end is neither used nor harmless, and
//! refuses the model: no switch is ever ignored silently.

use std::collections::BTreeSet;

use serde_json::Value;

use super::harmless::{harmless, NOT_NULL};
use crate::config::HubConfig;
use crate::{CheckpointError, Unsupported};

/// Reads fields of a config. A field of an object is `object.field`, however deep. Null is as good as absent.
pub struct Reader<'a> {
    hub: &'a HubConfig,
    used: BTreeSet<String>,
    unsupported: Vec<Unsupported>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(hub: &'a HubConfig) -> Self {
        Self {
            hub,
            used: BTreeSet::new(),
            unsupported: Vec::new(),
        }
    }

    /// An error about a field.
    pub fn error(&self, field: &str, problem: impl Into<String>) -> CheckpointError {
        self.hub.error(field, problem)
    }

    /// Refuses the model for a feature, with what was found of it.
    pub fn refuse(&mut self, feature: &str, detail: impl Into<String>) {
        self.unsupported.push(Unsupported {
            feature: feature.to_string(),
            detail: detail.into(),
            tensors: Vec::new(),
        });
    }

    /// A field that is present and not null.
    pub fn get(&mut self, path: &str) -> Option<&'a Value> {
        self.used.insert(path.to_string());
        self.at(path)
    }

    /// Looks at a field without marking it as used.
    fn at(&self, path: &str) -> Option<&'a Value> {
        let mut fields = path.split('.');
        let first = self.hub.get(fields.next()?)?;
        fields
            .try_fold(first, |object, field| object.get(field))
            .filter(|v| !v.is_null())
    }

    /// Whether the fields are those that a converter wrote, into a file that has tensors as it made them.
    pub fn converted(&self) -> bool {
        self.hub.is_converted()
    }

    /// Whether a field was asked for before.
    pub fn uses(&self, path: &str) -> bool {
        self.used.contains(path)
    }

    /// Uses all fields of an object that is refused as a whole.
    pub fn skip(&mut self, object: &str) {
        let fields = self.at(object).and_then(Value::as_object);
        let all = fields.into_iter().flat_map(|o| o.keys());
        self.used.extend(all.map(|field| format!("{object}.{field}")));
    }

    /// Whether a field is present and not null, without using it.
    pub fn has(&self, field: &str) -> bool {
        self.at(field).is_some()
    }

    /// Whether a field is there at all, be it null: where it is not, the default of its family counts.
    pub fn states(&self, field: &str) -> bool {
        self.hub.fields().contains_key(field)
    }

    fn typed<T>(
        &mut self,
        path: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, CheckpointError> {
        let value = self.get(path);
        let wrong = |v: &Value| self.error(path, format!("{v} is not {what}"));
        value.map(|v| read(v).ok_or_else(|| wrong(v))).transpose()
    }

    /// A whole number.
    pub fn integer(&mut self, path: &str) -> Result<Option<usize>, CheckpointError> {
        self.typed(path, "a whole number", |v| usize::try_from(v.as_u64()?).ok())
    }

    /// A whole number that must be there.
    pub fn required(&mut self, path: &str) -> Result<usize, CheckpointError> {
        self.integer(path)?.ok_or_else(|| self.error(path, "missing"))
    }

    /// A positive number.
    pub fn positive(&mut self, path: &str) -> Result<Option<f64>, CheckpointError> {
        let positive = |v: &Value| v.as_f64().filter(|x| x.is_finite() && *x > 0.0);
        self.typed(path, "a positive number", positive)
    }

    /// A list of positive numbers.
    pub fn positives(&mut self, path: &str) -> Result<Option<Vec<f64>>, CheckpointError> {
        let positive = |v: &Value| v.as_f64().filter(|x| x.is_finite() && *x > 0.0);
        let all = |v: &Value| v.as_array()?.iter().map(positive).collect();
        self.typed(path, "a list of positive numbers", all)
    }

    /// True or false; false if it is absent.
    pub fn flag(&mut self, path: &str) -> Result<bool, CheckpointError> {
        Ok(self.switch(path)?.unwrap_or(false))
    }

    /// True or false, if it is there.
    pub fn switch(&mut self, path: &str) -> Result<Option<bool>, CheckpointError> {
        self.typed(path, "true or false", Value::as_bool)
    }

    /// A text.
    pub fn text(&mut self, path: &str) -> Result<Option<&'a str>, CheckpointError> {
        self.typed(path, "a text", Value::as_str)
    }

    /// A list.
    pub fn list(&mut self, path: &str) -> Result<Option<&'a [Value]>, CheckpointError> {
        self.typed(path, "a list", |v| v.as_array().map(Vec::as_slice))
    }

    /// Token ids: one or a list.
    pub fn token_ids(&mut self, path: &str) -> Result<Vec<u32>, CheckpointError> {
        let value = self.get(path);
        self.hub.token_ids(path, value)
    }

    /// The kind of rotations, and the object that has the rest of them: `newer` configs have it under this path, older ones in
    /// `rope_scaling`.
    pub fn rope(&mut self, newer: &'static str) -> Result<Option<(&'static str, &'a str)>, CheckpointError> {
        const OLDER: &str = "rope_scaling";
        let Some(object) = [newer, OLDER].into_iter().find(|name| self.has(name)) else {
            return Ok(None);
        };
        let fields = self.at(object).and_then(Value::as_object);
        let Some(fields) = fields else {
            return Err(self.error(object, "not an object"));
        };
        if object == newer && self.get(OLDER).is_some() {
            self.refuse(OLDER, format!("stands beside {newer}, and only one of them can count"));
            self.skip(OLDER);
        }
        let kind = self.text(&format!("{object}.rope_type"))?;
        let older = self.text(&format!("{object}.type"))?;
        match kind.or(older) {
            Some(kind) => Ok(Some((object, kind))),
            None if fields.contains_key("factor") => Err(self.error(object, "there is a factor, but no rope_type")),
            None => Ok(Some((object, "default"))),
        }
    }

    /// Refuses the model unless a field is absent or has this value.
    pub fn only(&mut self, path: &str, value: &Value) {
        if let Some(found) = self.get(path).filter(|v| !same(v, value)) {
            let detail = match value {
                Value::Bool(false) => found.to_string(),
                _ => format!("{found} is not {value}"),
            };
            self.refuse(path, detail);
        }
    }

    /// What the model is refused for, with all fields that were not asked for and are not harmless.
    pub(super) fn finish(self) -> Vec<Unsupported> {
        let Self {
            hub,
            used,
            mut unsupported,
        } = self;
        let null = NOT_NULL
            .iter()
            .filter(|field| used.contains(**field) && !hub.is_converted());
        for field in null.filter(|field| hub.fields().get(**field).is_some_and(Value::is_null)) {
            unsupported.push(Unsupported {
                feature: (*field).to_string(),
                detail: format!(
                    "{} says null, and every model of this family has a value of it",
                    hub.origin()
                ),
                tensors: Vec::new(),
            });
        }
        let unused = |path: &str, value: &Value| !used.contains(path) && !value.is_null() && !harmless(path, value);
        let mut left: Vec<(String, &Value)> = hub
            .fields()
            .iter()
            .map(|(field, value)| (field.clone(), value))
            .collect();
        left.reverse();
        while let Some((path, value)) = left.pop() {
            let inner = format!("{path}.");
            match value {
                Value::Object(object) if used.iter().any(|path| path.starts_with(&inner)) => {
                    let fields = object.iter().rev();
                    left.extend(fields.map(|(own, value)| (format!("{inner}{own}"), value)));
                }
                value if unused(&path, value) => unsupported.push(Unsupported {
                    feature: path,
                    detail: format!(
                        "{} says {value}, and no model of this family is known to have this field: with it, the model may \
                         compute something else",
                        hub.origin()
                    ),
                    tensors: Vec::new(),
                }),
                _ => {}
            }
        }
        unsupported
    }
}

/// Numbers are the same however they are written.
fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && a.as_f64() == b.as_f64())
}
