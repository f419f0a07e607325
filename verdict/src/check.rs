//! Expectations, and whether a proof meets them.

use serde_json::{json, Map, Value};

/// The subject of an expectation. Its name is a field of `policy` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aspect {
    /// The model that the proof is about.
    Model,
    /// The prompt's ids.
    Prompt,
    /// The output's ids or text.
    Output,
    /// Whether the model ended the text.
    Complete,
    /// The context that the proof is tied to.
    Context,
    /// The bits of security.
    Bits,
}

impl Aspect {
    /// The name for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Prompt => "prompt",
            Self::Output => "output",
            Self::Complete => "complete",
            Self::Context => "context",
            Self::Bits => "min_bits",
        }
    }
}

/// An expectation, and what a proof makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The subject of the expectation.
    pub aspect: Aspect,
    /// Whether the proof is as expected.
    pub finding: Finding,
}

/// Whether a proof is as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is.
    Met {
        /// Why that says less than it seems to.
        warnings: Vec<String>,
    },
    /// It is not.
    Unmet {
        /// The two sides that were compared, and where they differ. Texts of the proof are escaped.
        reason: String,
        /// A sentence on what may help.
        help: Option<String>,
        /// Why the expectation says less than it seems to.
        warnings: Vec<String>,
    },
    /// Nobody can say.
    Open {
        /// Why.
        reason: String,
    },
}

impl Finding {
    /// The proof is as expected, without a warning.
    pub const MET: Self = Self::Met { warnings: Vec::new() };

    /// Not as expected, for a reason.
    pub(crate) fn unmet(reason: impl Into<String>, help: Option<String>) -> Self {
        Self::Unmet {
            reason: reason.into(),
            help,
            warnings: Vec::new(),
        }
    }
}

impl Check {
    /// Why the expectation says less than it seems to.
    pub fn warnings(&self) -> &[String] {
        match &self.finding {
            Finding::Met { warnings } | Finding::Unmet { warnings, .. } => warnings,
            Finding::Open { .. } => &[],
        }
    }

    /// For people, after the name.
    pub(crate) fn words(&self) -> String {
        let found = match &self.finding {
            Finding::Met { .. } => "as expected",
            Finding::Unmet { .. } => "NOT as expected",
            Finding::Open { .. } => "unknown",
        };
        format!("{} {found}", self.aspect.name())
    }

    fn json(&self) -> Value {
        let mut json = match &self.finding {
            Finding::Met { .. } => json!({"met": true}),
            Finding::Unmet { reason, help: None, .. } => json!({"met": false, "reason": reason}),
            Finding::Unmet { reason, help, .. } => json!({"met": false, "reason": reason, "help": help}),
            Finding::Open { reason } => json!({"met": null, "reason": reason}),
        };
        if let (Value::Object(fields), [_, ..]) = (&mut json, self.warnings()) {
            fields.insert("warnings".to_owned(), json!(self.warnings()));
        }
        json
    }
}

/// The field `policy` of an object: what became of every expectation.
pub(crate) fn add_to(checks: &[Check], json: &mut Map<String, Value>) {
    if checks.is_empty() {
        return;
    }
    let fields = checks
        .iter()
        .map(|check| (check.aspect.name().to_owned(), check.json()));
    json.insert("policy".to_owned(), Value::Object(fields.collect()));
    let warnings: Vec<&String> = checks.iter().flat_map(Check::warnings).collect();
    if !warnings.is_empty() {
        json.insert("warnings".to_owned(), json!(warnings));
    }
}
