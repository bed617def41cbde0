//! Act: server-side apply with a precondition, behind schema validation.

use broker_domain::ObjectReference;
use broker_render::{FIELD_MANAGER, Precondition, ProblemKind, Xrd};
use serde_json::{Map, Value};

use super::object::Object;
use super::ownership::{Manager, Operation};
use super::state::{Caller, Kind, Namespace, State, Verb};
use crate::PortResult;
use broker_ports::{Applied, ApplyRequest, DryRun, LiveObject, ObjectVersion, PortError, Refusal};

/// Fields of a `spec` that Crossplane adds to every schema. An XRD does not declare them.
const CROSSPLANE_FIELDS: [&str; 4] =
    ["crossplane", "compositionRef", "compositionRevisionRef", "resourceRefs"];

/// The decision on an apply, before anything is stored.
enum Decision {
    Store(Box<Object>),
    Conflict,
    NameTaken,
}

impl State {
    pub(super) fn apply(&mut self, caller: &Caller, request: &ApplyRequest) -> PortResult<Applied> {
        Ok(match self.decide(caller, request)? {
            Decision::Conflict => Applied::Conflict,
            Decision::NameTaken => Applied::NameTaken,
            Decision::Store(object) => Applied::Done(self.put(request.target(), *object)),
        })
    }

    pub(super) fn dry_run(
        &mut self,
        caller: &Caller,
        request: &ApplyRequest,
    ) -> PortResult<DryRun> {
        Ok(match self.decide(caller, request)? {
            Decision::Conflict | Decision::NameTaken => DryRun::Conflict,
            Decision::Store(mut object) => {
                let live = self.objects.get(request.target());
                if live.is_some_and(|live| live.spec() != object.spec()) {
                    object.generation += 1;
                }
                DryRun::Accepted(LiveObject::from_json(object.to_json(request.target()))?)
            }
        })
    }

    fn decide(&mut self, caller: &Caller, request: &ApplyRequest) -> PortResult<Decision> {
        let target = request.target();
        let rejection = |message: &str| {
            PortError::rejected(request.scrub(&format!("{} {target}: {message}", Verb::Patch)))
        };
        let schema_rejection = |message: String| rejection(&message).with_refusal(Refusal::Schema);
        let kind_name = (target.api_version(), target.kind());
        self.request(caller, Verb::Patch, kind_name, target)?;
        let sent =
            sent_content(&request.expose_for_apply()).ok_or_else(|| rejection("bad request"))?;
        let Some(kind) = self.kind(target) else {
            let error = rejection("the server does not serve this kind");
            return Err(error.with_refusal(Refusal::KindAbsent));
        };
        let xrd = kind.xrd.clone();
        // A malformed body is rejected before its precondition is checked.
        if let Some(xrd) = &xrd {
            check_declared(xrd, &sent).map_err(schema_rejection)?;
        }
        let live = self.objects.get(target);
        let object = match (request.precondition(), live) {
            (Precondition::Absent, Some(_)) | (Precondition::Unchanged { .. }, None) => {
                return Ok(Decision::Conflict);
            }
            (Precondition::Unchanged { resource_version, .. }, Some(live))
                if *resource_version != live.resource_version.to_string() =>
            {
                return Ok(Decision::Conflict);
            }
            (Precondition::Unchanged { uid, .. }, Some(live)) if *uid != live.uid => {
                return Ok(Decision::NameTaken);
            }
            (Precondition::Unchanged { .. }, Some(live)) => Some(live.clone()),
            (Precondition::Absent, None) => {
                self.check_create(kind, target)
                    .map_err(|(refusal, message)| rejection(&message).with_refusal(refusal))?;
                self.request(caller, Verb::Create, kind_name, target)?;
                None
            }
        };
        if let Some(message) = self.apply_denials.get(target.kind()) {
            let message =
                format!("admission webhook \"denies.example.org\" denied the request: {message}");
            return Err(rejection(&message).with_refusal(Refusal::Vetoed));
        }
        let mut object = object.unwrap_or_else(|| self.new_object());
        let manager = Manager::new(FIELD_MANAGER, Operation::Apply);
        object.ownership.apply(&manager, &mut object.content, &sent);
        if let Some(xrd) = &xrd {
            check_values(xrd, &mut object).map_err(schema_rejection)?;
        }
        Ok(Decision::Store(Box::new(object)))
    }

    /// Checks that the kind and the namespace of a new object accept it.
    pub(super) fn check_create(
        &self,
        kind: &Kind,
        target: &ObjectReference,
    ) -> Result<(), (Refusal, String)> {
        if kind.terminating {
            let message = "create not allowed while custom resource definition is terminating";
            return Err((Refusal::KindAbsent, message.into()));
        }
        let Some(name) = target.namespace() else { return Ok(()) };
        match self.namespaces.get(name) {
            Some(Namespace::Active) => Ok(()),
            Some(Namespace::Terminating) => {
                let message = format!("forbidden: namespace {name} is being terminated");
                Err((Refusal::NamespaceTerminating, message))
            }
            None => Err((Refusal::NamespaceAbsent, format!("namespaces \"{name}\" not found"))),
        }
    }

    /// Stores the decided object and returns its version.
    fn put(&mut self, target: &ObjectReference, object: Object) -> ObjectVersion {
        let uid = object.uid.clone();
        if self.objects.contains_key(target) {
            self.change(target, |live| *live = object);
        } else {
            self.store(target, object);
        }
        let version = self.objects.get(target).map_or(0, |object| object.resource_version);
        ObjectVersion::new(uid, version.to_string())
    }
}

/// The fields of a manifest that the manager owns after the apply.
fn sent_content(body: &[u8]) -> Option<Map<String, Value>> {
    let Value::Object(mut content) = serde_json::from_slice(body).ok()? else { return None };
    content.retain(|key, _| ["metadata", "spec"].contains(&key.as_str()));
    if let Some(Value::Object(metadata)) = content.get_mut("metadata") {
        metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
    }
    Some(content)
}

/// For an undeclared or mistyped field, a real server fails with a bare 500.
fn check_declared(xrd: &Xrd, sent: &Map<String, Value>) -> Result<(), String> {
    let problems = xrd.check(&own_spec(sent));
    let invalid = problems
        .iter()
        .find(|problem| matches!(problem.kind, ProblemKind::Undeclared | ProblemKind::Type));
    let Some(problem) = invalid else { return Ok(()) };
    let found =
        value_at(&own_spec(sent), &problem.path).filter(|_| problem.kind == ProblemKind::Type);
    let message = found.map_or("field not declared in schema".to_owned(), |value| {
        format!("{}, got &value.valueUnstructured{{Value:{value}}}", problem.problem)
    });
    Err(format!("500: failed to create typed patch object: .{}: {message}", problem.path))
}

/// For an invalid value, a real server names the field and repeats the value.
fn check_values(xrd: &Xrd, object: &mut Object) -> Result<(), String> {
    if let Some(spec) = object.content.get_mut("spec") {
        xrd.fill_defaults(spec);
    }
    let spec = own_spec(&object.content);
    let Some(problem) = xrd.check(&spec).into_iter().next() else { return Ok(()) };
    let value = value_at(&spec, &problem.path).map(|value| format!("Invalid value: {value}: "));
    Err(format!("422: {}: {}{}", problem.path, value.unwrap_or_default(), problem.problem))
}

fn own_spec(content: &Map<String, Value>) -> Value {
    let mut spec = content.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    spec.retain(|key, _| !CROSSPLANE_FIELDS.contains(&key.as_str()));
    Value::Object(spec)
}

/// The value at a path such as `spec.parameters.size`.
fn value_at(spec: &Value, path: &str) -> Option<Value> {
    path.strip_prefix("spec.")?.split('.').try_fold(spec, |value, key| value.get(key)).cloned()
}
