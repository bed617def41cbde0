//! The limits of the reader, each with its own error, for each format and each kind of document.

use broker_render::catalog::{self, Files};
use broker_render::{MAX_DEPTH, MAX_DOCUMENT_BYTES, ParameterSchema, Xrd};

/// What the XRD's reader says, without the field in front.
fn xrd_says(bytes: &[u8]) -> String {
    let message = Xrd::parse(bytes).unwrap_err().to_string();
    message.strip_prefix("xrd: ").map_or(message.clone(), str::to_owned)
}

fn nested_json(depth: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    format!("{open}{{}}{close}")
}

fn nested_yaml(depth: usize) -> String {
    let lines = (0..depth).map(|level| format!("{}a:\n", " ".repeat(level)));
    lines.collect()
}

#[test]
fn size() {
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    assert_eq!(
        xrd_says(padded(MAX_DOCUMENT_BYTES + 1).as_bytes()),
        "is 1048577 bytes; at most 1048576 are read"
    );
    let missing = "xrd.apiVersion: is missing; use a non-empty string";
    assert_eq!(xrd_says(padded(MAX_DOCUMENT_BYTES).as_bytes()), missing, "the last byte counts");
}

#[test]
fn depth() {
    let missing = "xrd.apiVersion: is missing; use a non-empty string";
    let too_deep = "is nested deeper than 64 levels";
    assert_eq!(xrd_says(nested_json(MAX_DEPTH).as_bytes()), missing);
    assert_eq!(xrd_says(nested_json(MAX_DEPTH + 1).as_bytes()), too_deep);
    assert_eq!(xrd_says(nested_yaml(MAX_DEPTH).as_bytes()), missing);
    assert_eq!(xrd_says(nested_yaml(MAX_DEPTH + 1).as_bytes()), too_deep);
    let flow = format!("a: {}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert_eq!(xrd_says(flow.as_bytes()), too_deep);
    let far = format!("a: {}", "[".repeat(100_000));
    assert_eq!(xrd_says(far.as_bytes()), too_deep, "without a stack to match");
    assert_eq!(xrd_says("{\"a\":".repeat(100_000).as_bytes()), too_deep);
}

#[test]
fn number_of_values() {
    let too_many = "holds more than 100000 values";
    let items = "1,".repeat(100_000);
    assert_eq!(xrd_says(format!("{{\"a\":[{items}1]}}").as_bytes()), too_many);
    assert_eq!(xrd_says(format!("a: [{items}1]").as_bytes()), too_many);
}

#[test]
fn aliases() {
    let bomb = "repeats more than 10000 values through YAML aliases";
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.extend([format!("a{level}: &a{level} [{aliases}]\n")]);
    }
    assert_eq!(xrd_says(laughs.as_bytes()), bomb);
    let shared = "base: &base {a: b}\nother: *base\nmerged: {<<: *base, c: d}\n";
    assert_eq!(
        xrd_says(shared.as_bytes()),
        "xrd.apiVersion: is missing; use a non-empty string",
        "an honest alias is read"
    );
    let merges = format!("a: &a {{{}}}\nb: [{}]\n", keys(200), "{<<: *a}, ".repeat(200));
    assert_eq!(xrd_says(merges.as_bytes()), bomb);
}

fn keys(count: usize) -> String {
    (0..count).map(|n| format!("k{n}: v")).collect::<Vec<_>>().join(", ")
}

#[test]
fn duplicate_keys() {
    let twice = "holds the key \"a\" twice in one object";
    assert_eq!(xrd_says(br#"{"a": 1, "b": {"a": 1}, "a": 2}"#), twice);
    assert_eq!(xrd_says(b"a: 1\nb: 2\na: 3\n"), twice);
    assert_eq!(xrd_says(b"x: {a: 1, a: 1}\n"), twice);
    let long = format!("{{\"{0}\": 1, \"{0}\": 2}}", "k".repeat(1000));
    let cut = format!("holds the key \"{}…\" twice in one object", "k".repeat(64));
    assert_eq!(xrd_says(long.as_bytes()), cut, "a message stays short");
}

#[test]
fn encoding() {
    assert_eq!(xrd_says(b"a: \xff\xfe"), "is not UTF-8 at byte 3");
    assert_eq!(xrd_says(b"{\"a\": \"\xc3\x28\"}"), "is not UTF-8 at byte 7");
}

#[test]
fn numbers() {
    let outside = "holds a number outside -9223372036854775808 to 9223372036854775807";
    for json in ["1e999", "-1e999", "123456789012345678901234567890", "9223372036854775808", "1e19"]
    {
        assert_eq!(xrd_says(format!("{{\"a\": {json}}}").as_bytes()), outside, "JSON {json}");
        assert_eq!(xrd_says(format!("a: {json}").as_bytes()), outside, "YAML {json}");
    }
    for yaml in [".inf", "-.inf", ".nan"] {
        assert_eq!(xrd_says(format!("a: {yaml}").as_bytes()), outside, "YAML {yaml}");
    }
    let missing = "xrd.apiVersion: is missing; use a non-empty string";
    for fits in ["9223372036854775807", "-9223372036854775808", "1e18", "0.1"] {
        assert_eq!(xrd_says(format!("{{\"a\": {fits}}}").as_bytes()), missing, "{fits}");
    }
}

#[test]
fn nothing_and_too_much() {
    assert_eq!(xrd_says(b""), "is empty");
    assert_eq!(xrd_says(b" \n\t"), "is empty");
    assert_eq!(xrd_says(b"a: 1\n---\nb: 2\n"), "holds more than one document; use one");
    assert!(xrd_says(b"{} {}").starts_with("is not JSON: trailing characters"));
    assert!(xrd_says(b"a: b: c").starts_with("is not YAML: "), "{}", xrd_says(b"a: b: c"));
}

#[test]
fn every_reader_has_them() {
    let deep = nested_json(MAX_DEPTH + 1);
    let expected = "is nested deeper than 64 levels";
    let schema = ParameterSchema::parse(deep.as_bytes()).unwrap_err().to_string();
    assert_eq!(schema, format!("parameterSchema: {expected}"));
    let open = ParameterSchema::parse(br#"{"type": "object"}"#).unwrap();
    let values = open.validate(&deep).unwrap_err().to_string();
    assert_eq!(values, format!("parameter values are invalid: {expected}"));
    let files =
        Files { metadata: deep.as_bytes(), xrd: deep.as_bytes(), composition: deep.as_bytes() };
    let (blueprint, problems) = catalog::check("vm", files);
    assert!(blueprint.is_none());
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let line = |file: &str| format!("error: vm/{file}: {expected}");
    assert_eq!(lines, [line("metadata.json"), line("xrd.yaml"), line("composition.yaml")]);
}
