//! What the kinds of others have to look like, as far as we use them: nothing undeclared, everything required.
//!
//! Written from their documentation; a field that is not here is one that we do not use.

use serde_json::{Value, json};

/// Checks a manifest of the Prometheus operator.
pub(super) fn check(file: &str, document: &Value) {
    let kind = document["kind"].as_str().unwrap();
    let spec = match kind {
        "ServiceMonitor" => service_monitor(),
        "PrometheusRule" => prometheus_rule(),
        other => panic!("{file}: there is no schema for {other}"),
    };
    let labels = map(&text());
    let metadata =
        object(&["name"], &json!({"name": text(), "namespace": text(), "labels": labels}));
    let whole = object(
        &["apiVersion", "kind", "metadata", "spec"],
        &json!({"apiVersion": {"const": "monitoring.coreos.com/v1"}, "kind": {"const": kind}, "metadata": metadata, "spec": spec}),
    );
    assert_fits(file, &whole, document);
}

/// Checks a dashboard of Grafana.
pub(super) fn check_dashboard(dashboard: &Value) {
    let number = json!({"type": "integer", "minimum": 0});
    let place = object(
        &["x", "y", "w", "h"],
        &json!({"x": number, "y": number, "w": {"type": "integer", "minimum": 1, "maximum": 24}, "h": number}),
    );
    let target = object(
        &["refId", "expr"],
        &json!({"refId": text(), "expr": text(), "legendFormat": {"type": "string"}}),
    );
    let source = object(
        &["type", "uid"],
        &json!({"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}}),
    );
    let panel = object(
        &["id", "type", "title", "gridPos", "datasource", "targets", "fieldConfig"],
        &json!({
            "id": {"type": "integer", "minimum": 1},
            "type": {"enum": ["stat", "timeseries"]},
            "title": text(),
            "description": {"type": "string"},
            "gridPos": place,
            "datasource": source,
            "targets": {"type": "array", "minItems": 1, "items": target},
            "fieldConfig": object(&["defaults", "overrides"], &json!({"defaults": {"type": "object", "required": ["unit"]}, "overrides": {"type": "array"}})),
        }),
    );
    let whole = object(
        &["uid", "title", "schemaVersion", "panels", "templating", "time"],
        &json!({
            "uid": text(),
            "title": text(),
            "description": text(),
            "tags": {"type": "array", "items": text()},
            "schemaVersion": {"type": "integer", "minimum": 39},
            "version": number,
            "editable": {"type": "boolean"},
            "refresh": text(),
            "time": object(&["from", "to"], &json!({"from": text(), "to": text()})),
            "templating": object(&["list"], &json!({"list": {"type": "array", "minItems": 1}})),
            "panels": {"type": "array", "minItems": 1, "items": panel},
        }),
    );
    assert_fits("dashboard.json", &whole, dashboard);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: std::collections::BTreeSet<_> = panels.iter().map(|it| it["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
}

fn service_monitor() -> Value {
    let endpoint =
        object(&["port"], &json!({"port": text(), "path": text(), "interval": duration()}));
    let selector = object(&["matchLabels"], &json!({"matchLabels": map(&text())}));
    let endpoints = json!({"type": "array", "minItems": 1, "items": endpoint});
    object(&["selector", "endpoints"], &json!({"selector": selector, "endpoints": endpoints}))
}

fn prometheus_rule() -> Value {
    let labels =
        object(&["severity"], &json!({"severity": {"enum": ["critical", "warning", "info"]}}));
    let annotations =
        object(&["summary", "description"], &json!({"summary": text(), "description": text()}));
    let rule = object(
        &["alert", "expr", "labels", "annotations"],
        &json!({"alert": text(), "expr": text(), "for": duration(), "labels": labels, "annotations": annotations}),
    );
    let rules = json!({"type": "array", "minItems": 1, "items": rule});
    let group = object(&["name", "rules"], &json!({"name": text(), "rules": rules}));
    object(&["groups"], &json!({"groups": {"type": "array", "minItems": 1, "items": group}}))
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn duration() -> Value {
    json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"})
}

fn map(values: &Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// An object with these fields and no other.
fn object(required: &[&str], fields: &Value) -> Value {
    json!({"type": "object", "required": required, "properties": fields, "additionalProperties": false})
}

fn assert_fits(file: &str, schema: &Value, document: &Value) {
    let schema = jsonschema::validator_for(schema).unwrap();
    let problems: Vec<_> = schema
        .iter_errors(document)
        .map(|error| format!("{file}: {}: {error}", error.instance_path()))
        .collect();
    assert_eq!(problems, Vec::<String>::new());
}
