//! Applies that break a promise each.

use broker_ports::{Applied, ApplyRequest, Cluster, ObjectVersion, PortError};
use broker_render::{ARMED_ANNOTATION, FIELD_MANAGER, Precondition};
use serde_json::{Map, Value, json};

use super::Flawed;
use crate::flaws::Flaw;

impl Flawed {
    pub(super) async fn flawed_apply(&self, request: &ApplyRequest) -> Result<Applied, PortError> {
        let target = request.target();
        let before = self.behind.object(target).unwrap_or_default();
        let answer = self.inner.apply(request).await;
        let reapply = matches!(request.precondition(), Precondition::Unchanged { .. });
        let stands = self.behind.stands(target);
        match (self.flaw, answer) {
            (Flaw::OverwritesOnConflict, Ok(Applied::Conflict)) if stands => {
                Ok(self.force(request))
            }
            (Flaw::CreatesOnReapply, Ok(Applied::Conflict)) if reapply && !stands => {
                Ok(self.force(request))
            }
            (Flaw::OverwritesNamesakes, Ok(Applied::NameTaken))
            | (Flaw::LeavesTheProject, Err(_)) => Ok(self.force(request)),
            (Flaw::CreatesNamespaces, Err(error)) if error.to_string().contains("namespaces") => {
                self.behind.create_namespace(target.namespace().unwrap_or_default());
                self.inner.apply(request).await
            }
            (Flaw::EchoesTheToken, Err(_)) => {
                let body = String::from_utf8(request.expose_for_apply()).unwrap();
                Err(PortError::rejected(format!("could not apply {body}")))
            }
            (Flaw::RefusesTransiently, Err(error)) => Err(PortError::transient(error.to_string())),
            (_, Ok(Applied::Done(version))) => {
                self.after_apply(request, &before);
                Ok(self.answered(request, version))
            }
            (_, answer) => answer,
        }
    }

    /// Writes a manifest past every precondition.
    fn force(&self, request: &ApplyRequest) -> Applied {
        let target = request.target();
        let object = sent(request);
        self.behind.create_as(FIELD_MANAGER, target, &object);
        self.behind.patch_as(FIELD_MANAGER, target, &object);
        let live = self.behind.object(target).unwrap_or_default();
        ObjectVersion::of(&live).map_or(Applied::Conflict, Applied::Done)
    }

    /// Writes some of a manifest: an object without a spec, or an arm without a token.
    pub(super) fn apply_half(&self, request: &ApplyRequest) {
        let (target, mut half) = (request.target(), sent(request));
        let annotations = half["metadata"]["annotations"].clone();
        let armed = json!({"metadata": {"annotations": {
            ARMED_ANNOTATION: annotations.get(ARMED_ANNOTATION),
        }}});
        half["spec"] = Value::Null;
        match request.precondition() {
            Precondition::Absent => self.behind.create_as(FIELD_MANAGER, target, &half),
            Precondition::Unchanged { .. } => self.behind.patch_as(FIELD_MANAGER, target, &armed),
        }
    }

    fn after_apply(&self, request: &ApplyRequest, before: &Value) {
        let target = request.target();
        let live = self.behind.object(target).unwrap_or_default();
        let extra = |path: &[&str]| unsent(&live, &sent(request), path);
        let (manager, patch) = match self.flaw {
            Flaw::OverwritesFieldsOfOthers => {
                let (labels, annotations) =
                    (extra(&["metadata", "labels"]), extra(&["metadata", "annotations"]));
                let patch = json!({
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": {"parameters": extra(&["spec", "parameters"])},
                });
                (FIELD_MANAGER, patch)
            }
            Flaw::LosesTheInjection => (FIELD_MANAGER, json!({"spec": {"userData": Value::Null}})),
            Flaw::ResetsTheStatus if before.get("status").is_some() => {
                (FIELD_MANAGER, json!({"status": {"conditions": []}}))
            }
            Flaw::YieldsToOthers => {
                let parameters = before.pointer("/spec/parameters");
                ("somebody", json!({"spec": {"parameters": parameters.unwrap_or(&json!({}))}}))
            }
            Flaw::ChangesEveryTime => {
                let now = live["metadata"]["resourceVersion"].clone();
                ("counter", json!({"metadata": {"annotations": {"changed-after": now}}}))
            }
            Flaw::KeepsThePause => return self.behind.pause(target),
            Flaw::Revives if before.pointer("/metadata/deletionTimestamp").is_some() => {
                self.behind.patch_as(
                    FIELD_MANAGER,
                    target,
                    &json!({"metadata": {"finalizers": []}}),
                );
                return self.behind.create_as(FIELD_MANAGER, target, &sent(request));
            }
            _ => return,
        };
        self.behind.patch_as(manager, target, &patch);
    }

    /// The version that is answered: the one that was applied, unless there is a newer one at once.
    fn answered(&self, request: &ApplyRequest, version: ObjectVersion) -> Applied {
        let live = self.behind.object(request.target());
        match (self.flaw, live.map(|live| ObjectVersion::of(&live))) {
            (Flaw::ChangesEveryTime, Some(Ok(newest))) => Applied::Done(newest),
            (_, _) => Applied::Done(version),
        }
    }
}

fn sent(request: &ApplyRequest) -> Value {
    serde_json::from_slice(&request.expose_for_apply()).unwrap()
}

/// The entries of a map that stand and are not sent, as a patch that removes them.
fn unsent(live: &Value, sent: &Value, path: &[&str]) -> Value {
    let map = |object: &Value| {
        let found = path.iter().try_fold(object, |value, key| value.get(key));
        found.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (live, sent): (Map<_, _>, Map<_, _>) = (map(live), map(sent));
    let extra = live.into_iter().filter(|(key, _)| !sent.contains_key(key));
    Value::Object(extra.map(|(key, _)| (key, Value::Null)).collect())
}
