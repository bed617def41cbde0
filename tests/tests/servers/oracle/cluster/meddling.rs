//! What people and Crossplane do: they delete and write by hand, compose a part and let it go.

use rand::RngExt;
use serde_json::json;

use super::{Player, XR};
use crate::servers::kube::fixture::part_kind;

impl Player<'_> {
    pub(super) async fn delete_by_hand(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_some() {
            self.side.delete_by_hand(&target).await;
            self.side.settle(&target, false).await;
            if self.part.is_some() {
                self.settle_part().await;
            }
            self.tell("somebody deletes it", Ok(String::new()));
        }
    }

    /// What was composed belongs to this one, and not to one before it of the same name.
    pub(super) async fn is_held(&self, uid: &str) -> bool {
        let Some(part) = &self.part else { return false };
        let part = self.side.object(part).await;
        part.is_some_and(|part| part["metadata"]["ownerReferences"][0]["uid"] == json!(uid))
    }

    /// The garbage collector has been at what was composed; its finalizer holds it.
    pub(super) async fn settle_part(&self) {
        if let Some(part) = &self.part {
            self.side.settle(part, true).await;
        }
    }

    pub(super) async fn change_by_hand(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_none() {
            return;
        }
        let step = self.step.to_string();
        let (what, patch) = match self.random.random_range(0..3) {
            0 => ("a label", json!({"metadata": {"labels": {"team": step}}})),
            1 => ("a field of its own", json!({"spec": {"parameters": {"note": step}}})),
            _ => ("a field of ours", json!({"spec": {"parameters": {"size": "large"}}})),
        };
        self.side.patch(&target, patch).await;
        self.tell(&format!("somebody writes {what}"), Ok(String::new()));
    }

    pub(super) async fn say_ready(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_none() {
            return;
        }
        let references = json!({"spec": {"crossplane": {"resourceRefs": [
            {"apiVersion": part_kind().api_version, "kind": part_kind().kind, "name": "named"},
        ]}}});
        self.side.patch(&target, references).await;
        self.tell("somebody names what it refers to", Ok(String::new()));
    }

    pub(super) async fn compose_or_let_go(&mut self) {
        let owner = self.side.object(&self.reference(XR)).await;
        match (self.part.take(), owner) {
            (None, Some(owner)) if owner.pointer("/metadata/deletionTimestamp").is_none() => {
                let uid = owner["metadata"]["uid"].as_str().unwrap().to_owned();
                self.part = Some(self.side.compose(self.subject, &uid).await);
                self.tell("a part is composed", Ok(String::new()));
            }
            (None, _) => {}
            (Some(part), _) => {
                // Unless its owner leaves, it stands where it is; then nothing would ever remove it.
                let leaving = self
                    .side
                    .object(&part)
                    .await
                    .is_none_or(|part| part.pointer("/metadata/deletionTimestamp").is_some());
                if !leaving {
                    self.part = Some(part);
                    return;
                }
                self.side.patch(&part, json!({"metadata": {"finalizers": []}})).await;
                self.side.settle(&part, false).await;
                let xr = self.reference(XR);
                let goes = self.side.object(&xr).await;
                let goes =
                    goes.is_some_and(|xr| xr.pointer("/metadata/deletionTimestamp").is_some());
                if goes {
                    self.side.settle(&xr, false).await;
                }
                self.tell("a part is let go", Ok(String::new()));
            }
        }
    }
}
