//! A sink, a clock, an id source and credentials that are right but for one flaw.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a flaw changes one thing, and all others leave that as it should be"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, EventId, MeshRole, NotFound, ProjectId,
    ProvisionedResourceId,
};
use broker_ports::memory::{RecordingEventSink, SequentialIds};
use broker_ports::testing::clock::{ClockUnderTest, IdSourceUnderTest};
use broker_ports::testing::event_sink::EventSinkUnderTest;
use broker_ports::testing::resolvers::{
    BlueprintResolverUnderTest, CredentialResolverUnderTest, RawBlueprint,
};
use broker_ports::{
    BlueprintResolver, BlueprintVersionView, Clock, CredentialResolver, CredentialView, Envelope,
    EventSink, FailureClass, IdSource, PortError,
};
use futures_util::FutureExt as _;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use super::half_way::half_way;
use super::worlds::{Neighbourhood, start};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    SinkSaysYesAndDrops,
    SinkPrintsJsonAgain,
    SinkDeliversBackwards,
    SinkMixesUpWhatArrivesAtOnce,
    SinkRefusesASecondDelivery,
    SinkSaysDeliveredInAnOutage,
    SinkWritesHalfWhenDropped,
    ClockShowsLocalTime,
    ClockStandsStill,
    IdsAreVersion4,
    IdsShrink,
    IdsRepeat,
    ReplicasShareASeed,
    CredentialsLoseTheirPath,
    CredentialsLeakAcrossProjects,
    CredentialsNeedNoAssignment,
    WithdrawalIsIgnored,
    MissingCredentialIsAnError,
    NoAnswerIsNoCredential,
    EveryBlueprintMakesANode,
    OneUnreadableBlueprintSpoilsAll,
    UnreadableBlueprintIsAbsent,
    UnreadableBlueprintIsTransient,
    RejectionHidesTheDomainError,
    MissingBlueprintIsAnError,
    RejectsBlueprintsInAnOutage,
}

/// One world for all of them: each suite looks at its own part.
pub(super) struct FlawedWorld {
    flaw: Flaw,
    sink: RecordingEventSink,
    on_its_way: Mutex<Option<Envelope>>,
    passed: AtomicU64,
    neighbourhood: Neighbourhood,
    owners: Mutex<Vec<(ProjectId, CloudCredentialId)>>,
}

impl FlawedWorld {
    pub(super) fn with(flaw: Flaw) -> Self {
        Self {
            flaw,
            sink: RecordingEventSink::default(),
            on_its_way: Mutex::default(),
            passed: AtomicU64::new(0),
            neighbourhood: Neighbourhood::fresh(),
            owners: Mutex::default(),
        }
    }
}

#[async_trait]
impl EventSink for FlawedWorld {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let before = self.sink.deliveries_of(envelope.resource);
        match self.flaw {
            Flaw::SinkRefusesASecondDelivery if before.contains(envelope) => {
                return Err(PortError::rejected("it was delivered before"));
            }
            Flaw::SinkPrintsJsonAgain => {
                let value: serde_json::Value = serde_json::from_slice(&envelope.json).unwrap();
                let mut envelope = envelope.clone();
                envelope.json = value.to_string().into_bytes();
                return self.sink.deliver(&envelope).await;
            }
            Flaw::SinkMixesUpWhatArrivesAtOnce => {
                *self.on_its_way.lock().unwrap() = Some(envelope.clone());
                tokio::task::yield_now().await;
                let last = self.on_its_way.lock().unwrap().clone();
                return self.sink.deliver(last.as_ref().unwrap_or(envelope)).await;
            }
            Flaw::SinkWritesHalfWhenDropped => {
                let mut half = envelope.clone();
                half.json.truncate(envelope.json.len() / 2);
                half_way(|| drop(self.sink.deliver(&half).now_or_never())).await;
            }
            Flaw::SinkSaysDeliveredInAnOutage => {
                let _lost = self.sink.deliver(envelope).await;
                return Ok(());
            }
            _ => {}
        }
        self.sink.deliver(envelope).await
    }
}

#[async_trait]
impl EventSinkUnderTest for FlawedWorld {
    fn sink(&self) -> &dyn EventSink {
        self
    }

    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError> {
        let mut received = self.sink.deliveries_of(resource);
        if self.flaw == Flaw::SinkSaysYesAndDrops {
            received.retain(|envelope| envelope.sequence % 3 != 1);
        }
        let received = received.into_iter().map(|envelope| envelope.json);
        Ok(match self.flaw {
            Flaw::SinkDeliversBackwards => received.rev().collect(),
            _ => received.collect(),
        })
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.sink.set_reachable(false);
        Ok(())
    }
}

impl Clock for FlawedWorld {
    fn now(&self) -> OffsetDateTime {
        let now = start() + Duration::from_millis(self.passed.load(Ordering::Relaxed));
        match self.flaw {
            Flaw::ClockShowsLocalTime => now.to_offset(UtcOffset::from_hms(2, 0, 0).unwrap()),
            Flaw::ClockStandsStill => start(),
            _ => now,
        }
    }
}

#[async_trait]
impl ClockUnderTest for FlawedWorld {
    fn clock(&self) -> &dyn Clock {
        self
    }

    async fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap();
        self.passed.fetch_add(millis, Ordering::Relaxed);
    }
}

struct FlawedIds {
    flaw: Flaw,
    ids: SequentialIds,
    drawn: AtomicU64,
}

impl IdSource for FlawedIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        let nth = self.drawn.fetch_add(1, Ordering::Relaxed);
        let id = self.ids.uuid();
        ProvisionedResourceId::new(match self.flaw {
            Flaw::IdsAreVersion4 => {
                let mut bytes = id.into_bytes();
                bytes[6] = 0x40 | (bytes[6] & 0x0f);
                Uuid::from_bytes(bytes)
            }
            Flaw::IdsShrink => {
                let mut bytes = id.into_bytes();
                bytes[2..6].iter_mut().for_each(|byte| *byte = !*byte);
                Uuid::from_bytes(bytes)
            }
            Flaw::IdsRepeat if nth.is_multiple_of(100) => Uuid::from_u128(7 << 76 | 2 << 62),
            _ => id,
        })
        .unwrap()
    }

    fn event_id(&self) -> EventId {
        EventId::new(self.ids.uuid()).unwrap()
    }
}

impl IdSourceUnderTest for FlawedWorld {
    fn replica(&self) -> Arc<dyn IdSource> {
        let nth = u32::try_from(self.passed.fetch_add(1, Ordering::Relaxed)).unwrap();
        let seed = if self.flaw == Flaw::ReplicasShareASeed { 0 } else { nth };
        let (ids, drawn) = (SequentialIds::seeded(seed), AtomicU64::new(1));
        Arc::new(FlawedIds { flaw: self.flaw, ids, drawn })
    }
}

#[async_trait]
impl CredentialResolver for FlawedWorld {
    async fn resolve(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Result<Option<CredentialView>, PortError> {
        let truth = CredentialResolverUnderTest::resolver(&self.neighbourhood);
        let found = match truth.resolve(project, id).await {
            Err(_) if self.flaw == Flaw::NoAnswerIsNoCredential => None,
            found => found?,
        };
        match (found, self.flaw) {
            (None, Flaw::CredentialsLeakAcrossProjects) => {
                let owners = self.owners.lock().unwrap().clone();
                let owner = owners.into_iter().find(|(_, credential)| *credential == id);
                match owner {
                    Some((owner, _)) => truth.resolve(owner, id).await,
                    None => Ok(None),
                }
            }
            (Some(found), Flaw::CredentialsLoseTheirPath) => {
                let CredentialView { id, cloud_id, kv_mount, .. } = found;
                Ok(Some(CredentialView::new(id, cloud_id, kv_mount, "")))
            }
            (None, Flaw::CredentialsNeedNoAssignment) => {
                self.neighbourhood.neighbours.assign(project, id);
                truth.resolve(project, id).await
            }
            (None, Flaw::MissingCredentialIsAnError) => Err(id.not_found().into()),
            (truth, _) => Ok(truth),
        }
    }
}

#[async_trait]
impl CredentialResolverUnderTest for FlawedWorld {
    fn resolver(&self) -> &dyn CredentialResolver {
        self
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        CredentialResolverUnderTest::project(&self.neighbourhood).await
    }

    async fn add(&self, kv_mount: &str, kv_path: &str) -> Result<CredentialView, PortError> {
        CredentialResolverUnderTest::add(&self.neighbourhood, kv_mount, kv_path).await
    }

    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        self.owners.lock().unwrap().push((project, id));
        self.neighbourhood.assign(project, id).await
    }

    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        match self.flaw {
            Flaw::WithdrawalIsIgnored => Ok(()),
            _ => self.neighbourhood.withdraw(project, id).await,
        }
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        CredentialResolverUnderTest::cut_off(&self.neighbourhood).await
    }
}

#[async_trait]
impl BlueprintResolver for FlawedWorld {
    async fn resolve(
        &self,
        id: BlueprintVersionId,
    ) -> Result<Option<Arc<BlueprintVersionView>>, PortError> {
        let truth = BlueprintResolverUnderTest::resolver(&self.neighbourhood).resolve(id).await;
        if truth.is_err() {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
        match (truth, self.flaw) {
            (Ok(Some(view)), Flaw::EveryBlueprintMakesANode) => {
                Ok(Some(Arc::new(BlueprintVersionView::new(
                    view.id,
                    Arc::clone(&view.xrd),
                    view.composition.clone(),
                    Arc::clone(&view.parameter_schema),
                    view.injection_strategy,
                    MeshRole::Node,
                ))))
            }
            (Ok(_), Flaw::OneUnreadableBlueprintSpoilsAll)
                if self.passed.load(Ordering::Relaxed) > 0 =>
            {
                Err(PortError::rejected("the catalog cannot be read"))
            }
            (Err(_), Flaw::UnreadableBlueprintIsAbsent) => Ok(None),
            (Err(_), Flaw::UnreadableBlueprintIsTransient) => Err(PortError::transient("later")),
            (Err(error), Flaw::RejectsBlueprintsInAnOutage)
                if error.class() == FailureClass::Transient =>
            {
                Err(PortError::rejected("no such catalog"))
            }
            (Err(_), Flaw::RejectionHidesTheDomainError) => Err(PortError::rejected("no")),
            (Ok(None), Flaw::MissingBlueprintIsAnError) => Err(id.not_found().into()),
            (truth, _) => truth,
        }
    }
}

#[async_trait]
impl BlueprintResolverUnderTest for FlawedWorld {
    fn resolver(&self) -> &dyn BlueprintResolver {
        self
    }

    async fn publish(&self, blueprint: &RawBlueprint) -> Result<BlueprintVersionId, PortError> {
        self.neighbourhood.publish(blueprint).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        BlueprintResolverUnderTest::cut_off(&self.neighbourhood).await
    }
}
