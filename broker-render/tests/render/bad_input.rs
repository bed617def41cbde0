//! Bad input and exactly what is said about it: what was wrong, where, and what is allowed, on one line.

use broker_domain::Error;
use broker_render::{
    AgentSource, ApiUrl, DebianPackage, Download, Identity, ImageReference, InjectionStrategy,
    ParameterSchema, Provider, ProviderConfigInput, ProviderProfile, Xrd, assigned_namespace,
    inject_bootstrap, provider_config, xr,
};
use serde_json::{Value, json};

use crate::support::{Given, Injected, identity, xrd_document, xrd_for};

/// Compares each error with the line that it has to be.
fn compare<T>(cases: Vec<(Result<T, Error>, &str)>) {
    for (result, expected) in cases {
        let message = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(message, expected);
        assert!(!message.contains('\n'), "{message}");
    }
}

fn parsed(document: &Value) -> Result<Xrd, Error> {
    Xrd::parse(document.to_string().as_bytes())
}

#[test]
fn xrds() {
    let apis = "use apiextensions.crossplane.io/v2 or apiextensions.crossplane.io/v1";
    let unserved = ".spec.versions: has no served version; set served on one";
    let cases = [
        ("/kind", json!("Composition"), ".kind: is another kind; use CompositeResourceDefinition"),
        (
            "/apiVersion",
            json!("example.org/v1"),
            &format!(".apiVersion: is \"example.org/v1\"; {apis}"),
        ),
        (
            "/apiVersion",
            json!("apiextensions.crossplane.io/v3"),
            &format!(".apiVersion: is \"apiextensions.crossplane.io/v3\"; {apis}"),
        ),
        ("/metadata", json!({}), ".metadata.name: is missing; use a non-empty string"),
        (
            "/metadata/name",
            json!("machine.example.org"),
            ".metadata.name: is \"machine.example.org\"; use <plural>.<group>: machines.example.org",
        ),
        ("/spec", json!(3), ".spec: is a number; use an object"),
        ("/spec/group", json!(""), ".spec.group: is empty; use a non-empty string"),
        (
            "/spec/group",
            json!("Example.org"),
            ".spec.group: is \"Example.org\"; use a DNS subdomain such as example.org",
        ),
        (
            "/spec/names/plural",
            json!("Machines"),
            ".spec.names.plural: is \"Machines\"; use a lower-case DNS label",
        ),
        (
            "/spec/names/kind",
            json!("machine"),
            ".spec.names.kind: is \"machine\"; use up to 63 letters and digits, a capital first",
        ),
        ("/spec/names/kind", json!(null), ".spec.names.kind: is null; use a string"),
        (
            "/spec/scope",
            json!("LegacyCluster"),
            ".spec.scope: is \"LegacyCluster\"; use Namespaced or Cluster",
        ),
        ("/spec/versions", json!([]), unserved),
        ("/spec/versions/0/served", json!(false), unserved),
        (
            "/spec/versions/0/served",
            json!("yes"),
            ".spec.versions[0].served: is a string; use true or false",
        ),
        (
            "/spec/versions/0/name",
            json!("V 1"),
            ".spec.versions[0].name: is \"V 1\"; use a lower-case DNS label such as v1",
        ),
        (
            "/spec/versions/0/schema",
            json!({}),
            ".spec.versions[0].schema.openAPIV3Schema: is missing; use an object",
        ),
    ];
    for (field, value, expected) in cases {
        let mut document = xrd_document(&json!({"type": "object"}));
        document["spec"]["scope"] = json!("Namespaced");
        *document.pointer_mut(field).unwrap() = value;
        compare(vec![(parsed(&document), format!("xrd{expected}").as_str())]);
    }
    let mut legacy = xrd_document(&json!({"type": "object"}));
    legacy["apiVersion"] = json!("apiextensions.crossplane.io/v1");
    legacy["spec"]["scope"] = json!("Galaxy");
    compare(vec![
        (Xrd::parse(b"[]"), "xrd: is an array; use an object"),
        (Xrd::parse(b"just text"), "xrd: is a string; use an object"),
        (
            parsed(&legacy),
            "xrd.spec.scope: is \"Galaxy\"; use Namespaced, Cluster or LegacyCluster",
        ),
    ]);
}

#[test]
fn schemas_of_xrds() {
    const AT: &str = "xrd.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties";
    let cases = [
        (json!({"a": 3}), ".a: is a number; use an object"),
        (
            json!({"a": {"type": "text"}}),
            ".a.type: is \"text\"; use object, array, string, integer, number or boolean",
        ),
        (json!({"a": {"type": ["string"]}}), ".a.type: is an array; use a string"),
        (json!({"a": {"required": "b"}}), ".a.required: is a string; use an array"),
        (json!({"a": {"minimum": "1"}}), ".a.minimum: is a string; use a number"),
        (json!({"a": {"minLength": -1}}), ".a.minLength: is no count; use 0 or more"),
        (
            json!({"a": {"pattern": "("}}),
            ".a.pattern: is not a regular expression of the API server; use RE2 syntax",
        ),
        (
            json!({"a": {"pattern": "(.{1,100}){1,100}"}}),
            ".a.pattern: is too large a pattern; use one that compiles to 262144 bytes",
        ),
        (
            json!({"a": {"x-kubernetes-list-type": "bag"}}),
            ".a.x-kubernetes-list-type: is \"bag\"; use atomic, set or map",
        ),
    ];
    for (properties, expected) in cases {
        let result = parsed(&xrd_document(&json!({"type": "object", "properties": properties})));
        compare(vec![(result, format!("{AT}{expected}").as_str())]);
    }
    let many: serde_json::Map<_, _> =
        (0..257).map(|n| (format!("p{n:03}"), json!({"pattern": "a"}))).collect();
    compare(vec![(
        parsed(&xrd_document(&json!({"properties": many}))),
        format!("{AT}.p256.pattern: is one pattern too many; use at most 256").as_str(),
    )]);
}

fn schema(value: &Value) -> Result<ParameterSchema, Error> {
    ParameterSchema::from_value(value)
}

#[test]
fn compact_parameter_schemas() {
    const AT: &str = "parameterSchema.parameters[0]";
    let cases = [
        (json!({"type": "string"}), ".name: is missing; use a non-empty string"),
        (
            json!({"name": "1st", "type": "string"}),
            ".name: \"1st\" cannot be a parameter name; use up to 63 letters, digits, _ and -, not \
             beginning with a digit or -",
        ),
        (
            json!({"name": "helmValues", "type": "object"}),
            ".name: helmValues is reserved for the broker; use another name",
        ),
        (
            json!({"name": "a", "type": "text"}),
            ".type: is \"text\"; use string, integer, number, boolean, object or array",
        ),
        (
            json!({"name": "a", "type": "boolean", "pattern": "a"}),
            ".pattern: is no keyword for boolean; use name, type, required, description, default, \
             enum, secret",
        ),
        (
            json!({"name": "a", "type": "string", "requried": true}),
            ".requried: is no keyword for string; use name, type, required, description, default, \
             enum, secret, pattern, minLength, maxLength",
        ),
        (
            json!({"name": "a", "type": "string", "required": "yes"}),
            ".required: is a string; use true or false",
        ),
        (
            json!({"name": "a", "type": "string", "secret": true, "default": "x"}),
            ".default: is no keyword for a secret; use name, type, required, description, secret",
        ),
    ];
    for (parameter, expected) in cases {
        let result = schema(&json!({"parameters": [parameter]}));
        compare(vec![(result, format!("{AT}{expected}").as_str())]);
    }
    let a = json!({"name": "a", "type": "string"});
    compare(vec![
        (schema(&json!([])), "parameterSchema: is an array; use an object"),
        (
            schema(&json!({"parameters": {}})),
            "parameterSchema.parameters: is an object; use an array",
        ),
        (
            schema(&json!({"parameters": [], "type": "object"})),
            "parameterSchema: \"type\" stands beside parameters; use one form, not both",
        ),
        (
            schema(&json!({"parameters": [a, a]})),
            "parameterSchema.parameters[1].name: \"a\" is declared twice",
        ),
        (
            schema(&json!({"parameters": [{"name": "a", "type": "integer", "default": "x"}]})),
            "parameterSchema.a.default: does not fit its own schema: a: is no integer",
        ),
        (
            schema(&json!({"parameters": [{"name": "a", "type": "string", "pattern": "(?=b)"}]})),
            "parameterSchema: is no usable schema at properties.a.pattern: the pattern cannot be \
             compiled; use RE2 syntax",
        ),
        (
            schema(&json!({"parameters": [{"name": "a", "type": "string", "minLength": "1"}]})),
            "parameterSchema: is no usable schema at properties.a.minLength: type of its \
             meta-schema is not satisfied",
        ),
    ]);
}

#[test]
fn full_parameter_schemas() {
    compare(vec![
        (schema(&json!({})), "parameterSchema.type: is missing; use a non-empty string"),
        (
            schema(&json!({"type": "array"})),
            "parameterSchema.type: is another type; parameters are an object, use object",
        ),
        (
            schema(&json!({"type": "object", "properties": {"providerSecret": {}}})),
            "parameterSchema.properties.providerSecret: providerSecret is reserved for the \
             broker; use another name",
        ),
        (
            schema(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}})),
            "parameterSchema: is no usable schema: a $ref leads nowhere",
        ),
        (
            schema(
                &json!({"type": "object", "properties": {"a": {"secret": true, "enum": ["x"]}}}),
            ),
            "parameterSchema.properties.a.enum: would need to see a secret; leave it out",
        ),
        (
            schema(&json!({"type": "object", "properties": {"a": {"secret": "yes"}}})),
            "parameterSchema.properties.a.secret: is a string; use true or false",
        ),
    ]);
}

#[test]
fn parameter_values() {
    let schema = schema(&json!({"parameters": [
        {"name": "size", "type": "string", "enum": ["small", "large"], "required": true},
        {"name": "name", "type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        {"name": "replicas", "type": "integer", "minimum": 1, "maximum": 9},
        {"name": "ratio", "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"name": "backups", "type": "boolean"},
        {"name": "zones", "type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": true},
        {"name": "net", "type": "object", "properties": {"cidr": {"type": "string"}}, "additionalProperties": false},
        {"name": "password", "type": "string", "secret": true},
    ]}))
    .unwrap();
    let secret = "password: is secret; use {\"secretRef\":{\"name\":…,\"key\":…}}";
    let cases = [
        ("", "is empty"),
        ("{", "is not JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "is an array; use an object"),
        (r#"{"size":"small","size":"large"}"#, "holds a key twice in one object"),
        ("{}", "size: is required"),
        (r#"{"size":"medium"}"#, "size: is not one of \"small\", \"large\""),
        (r#"{"size":3}"#, "size: is no string; size: is not one of \"small\", \"large\""),
        (r#"{"size":"small","name":"A1"}"#, "name: does not match the pattern \"^[a-z]+$\""),
        (r#"{"size":"small","name":"a"}"#, "name: is too short; use at least 2 characters"),
        (r#"{"size":"small","name":"abcde"}"#, "name: is too long; use at most 4 characters"),
        (r#"{"size":"small","replicas":0}"#, "replicas: is too small; use at least 1"),
        (r#"{"size":"small","replicas":10}"#, "replicas: is too large; use at most 9"),
        (r#"{"size":"small","replicas":1.5}"#, "replicas: is no integer"),
        (r#"{"size":"small","ratio":0}"#, "ratio: is too small; use more than 0"),
        (r#"{"size":"small","ratio":1}"#, "ratio: is too large; use less than 1"),
        (r#"{"size":"small","backups":"yes"}"#, "backups: is no boolean"),
        (r#"{"size":"small","zones":["a",2]}"#, "zones[1]: is no string"),
        (r#"{"size":"small","zones":["a","b","c"]}"#, "zones: holds too many; use at most 2 items"),
        (r#"{"size":"small","zones":["a","a"]}"#, "zones: holds an item twice"),
        (r#"{"size":"small","net":{"mtu":1}}"#, "net.mtu: is not a field of it"),
        (
            r#"{"size":"small","colour":"red"}"#,
            "colour: is not a parameter; use backups, name, net, password, ratio, replicas, size, zones",
        ),
        (
            r#"{"size":"small","helmValues":{}}"#,
            "helmValues: is reserved for the broker; leave it out",
        ),
        (r#"{"size":"small","password":"hunter2"}"#, secret),
        (r#"{"size":"small","password":{"hunter2":1}}"#, secret),
        (r#"{"size":"small","password":{"secretRef":{"name":"Hunter2","key":"k"}}}"#, secret),
        (
            r#"{"replicas":0,"name":"A"}"#,
            "name: does not match the pattern \"^[a-z]+$\"; name: is too short; use at least 2 \
             characters; replicas: is too small; use at least 1; size: is required",
        ),
    ];
    for (text, problems) in cases {
        let expected = format!("parameter values are invalid: {problems}");
        compare(vec![(schema.validate(text), expected.as_str())]);
    }
}

#[test]
fn composite_resources() {
    let strict = json!({"type": "object", "properties": {
        "parameters": {"type": "object", "properties": {"size": {"type": "string"}}},
        "userData": {"type": "string"},
    }});
    let render = |schema: &Value, parameters: &str| {
        let given = Given::node(InjectionStrategy::CloudInitUserData)
            .with_xrd(xrd_for(schema))
            .with_parameters(parameters);
        xr(&given.input()).map(|_| ())
    };
    let many = r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}"#;
    compare(vec![
        (
            render(&strict, r#"{"colour":"red"}"#),
            "spec.parameters.colour: is not declared by the XRD",
        ),
        (
            render(&strict, r#"{"size":3}"#),
            "spec.parameters.size: is a number; the XRD declares string",
        ),
        (render(&json!({"type": "object"}), "{}"), "spec.userData: is not declared by the XRD"),
        (
            render(&json!({"type": "object"}), r#"{"size":"small"}"#),
            "spec.parameters: is not declared by the XRD; spec.userData: is not declared by the XRD",
        ),
        (
            render(
                &json!({"type": "object", "required": ["userData"], "properties": {
                    "userData": {"type": "string", "minLength": 1},
                }}),
                "{}",
            ),
            "spec.userData: is too short; use at least 1 characters",
        ),
        (
            render(
                &json!({"type": "object", "required": ["region"], "properties": {
                    "userData": {"type": "string"}, "region": {"type": "string"},
                }}),
                "{}",
            ),
            "spec.region: is required by the XRD",
        ),
        (
            render(&strict, r#"{"helmValues":{"bootstrapToken":"forged"}}"#),
            "parameters.helmValues: is reserved for the broker",
        ),
        (
            render(&strict, many),
            "spec.parameters.a: is not declared by the XRD; spec.parameters.b: is not declared by \
             the XRD; spec.parameters.c: is not declared by the XRD; spec.parameters.d: is not \
             declared by the XRD; spec.parameters.e: is not declared by the XRD; \
             spec.parameters.f: is not declared by the XRD; and 1 more",
        ),
    ]);
}

#[test]
fn bootstrap_tokens() {
    let given = Given::node(InjectionStrategy::ProviderSecret);
    let rendered = xr(&given.input()).unwrap();
    let problem = "bootstrap_token: is unusable; use 1 to 512 printable ASCII characters";
    for token in [String::new(), "a\nb".to_owned(), "tökén".to_owned(), "x".repeat(513)] {
        let injected = Injected::token(&token);
        compare(vec![(inject_bootstrap(&rendered, &injected.bootstrap()), problem)]);
    }
    let standalone = Given { mesh_role: broker_domain::MeshRole::Standalone, ..given };
    let rendered = xr(&standalone.input()).unwrap();
    let injected = Injected::token("token");
    compare(vec![(
        inject_bootstrap(&rendered, &injected.bootstrap()),
        "bootstrap_token: is given for a standalone blueprint; nothing is injected there",
    )]);
}

#[test]
fn the_xrd_refuses_what_would_be_injected_without_repeating_it() {
    let given = Given::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd_for(&json!({
        "type": "object",
        "properties": {
            "parameters": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "userData": {"type": "string", "maxLength": 10},
        },
    })));
    let rendered = xr(&given.input()).unwrap();
    let injected = Injected::token("token");
    compare(vec![(
        inject_bootstrap(&rendered, &injected.bootstrap()),
        "spec.userData: is too long; use at most 10 characters",
    )]);
}

#[test]
fn names_and_references() {
    compare(vec![
        (
            Provider::new("AWS"),
            "provider: is \"AWS\"; use up to 63 lower-case letters, digits and inner hyphens",
        ),
        (
            Provider::new(""),
            "provider: is \"\"; use up to 63 lower-case letters, digits and inner hyphens",
        ),
    ]);
    let profile = || ProviderProfile::of(&Provider::new("aws").unwrap());
    compare(vec![
        (
            profile().with_group("not a group"),
            "provider_profile.group: is \"not a group\"; use a DNS subdomain",
        ),
        (
            profile().with_version("v1/beta"),
            "provider_profile.version: is \"v1/beta\"; use a version such as v1beta1",
        ),
        (
            profile().with_kind("Provider Config"),
            "provider_profile.kind: is \"Provider Config\"; use letters and digits",
        ),
    ]);
    compare(vec![(
        InjectionStrategy::try_from("cloud-init"),
        "injectionStrategy: is \"cloud-init\"; use cloud-init-user-data, helm-values or \
         provider-secret",
    )]);
    let Identity { project, .. } = identity();
    compare(vec![(
        assigned_namespace(project, "kube-system"),
        "assignment.namespace: \"kube-system\" is not the project's own; use \
         plexsphere-project-00000000-0000-0000-0000-000000005e0c",
    )]);
    let endpoint = |endpoint| {
        provider_config(&ProviderConfigInput {
            profile: &profile(),
            identity: identity(),
            endpoint,
            secret_name: "cloud-credentials-0",
        })
    };
    compare(vec![
        (endpoint("[]"), "cloud.endpoint: is not a JSON object"),
        (endpoint("{\"a\":}"), "cloud.endpoint: is not JSON: expected value at line 1 column 6"),
    ]);
}

#[test]
fn the_agent_and_its_control_plane() {
    let allowed = "use https://host[:port][/path], or http on the loopback interface";
    for (url, problem) in [
        ("", "has no scheme"),
        ("api.plexsphere.example", "has no scheme"),
        ("ftp://api.plexsphere.example", "has another scheme"),
        ("http://api.plexsphere.example", "has another scheme"),
        ("https://", "has no host, or no valid port"),
        ("https://host:0", "has no host, or no valid port"),
        ("https://host:port", "has no host, or no valid port"),
        ("https://[::1", "has no host, or no valid port"),
        ("https://me:secret@host", "holds credentials"),
        ("https://host/a b", "holds a character that no URL may hold"),
        ("https://host/\"\nruncmd: [x]", "holds a character that no URL may hold"),
        ("https://host/#fragment", "holds a character that no URL may hold"),
    ] {
        compare(vec![(ApiUrl::new(url), format!("api_url: {problem}; {allowed}").as_str())]);
    }
    compare(vec![(
        ApiUrl::new(format!("https://host/{}", "a".repeat(2048))),
        format!("api_url: is longer than 2048 bytes; {allowed}").as_str(),
    )]);
    let url = ApiUrl::new("https://host/plexd").unwrap();
    let source = |package: Result<DebianPackage, Error>| package.map(AgentSource::Package);
    compare(vec![
        (
            source(DebianPackage::new("--force")),
            "agent.package.name: is \"--force\"; use a Debian package name",
        ),
        (
            source(DebianPackage::new("plexd").and_then(|plexd| plexd.in_version("1;reboot"))),
            "agent.package.version: is \"1;reboot\"; use a Debian version",
        ),
        (
            ImageReference::new("-v /:/host plexd").map(AgentSource::Image),
            "agent.image: is \"-v /:/host plexd\"; use an image reference",
        ),
        (
            Download::new(url, "abc").map(AgentSource::Download),
            "agent.download.sha256: is \"abc\"; use 64 hexadecimal digits",
        ),
    ]);
}
