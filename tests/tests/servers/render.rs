//! The renderer's promises on a real API server: the server accepts golden manifests, its schema check agrees with the
//! renderer's, and the digests of sent and stored fields are equal.

use std::{collections::BTreeSet, path::PathBuf};

use broker_domain::{MeshRole, Parameters, ResourceHandle};
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, CloudTags, CompositionName, FIELD_MANAGER, Identity,
    InjectionStrategy, Manifest, Precondition, Xr, XrInput, Xrd, inject_bootstrap, is_applied,
    owned_digest, preserve_injection, xr,
};
use broker_tests::documents::xrd;
use broker_tests::{TestCluster, crd};
use futures::{StreamExt, stream};
use kube::{
    Api, Client, Error,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind, Status},
};
use secrecy::SecretString;
use serde_json::{Value, json};

const ID: &str = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";

fn test_data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../broker-render/tests").join(name)
}

fn read_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn objects(client: &Client, manifest: &Value, plural: &str) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (group, version) = manifest["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = GroupVersionKind::gvk(group, version, &text(&manifest["kind"]));
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    match manifest["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

async fn apply(objects: &Api<DynamicObject>, manifest: &Value) -> Result<Value, Error> {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = objects.patch(name, &parameters, &Patch::Apply(manifest)).await?;
    Ok(serde_json::to_value(applied).unwrap())
}

/// The first path of the sent manifest that is not stored as sent.
fn lost(sent: &Value, live: Option<&Value>, path: &str) -> Option<String> {
    match (sent, live) {
        (Value::Object(sent), Some(Value::Object(live))) => {
            sent.iter().find_map(|(key, sent)| lost(sent, live.get(key), &format!("{path}.{key}")))
        }
        (Value::Array(sent), Some(Value::Array(live))) if sent.len() == live.len() => {
            sent.iter().zip(live).enumerate().find_map(|(index, (sent, live))| {
                lost(sent, Some(live), &format!("{path}[{index}]"))
            })
        }
        (sent, Some(live)) if sent == live => None,
        _ => Some(path.to_owned()),
    }
}

#[tokio::test]
async fn golden_xrs_are_accepted_and_stored_as_sent() {
    let cluster = TestCluster::shared().await;
    let admin = cluster.admin().await;
    let mut count = 0;
    let mut namespace = None;
    for entry in std::fs::read_dir(test_data("goldens")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut documents = text.split("---\n").skip(1).map(read_yaml);
        let xrd = documents.next().unwrap();
        cluster.install_crd(crd::from_xrd(&xrd)).await;
        let plural = xrd["spec"]["names"]["plural"].as_str().unwrap();
        let composites =
            documents.filter(|document| document["kind"] == xrd["spec"]["names"]["kind"]);
        for composite in composites {
            if let (None, Some(name)) = (&namespace, composite["metadata"]["namespace"].as_str()) {
                namespace = Some(cluster.namespace_named(name).await);
            }
            let objects = objects(&admin, &composite, plural);
            let live = apply(&objects, &composite)
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(lost(&composite, Some(&live), ""), None, "{}", path.display());
            let name = composite["metadata"]["name"].as_str().unwrap();
            objects.delete(name, &DeleteParams::default()).await.unwrap();
            count += 1;
        }
    }
    assert!(count > 100, "only {count} composite resources");
}

/// A schema and a `spec`, with the field that both checks have to refuse; `None` if both have to accept the `spec`.
struct Pair {
    name: String,
    xrd: Value,
    manifest: Value,
    refused: Option<String>,
}

fn pairs() -> Vec<Pair> {
    let text = std::fs::read_to_string(test_data("schema_pairs.yaml")).unwrap();
    let pairs = read_yaml(&text);
    let pair = |(number, pair): (usize, &Value)| Pair {
        name: pair["name"].as_str().unwrap().to_owned(),
        xrd: cluster_scoped(xrd(
            "pairs.example.org",
            (&format!("Pair{number}"), &format!("pair{number}s")),
            &["v1"],
            &pair["schema"],
        )),
        manifest: json!({
            "apiVersion": "pairs.example.org/v1",
            "kind": format!("Pair{number}"),
            "metadata": {"name": "pair"},
            "spec": pair["spec"],
        }),
        refused: pair["refused"].as_str().map(str::to_owned),
    };
    pairs.as_array().unwrap().iter().enumerate().map(pair).collect()
}

/// The fields that the API server rejects or drops.
async fn rejected_fields(client: &Client, pair: &Pair) -> BTreeSet<String> {
    let plural = pair.xrd["spec"]["names"]["plural"].as_str().unwrap();
    match apply(&objects(client, &pair.manifest, plural), &pair.manifest).await {
        Ok(live) => lost(&pair.manifest["spec"], live.get("spec"), "spec").into_iter().collect(),
        Err(Error::Api(status)) => named_fields(&status),
        Err(error) => panic!("{}: {error}", pair.name),
    }
}

/// Most errors list their fields. Server-side apply has only a message (`.spec.a: field not
/// declared`), and a few rules only mention the field (`"spec.a" must not validate the schema`).
fn named_fields(status: &Status) -> BTreeSet<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.map(|cause| cause.field.as_str()).filter(|field| field.starts_with("spec"));
    let words = status.message.split([' ', '\n', '"', ':', ',']);
    let words = words.map(|word| word.trim_start_matches('.'));
    let mentioned = words.filter(|word| *word == "spec" || word.starts_with("spec."));
    fields.chain(mentioned).map(str::to_owned).collect()
}

#[tokio::test]
async fn schema_check_agrees_with_the_api_server() {
    let cluster = TestCluster::shared().await;
    let admin = cluster.admin().await;
    let pairs = pairs();
    assert!(pairs.len() >= 40);
    let differences = stream::iter(&pairs).map(|pair| {
        let (cluster, admin) = (&cluster, &admin);
        async move {
            cluster.install_crd(crd::from_xrd(&pair.xrd)).await;
            let server_fields = rejected_fields(admin, pair).await;
            let xrd = Xrd::parse(pair.xrd.to_string().as_bytes()).unwrap();
            let our_fields: BTreeSet<_> =
                xrd.check(&pair.manifest["spec"]).into_iter().map(|problem| problem.path).collect();
            let agreed = match &pair.refused {
                None => our_fields.is_empty() && server_fields.is_empty(),
                Some(field) => our_fields.contains(field) && server_fields.contains(field),
            };
            (!agreed).then(|| {
                format!("{}: we report {our_fields:?}, the API server {server_fields:?}", pair.name)
            })
        }
    });
    let differences: Vec<_> = differences.buffer_unordered(8).collect().await;
    let differences: Vec<_> = differences.into_iter().flatten().collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn cluster_scoped(mut xrd: Value) -> Value {
    xrd["spec"]["scope"] = json!("Cluster");
    xrd
}

/// An XRD whose parameters are owned in every way: single fields, atomic, by key.
fn digest_xrd(strategy: InjectionStrategy) -> Value {
    let string = json!({"type": "string"});
    let named = json!({"type": "object", "required": ["name"], "properties": {
        "name": string, "size": {"type": "integer"}, "kind": {"type": "string", "default": "ssd"},
    }});
    let parameters = json!({
        "size": string,
        "ratio": {"type": "number"},
        "zones": {"type": "array", "items": string},
        "rules": {"type": "array", "items": {"type": "object", "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "tcp"},
        }}},
        "groups": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
        "disks": {
            "type": "array", "items": named,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
        "whole": {
            "type": "object", "additionalProperties": string, "x-kubernetes-map-type": "atomic",
        },
        "nested": {"type": "object", "properties": {
            "set": string, "defaulted": {"type": "string", "default": "d"},
        }},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "helmValues": {"type": "object", "additionalProperties": string},
        "providerSecret": {"type": "object", "additionalProperties": string},
    });
    let spec = json!({"type": "object", "properties": {
        "parameters": {"type": "object", "properties": parameters},
        "userData": string,
        "cloudTags": {"type": "object", "additionalProperties": string},
    }});
    let group = format!("digest-{strategy}.example.org");
    cluster_scoped(xrd(&group, ("Digest", "digests"), &["v1"], &spec))
}

const DIGEST_PARAMETERS: &str = r#"{"disks":[{"name":"a","size":1},{"name":"b"}],"free":{"x":{"y":[1,{"z":2}]}},"groups":["g","h"],"nested":{"set":"s"},"ratio":2,"rules":[{"port":1}],"size":"small","whole":{"k":"v"},"zones":["a","b"]}"#;

fn parse_json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn unchanged(live: &Value) -> Precondition {
    let text = |key: &str| live["metadata"][key].as_str().unwrap().to_owned();
    Precondition::Unchanged { uid: text("uid"), resource_version: text("resourceVersion") }
}

/// Edits the object as another party, as `kubectl edit` would.
async fn edit(objects: &Api<DynamicObject>, live: &Value, patch: Value) -> Value {
    let name = live["metadata"]["name"].as_str().unwrap();
    let parameters =
        PatchParams { field_manager: Some("another-party".to_owned()), ..PatchParams::default() };
    let edited = objects.patch(name, &parameters, &Patch::Merge(patch)).await.unwrap();
    serde_json::to_value(edited).unwrap()
}

#[tokio::test]
async fn live_digest_equals_sent_digest_until_changed() {
    let cluster = TestCluster::shared().await;
    let admin = cluster.admin().await;
    for strategy in InjectionStrategy::ALL {
        let document = digest_xrd(strategy);
        cluster.install_crd(crd::from_xrd(&document)).await;
        let xrd = Xrd::parse(document.to_string().as_bytes()).unwrap();
        let parameters = Parameters::from_canonical_json(DIGEST_PARAMETERS).unwrap();
        let mut tags = CloudTags::default();
        tags.tags.insert("plexsphere:team".to_owned(), "blue".to_owned());
        let identity = Identity {
            resource: ID.parse().unwrap(),
            project: ID.parse().unwrap(),
            blueprint_version: ID.parse().unwrap(),
        };
        let rendered = xr(&XrInput {
            xrd: &xrd,
            composition: CompositionName::new("machine").unwrap(),
            injection_strategy: strategy,
            mesh_role: MeshRole::Node,
            identity,
            parameters: &parameters,
            tags: &tags,
        })
        .unwrap();
        let shell = parse_json(&rendered.shell(1).to_bytes());
        let objects = objects(&admin, &shell, "digests");
        let armed = arm(&objects, &rendered).await;
        drift(&objects, &rendered, &armed).await;
        objects.delete(identity.xr_name().as_str(), &DeleteParams::default()).await.unwrap();
    }
}

/// Asserts that a live object equals the desired one, by both ways of comparing them.
#[track_caller]
fn assert_applied(live: &Value, desired: &Manifest, what: &str) {
    assert_eq!(owned_digest(live), Some(desired.digest()), "{what}");
    assert!(is_applied(live, desired), "{what}");
}

/// Creates a composite resource by a shell, a touch and an arm, each with a precondition.
async fn arm(objects: &Api<DynamicObject>, rendered: &Xr<'_>) -> Value {
    let as_sent = |manifest: Manifest, precondition: &Precondition| {
        parse_json(&manifest.with_precondition(precondition).to_bytes())
    };
    let shell = as_sent(rendered.shell(1), &Precondition::Absent);
    let live = apply(objects, &shell).await.unwrap();
    assert_applied(&live, &rendered.shell(1), "a shell");
    assert!(apply(objects, &shell).await.is_err(), "the name is taken");
    let touch = as_sent(rendered.shell(2), &unchanged(&live));
    let touched = apply(objects, &touch).await.unwrap();
    assert!(apply(objects, &touch).await.is_err(), "the remembered version is stale");

    let bootstrap = Bootstrap {
        token_id: ID.parse().unwrap(),
        token: &SecretString::from("token"),
        api_url: &ApiUrl::new("https://api.plexsphere.example").unwrap(),
        agent: &Agent::default(),
        handle: &ResourceHandle::new("web-1").unwrap(),
    };
    let sealed = inject_bootstrap(rendered, &bootstrap).unwrap();
    let sealed = sealed.with_precondition(&unchanged(&touched)).expose_for_apply();
    let armed = apply(objects, &parse_json(&sealed)).await.unwrap();
    assert_applied(&armed, &rendered.armed(&Armed::Token(ID.parse().unwrap())), "armed");
    assert_eq!(broker_render::armed(&armed), Some(ID));
    assert_eq!(armed["metadata"]["annotations"].get("crossplane.io/paused"), None);
    armed
}

/// Additions by other managers are not drift, but changes are. A re-apply repairs them without the plaintext.
async fn drift(objects: &Api<DynamicObject>, rendered: &Xr<'_>, armed: &Value) {
    let token_id = ID.parse().unwrap();
    let desired = rendered.armed(&Armed::Token(token_id));
    let added = json!({
        "metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "y"}},
        "spec": {
            "crossplane": {"resourceRefs": [{"apiVersion": "v1", "kind": "A", "name": "a"}]},
            "parameters": {"nested": {"defaulted": "other"}},
        },
    });
    let extended = edit(objects, armed, added).await;
    assert_applied(&extended, &desired, "with additional fields");

    let drifted = edit(objects, &extended, json!({"spec": {"parameters": {"size": "huge"}}})).await;
    assert_ne!(owned_digest(&drifted), Some(desired.digest()));
    assert!(!is_applied(&drifted, &desired));

    let again = preserve_injection(&drifted, rendered, token_id)
        .unwrap()
        .with_precondition(&unchanged(&drifted))
        .expose_for_apply();
    let repaired = apply(objects, &parse_json(&again)).await.unwrap();
    assert_applied(&repaired, &desired, "repaired");
    assert_eq!(repaired["spec"]["userData"], armed["spec"]["userData"]);
    for site in ["helmValues", "providerSecret"] {
        assert_eq!(repaired["spec"]["parameters"][site], armed["spec"]["parameters"][site]);
    }
    assert_eq!(repaired["metadata"]["labels"]["theirs"], "x", "foreign fields stay");
    recompose(objects, rendered, &repaired).await;
}

/// A `compositionRef` that another party changed or removed is not drift, and a re-apply keeps it.
async fn recompose(objects: &Api<DynamicObject>, rendered: &Xr<'_>, live: &Value) {
    let token_id = ID.parse().unwrap();
    let desired = rendered.armed(&Armed::Token(token_id));
    assert_eq!(live["spec"]["crossplane"]["compositionRef"], json!({"name": "machine"}));
    let mut live = live.clone();
    for reference in [json!({"name": "another"}), Value::Null] {
        let change = json!({"spec": {"crossplane": {"compositionRef": reference}}});
        let changed = edit(objects, &live, change).await;
        assert_applied(&changed, &desired, "with another Composition");
        let again = preserve_injection(&changed, rendered, token_id)
            .unwrap()
            .with_precondition(&unchanged(&changed))
            .expose_for_apply();
        live = apply(objects, &parse_json(&again)).await.unwrap();
        assert_eq!(live["spec"]["crossplane"]["compositionRef"], reference);
        assert_applied(&live, &desired, "applied again");
    }
}
