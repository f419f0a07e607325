//! `tessera-verdict` for Python: keys and proofs are bytes, verdicts are JSON. `python/tessera/__init__.py` is what users
//! import.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use tessera_verdict::describe::key_json;
use tessera_verdict::policy::{Expectations, Policy, Spelling};
use tessera_verdict::{mistaken, Status};
use tessera_verifier::codec::{HEADER_LEN, KEY_LIMIT};
use tessera_verifier::length::{most_bytes, most_reveal_bytes};

create_exception!(
    tessera,
    TesseraError,
    PyValueError,
    "A key or proof that cannot be used, or a proof that a key cannot decide about."
);

/// Tokens of the statement that the security of a key is said for.
const TOKENS: usize = 64;

fn failure(error: impl std::fmt::Display) -> PyErr {
    TesseraError::new_err(error.to_string())
}

/// Runs without the interpreter's lock. A panic is a defect of this program: nothing was decided.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, String> + Send) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    let outcome = outcome.unwrap_or_else(|_| Err("internal error, please report it".to_owned()));
    outcome.map_err(failure)
}

/// A model key.
#[pyclass(frozen)]
struct RawKey(tessera_verdict::Key);

#[pymethods]
impl RawKey {
    #[new]
    fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        run(py, || {
            tessera_verdict::Key::from_bytes(data)
                .map(Self)
                .map_err(|e| e.to_string())
        })
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// The most bytes of a proof of the model.
    #[getter]
    fn most_proof_bytes(&self) -> usize {
        most_bytes(self.0.model_key())
    }

    /// What the key says, as JSON.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let key = self.0.model_key();
            let tokens = TOKENS.min(key.config.context + 1);
            let json =
                key_json((key, self.0.recipe()), self.0.tokenizer() == Ok(true), tokens).map_err(|e| e.to_string())?;
            Ok(Value::Object(json).to_string())
        })
    }

    /// The most bytes of a reveal of ids that a proof of the model hides.
    #[getter]
    fn most_reveal_bytes(&self) -> usize {
        most_reveal_bytes(self.0.model_key())
    }

    /// The verdict on a proof that has to be as a policy expects, a JSON object of options, with reveals of ids that it hides: as JSON, and for people.
    fn verify(
        &self,
        py: Python<'_>,
        proof: &[u8],
        name: &str,
        policy: &str,
        reveals: Vec<Vec<u8>>,
    ) -> PyResult<(String, String)> {
        run(py, || {
            let policy = Policy::parse(policy, Spelling::Snake)?;
            let expectations = Expectations::of(&policy, &self.0)?;
            let reveals: Vec<&[u8]> = reveals.iter().map(Vec::as_slice).collect();
            let verdict = self.0.verify_revealed(proof, &reveals);
            let verdict = expectations.judge(verdict.because(mistaken(name, proof)))?;
            match (verdict.status(), verdict.reason(name, "the key")) {
                (Status::Undecided, Some(reason)) => Err(reason),
                _ => {
                    let json = Value::Object(verdict.json(name, "the key", None));
                    Ok((json.to_string(), verdict.text(name, "the key", None)))
                }
            }
        })
    }
}

/// The options of a policy, as JSON: names, what they take, and help.
#[pyfunction]
fn options() -> String {
    Spelling::Snake.options().to_string()
}

#[pymodule]
fn _tessera(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TesseraError", module.py().get_type::<TesseraError>())?;
    module.add("KEY_LIMIT", HEADER_LEN + KEY_LIMIT)?;
    module.add_function(wrap_pyfunction!(options, module)?)?;
    module.add_class::<RawKey>()
}
