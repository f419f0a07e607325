//! Templates and values that would take all time or memory are stopped.

use super::*;

#[test]
fn hostile_templates_are_stopped() {
    let run = |source: &str| {
        let start = std::time::Instant::now();
        let error = said(source, &json!({}), &[], &question(None, "Hi"))
            .unwrap_err()
            .to_string();
        assert!(start.elapsed().as_secs() < 20, "{source}");
        error
    };
    let forever = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    assert!(run(forever).contains("fuel"), "{}", run(forever));
    let long = "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}";
    assert!(run(long).contains("more than 1048576 bytes"), "{}", run(long));
    let deep = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
    assert!(run(deep).contains("recursion"), "{}", run(deep));
    for file in [
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% extends 'tokenizer.json' %}",
    ] {
        assert!(run(file).contains("is not supported"), "{}", run(file));
    }
    assert!(run(&"x".repeat(1 << 20)).contains("it has 1048576 bytes"));
    assert!(
        run("{% if %}").starts_with("chat template: syntax error"),
        "{}",
        run("{% if %}")
    );
    assert!(run("{{ messages[0].content.system('ls') }}").starts_with("chat template: "));
}

/// A template that would take all memory or never end is refused before it does.
#[test]
fn hostile_values_are_stopped() {
    for source in [
        "{{ 'a' * 10 ** 9 }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ range(10 ** 9) | list }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'x'.center(10 ** 9) }}",
        "{{ 'x' | center(10 ** 9) }}",
        "{{ [1] | tojson(indent=10 ** 9) }}",
        "{{ '\\t'.expandtabs(10 ** 9) }}",
        "{{ 2 ** 200 }}",
        "{{ 99999999999999999999999999999999999999999 }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='a') %}{% for i in range(99999) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}",
        "{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    ] {
        let start = std::time::Instant::now();
        assert!(prompt(source, &json!({}), &[], &[json!({})]).is_err(), "{source}");
        assert!(start.elapsed().as_secs() < 8, "{source}");
    }
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(prompt(&nested, &json!({}), &[], &[json!({})]).is_err());
}
