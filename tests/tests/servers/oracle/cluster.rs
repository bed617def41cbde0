//! The cluster: applies, deletions and reads by several workers, and changes and deletions by other
//! parties.
//!
//! Neither cluster has Crossplane, so that only the history's steps change objects. Both have a garbage
//! collector; a history waits for its effects.

mod tested_cluster;

use broker_domain::ObjectReference;
use broker_ports::{
    Applied, ApplyRequest, DeleteRequest, DryRun, LiveObject, ObjectVersion, OwnedKinds,
    OwnedQuery, XrReading,
};
use broker_render::Precondition;
use serde_json::{Value, json};

use super::{Transcript, compare, histories};
use crate::servers::kube::fixture::{Fixture, Subject, part_kind};
use tested_cluster::{Memory, TestedCluster};

const STEPS: u32 = 40;

#[tokio::test]
async fn memory_cluster_answers_like_an_api_server() {
    let fixture = Fixture::new().await;
    let seeds = histories(6, 300);
    let mut calls = 0;
    for seed in seeds.clone() {
        // Both clusters use the same names.
        let subject = fixture.machine();
        let memory = HistoryRunner::new(&Memory::new(&subject), &subject, seed).run().await;
        let real = HistoryRunner::new(&fixture, &subject, seed).run().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a cluster, {calls} answers", seeds.end);
}

struct HistoryRunner<'s> {
    cluster: &'s dyn TestedCluster,
    subject: &'s Subject,
    transcript: Transcript,
    /// Composite resource and ProviderConfig, with their remembered versions, oldest first.
    targets: [ObjectReference; 2],
    known: [Vec<ObjectVersion>; 2],
    /// Every uid and version seen; transcripts name them by index.
    seen: Vec<String>,
    part: Option<ObjectReference>,
}

const XR: usize = 0;
const CONFIG: usize = 1;

impl<'s> HistoryRunner<'s> {
    fn new(cluster: &'s dyn TestedCluster, subject: &'s Subject, seed: u64) -> Self {
        let targets = [subject.reference(), subject.provider_config().reference().clone()];
        let (transcript, known) = (Transcript::new(seed), [Vec::new(), Vec::new()]);
        Self { cluster, subject, transcript, targets, known, seen: Vec::new(), part: None }
    }

    async fn run(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.transcript.step = step;
            match self.random_below(20) {
                0..3 => {
                    let shell = self.subject.xr().shell(1 + u64::from(self.random_below(3)));
                    self.apply("shell", XR, |project, precondition| {
                        ApplyRequest::open(project, shell, precondition)
                    })
                    .await;
                }
                3..6 => {
                    let armed = self.subject.sealed();
                    self.apply("arm", XR, |project, precondition| {
                        ApplyRequest::sealed(project, armed, precondition)
                    })
                    .await;
                }
                6 | 7 => {
                    let config = self.subject.provider_config();
                    self.apply("config", CONFIG, |project, precondition| {
                        ApplyRequest::open(project, config, precondition)
                    })
                    .await;
                }
                8 => self.dry_run().await,
                9 => self.delete(XR).await,
                10 => self.delete(CONFIG).await,
                11 => self.delete_by_hand().await,
                12 | 13 => self.change_by_hand().await,
                14 | 15 => self.compose_or_release().await,
                16 => self.list().await,
                _ => self.read().await,
            }
        }
        self.read().await;
        self.list().await;
        self.transcript.lines
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.transcript.random_below(bound)
    }

    /// Object and version, numbered in the order in which they were first seen.
    fn number(&mut self, version: &ObjectVersion) -> [usize; 2] {
        let both = format!("{}@{}", version.uid, version.resource_version);
        [version.uid.clone(), both].map(|id| {
            self.seen.iter().position(|other| *other == id).unwrap_or_else(|| {
                self.seen.push(id);
                self.seen.len() - 1
            })
        })
    }

    async fn target(&self, which: usize) -> Option<Value> {
        self.cluster.object(&self.targets[which]).await
    }

    /// A remembered version, mostly the newest.
    fn remembered(&mut self, which: usize) -> Option<ObjectVersion> {
        let older = if self.random_below(5) == 0 { self.random_below(8) as usize } else { 0 };
        let known = &self.known[which];
        known.iter().rev().cycle().nth(older).cloned()
    }

    /// A precondition on absence, on the newest remembered version, or on an older one.
    fn precondition(&mut self, which: usize) -> Precondition {
        let remembered = self.remembered(which).filter(|_| self.transcript.random_below(6) > 0);
        remembered.map_or(Precondition::Absent, |version| version.unchanged())
    }

    async fn apply(
        &mut self,
        what: &str,
        which: usize,
        request: impl FnOnce(broker_domain::ProjectId, Precondition) -> ApplyRequest,
    ) {
        let precondition = self.precondition(which);
        let is_create = matches!(precondition, Precondition::Absent);
        let applied =
            self.cluster.port().apply(&request(self.subject.identity.project, precondition)).await;
        let applied = applied.map(|applied| match applied {
            Applied::Done(version) => {
                self.known[which].push(version.clone());
                format!("done, {:?}", self.number(&version))
            }
            lost @ (Applied::Conflict | Applied::NameTaken) => format!("{lost:?}"),
        });
        self.transcript.record(&format!("{what}, on nothing: {is_create}"), applied);
    }

    async fn dry_run(&mut self) {
        let precondition = self.precondition(XR);
        let shell = self.subject.xr().shell(9);
        let request = ApplyRequest::open(self.subject.identity.project, shell, precondition);
        let result = self.cluster.port().dry_run(&request).await;
        let result = result.map(|result| match result {
            DryRun::Accepted(object) => content(&object),
            DryRun::Conflict => "conflict".to_owned(),
        });
        self.transcript.record("dry run", result);
    }

    async fn delete(&mut self, which: usize) {
        let target = self.targets[which].clone();
        let uid = self.remembered(which).map(|version| version.uid);
        let uid = uid.unwrap_or_else(|| "00000000-0000-0000-0000-000000000001".to_owned());
        let existing = self.target(which).await;
        let request = DeleteRequest::new(self.subject.identity.project, &target, &uid);
        let deleted = self.cluster.port().delete(&request).await;
        if deleted.is_ok() && existing.is_some_and(|object| object["metadata"]["uid"] == json!(uid))
        {
            // The composed object blocks only its own owner, not a later one with the same name.
            let part = match &self.part {
                Some(part) if which == XR => self.cluster.object(part).await,
                _ => None,
            };
            let held = part
                .is_some_and(|part| part["metadata"]["ownerReferences"][0]["uid"] == json!(uid));
            self.cluster.settle(&target, held).await;
            if held {
                self.settle_part().await;
            }
        }
        self.transcript.record(&format!("delete {}", target.kind()), deleted);
    }

    /// Waits until the garbage collector has handled the composed object; its finalizer holds it.
    async fn settle_part(&self) {
        if let Some(part) = &self.part {
            self.cluster.settle(part, true).await;
        }
    }

    async fn delete_by_hand(&mut self) {
        if self.target(XR).await.is_some() {
            self.cluster.delete_by_hand(&self.targets[XR]).await;
            self.cluster.settle(&self.targets[XR], false).await;
            self.settle_part().await;
        }
    }

    async fn change_by_hand(&mut self) {
        let step = self.transcript.step.to_string();
        let patch = match self.random_below(4) {
            0 => json!({"metadata": {"labels": {"team": step}}}),
            1 => json!({"spec": {"parameters": {"note": step}}}),
            2 => json!({"spec": {"parameters": {"size": "large"}}}),
            _ => json!({"spec": {"crossplane": {"resourceRefs": [
                {"apiVersion": part_kind().api_version, "kind": part_kind().kind, "name": "named"},
            ]}}}),
        };
        if self.target(XR).await.is_some() {
            self.cluster.patch(&self.targets[XR], patch).await;
        }
    }

    async fn compose_or_release(&mut self) {
        let is_deleting = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        let owner = self.target(XR).await;
        let Some(part) = self.part.clone() else {
            if let Some(owner) = owner.filter(|owner| !is_deleting(owner)) {
                let uid = owner["metadata"]["uid"].as_str().unwrap();
                self.part = Some(self.cluster.compose(self.subject, uid).await);
            }
            return;
        };
        // Release it only during its own deletion, which a deletion of its owner causes.
        if self.cluster.object(&part).await.is_none_or(|part| is_deleting(&part)) {
            self.part = None;
            self.cluster.patch(&part, json!({"metadata": {"finalizers": []}})).await;
            self.cluster.settle(&part, false).await;
            if self.target(XR).await.is_some_and(|xr| is_deleting(&xr)) {
                self.cluster.settle(&self.targets[XR], false).await;
            }
        }
    }

    async fn read(&mut self) {
        let reading = self.cluster.port().read(&self.subject.target()).await.map(|reading| {
            let xr = match &reading.xr {
                XrReading::Present(live) => {
                    let status = (&live.status, live.armed, &live.references);
                    format!("{status:?} {}", self.remember(XR, &live.object))
                }
                absent @ (XrReading::Absent
                | XrReading::NamespaceAbsent
                | XrReading::KindAbsent) => format!("{absent:?}"),
            };
            let config = reading
                .provider_config
                .as_ref()
                .map(|live| format!("{} {}", live.is_being_deleted(), self.remember(CONFIG, live)));
            (xr, config, reading.labelled)
        });
        self.transcript.record("read", reading);
    }

    /// Remembers the version of an object and reports its content.
    fn remember(&mut self, which: usize, live: &LiveObject) -> String {
        self.known[which].push(live.version().clone());
        format!("{:?} {}", self.number(live.version()), content(live))
    }

    async fn list(&mut self) {
        let config = &self.targets[CONFIG];
        let configs = vec![(config.api_version().to_owned(), config.kind().to_owned())];
        let kinds = OwnedKinds::new(vec![self.subject.xr_target().xrd], configs);
        let mut query = OwnedQuery::new(kinds.clone());
        let mut found = Vec::new();
        loop {
            let page = self.cluster.port().list_owned(&query).await.unwrap();
            // The real server is shared with other tests.
            let own = page.objects.iter().filter(|object| object.reference.name() == config.name());
            found.extend(own.map(|object| format!("{:?} {}", object.role, object.deleting)));
            let Some(next) = page.next else { break };
            query = OwnedQuery::new(kinds.clone()).after(next);
        }
        found.sort();
        self.transcript.record("list", Ok(found));
    }
}

/// The content that clients wrote: spec, labels and annotations.
fn content(object: &LiveObject) -> String {
    let object = object.expose();
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    format!("{spec} {} {}", metadata["labels"], metadata["annotations"])
}
