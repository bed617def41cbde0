//! Tests of limits: size, depth, values, references, defaults, lists and error messages.

use broker_domain::Error;
use broker_render::catalog::{self, Files};
use broker_render::{
    InjectionStrategy, MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_PARAMETERS_BYTES, ParameterSchema, Xrd,
    xr,
};
use serde_json::{Map, Value, json};

use crate::support::{RenderFixture, xrd_document, xrd_for};

const WITHIN_LIMITS: &str = "xrd.apiVersion: is missing; use a non-empty string";

fn xrd_error(bytes: impl AsRef<[u8]>) -> String {
    let message = Xrd::parse(bytes.as_ref()).unwrap_err().to_string();
    message.strip_prefix("xrd: ").map_or(message.clone(), str::to_owned)
}

fn nested_json(depth: usize) -> String {
    format!("{}{{}}{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1))
}

#[test]
fn document_beyond_a_limit_is_rejected_in_both_formats() {
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let nested_yaml = |depth| {
        let lines = (0..depth).map(|level| format!("{}a:\n", " ".repeat(level)));
        lines.collect::<String>()
    };
    let items = "1,".repeat(100_000);
    let mut nested_aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        nested_aliases.extend([format!("a{level}: &a{level} [{aliases}]\n")]);
    }
    let keys = (0..200).map(|n| format!("k{n}: v")).collect::<Vec<_>>().join(", ");
    let merged_aliases = format!("a: &a {{{keys}}}\nb: [{}]\n", "{<<: *a}, ".repeat(200));
    let long = format!("{{\"{0}\": 1, \"{0}\": 2}}", "k".repeat(1000));
    let cut = format!("contains the key \"{}…\" twice in one object", "k".repeat(64));
    let too_deep = "is nested deeper than 64 levels";
    let too_many_aliases = "repeats more than 10000 values through YAML aliases";
    let rows = [
        ("the maximum size", padded(MAX_DOCUMENT_BYTES), WITHIN_LIMITS),
        (
            "one byte too many",
            padded(MAX_DOCUMENT_BYTES + 1),
            "is 1048577 bytes long; use at most 1048576",
        ),
        ("the maximum depth", nested_json(MAX_DEPTH), WITHIN_LIMITS),
        ("one level too many", nested_json(MAX_DEPTH + 1), too_deep),
        ("the maximum depth", nested_yaml(MAX_DEPTH), WITHIN_LIMITS),
        ("one level too many", nested_yaml(MAX_DEPTH + 1), too_deep),
        ("nested arrays", format!("a: {}{}", "[".repeat(64), "]".repeat(64)), too_deep),
        ("more levels than fit on the stack", format!("a: {}", "[".repeat(100_000)), too_deep),
        ("more levels than fit on the stack", "{\"a\":".repeat(100_000), too_deep),
        ("one value too many", format!("{{\"a\":[{items}1]}}"), "contains more than 100000 values"),
        ("one value too many", format!("a: [{items}1]"), "contains more than 100000 values"),
        ("aliases of aliases", nested_aliases, too_many_aliases),
        ("merged aliases", merged_aliases, too_many_aliases),
        ("a long key in a message", long, &cut),
    ];
    for (why, document, message) in rows {
        assert_eq!(xrd_error(document), message, "{why}");
    }
    assert_eq!(xrd_error(b"a: \xff\xfe"), "is not UTF-8 at byte 3");
    assert_eq!(xrd_error(b"{\"a\": \"\xc3\x28\"}"), "is not UTF-8 at byte 7");
    assert!(xrd_error("{} {}").starts_with("is not JSON: trailing characters"));
    assert!(xrd_error("a: b: c").starts_with("is not YAML: "));
}

#[test]
fn every_reader_applies_the_limits() {
    let deep = nested_json(MAX_DEPTH + 1);
    let expected = "is nested deeper than 64 levels";
    let schema = ParameterSchema::parse(deep.as_bytes()).unwrap_err().to_string();
    assert_eq!(schema, format!("parameterSchema: {expected}"));
    let open = ParameterSchema::parse(br#"{"type": "object"}"#).unwrap();
    assert_eq!(values_error(&open, &deep), expected);
    let files =
        Files { metadata: deep.as_bytes(), xrd: deep.as_bytes(), composition: deep.as_bytes() };
    let lines: Vec<_> = catalog::check("vm", files).1.iter().map(ToString::to_string).collect();
    let line = |file: &str| format!("error: vm/{file}: {expected}");
    assert_eq!(lines, [line("metadata.json"), line("xrd.yaml"), line("composition.yaml")]);
}

fn schema(value: &Value) -> Result<ParameterSchema, Error> {
    ParameterSchema::from_value(value)
}

fn values_error(schema: &ParameterSchema, text: &str) -> String {
    let message = schema.validate(text).unwrap_err().to_string();
    message.strip_prefix("parameter values are invalid: ").unwrap_or(&message).to_owned()
}

fn numbered(count: usize, make: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("p{n:05}"), make(n))).collect()
}

fn reference(n: usize) -> Value {
    json!({"$ref": format!("#/$defs/p{n:05}")})
}

/// Invariant: the expanded size of a schema is bounded, not only its text.
#[test]
fn expanded_references_are_bounded() {
    let first = |rest: Value| move |n: usize| if n == 0 { rest.clone() } else { reference(n - 1) };
    let doubling = numbered(40, |n| match n {
        0 => json!({"type": "string"}),
        n => json!({"allOf": [reference(n - 1), reference(n - 1)]}),
    });
    // One root, one definition, and per parameter its own schema plus the expanded definition.
    let wide = |count, definition: Value| {
        json!({
            "type": "object",
            "$defs": {"p00000": definition},
            "properties": numbered(count, |_| reference(0)),
        })
    };
    let text = json!({"type": "string"});
    let pattern = json!({"pattern": "^a$"});
    let chain = |count| json!({"type": "object", "$defs": numbered(count, first(json!({})))});
    // Each step is deep only through its predecessors.
    let mut measured = chain(100);
    measured["properties"] = Value::Object(numbered(100, reference));
    let too_many = ": expands to more than 4096 schemas through $ref";
    let too_deep = ": is nested deeper than 64 levels through $ref";
    let plain = json!({"type": "object"});
    let rows = [
        ("schemas", wide(2047, text.clone()), wide(2048, text), too_many),
        ("doubled", plain.clone(), json!({"type": "object", "$defs": doubling}), too_many),
        ("levels", chain(63), chain(64), too_deep),
        ("many levels", plain.clone(), chain(20_000), too_deep),
        ("levels of measured definitions", plain, measured, too_deep),
        (
            "patterns",
            wide(255, pattern.clone()),
            wide(256, pattern),
            ": contains more than 256 patterns",
        ),
    ];
    for (why, allowed, rejected, message_end) in rows {
        assert!(schema(&allowed).is_ok(), "{why}");
        let message = schema(&rejected).unwrap_err().to_string();
        assert!(message.ends_with(message_end), "{why}: {message}");
    }
    let patterns = json!({"properties": numbered(257, |_| json!({"pattern": "a"}))});
    let message = xrd_error(xrd_document(&patterns).to_string());
    assert!(
        message.ends_with("p00256.pattern: exceeds the number of patterns; use at most 256"),
        "{message}"
    );
}

#[test]
fn parameter_values_are_bounded_with_and_without_defaults() {
    let open = schema(&json!({"type": "object"})).unwrap();
    let filling = json!({"type": "object", "properties": {"b": {"default": "y"}}});
    let filling = schema(&filling).unwrap();
    let padded = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    // The object and the array count as values too.
    let items = |count: usize| json!({"a": vec![1; count - 2]}).to_string();
    let bytes = MAX_PARAMETERS_BYTES;
    assert_eq!(open.validate(&padded(bytes)).unwrap().as_json().len(), bytes);
    assert!(open.validate(&items(4096)).is_ok());
    for (schema, values, message) in [
        (&open, padded(bytes + 1), "is 65537 bytes long; use at most 65536"),
        (
            &filling,
            padded(bytes),
            "with defaults filled in, is 65544 bytes long; use at most 65536",
        ),
        (&open, items(4097), "contains more than 4096 values"),
        (&filling, items(4096), "with defaults filled in, contains more than 4096 values"),
    ] {
        assert_eq!(values_error(schema, &values), message);
    }
}

fn growing_list() -> Value {
    let note = json!({"type": "string", "default": "x".repeat(1000)});
    json!({"type": "array", "items": {"type": "object", "properties": {"note": note}}})
}

fn list_of(count: usize) -> Value {
    json!({"list": vec![json!({}); count]})
}

#[test]
fn parameter_defaults_are_bounded() {
    let too_large = "is longer than 65536 bytes with defaults filled in";
    let mut items = json!({"type": "object", "properties": {"list": growing_list()}});
    let schema_of_items = schema(&items).unwrap();
    assert!(schema_of_items.validate(&list_of(60).to_string()).is_ok());
    assert_eq!(values_error(&schema_of_items, &list_of(4000).to_string()), too_large);
    items["properties"]["list"]["default"] = list_of(4000)["list"].take();
    let message = schema(&items).unwrap_err().to_string();
    assert_eq!(message, format!("parameterSchema: {too_large}"));
}

#[test]
fn xrd_defaults_are_bounded() {
    let xrd = xrd_for(&json!({"type": "object", "properties": {
        "userData": {"type": "string"},
        "parameters": {"type": "object", "properties": {"list": growing_list()}},
    }}));
    assert_eq!(xrd.check(&json!({"parameters": list_of(1000)})), []);
    let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData)
        .with_xrd(xrd)
        .with_parameters(&list_of(2000).to_string());
    assert_eq!(
        xr(&fixture.input()).unwrap_err().to_string(),
        "spec: needs more than 1048576 bytes for the XRD's defaults"
    );
    let mut spec = json!({"parameters": list_of(100_000)});
    fixture.xrd.fill_defaults(&mut spec);
    assert!(spec.to_string().len() < 2 * 1024 * 1024, "the defaults stay bounded");
}

#[test]
fn error_message_stays_short() {
    let parameters: Vec<_> =
        (0..500).map(|n| json!({"name": format!("p{n:03}"), "type": "string"})).collect();
    let named = schema(&json!({"parameters": parameters})).unwrap();
    let message = values_error(&named, &Value::Object(numbered(4000, |_| json!(1))).to_string());
    assert!(message.contains("p014, p015 and 484 more; "), "{message}");
    assert!(message.ends_with("; and 3968 more"), "{message}");
    let options: Vec<_> = (0..5000).map(|n| format!("option {n:04}")).collect();
    let choice = schema(&json!({"type": "object", "properties": {
        "a": {"enum": options}, "b": {"const": "z".repeat(100_000)},
    }}));
    let message = values_error(&choice.unwrap(), r#"{"a":"","b":""}"#);
    let end = format!("\"option 0015\" and 4984 more; b: is not \"{}…", "z".repeat(63));
    assert!(message.ends_with(&end), "{message}");
    let xrd = xrd_for(&json!({"type": "object", "properties": {"list": {
        "type": "array", "items": {"type": "string", "enum": ["x"]},
    }}}));
    let problems = |count: usize| xrd.check(&json!({"list": vec!["y"; count]}));
    assert_eq!(problems(32).len(), 32);
    assert_eq!(problems(5000).len(), 33);
    let last = problems(5000)[32].to_string();
    assert_eq!(last, "spec: has more than 32 problems; the others are not named");
}

/// Identity uses complete keys, although messages shorten them.
#[test]
fn long_list_keys_are_distinguished() {
    let xrd = xrd_for(&json!({"type": "object", "properties": {"list": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }}}));
    let item = |end: &str| json!({"name": "n".repeat(1000) + end});
    assert_eq!(xrd.check(&json!({"list": [item("a"), item("b")]})), []);
    let twice = xrd.check(&json!({"list": [item("a"), item("a")]}));
    assert_eq!(twice[0].to_string(), "spec.list: contains item 1 twice");
}
