//! What a small text must not grow into: references, defaults, lists and refusals, each up to its limit;
//! and secrets that a schema marks where nobody would look for them.

use broker_domain::Error;
use broker_render::{InjectionStrategy, MAX_PARAMETERS_BYTES, ParameterSchema, xr};
use serde_json::{Map, Value, json};

use crate::support::{Given, xrd_for};

const CANARY: &str = "canary-51c0de";

fn schema(value: &Value) -> Result<ParameterSchema, Error> {
    ParameterSchema::from_value(value)
}

/// Why a schema is refused, without the beginning that all refusals share.
fn refusal(value: &Value) -> String {
    let message = schema(value).unwrap_err().to_string();
    message.strip_prefix("parameterSchema").unwrap_or(&message).to_owned()
}

/// Why values are refused, likewise.
fn values_refusal(schema: &ParameterSchema, text: &str) -> String {
    let message = schema.validate(text).unwrap_err().to_string();
    message.strip_prefix("parameter values are invalid: ").unwrap_or(&message).to_owned()
}

/// Names with a number, each with what is made for it.
fn numbered(count: usize, make: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("p{n:05}"), make(n))).collect()
}

#[test]
fn a_reference_leads_to_a_definition() {
    let port = json!({"type": "integer", "minimum": 1});
    for place in ["$defs", "definitions"] {
        let pointer = format!("#/{place}/port.v-1_b");
        let schema = schema(&json!({
            "type": "object",
            place: {"port.v-1_b": port, "both": {"allOf": [{"$ref": pointer}, {"maximum": 9}]}},
            "properties": {"a": {"$ref": pointer}, "b": {"$ref": format!("#/{place}/both")}},
        }))
        .unwrap();
        assert!(schema.validate(r#"{"a":1,"b":9}"#).is_ok());
        assert_eq!(values_refusal(&schema, r#"{"a":0}"#), "a: is too small; use at least 1");
        assert_eq!(values_refusal(&schema, r#"{"b":10}"#), "b: is too large; use at most 9");
    }
}

/// Names that a message would cut to the same beginning are still two.
#[test]
fn definitions_with_long_names_are_told_apart() {
    let long = "n".repeat(100);
    let definitions = json!({
        format!("{long}a"): {"$ref": format!("#/$defs/{long}b")},
        format!("{long}b"): {"type": "string"},
    });
    let document = json!({
        "type": "object",
        "$defs": definitions,
        "properties": {"p": {"$ref": format!("#/$defs/{long}a")}},
    });
    assert_eq!(values_refusal(&schema(&document).unwrap(), r#"{"p":1}"#), "p: is no string");
}

#[test]
fn a_reference_leads_nowhere_else() {
    let pointers = [
        "",
        "#",
        "#/",
        "#a",
        "#/properties/a",
        "#/$defs",
        "#/$defs/",
        "#/$defs/a/properties/b",
        "#/%24defs/a",
        "#/$defs/a~1b",
        "#/$defs/a%2Fb",
        "other.json#/$defs/a",
        "https://example.org/a",
    ];
    for pointer in pointers {
        let message = refusal(&json!({
            "type": "object",
            "$defs": {"a": {"type": "object", "properties": {"b": {}}}, "a/b": {}},
            "properties": {"p": {"items": {"$ref": pointer}}},
        }));
        let expected = format!(
            ".properties.p.items[\"$ref\"]: is {pointer:?}; use #/$defs/<name> or \
             #/definitions/<name>"
        );
        assert_eq!(message, expected);
    }
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        let message = refusal(&json!({"type": "object", "properties": {"p": {keyword: "#"}}}));
        let expected = format!(".properties.p[{keyword:?}]: leads to no fixed place; use $ref");
        assert_eq!(message, expected);
    }
    for keyword in ["$id", "$anchor", "$dynamicAnchor"] {
        let dependencies = json!({"p": {keyword: "a"}});
        let message = refusal(&json!({"type": "object", "dependencies": dependencies}));
        let expected =
            format!(".dependencies.p[{keyword:?}]: gives the schema another name; leave it out");
        assert_eq!(message, expected);
    }
}

#[test]
fn references_make_no_cycle() {
    let cycles = [
        json!({"a": {"$ref": "#/$defs/a"}}),
        json!({"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}),
        json!({"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}),
        json!({"a": {"dependencies": {"x": {"$ref": "#/$defs/a"}}}}),
        json!({"a": {"allOf": [{}, {"$ref": "#/$defs/b"}]}, "b": {"items": {"$ref": "#/$defs/b"}}}),
    ];
    for definitions in cycles {
        for properties in [json!({"p": {"$ref": "#/$defs/a"}}), json!({})] {
            let message =
                refusal(&json!({"type": "object", "$defs": definitions, "properties": properties}));
            let problem = "[\"$ref\"]: leads back to itself; use references without a cycle";
            assert!(message.ends_with(problem), "{message}");
            assert!(message.starts_with("[\"$defs\"]."), "{message}");
        }
    }
}

/// Invariant: what is compiled is bounded by what the references expand to, not by the text.
#[test]
fn references_expand_to_so_many_schemas() {
    let doubling = numbered(40, |n| match n {
        0 => json!({"type": "string"}),
        n => {
            let before = json!({"$ref": format!("#/$defs/p{:05}", n - 1)});
            json!({"allOf": [before, before]})
        }
    });
    let message = refusal(&json!({"type": "object", "$defs": doubling}));
    assert!(message.ends_with(": expands to more than 4096 schemas through $ref"), "{message}");
    // The root, the definition, and for each parameter its own schema and the definition once more.
    let wide = |count| {
        json!({
            "type": "object",
            "$defs": {"a": {"type": "string"}},
            "properties": numbered(count, |_| json!({"$ref": "#/$defs/a"})),
        })
    };
    assert!(schema(&wide(2047)).is_ok());
    assert_eq!(refusal(&wide(2048)), ": expands to more than 4096 schemas through $ref");
}

#[test]
fn references_nest_so_deep() {
    let chain = |count| {
        let definitions = numbered(count, |n| {
            let next = format!("#/$defs/p{:05}", n + 1);
            if n + 1 == count { json!({}) } else { json!({"$ref": next}) }
        });
        json!({"type": "object", "$defs": definitions})
    };
    assert!(schema(&chain(63)).is_ok());
    for count in [64, 20_000] {
        let message = refusal(&chain(count));
        assert!(message.ends_with(": is nested deeper than 64 levels through $ref"), "{message}");
    }
    // Measured from its end, no single step of it is deep.
    let mut backwards = Map::new();
    for n in (0..100).rev() {
        let next = json!({"$ref": format!("#/$defs/p{:05}", n + 1)});
        backwards.insert(format!("p{n:05}"), if n == 99 { json!({}) } else { next });
    }
    let message = refusal(&json!({
        "type": "object",
        "properties": numbered(100, |n| json!({"$ref": format!("#/$defs/p{:05}", 99 - n)})),
        "$defs": backwards,
    }));
    assert!(message.ends_with(": is nested deeper than 64 levels through $ref"), "{message}");
}

#[test]
fn a_pattern_counts_wherever_a_reference_leads_to_it() {
    let patterns = |count| {
        json!({
            "type": "object",
            "$defs": {"a": {"pattern": "^a$"}},
            "properties": numbered(count, |_| json!({"$ref": "#/$defs/a"})),
        })
    };
    assert!(schema(&patterns(255)).is_ok());
    assert_eq!(refusal(&patterns(256)), ": holds more than 256 patterns");
}

#[test]
fn a_secret_is_marked_on_a_parameter_or_refused() {
    let secret = json!({"type": "string", "secret": true});
    let cases = [
        (json!({"$defs": {"s": secret}}), "[\"$defs\"].s"),
        (json!({"definitions": {"s": secret}}), ".definitions.s"),
        (
            json!({"dependencies": {"a": {"properties": {"b": secret}}}}),
            ".dependencies.a.properties.b",
        ),
        (json!({"x-defs": {"s": secret}}), ".x-defs.s"),
        (json!({"x-defs": [[secret]]}), ".x-defs[0][0]"),
        (json!({"properties": {"a": {"default": {"secret": true}}}}), ".properties.a.default"),
        (json!({"properties": {"a": {"enum": [{"secret": true}]}}}), ".properties.a.enum[0]"),
        (
            json!({"properties": {"a": {"x": {"properties": {"b": secret}}}}}),
            ".properties.a.x.properties.b",
        ),
        (json!({"allOf": [{"properties": {"a": secret}}]}), ".allOf[0].properties.a"),
        (json!({"patternProperties": {"^a": secret}}), ".patternProperties[\"^a\"]"),
        (json!({"additionalProperties": secret}), ".additionalProperties"),
        (json!({"secret": true}), ""),
    ];
    for (mut document, path) in cases {
        document["type"] = json!("object");
        let problem = "marks what is not a parameter itself; only a whole parameter is secret";
        assert_eq!(refusal(&document), format!("{path}.secret: {problem}"));
    }
    let compact = json!({"parameters": [
        {"name": "a", "type": "object", "default": {"b": {"secret": true}}},
    ]});
    assert!(refusal(&compact).starts_with(".properties.a.default.b.secret: marks"));
}

/// Invariant: no way around a secret parameter takes its literal, or shows it.
#[test]
fn a_reference_does_not_lead_around_a_secret() {
    let secret = json!({"type": "string", "secret": true});
    let documents = [
        json!({"properties": {"a": secret, "b": {"$ref": "#/properties/a"}}}),
        json!({"properties": {"b": {"$ref": "#/$defs/s"}}, "$defs": {"s": secret}}),
        json!({"properties": {"b": {"$ref": "#/x-defs/s"}}, "x-defs": {"s": secret}}),
        json!({"properties": {"b": {"secret": true, "$ref": "#/$defs/s"}}, "$defs": {"s": {}}}),
        json!({"properties": {"b": {"allOf": [{"$ref": "#/$defs/s"}]}}, "$defs": {"s": secret}}),
    ];
    for mut document in documents {
        document["type"] = json!("object");
        if let Ok(schema) = schema(&document) {
            panic!("{document} is taken: {schema:?}");
        }
    }
    let rules = json!({
        "type": "object",
        "properties": {"b": secret},
        "allOf": [{"properties": {"b": {"$ref": "#/$defs/s"}}}],
        "$defs": {"s": {"maxLength": 3}},
    });
    let schema = schema(&rules).unwrap();
    for literal in [json!(CANARY), json!({CANARY: CANARY}), json!("x")] {
        let message = values_refusal(&schema, &json!({"b": literal}).to_string());
        assert_eq!(message, "b: is secret; use {\"secretRef\":{\"name\":…,\"key\":…}}");
    }
}

#[test]
fn parameter_values_have_so_many_bytes() {
    let open = schema(&json!({"type": "object"})).unwrap();
    let padded = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    let longest = open.validate(&padded(MAX_PARAMETERS_BYTES)).unwrap();
    assert_eq!(longest.as_json().len(), MAX_PARAMETERS_BYTES);
    assert_eq!(
        values_refusal(&open, &padded(MAX_PARAMETERS_BYTES + 1)),
        "is 65537 bytes; at most 65536 are read"
    );
    let filling = schema(&json!({"type": "object", "properties": {"b": {"default": "y"}}}));
    assert_eq!(
        values_refusal(&filling.unwrap(), &padded(MAX_PARAMETERS_BYTES)),
        "with defaults filled in, is 65544 bytes; at most 65536 are read"
    );
}

#[test]
fn parameter_values_are_so_many() {
    let open = schema(&json!({"type": "object"})).unwrap();
    // The object and the array are values too.
    let items = |count: usize| json!({"a": vec![1; count - 2]}).to_string();
    assert!(open.validate(&items(4096)).is_ok());
    assert_eq!(values_refusal(&open, &items(4097)), "holds more than 4096 values");
    let filling = schema(&json!({"type": "object", "properties": {"b": {"default": 1}}})).unwrap();
    assert_eq!(
        values_refusal(&filling, &items(4096)),
        "with defaults filled in, holds more than 4096 values"
    );
}

#[test]
fn defaults_do_not_multiply_without_end() {
    let overgrown = "grows beyond 65536 bytes with defaults filled in";
    let items = json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {
            "type": "object",
            "properties": {"note": {"type": "string", "default": "x".repeat(1000)}},
        }}},
    });
    let schema_of_items = schema(&items).unwrap();
    let list = |count: usize| json!({"list": vec![json!({}); count]}).to_string();
    assert!(schema_of_items.validate(&list(60)).is_ok());
    assert_eq!(values_refusal(&schema_of_items, &list(4000)), overgrown);
    let mut own = items;
    own["properties"]["list"]["default"] = json!(vec![json!({}); 4000]);
    assert_eq!(refusal(&own), format!(": {overgrown}"));
}

#[test]
fn a_default_inside_of_an_object_fits_its_schema() {
    let with = |net: Value| {
        json!({"type": "object", "required": ["size"], "properties": {
            "net": net, "size": {"type": "string"}, "zone": {"default": "a"},
        }})
    };
    let bad = json!({"type": "object", "properties": {"mtu": {"type": "integer", "default": "x"}}});
    assert_eq!(
        refusal(&with(bad)),
        ".net.default: does not fit its own schema: net.mtu: is no integer"
    );
    // What a declaration has to bring is not missed before there is one.
    let fine = [
        json!({"type": "object", "required": ["b"], "properties": {"a": {"default": 1}, "b": {}}}),
        json!({"type": "object", "minProperties": 1, "properties": {"a": {}}}),
    ];
    for net in fine {
        assert!(schema(&with(net)).is_ok());
    }
}

#[test]
fn a_refusal_stays_short() {
    let parameters: Vec<_> =
        (0..500).map(|n| json!({"name": format!("p{n:03}"), "type": "string"})).collect();
    let named = schema(&json!({"parameters": parameters})).unwrap();
    let unknown = Value::Object(numbered(4000, |_| json!(1))).to_string();
    let message = values_refusal(&named, &unknown);
    assert!(message.contains("p014, p015 and 484 more; "), "{message}");
    assert!(message.ends_with("; and 3968 more"), "{message}");
    let options: Vec<_> = (0..5000).map(|n| format!("option {n:04}")).collect();
    let choice = schema(&json!({"parameters": [
        {"name": "a", "type": "string", "enum": options},
        {"name": "b", "type": "string", "enum": ["y".repeat(100_000)]},
    ]}));
    let message = values_refusal(&choice.unwrap(), r#"{"a":"","b":""}"#);
    assert!(message.contains("\"option 0015\" and 4984 more; b: is not"), "{message}");
    assert!(message.len() < 1000, "{}", message.len());
    let constant = json!({"type": "object", "properties": {"a": {"const": "z".repeat(100_000)}}});
    let message = values_refusal(&schema(&constant).unwrap(), r#"{"a":1}"#);
    assert_eq!(message, format!("a: is not \"{}…", "z".repeat(63)));
}

#[test]
fn an_xrd_names_so_many_problems() {
    let xrd = xrd_for(&json!({"type": "object", "properties": {"list": {
        "type": "array", "items": {"type": "string", "enum": ["x"]},
    }}}));
    let problems = |count: usize| xrd.check(&json!({"list": vec!["y"; count]}));
    assert_eq!(problems(32).len(), 32);
    let many = problems(5000);
    assert_eq!(many.len(), 33);
    assert_eq!(many[32].to_string(), "spec: has more than 32 problems; the others are not named");
}

#[test]
fn the_defaults_of_an_xrd_do_not_multiply_without_end() {
    let xrd = xrd_for(&json!({"type": "object", "properties": {
        "userData": {"type": "string"},
        "parameters": {"type": "object", "properties": {"list": {"type": "array", "items": {
            "type": "object",
            "properties": {"note": {"type": "string", "default": "x".repeat(1000)}},
        }}}},
    }}));
    let list = |count: usize| json!({"list": vec![json!({}); count]});
    assert_eq!(xrd.check(&json!({"parameters": list(1000)})), []);
    let given = Given::node(InjectionStrategy::CloudInitUserData)
        .with_xrd(xrd)
        .with_parameters(&list(2000).to_string());
    assert_eq!(
        xr(&given.input()).unwrap_err().to_string(),
        "spec: grows by more than 1048576 bytes with the XRD's defaults"
    );
    let mut spec = json!({"parameters": list(100_000)});
    given.xrd.fill_defaults(&mut spec);
    assert!(spec.to_string().len() < 2 * 1024 * 1024, "it stops");
}

/// Items are told apart by all of their keys, however long: a message is cut, an identity is not.
#[test]
fn long_keys_of_a_list_are_told_apart() {
    let xrd = xrd_for(&json!({"type": "object", "properties": {"list": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }}}));
    let item = |end: &str| json!({"name": "n".repeat(1000) + end});
    assert_eq!(xrd.check(&json!({"list": [item("a"), item("b")]})), []);
    let twice = xrd.check(&json!({"list": [item("a"), item("a")]}));
    assert_eq!(twice[0].to_string(), "spec.list: holds item 1 twice");
}
