//! What a worker does: applies, rehearsals and deletions, on what it remembers.

use broker_ports::{Applied, ApplyRequest, DeleteRequest, DryRun};
use broker_render::Precondition;
use rand::RngExt;
use serde_json::json;

use super::{CONFIG, Player, XR, content};

impl Player<'_> {
    /// On nothing, on the newest version that somebody remembers, or on an older one.
    fn precondition(&mut self, which: usize) -> Precondition {
        let known = &self.known[which];
        let Some(newest) = known.last() else { return Precondition::Absent };
        match self.random.random_range(0..6) {
            0 => Precondition::Absent,
            1 => known[self.random.random_range(0..known.len())].unchanged(),
            _ => newest.unchanged(),
        }
    }

    fn words(precondition: &Precondition) -> &'static str {
        match precondition {
            Precondition::Absent => "onto a free name",
            Precondition::Unchanged { .. } => "onto what was seen",
        }
    }

    async fn apply(&mut self, what: &str, which: usize, request: ApplyRequest) {
        let what = format!("{what} {}", Self::words(request.precondition()));
        let applied = self.side.port().apply(&request).await;
        let applied = applied.map(|applied| match applied {
            Applied::Done(version) => {
                self.known[which].push(version.clone());
                format!("done, {}", self.number(&version))
            }
            Applied::Conflict => "conflict".to_owned(),
            Applied::NameTaken => "name taken".to_owned(),
        });
        self.tell(&what, applied);
    }

    pub(super) async fn apply_shell(&mut self) {
        let precondition = self.precondition(XR);
        let epoch = self.random.random_range(1..4);
        let shell = self.subject.xr().shell(epoch);
        let request = ApplyRequest::open(self.subject.identity.project, shell, precondition);
        self.apply(&format!("shell of epoch {epoch}"), XR, request).await;
    }

    pub(super) async fn arm(&mut self) {
        let precondition = self.precondition(XR);
        let armed = self.subject.sealed();
        let request = ApplyRequest::sealed(self.subject.identity.project, armed, precondition);
        self.apply("arm", XR, request).await;
    }

    pub(super) async fn apply_config(&mut self) {
        let precondition = self.precondition(CONFIG);
        let config = self.subject.provider_config();
        let request = ApplyRequest::open(self.subject.identity.project, config, precondition);
        self.apply("ProviderConfig", CONFIG, request).await;
    }

    pub(super) async fn rehearse(&mut self) {
        let precondition = self.precondition(XR);
        let shell = self.subject.xr().shell(9);
        let what = format!("rehearse {}", Self::words(&precondition));
        let request = ApplyRequest::open(self.subject.identity.project, shell, precondition);
        let rehearsed = self.side.port().dry_run(&request).await;
        self.tell(
            &what,
            rehearsed.map(|rehearsed| match rehearsed {
                DryRun::Accepted(object) => format!("accepted, {}", content(&object)),
                DryRun::Conflict => "conflict".to_owned(),
            }),
        );
    }

    pub(super) async fn delete(&mut self, which: usize) {
        let target = self.reference(which);
        let known = &self.known[which];
        let uid = match known.last() {
            Some(newest) if self.random.random_range(0..4) > 0 => newest.uid.clone(),
            Some(_) => known[self.random.random_range(0..known.len())].uid.clone(),
            None => "00000000-0000-0000-0000-000000000001".to_owned(),
        };
        let stood = self.side.object(&target).await;
        let request = DeleteRequest::new(self.subject.identity.project, &target, &uid);
        let deleted = self.side.port().delete(&request).await;
        let hit = stood.is_some_and(|object| object.pointer("/metadata/uid") == Some(&json!(uid)));
        if hit && deleted.is_ok() {
            let held = which == XR && self.is_held(&uid).await;
            self.side.settle(&target, held).await;
            if held {
                self.settle_part().await;
            }
        }
        self.tell(&format!("delete {}", target.kind()), deleted.map(|it| format!("{it:?}")));
    }
}
