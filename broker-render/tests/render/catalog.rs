//! The catalog's checker: a good blueprint, and one line for each way of getting it wrong.

use broker_domain::MeshRole;
use broker_render::catalog::{self, Blueprint, ComposedKind, Files};
use broker_render::{InjectionStrategy, Scope};
use serde_json::{Value, json};

/// The three files of a blueprint, before somebody breaks one.
pub(crate) struct Draft {
    pub(crate) metadata: Value,
    pub(crate) xrd: Value,
    pub(crate) composition: Value,
}

impl Draft {
    pub(crate) fn new() -> Self {
        let string = json!({"type": "string"});
        let xrd_spec = json!({
            "type": "object",
            "required": ["parameters"],
            "properties": {
                "userData": string,
                "cloudTags": {"type": "object", "additionalProperties": string},
                "parameters": {
                    "type": "object",
                    "required": ["size"],
                    "properties": {
                        "size": string,
                        "count": {"type": "integer"},
                        "database": {"type": "object", "properties": {"secretRef": {
                            "type": "object", "properties": {"name": string, "key": string},
                        }}},
                    },
                },
            },
        });
        Self {
            metadata: json!({
                "slug": "vm",
                "displayName": "Machine",
                "description": "A machine that enrols",
                "version": "v1",
                "providerKinds": ["hcloud"],
                "injectionStrategy": "cloud-init-user-data",
                "parameterSchema": {"parameters": [
                    {"name": "size", "type": "string", "required": true},
                    {"name": "count", "type": "integer", "default": 1},
                    {"name": "database", "type": "string", "secret": true},
                ]},
            }),
            xrd: crate::support::xrd_document(&xrd_spec),
            composition: json!({
                "apiVersion": "apiextensions.crossplane.io/v1",
                "kind": "Composition",
                "metadata": {"name": "vm"},
                "spec": {
                    "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Machine"},
                    "mode": "Pipeline",
                    "pipeline": [
                        {
                            "step": "compose",
                            "functionRef": {"name": "function-patch-and-transform"},
                            "input": {
                                "apiVersion": "pt.fn.crossplane.io/v1beta1",
                                "kind": "Resources",
                                "resources": [
                                    {
                                        "name": "server",
                                        "base": {"apiVersion": "hcloud.crossplane.io/v1", "kind": "Server"},
                                        "patches": [{"fromFieldPath": "spec.userData", "toFieldPath": "spec.x"}],
                                    },
                                    {
                                        "name": "disk",
                                        "base": {"apiVersion": "hcloud.crossplane.io/v1", "kind": "Volume"},
                                        "patches": [
                                            {"fromFieldPath": "spec.parameters.size"},
                                            {"fromFieldPath": "spec.parameters.count"},
                                            {"fromFieldPath": "spec.parameters.database.secretRef.name"},
                                        ],
                                    },
                                    {
                                        "name": "second-disk",
                                        "base": {"apiVersion": "hcloud.crossplane.io/v1", "kind": "Volume"},
                                    },
                                ],
                            },
                        },
                        {"step": "ready", "functionRef": {"name": "crossplane-contrib-function-auto-ready"}},
                    ],
                },
            }),
        }
    }

    pub(crate) fn check(&self) -> (Option<Blueprint>, Vec<String>) {
        let [metadata, xrd, composition] =
            [&self.metadata, &self.xrd, &self.composition].map(ToString::to_string);
        let files = Files {
            metadata: metadata.as_bytes(),
            xrd: xrd.as_bytes(),
            composition: composition.as_bytes(),
        };
        let (blueprint, problems) = catalog::check("vm", files);
        (blueprint, problems.iter().map(ToString::to_string).collect())
    }
}

pub(crate) fn xrd_spec(draft: &mut Draft) -> &mut Value {
    &mut draft.xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
}

#[test]
fn a_good_blueprint_is_read_without_a_word() {
    let (blueprint, problems) = Draft::new().check();
    assert_eq!(problems, [""; 0]);
    let blueprint = blueprint.unwrap();
    assert_eq!(blueprint.slug, "vm");
    assert_eq!(blueprint.composition.as_str(), "vm");
    assert_eq!(blueprint.version, "v1");
    assert_eq!(blueprint.provider_kinds, ["hcloud"]);
    assert_eq!(blueprint.injection_strategy, InjectionStrategy::CloudInitUserData);
    assert_eq!(blueprint.mesh_role, MeshRole::Node, "the default");
    assert_eq!(blueprint.xrd.scope(), Scope::Namespaced);
    let kind = |kind: &str| ComposedKind {
        api_version: "hcloud.crossplane.io/v1".to_owned(),
        kind: kind.to_owned(),
    };
    assert_eq!(blueprint.composed_kinds, [kind("Server"), kind("Volume")]);
    assert!(blueprint.parameter_schema.validate(r#"{"size": "small"}"#).is_ok());
}

/// Why, what is changed, and the lines that follow.
type Case = (&'static str, fn(&mut Draft), &'static [&'static str]);

const METADATA_CASES: &[Case] = &[
    (
        "the directory has another name",
        |draft| draft.metadata["slug"] = json!("machine"),
        &["error: vm/metadata.json: slug: is \"machine\"; use the directory's name, \"vm\""],
    ),
    (
        "a required field is missing",
        |draft| drop(draft.metadata.as_object_mut().unwrap().remove("displayName")),
        &["error: vm/metadata.json: displayName: is missing; use a non-empty string"],
    ),
    (
        "a field is misspelt",
        |draft| draft.metadata["meshrole"] = json!("standalone"),
        &[
            "error: vm/metadata.json: meshrole: is not a field; use slug, displayName, description, \
             version, providerKinds, injectionStrategy, parameterSchema, meshRole, composedKinds",
        ],
    ),
    (
        "no provider",
        |draft| draft.metadata["providerKinds"] = json!([]),
        &["error: vm/metadata.json: providerKinds: is empty; name at least one provider"],
    ),
    (
        "a provider that cannot be one",
        |draft| draft.metadata["providerKinds"] = json!(["hcloud", "AWS"]),
        &["error: vm/metadata.json: providerKinds[1]: is \"AWS\"; use a lower-case DNS label"],
    ),
    (
        "an unknown strategy",
        |draft| draft.metadata["injectionStrategy"] = json!("userdata"),
        &["error: vm/metadata.json: injectionStrategy: is \"userdata\"; use \
             cloud-init-user-data, helm-values or provider-secret"],
    ),
    (
        "an unknown role",
        |draft| draft.metadata["meshRole"] = json!("router"),
        &["error: vm/metadata.json: meshRole: is \"router\"; use node or standalone"],
    ),
    (
        "the parameter schema is broken",
        |draft| draft.metadata["parameterSchema"] = json!({"parameters": [{"name": "size"}]}),
        &["error: vm/metadata.json: parameterSchema.parameters[0].type: is missing; use a \
             non-empty string"],
    ),
    (
        "every file is broken, and every file is named",
        |draft| {
            draft.metadata = json!([]);
            draft.xrd = json!({});
            draft.composition = json!({"apiVersion": "v1"});
        },
        &[
            "error: vm/metadata.json: is an array; use an object",
            "error: vm/xrd.yaml: apiVersion: is missing; use a non-empty string",
            "error: vm/composition.yaml: apiVersion: is another API; use \
             apiextensions.crossplane.io/v1",
        ],
    ),
    (
        "another version than the XRD serves",
        |draft| draft.metadata["version"] = json!("v2"),
        &["error: vm/metadata.json: version: is \"v2\"; the XRD serves v1"],
    ),
];

const COMPOSITION_CASES: &[Case] = &[
    (
        "a Composition for something else",
        |draft| draft.composition["spec"]["compositeTypeRef"]["kind"] = json!("Bucket"),
        &["error: vm/composition.yaml: spec.compositeTypeRef: is \"example.org/v1 Bucket\"; \
             use example.org/v1 Machine"],
    ),
    (
        "a Composition of Crossplane 1",
        |draft| draft.composition["spec"]["mode"] = json!("Resources"),
        &["error: vm/composition.yaml: spec.mode: is a mode of Crossplane 1; use Pipeline"],
    ),
    (
        "a Composition that composes nothing",
        |draft| draft.composition["spec"]["pipeline"] = json!([]),
        &["error: vm/composition.yaml: spec.pipeline: has no step; it would compose nothing"],
    ),
    (
        "a Composition with a name of its own",
        |draft| draft.composition["metadata"]["name"] = json!("machine"),
        &["warning: vm/composition.yaml: metadata.name: is \"machine\"; by convention it is \
             the slug"],
    ),
    (
        "a Composition whose name no object can have",
        |draft| draft.composition["metadata"]["name"] = json!("The VM"),
        &["error: vm/composition.yaml: metadata.name: is no name for an object; use a DNS \
             subdomain"],
    ),
    (
        "a base without a kind",
        |draft| {
            draft.composition["spec"]["pipeline"][0]["input"]["resources"][1]["base"] =
                json!({"apiVersion": "v1"});
        },
        &["error: vm/composition.yaml: spec.pipeline[0].input.resources[1].base.kind: is \
             missing; use a non-empty string"],
    ),
    (
        "a step that cannot be read",
        |draft| {
            draft.composition["spec"]["pipeline"][1]["functionRef"]["name"] = json!("function-kcl");
        },
        &["warning: vm/composition.yaml: spec.pipeline: what step \"ready\" composes cannot \
             be read; name it in composedKinds"],
    ),
    (
        "a step that cannot be read, and the kinds are named",
        |draft| {
            draft.composition["spec"]["pipeline"][1]["functionRef"]["name"] = json!("function-kcl");
            draft.metadata["composedKinds"] = json!([{"apiVersion": "v1", "kind": "Pod"}]);
        },
        &[],
    ),
    (
        "nothing takes the token",
        |draft| {
            draft.composition["spec"]["pipeline"][0]["input"]["resources"][0]["patches"] =
                json!([]);
        },
        &["warning: vm/composition.yaml: spec.pipeline: no patch reads spec.userData; the \
             token would go nowhere"],
    ),
];

const XRD_CASES: &[Case] = &[
    (
        "the injection site is not declared",
        |draft| {
            drop(xrd_spec(draft)["properties"].as_object_mut().unwrap().remove("userData"));
        },
        &["error: vm/xrd.yaml: spec.userData: is not declared; cloud-init-user-data needs it"],
    ),
    (
        "the injection site is no string",
        |draft| xrd_spec(draft)["properties"]["userData"] = json!({"type": "object"}),
        &["error: vm/xrd.yaml: spec.userData: is no string; the bootstrap needs one"],
    ),
    (
        "a required injection site that takes no shell",
        |draft| {
            xrd_spec(draft)["required"] = json!(["parameters", "userData"]);
            xrd_spec(draft)["properties"]["userData"]["minLength"] = json!(1);
        },
        &["error: vm/xrd.yaml: spec.userData: is empty in a shell, and then is too short; use at \
             least 1 characters"],
    ),
    (
        "the same site where a shell may leave it out",
        |draft| xrd_spec(draft)["properties"]["userData"]["minLength"] = json!(1),
        &[],
    ),
    (
        "an injection site that is too small",
        |draft| xrd_spec(draft)["properties"]["userData"]["maxLength"] = json!(64),
        &[
            "error: vm/xrd.yaml: spec.userData: of a bootstrap is too long; use at most 64 characters",
        ],
    ),
    (
        "a site that asks for more than is injected, and for another token",
        |draft| {
            draft.metadata["injectionStrategy"] = json!("provider-secret");
            let patch = &mut draft.composition["spec"]["pipeline"][0]["input"]["resources"][0];
            patch["patches"][0]["fromFieldPath"] = json!("spec.parameters.providerSecret");
            xrd_spec(draft)["properties"]["parameters"]["properties"]["providerSecret"] = json!({
                "type": "object",
                "required": ["bootstrapToken", "user"],
                "properties": {
                    "bootstrapToken": {"type": "string", "pattern": "^tok_"},
                    "user": {"type": "string"},
                },
            });
        },
        &[
            "warning: vm/xrd.yaml: spec.parameters.providerSecret.bootstrapToken: of a bootstrap \
             does not match the pattern \"^tok_\"",
            "error: vm/xrd.yaml: spec.parameters.providerSecret.user: of a bootstrap is required by \
             the XRD",
        ],
    ),
    (
        "another strategy, whose sites are not declared",
        |draft| draft.metadata["injectionStrategy"] = json!("helm-values"),
        &[
            "error: vm/xrd.yaml: spec.parameters.helmValues.bootstrapToken: is not declared; \
             helm-values needs it",
            "error: vm/xrd.yaml: spec.parameters.helmValues.apiUrl: is not declared; \
             helm-values needs it",
            "error: vm/xrd.yaml: spec.parameters.helmValues.plexdImage: is not declared; \
             helm-values needs it",
            "warning: vm/composition.yaml: spec.pipeline: no patch reads \
             spec.parameters.helmValues.bootstrapToken; the token would go nowhere",
        ],
    ),
    (
        "the same, for something that has no token",
        |draft| {
            draft.metadata["injectionStrategy"] = json!("helm-values");
            draft.metadata["meshRole"] = json!("standalone");
        },
        &[],
    ),
    (
        "a parameter is not declared",
        |draft| {
            drop(
                xrd_spec(draft)["properties"]["parameters"]["properties"]
                    .as_object_mut()
                    .unwrap()
                    .remove("count"),
            );
        },
        &["error: vm/xrd.yaml: spec.parameters.count: is not declared; the parameter needs it"],
    ),
    (
        "no parameters are declared at all",
        |draft| {
            drop(xrd_spec(draft)["properties"].as_object_mut().unwrap().remove("parameters"));
        },
        &[
            "error: vm/xrd.yaml: spec.parameters.count: is not declared; the parameter needs it",
            "error: vm/xrd.yaml: spec.parameters.database: is not declared; the parameter needs it",
            "error: vm/xrd.yaml: spec.parameters.size: is not declared; the parameter needs it",
        ],
    ),
    (
        "a parameter of another type",
        |draft| {
            xrd_spec(draft)["properties"]["parameters"]["properties"]["count"] =
                json!({"type": "string"});
        },
        &["error: vm/xrd.yaml: spec.parameters.count: is declared string; the parameter is \
             integer"],
    ),
    (
        "a secret without a place for its reference",
        |draft| {
            xrd_spec(draft)["properties"]["parameters"]["properties"]["database"] =
                json!({"type": "object", "properties": {}});
        },
        &[
            "error: vm/xrd.yaml: spec.parameters.database.secretRef.name: is not declared as a \
             string; the secret needs it",
            "error: vm/xrd.yaml: spec.parameters.database.secretRef.key: is not declared as a \
             string; the secret needs it",
        ],
    ),
    (
        "a required field that the broker never sends",
        |draft| xrd_spec(draft)["required"] = json!(["parameters", "region"]),
        &["error: vm/xrd.yaml: spec.region: is required, and the broker never sends it"],
    ),
    (
        "a required parameter that is optional",
        |draft| {
            xrd_spec(draft)["properties"]["parameters"]["required"] =
                json!(["size", "count", "database"]);
        },
        &["error: vm/xrd.yaml: spec.parameters.database: is required, but parameter database \
             is optional"],
    ),
    (
        "a required parameter that does not exist",
        |draft| {
            xrd_spec(draft)["properties"]["parameters"]["required"] = json!(["size", "zone"]);
        },
        &[
            "error: vm/xrd.yaml: spec.parameters.zone: is required, and no parameter of that name exists",
        ],
    ),
    (
        "another Composition is enforced",
        |draft| draft.xrd["spec"]["enforcedCompositionRef"] = json!({"name": "other"}),
        &["error: vm/xrd.yaml: spec.enforcedCompositionRef.name: is \"other\"; the blueprint's \
             Composition is vm"],
    ),
    (
        "its own Composition is enforced",
        |draft| draft.xrd["spec"]["enforcedCompositionRef"] = json!({"name": "vm"}),
        &[],
    ),
    (
        "no place for tags",
        |draft| {
            drop(xrd_spec(draft)["properties"].as_object_mut().unwrap().remove("cloudTags"));
        },
        &["warning: vm/xrd.yaml: spec.cloudTags: is not declared; labels become no tags"],
    ),
    (
        "no place for tags of ours",
        |draft| {
            xrd_spec(draft)["properties"]["cloudTags"] =
                json!({"type": "object", "properties": {"team": {"type": "string"}}});
        },
        &["warning: vm/xrd.yaml: spec.cloudTags: declares no additionalProperties; tags are \
             left out"],
    ),
    (
        "tags that are no strings",
        |draft| {
            xrd_spec(draft)["properties"]["cloudTags"] =
                json!({"type": "object", "additionalProperties": {"type": "integer"}});
        },
        &["error: vm/xrd.yaml: spec.cloudTags: holds no strings; tags are strings"],
    ),
    (
        "an XRD that takes everything",
        |draft| {
            *xrd_spec(draft) =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        },
        &[],
    ),
];

#[test]
fn every_mistake_is_one_line() {
    for (why, change, expected) in [METADATA_CASES, COMPOSITION_CASES, XRD_CASES].concat() {
        let mut draft = Draft::new();
        change(&mut draft);
        let (blueprint, problems) = draft.check();
        assert_eq!(problems, *expected, "{why}");
        let broken = expected.iter().any(|line| line.starts_with("error"));
        assert_eq!(blueprint.is_none(), broken, "{why}: an error, and only an error, refuses");
    }
}

#[test]
fn reading_gives_the_first_error() {
    let files = Files { metadata: b"{}", xrd: b"{}", composition: b"{}" };
    let error = catalog::read("vm", files).unwrap_err();
    assert_eq!(error.to_string(), "vm/metadata.json: slug: is missing; use a non-empty string");
}

#[test]
fn a_required_field_with_a_default_asks_nothing_of_anybody() {
    let mut draft = Draft::new();
    let region = json!({"type": "string", "default": "eu-1"});
    let spec = xrd_spec(&mut draft);
    spec["required"] = json!(["parameters", "region"]);
    spec["properties"]["region"] = region.clone();
    spec["properties"]["parameters"]["required"] = json!(["size", "zone"]);
    spec["properties"]["parameters"]["properties"]["zone"] = region;
    assert_eq!(draft.check().1, [""; 0]);
}

#[test]
fn a_required_injection_site_is_brought_by_the_broker() {
    let mut draft = Draft::new();
    xrd_spec(&mut draft)["required"] = json!(["parameters", "userData"]);
    assert_eq!(draft.check().1, [""; 0]);
}
