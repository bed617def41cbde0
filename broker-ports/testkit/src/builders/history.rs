//! The history of a built resource, as the writes that a store has to perform.

use broker_domain::{
    Change, FailureReason, MeshRole, Parameters, Phase, ProvisionedResource, ReferencesDigest,
    Stamp, TokenOrdinal,
};

use super::{ResourceBuilder, cluster, composed, id, second, stamp, xr_uid};
use broker_ports::WriteKind;

/// All changes of a resource, in order.
#[derive(Debug, Clone)]
pub struct ResourceHistory {
    /// Its declaration.
    pub declared: Change,
    /// The later changes, each with its kind of write.
    pub later: Vec<(WriteKind, Change)>,
}

/// The range of event ids of one resource.
const EVENTS_PER_RESOURCE: u128 = 1_000;

impl ResourceHistory {
    /// The resource after all changes.
    pub fn into_resource(self) -> ProvisionedResource {
        let last = self.later.into_iter().next_back().map_or(self.declared, |(_, change)| change);
        last.into_resource()
    }

    pub(super) fn of(builder: &ResourceBuilder) -> Self {
        let declaration = builder.declaration();
        let parameters = Parameters::from_canonical_json(declaration.parameters.clone())
            .expect("parameters are a JSON object");
        let first = stamp(builder.number * EVENTS_PER_RESOURCE + 1, 0);
        let declared = ProvisionedResource::new(
            builder.id(),
            &declaration,
            builder.mesh_role,
            parameters,
            first,
        )
        .expect("a declaration that the domain accepts");
        let declared = match &builder.cluster {
            Some(cluster) => declared.on_cluster(cluster.clone()),
            None => declared,
        };
        let mut recorder = Recorder {
            number: builder.number,
            resource: declared.resource().clone(),
            changes: Vec::new(),
        };
        recorder.record(builder);
        Self { declared, later: recorder.changes }
    }
}

/// Collects the changes of a resource, one after another.
struct Recorder {
    number: u128,
    resource: ProvisionedResource,
    changes: Vec<(WriteKind, Change)>,
}

impl Recorder {
    fn record(&mut self, builder: &ResourceBuilder) {
        if builder.substrate {
            self.record_substrate();
        }
        let was_ready = builder.phase == Phase::Ready || builder.phase.is_teardown();
        let enrols = builder.mesh_role == MeshRole::Node;
        if builder.token || (was_ready && enrols) {
            self.record_token();
        }
        if builder.phase != Phase::Pending {
            self.advance(Phase::Provisioning);
        }
        match builder.phase {
            Phase::Pending | Phase::Provisioning => {}
            Phase::Enrolling => self.advance(Phase::Enrolling),
            Phase::Failed => self.fail(),
            Phase::Ready | Phase::Deregistering | Phase::Deprovisioning | Phase::Deleted => {
                if enrols {
                    self.advance(Phase::Enrolling);
                }
                self.advance(Phase::Ready);
            }
        }
        if builder.phase.is_teardown() {
            self.tear_down(builder);
        }
    }

    fn tear_down(&mut self, builder: &ResourceBuilder) {
        let change = self.resource.request_deletion(self.stamp());
        self.step(
            WriteKind::DeletionIntent,
            change.expect("a resource without a deletion request"),
        );
        if builder.closed || builder.phase != Phase::Deregistering {
            let change = self.resource.record_closed(self.stamp().at);
            self.step(WriteKind::Closed, change.expect("in teardown").expect("not closed yet"));
        }
        if builder.abandoned {
            let change = self.resource.abandon(self.stamp());
            self.step(WriteKind::Phase, change.expect("in teardown, with its tokens closed"));
        } else if builder.phase != Phase::Deregistering {
            self.advance(Phase::Deprovisioning);
            if builder.phase == Phase::Deleted {
                self.record_substrate_gone();
                self.advance(Phase::Deleted);
            }
        }
    }

    fn advance(&mut self, to: Phase) {
        let change = self.resource.advance(to, self.stamp());
        self.step(WriteKind::Phase, change.expect("a legal step").expect("another phase"));
    }

    fn fail(&mut self) {
        let reason = FailureReason::from_message("quota exceeded");
        let change = self.resource.fail(reason, self.stamp());
        self.step(
            WriteKind::Phase,
            change.expect("a converging resource").expect("not failed yet"),
        );
    }

    fn record_token(&mut self) {
        let token = id(self.number * EVENTS_PER_RESOURCE);
        let change = self.resource.record_token(token, TokenOrdinal::FIRST, self.stamp().at);
        self.step(WriteKind::Token, change.expect("a converging node"));
    }

    fn record_substrate(&mut self) {
        let substrate = self
            .resource
            .substrate()
            .clone()
            .about_to_apply(cluster(1), composed(self.resource.xr_name().as_str()))
            .observed([composed("vm")], ReferencesDigest::new([7; 32]))
            .armed(xr_uid(self.number));
        let change = self.resource.record_substrate(substrate, self.stamp().at);
        self.step(WriteKind::Substrate, change.expect("one cluster").expect("something new"));
    }

    /// Records all substrate as gone, which Deleted requires.
    fn record_substrate_gone(&mut self) {
        let substrate = self.resource.substrate();
        let gone =
            substrate.composed().iter().chain(substrate.provider_config()).cloned().collect();
        let remaining = substrate.clone().without(&gone);
        let change = self.resource.record_substrate(remaining, self.stamp().at);
        if let Some(change) = change.expect("before Deleted") {
            self.step(WriteKind::Substrate, change);
        }
    }

    fn step(&mut self, kind: WriteKind, change: Change) {
        self.resource = change.resource().clone();
        self.changes.push((kind, change));
    }

    /// One second after the previous step, with an event id from the resource's range.
    fn stamp(&self) -> Stamp {
        let version = self.resource.version().get();
        let event = id(self.number * EVENTS_PER_RESOURCE + 1 + u128::from(version));
        let seconds = i64::try_from(version).unwrap_or(i64::MAX);
        Stamp::new(event, second(seconds))
    }
}
