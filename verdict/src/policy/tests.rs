use tessera_circuits::model::{Pooling, WeightFormat};
use tessera_circuits::statement::Statement;
use tessera_testkit::{encoder_config, odd_config, random_model, unrooted_key, TestModel};

use super::*;
use crate::claim::Claim;
use crate::text::{Side, Texts};

fn refused(json: &str) -> String {
    Policy::parse(json, Spelling::Command).expect_err(json)
}

fn policy(json: &str) -> Policy {
    Policy::parse(json, Spelling::Command).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Reads options as a command line spells them.
#[test]
fn options_that_contradict_each_other_are_refused_by_name() {
    for (json, words) in [
        (
            r#"{"--expect-prompt": "a", "--expect-prompt-ids": [1]}"#,
            "--expect-prompt and --expect-prompt-ids cannot be used together",
        ),
        (
            r#"{"--expect-messages": [], "--expect-prompt": "a"}"#,
            "--expect-messages and --expect-prompt cannot",
        ),
        (
            r#"{"--expect-output": "a", "--expect-output-ids": [1]}"#,
            "--expect-output and --expect-output-ids",
        ),
        (
            r#"{"--system": "a", "--expect-prompt": "b"}"#,
            "--system is about a chat: it goes with --chat or",
        ),
        (
            r#"{"--date": "2026-11-26", "--expect-prompt": "b"}"#,
            "--date is about a chat",
        ),
        (r#"{"--chat": true}"#, "--chat goes with --expect-prompt"),
        (
            r#"{"--chat": true, "--expect-prompt-ids": [1]}"#,
            "--chat goes with --expect-prompt",
        ),
        (
            r#"{"--chat": true, "--expect-prompt": "a", "--date": "today"}"#,
            "--date: \"today\" is no date",
        ),
        (
            r#"{"--expect-messages": {}}"#,
            "--expect-messages: messages: not a JSON list",
        ),
        (
            r#"{"--expect-messages": [{"role": 1}]}"#,
            "--expect-messages: messages: message 0 has no text \"role\"",
        ),
        (
            r#"{"--chat": true, "--expect-prompt": "a", "--tools": [1]}"#,
            "--tools: tools: not a JSON list of objects",
        ),
        (
            r#"{"--expect-model": "70e8"}"#,
            "--expect-model: a model id has 64 hexadecimal digits",
        ),
        (r#"{"--expect-context": "00"}"#, "--expect-context: expected 32 bytes"),
    ] {
        assert!(refused(json).contains(words), "{json}: {}", refused(json));
    }
    assert!(policy("{}").is_empty());
    assert!(policy(r#"{"--chat": false, "--expect-complete": false}"#).is_empty());
    assert!(!policy(r#"{"--expect-complete": true}"#).is_empty());
}

/// No flag weakens verification, not even one that seems to ask for less.
#[test]
fn nothing_lowers_the_bits_below_the_verifiers_own() {
    for bits in [
        "93.4",
        "90",
        "0",
        "-1",
        "\"1e-9\"",
        "NaN",
        "Infinity",
        "\"nan\"",
        "-Infinity",
    ] {
        let error = refused(&format!("{{\"--min-bits\": {bits}}}"));
        assert!(error.starts_with("--min-bits: "), "{error}");
    }
    assert_eq!(policy(r#"{"--min-bits": 93.5}"#).min_bits, Some(93.5));
    assert_eq!(enough(98.06, 98.06), Finding::MET);
    for (got, least, words) in [
        (98.19, 98.5, "has 98.1 bits of security, expected at least 98.5"),
        // What would be shown alike is shown in full.
        (98.11, 98.12, "has 98.1 bits"),
        (98.149, 98.15, "has 98.1 bits"),
    ] {
        match enough(got, least) {
            Finding::Unmet { reason, .. } => assert!(reason.contains(words), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

fn unmet(finding: Finding) -> String {
    match finding {
        Finding::Unmet { reason, help, .. } => help.map_or(reason.clone(), |help| format!("{reason}; help: {help}")),
        other => panic!("{other:?}"),
    }
}

fn key_of(model: tessera_verifier::key::ModelKey) -> Key {
    Key::from_bytes(&model.to_bytes().expect("bytes")).expect("a key")
}

/// Of what text there is: that of a tokenizer shows none for a vector.
#[test]
fn a_vector_is_neither_ids_nor_an_empty_text_and_has_no_end() {
    let model = unrooted_key(&random_model(encoder_config(Pooling::Mean), WeightFormat::Int16, 7));
    let key = key_of(model.clone());
    let vector = vec![-3; model.config.hidden];
    let statement = Statement::of_vector(vec![5, 6], &vector);
    let empty = Texts {
        prompt: Side::default(),
        output: Side::default(),
    };
    for texts in [Ok(empty), Err("the model has no tokenizer".to_owned())] {
        let claim = Claim::new(&statement, &model, texts, |_| None);
        let none = Policy::default();
        let expectations = Expectations::of(&none, &key).expect("nothing is expected");
        for other in [Output::Text(String::new()), Output::Ids(statement.output.clone())] {
            let reason = unmet(expectations.output(&other, &claim));
            assert!(reason.ends_with("a vector of 20 integers"), "{reason}");
        }
        assert!(unmet(expectations.complete(&claim)).contains("it is a vector"));
        let own = PromptIds::from(statement.prompt.clone());
        assert_eq!(expectations.prompt(&own, &claim), Finding::MET);
        let reason = unmet(expectations.prompt(&vec![5, 7].into(), &claim));
        assert!(reason.contains("id 6 at position 1, expected 7"), "{reason}");
    }
}

/// What a proof of made-up ids comes to.
fn of_ids(prompt: &[u32], output: &[u32], eos: &[u32], policy: &Policy) -> Vec<Check> {
    let mut model = unrooted_key(&random_model(odd_config(), WeightFormat::Int16, 7));
    model.config.eos = eos.to_vec();
    let statement = Statement {
        prompt: prompt.to_vec(),
        output: output.to_vec(),
    };
    let key = key_of(model);
    let expectations = Expectations::of(policy, &key).expect("ids need no tokenizer");
    let claim = key.claim(&statement);
    let prompt = expectations.prompt.as_ref().map(|own| expectations.prompt(own, &claim));
    let output = policy.output.as_ref().map(|own| expectations.output(own, &claim));
    let complete = policy.complete.then(|| expectations.complete(&claim));
    let found = [
        (Aspect::Prompt, prompt),
        (Aspect::Output, output),
        (Aspect::Complete, complete),
    ];
    let check = |(aspect, finding): (Aspect, Option<Finding>)| {
        Some(Check {
            aspect,
            finding: finding?,
        })
    };
    found.into_iter().filter_map(check).collect()
}

#[test]
fn differences_are_located_and_what_may_help_is_said() {
    let found = |json: &str, eos: &[u32]| {
        let checks = of_ids(&[1, 2, 3], &[4, 5, 9], eos, &policy(json));
        unmet(checks.first().expect("a check").finding.clone())
    };
    for (json, words) in [
        (
            r#"{"--expect-prompt-ids": [1, 2, 4]}"#,
            "the prompt is not the expected one: id 3 at position 2, expected 4",
        ),
        (
            r#"{"--expect-prompt-ids": [1, 2]}"#,
            "the prompt is not the expected one: 3 ids, expected 2",
        ),
        (
            r#"{"--expect-prompt-ids": [2, 3]}"#,
            "the expected ids follow id 1, with which the proof's prompt begins",
        ),
        (
            r#"{"--expect-output-ids": [4, 6]}"#,
            "the output is not the expected one: id 5 at position 1, expected 6",
        ),
        (
            r#"{"--expect-output-ids": [4, 5, 9, 9]}"#,
            "is a prefix of the expected one: the proof is truncated, cut after 3 tokens",
        ),
        (
            r#"{"--expect-output-ids": [4]}"#,
            "goes on after the expected one, with 2 ids more",
        ),
        (
            r#"{"--expect-output-ids": [4, 5]}"#,
            "goes on after the expected one, with 1 id more",
        ),
    ] {
        assert!(found(json, &[]).contains(words), "{json}: {}", found(json, &[]));
    }
    let ended = found(r#"{"--expect-output-ids": [4, 5]}"#, &[9]);
    assert!(
        ended.contains("id 9 in addition, which ends the text: add it"),
        "{ended}"
    );
    let ended = found(r#"{"--expect-output-ids": [4, 5, 9, 9]}"#, &[9]);
    assert!(ended.contains("the model ended the text there"), "{ended}");
}

/// A prover may let the model go on past the end of its text: that output is not what the model answers.
#[test]
fn an_output_is_complete_if_its_last_token_alone_ends_the_text() {
    let complete = policy(r#"{"--expect-complete": true}"#);
    let found = |output: &[u32], eos: &[u32]| of_ids(&[1], output, eos, &complete)[0].finding.clone();
    assert_eq!(found(&[4, 5, 9], &[8, 9]), Finding::MET);
    assert!(unmet(found(&[4, 5], &[9])).contains("cut after 2 tokens"));
    assert!(unmet(found(&[4, 5], &[])).contains("names no token that ends a text"));
    for past in [&[4, 9, 5][..], &[4, 9, 9], &[9, 4, 9]] {
        assert!(
            unmet(found(past, &[9])).contains("ended its text with id 9 at output position"),
            "{past:?}"
        );
    }
}

/// The first expectation that is not met is the reason, and every one has its field.
#[test]
fn every_expectation_has_a_field_in_json_and_all_have_to_be_met() {
    let model = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 7));
    let proof = model.prove_chunks(&[5, 6, 7], 3, &[odd_config().layers]);
    let key = key_of(model.key.clone());
    let bytes = proof.to_bytes().expect("bytes");
    let verdict = |json: &str| {
        let policy = Policy::parse(json, Spelling::Snake).expect("a policy");
        key.verify_expecting(&bytes, &policy).expect("a decision")
    };
    let id = key.id().to_string();
    let right = verdict(&format!(
        r#"{{"expect_prompt_ids": [5, 6, 7], "expect_model": "{id}", "min_bits": 93.5}}"#
    ));
    assert!(right.outcome.is_accepted());
    let json = serde_json::Value::Object(right.json("p", "k", None));
    let met = serde_json::json!({"met": true});
    assert_eq!(
        json["policy"],
        serde_json::json!({"model": met, "prompt": met, "min_bits": met})
    );
    let other = "0".repeat(64);
    let wrong = verdict(&format!(
        r#"{{"expect_prompt_ids": [5, 6], "expect_context": "{id}", "min_bits": 93.5}}"#
    ));
    let json = serde_json::Value::Object(wrong.json("p", "k", None));
    let fields: Vec<_> = ["prompt", "context", "min_bits"]
        .map(|name| json["policy"][name]["met"].clone())
        .into();
    assert_eq!(fields, [false, false, true].map(serde_json::Value::from));
    assert_eq!(
        (&json["verdict"], &json["reason"]),
        (&"reject".into(), &json["policy"]["prompt"]["reason"])
    );
    assert!(wrong
        .text("p", "k", None)
        .contains("policy    prompt NOT as expected\n          context NOT as expected\n"));
    // A proof of another model than the expected one is rejected, whatever the key is.
    let wrong = verdict(&format!(r#"{{"expect_model": "{other}"}}"#));
    assert_eq!(wrong.status(), crate::Status::Rejected);
    let foreign = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 8));
    let foreign = key_of(foreign.key.clone());
    for (expected, status) in [
        (foreign.id().to_string(), crate::Status::Rejected),
        (id, crate::Status::Undecided),
    ] {
        let policy = Policy::parse(&format!(r#"{{"expect_model": "{expected}"}}"#), Spelling::Snake).expect("a policy");
        let verdict = foreign.verify_expecting(&bytes, &policy).expect("a verdict");
        assert_eq!(verdict.status(), status);
    }
}
