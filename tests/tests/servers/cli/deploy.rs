//! The manifests in deploy/: a real API server accepts its own kinds, foreign kinds fit a schema,
//! and a running replica exposes every metric that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker_app::METRICS;
use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use broker_tests::{TestCluster, until};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::{ApiCapabilities, Scope};
use kube::{Client, Discovery};
use serde_json::{Value, json};

use super::process::Environment;

/// An API group that no API server has built in.
const FOREIGN: &str = "monitoring.coreos.com/v1";

/// The replicas' namespace in all manifests.
const NAMESPACE: &str = "plexsphere-system";

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read_manifest(name: &str) -> String {
    fs::read_to_string(directory().join(name)).unwrap()
}

fn documents() -> Vec<(String, Value)> {
    let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"));
    names.sort();
    let mut documents = Vec::new();
    for name in names {
        let read: Vec<Value> = serde_saphyr::from_multiple(&read_manifest(&name)).unwrap();
        assert!(!read.is_empty(), "{name} is empty");
        documents.extend(read.into_iter().map(|document| (name.clone(), document)));
    }
    documents
}

/// Checks a foreign kind as far as it is used here: no undeclared field, every required one. The
/// schemas follow the documentation of the Prometheus operator and of Grafana.
fn assert_matches_schema(file: &str, kind: &str, document: &Value) {
    let schemas: Value = serde_json::from_str(include_str!("deploy/schemas.json")).unwrap();
    let schema = json!({"$ref": format!("#/$defs/{kind}"), "$defs": schemas});
    let schema = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> = schema
        .iter_errors(document)
        .map(|error| format!("{file}: {}: {error}", error.instance_path()))
        .collect();
    assert_eq!(problems, Vec::<String>::new());
}

/// Applies an object with strict field validation.
async fn apply(client: &Client, discovery: &Discovery, file: &str, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
    let found = discovery.get(group).and_then(|group| {
        let kinds = group.versioned_resources(version);
        kinds.into_iter().find(|(resource, _)| resource.kind == types.kind)
    });
    let (kind, ApiCapabilities { scope, .. }) = found
        .unwrap_or_else(|| panic!("{file}: no server knows {} {}", types.api_version, types.kind));
    let api: Api<DynamicObject> = match (&scope, &object.metadata.namespace) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, &kind)
        }
        (Scope::Cluster, None) => Api::all_with(client.clone(), &kind),
        other => panic!("{file}: {} {other:?}", types.kind),
    };
    let name = object.metadata.name.clone().unwrap();
    let strict =
        PatchParams { force: true, ..PatchParams::apply("broker-tests") }.validation_strict();
    api.patch(&name, &strict, &Patch::Apply(&object))
        .await
        .unwrap_or_else(|refused| panic!("{file}: {} {name}: {refused}", types.kind));
}

#[tokio::test]
async fn api_server_accepts_every_manifest() {
    let cluster = TestCluster::shared().await;
    let client = cluster.admin().await;
    let discovery = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let documents = documents();
    let namespaces: BTreeSet<_> = documents
        .iter()
        .filter_map(|(_, document)| document["metadata"]["namespace"].as_str())
        .collect();
    for name in namespaces {
        let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&client, &discovery, "the namespace", &home).await;
    }
    let mut kinds = BTreeSet::new();
    for (file, document) in &documents {
        kinds.insert(document["kind"].as_str().unwrap().to_owned());
        if document["apiVersion"] == FOREIGN {
            assert_matches_schema(file, document["kind"].as_str().unwrap(), document);
        } else {
            apply(&client, &discovery, file, document).await;
        }
    }
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "Job",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PrometheusRule",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
    ];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// Selectors, ports and names that must agree although no server compares them.
#[test]
fn manifests_agree_with_each_other() {
    let documents = documents();
    let first = |kind: &str| {
        let mut found = documents.iter().filter(|(_, document)| document["kind"] == kind);
        found.next().map(|(_, document)| document.clone()).unwrap()
    };
    let deployment = first("Deployment");
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&first("Service")["spec"]["selector"], labels);
    assert_eq!(&first("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let policy = first("NetworkPolicy");
    for (label, value) in policy["spec"]["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[label], value);
        assert_eq!(&first("Job")["spec"]["template"]["metadata"]["labels"][label], value);
    }
    let scraped = &policy["spec"]["ingress"][0]["ports"][0]["port"];
    assert_eq!(scraped, &pod["spec"]["containers"][0]["ports"][0]["name"]);
    let service = first("Service");
    let monitor = first("ServiceMonitor");
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&service["metadata"]["labels"][label], value);
    }
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    let migrate = first("Job")["spec"]["template"]["spec"]["containers"][0].clone();
    assert_ne!(migrate["args"], container["args"]);
    assert_eq!(migrate["image"], container["image"], "the schema is that of the replicas' release");
    let account = first("ServiceAccount")["metadata"]["name"].clone();
    assert_eq!(pod["spec"]["serviceAccountName"], account);
    let bindings = documents.iter().filter(|(_, document)| document["roleRef"] != Value::Null);
    let roles: BTreeSet<_> = documents
        .iter()
        .filter(|(_, document)| document["kind"] == "ClusterRole")
        .map(|(_, document)| document["metadata"]["name"].as_str().unwrap())
        .collect();
    for (file, binding) in bindings {
        assert!(roles.contains(binding["roleRef"]["name"].as_str().unwrap()), "{file}");
        assert_eq!(binding["subjects"][0]["name"], account, "{file}");
        assert_eq!(binding["subjects"][0]["namespace"], NAMESPACE, "{file}");
    }
}

fn expressions() -> Vec<(String, String)> {
    let mut expressions = Vec::new();
    for (file, document) in documents() {
        for group in document["spec"]["groups"].as_array().into_iter().flatten() {
            for rule in group["rules"].as_array().unwrap() {
                let name = format!("{file}, {}", rule["alert"].as_str().unwrap());
                expressions.push((name, rule["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    let dashboard: Value = serde_json::from_str(&read_manifest("dashboard.json")).unwrap();
    assert_matches_schema("dashboard.json", "Dashboard", &dashboard);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let name = format!("dashboard.json, {}", panel["title"].as_str().unwrap());
            expressions.push((name, target["expr"].as_str().unwrap().to_owned()));
        }
    }
    expressions
}

/// The names in an expression that have our prefix.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("provisioning_broker_")).map(str::to_owned).collect()
}

fn label_values(expression: &str) -> Vec<(String, String)> {
    let selectors = expression.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matchers = selectors.flat_map(|selector| selector.split(','));
    let pairs = matchers.filter_map(|matcher| {
        let (label, value) = matcher.split_once('=')?;
        let label = label.trim_end_matches('!').trim().to_owned();
        Some((label, value.trim_start_matches('~').trim_matches('"').to_owned()))
    });
    pairs
        .flat_map(|(label, values)| {
            let values: Vec<_> =
                values.split('|').map(|value| (label.clone(), value.to_owned())).collect();
            values
        })
        .collect()
}

#[tokio::test]
async fn every_referenced_metric_is_exposed_by_a_replica() {
    let world = Arc::new(RealWorld::new().await);
    let simulation = world.keep_simulating();
    let kubeconfig = world.kubeconfig();
    let replica = Environment::new(&world.database().url(), &kubeconfig).start();
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    until("the machine to be Ready", || async {
        (world.get(id).await.phase() == Phase::Ready).then_some(())
    })
    .await;
    let shown = until("a sweep to count the machine", || async {
        let (_, scrape) = replica.get("/metrics").await;
        let ready =
            scrape.lines().any(|line| line == "provisioning_broker_resources{phase=\"Ready\"} 1");
        ready.then_some(scrape)
    })
    .await;
    replica.stop().await;
    drop(simulation);

    let series: BTreeSet<_> = shown
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let mut used = BTreeSet::new();
    for (place, expression) in expressions() {
        let metrics = metrics_in(&expression);
        assert!(!metrics.is_empty(), "{place} has no metric of ours: {expression}");
        let count = |bracket: char| expression.matches(bracket).count();
        assert_eq!((count('('), count('{')), (count(')'), count('}')), "{place}: {expression}");
        for metric in metrics {
            assert!(series.contains(metric.as_str()), "{place}: no replica shows {metric}");
            let known = METRICS.iter().filter(|known| metric.starts_with(known.name));
            let known = known.max_by_key(|known| known.name.len()).unwrap();
            used.insert(known.name);
            for (label, value) in label_values(&expression) {
                let values = known
                    .labels
                    .iter()
                    .find(|known| known.name == label)
                    .map(|known| (known.values)());
                let values =
                    values.unwrap_or_else(|| panic!("{place}: {metric} has no label {label}"));
                assert!(values.contains(&value.as_str()), "{place}: {label} is never {value}");
            }
        }
    }
    let unused: Vec<_> =
        METRICS.iter().map(|metric| metric.name).filter(|name| !used.contains(name)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "metrics that no alert and no dashboard uses");
}

#[test]
fn every_alert_is_documented() {
    let operating = fs::read_to_string(directory().join("../docs/operating.md")).unwrap();
    let deployed: BTreeSet<_> = documents()
        .iter()
        .flat_map(|(_, document)| {
            document["spec"]["groups"].as_array().cloned().unwrap_or_default()
        })
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .map(|rule| rule["alert"].as_str().unwrap().to_owned())
        .collect();
    let explained: BTreeSet<_> = operating
        .split('`')
        .filter(|word| word.starts_with("ProvisioningBroker"))
        .map(str::to_owned)
        .collect();
    assert_eq!(explained, deployed);
}
