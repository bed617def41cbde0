//! Every operation that writes, with all that it needs, so that it can be done twice in the very same way.

use std::time::Duration;

use broker_domain::{
    Change, Phase, ProvisionedResourceId, ReferencesDigest, TokenOrdinal, Version,
};
use broker_pg::{PgMesh, PgStore, PgTokenIssuer, create_in};
use broker_ports::{
    Allowance, AuditAction, AuditEntry, AuditSink, Brake, BrakeRelease, ClaimEvents, ClaimRequest,
    ClaimTarget, Created, DeliveryFailure, Due, EventClaim, Issue, IssueRequest, Lane, Lease,
    LeaseEpoch, Lost, Outbox, PassOutcome, PeerCommander, PermitRequest, PortError, PurgeRequest,
    Replaced, Replacement, Repository, Resume, Schedule, TokenIssuer, Write, WriteKind,
};
use broker_testkit::builders::{
    ResourceBuilder, attribution, cluster, composed, id, resource, rows, second, stamp, worker,
    xr_uid,
};
use sqlx::PgPool;

use super::scene::{HOUR, Scene, cast};

/// The adapters over one pool.
pub(super) struct Adapters {
    pool: PgPool,
    store: PgStore,
    tokens: PgTokenIssuer,
    mesh: PgMesh,
}

impl Adapters {
    pub(super) fn over(pool: &PgPool) -> Self {
        Self {
            pool: pool.clone(),
            store: PgStore::new(pool.clone()),
            tokens: PgTokenIssuer::new(pool.clone()),
            mesh: PgMesh::new(pool.clone()),
        }
    }
}

/// Each works on things of its own in the [`Scene`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    CreateIn,
    UpdatePhase,
    RecordToken,
    RecordClosed,
    RecordSubstrate,
    RecordDeletionIntent,
    Replace,
    ClaimOne,
    ClaimDue,
    Release,
    Schedule,
    Pause,
    Resume,
    SetBrake,
    ReleaseBrake,
    TakePermit,
    ClaimEvents,
    AcknowledgeEvent,
    DelayEvent,
    SetAsideEvent,
    ResumeEvents,
    PurgeDeleted,
    PurgeEvents,
    ScrubAudit,
    IssueFirst,
    Issue,
    Close,
    Retire,
}

impl Operation {
    pub(super) const ALL: &[Self] = &[
        Self::Create,
        Self::CreateIn,
        Self::UpdatePhase,
        Self::RecordToken,
        Self::RecordClosed,
        Self::RecordSubstrate,
        Self::RecordDeletionIntent,
        Self::Replace,
        Self::ClaimOne,
        Self::ClaimDue,
        Self::Release,
        Self::Schedule,
        Self::Pause,
        Self::Resume,
        Self::SetBrake,
        Self::ReleaseBrake,
        Self::TakePermit,
        Self::ClaimEvents,
        Self::AcknowledgeEvent,
        Self::DelayEvent,
        Self::SetAsideEvent,
        Self::ResumeEvents,
        Self::PurgeDeleted,
        Self::PurgeEvents,
        Self::ScrubAudit,
        Self::IssueFirst,
        Self::Issue,
        Self::Close,
        Self::Retire,
    ];

    /// In words: `update phase`.
    pub(super) fn name(self) -> String {
        let mut words = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !words.is_empty() {
                words.push(' ');
            }
            words.push(letter.to_ascii_lowercase());
        }
        words
    }

    /// Whether it sends a commit of its own. The others are one statement, which commits by itself.
    pub(super) const fn is_transaction(self) -> bool {
        matches!(
            self,
            Self::CreateIn
                | Self::Replace
                | Self::TakePermit
                | Self::Issue
                | Self::Close
                | Self::Retire
        )
    }

    /// What it answers when it was not done before.
    pub(super) const fn done(self) -> &'static str {
        match self {
            Self::Create | Self::CreateIn | Self::Replace => "Stored",
            Self::UpdatePhase
            | Self::RecordToken
            | Self::RecordClosed
            | Self::RecordSubstrate
            | Self::RecordDeletionIntent => "Committed",
            Self::ClaimOne | Self::ClaimDue => "1 lease",
            Self::Release
            | Self::AcknowledgeEvent
            | Self::DelayEvent
            | Self::SetAsideEvent
            | Self::Retire => "Done",
            Self::Schedule | Self::Pause | Self::Resume | Self::ReleaseBrake => "true",
            Self::SetBrake | Self::Close => "()",
            Self::TakePermit => "Granted",
            Self::ClaimEvents => "2 events",
            Self::ResumeEvents => "one that was set aside",
            Self::PurgeDeleted => "1 purged",
            Self::PurgeEvents => "4 purged",
            Self::ScrubAudit => "1 blanked",
            Self::IssueFirst | Self::Issue => "issued",
        }
    }

    /// What it answers when it had been done without the caller's knowledge. None where a caller that cannot
    /// know has to look first: a second time would be one more.
    pub(super) const fn repeated(self) -> Option<&'static str> {
        match self {
            Self::Create | Self::CreateIn | Self::Replace => Some("Replayed"),
            Self::UpdatePhase
            | Self::RecordToken
            | Self::RecordClosed
            | Self::RecordSubstrate
            | Self::RecordDeletionIntent => Some("Stale"),
            // Whoever holds a lease or claim that he does not know of lets it run out.
            Self::ClaimOne | Self::ClaimDue => Some("0 lease"),
            Self::ClaimEvents => Some("0 events"),
            Self::Release => Some("LeaseLost"),
            Self::AcknowledgeEvent | Self::DelayEvent | Self::SetAsideEvent => Some("ClaimLost"),
            Self::ResumeEvents => Some("none that was set aside"),
            Self::PurgeDeleted | Self::PurgeEvents => Some("0 purged"),
            Self::Schedule
            | Self::Pause
            | Self::Resume
            | Self::SetBrake
            | Self::TakePermit
            | Self::Close
            | Self::Retire => Some(self.done()),
            Self::ReleaseBrake => Some("false"),
            Self::ScrubAudit | Self::IssueFirst | Self::Issue => None,
        }
    }

    /// Does it, and answers in a few words.
    pub(super) async fn run(self, scene: &Scene, with: &Adapters) -> Result<String, PortError> {
        let (store, by) = (&with.store, attribution());
        match self {
            Self::Create => store.create(&cast::new().admitted()).await.map(created),
            Self::CreateIn => create_and_commit(&with.pool).await,
            Self::UpdatePhase => write(WriteKind::Phase, store).await,
            Self::RecordToken => write(WriteKind::Token, store).await,
            Self::RecordClosed => write(WriteKind::Closed, store).await,
            Self::RecordSubstrate => write(WriteKind::Substrate, store).await,
            Self::RecordDeletionIntent => write(WriteKind::DeletionIntent, store).await,
            Self::Replace => replace(store).await,
            Self::ClaimOne => claim(ClaimTarget::One(cast::idle().id()), store).await,
            Self::ClaimDue => {
                claim(ClaimTarget::Due { lane: Lane::Teardown, limit: rows(10) }, store).await
            }
            Self::Release => release(store).await,
            Self::Schedule => store.schedule(cast::resting().id(), Due::Now).await.map(debug),
            Self::Pause => store.set_paused(cast::idle().id(), true, &by).await.map(debug),
            Self::Resume => store.set_paused(cast::paused().id(), false, &by).await.map(debug),
            Self::SetBrake => {
                let brake = Brake::new(6, 10, second(1));
                store.set_brake(&cluster(2), &brake, &by).await.map(debug)
            }
            Self::TakePermit => {
                let held = cast::held();
                let request = PermitRequest::new(
                    lease(held.id()),
                    held.build().version(),
                    cluster(3),
                    Lost::Xr(xr_uid(1)),
                    Allowance::default(),
                    by,
                );
                store.permit(&request).await.map(debug)
            }
            Self::ReleaseBrake => {
                let release = BrakeRelease::new(cluster(1), None, Vec::new(), by);
                store.release_brake(&release).await.map(debug)
            }
            Self::ClaimEvents => {
                let request = ClaimEvents::new(worker("another"), rows(100), HOUR);
                Ok(format!("{} events", store.claim_events(&request).await?.len()))
            }
            Self::AcknowledgeEvent => {
                store.acknowledge_event(&claimed(&cast::delivered())).await.map(debug)
            }
            Self::DelayEvent => {
                let claim = claimed(&cast::poisoned());
                store.delay_event(&claim, HOUR, DeliveryFailure::Rejected).await.map(debug)
            }
            Self::SetAsideEvent => {
                store.set_aside_event(&claimed(&cast::poisoned()), "no").await.map(debug)
            }
            Self::ResumeEvents => {
                let found = store.resume_events(cast::aside().id(), Resume::Retry, &by).await?;
                let word = if found.is_some() { "one" } else { "none" };
                Ok(format!("{word} that was set aside"))
            }
            Self::PurgeDeleted => {
                let request = PurgeRequest::new(Duration::ZERO, rows(10));
                Ok(format!("{} purged", store.purge_deleted(&request).await?.len()))
            }
            Self::PurgeEvents => {
                Ok(format!("{} purged", store.purge_events(Duration::ZERO, rows(10)).await?))
            }
            Self::ScrubAudit => {
                Ok(format!("{} blanked", store.scrub_audit(cast::idle().id(), &by).await?))
            }
            Self::IssueFirst => issue(&with.tokens, cast::without_token()).await,
            Self::Issue => issue(&with.tokens, cast::issued()).await,
            Self::Close => with.tokens.close(cast::closed()).await.map(debug),
            Self::Retire => with.mesh.retire(scene.node, Some(scene.peer)).await.map(debug),
        }
    }
}

/// A change of that kind, made from the row as the scene has it, and the lease of who makes it.
fn change(kind: WriteKind) -> (Change, Option<LeaseEpoch>) {
    let held = Some(LeaseEpoch::new(1));
    match kind {
        WriteKind::Phase => {
            let change = cast::enrolling().build().advance(Phase::Ready, stamp(90_001, 500));
            (change.unwrap().unwrap(), held)
        }
        WriteKind::Token => {
            let row = cast::held().build();
            (row.record_token(id(90_002), TokenOrdinal::FIRST, second(500)).unwrap(), held)
        }
        WriteKind::Closed => {
            (cast::leaving().build().record_closed(second(500)).unwrap().unwrap(), None)
        }
        WriteKind::Substrate => {
            let row = cast::bare().build();
            let seen = row
                .substrate()
                .clone()
                .about_to_apply(cluster(1), composed("config"))
                .observed([composed("vm")], ReferencesDigest::new([7; 32]));
            (row.record_substrate(seen, second(500)).unwrap().unwrap(), None)
        }
        WriteKind::DeletionIntent => {
            (cast::ready().build().request_deletion(stamp(90_003, 500)).unwrap(), None)
        }
        WriteKind::Retry => {
            let failed = resource().numbered(77).failed().build();
            (failed.retry(stamp(90_004, 500)).unwrap(), None)
        }
    }
}

async fn write(kind: WriteKind, store: &PgStore) -> Result<String, PortError> {
    let (change, epoch) = change(kind);
    let by = attribution();
    let write = match epoch {
        Some(epoch) => Write::by_worker(&change, epoch, &by),
        None => Write::by_caller(&change, &by),
    };
    let written = store.write(kind, &write).await;
    written.map(debug)
}

async fn replace(store: &PgStore) -> Result<String, PortError> {
    let (old, new) = (cast::replaced().build(), cast::new_in_its_place().admitted());
    let replacement = Replacement::new(&old, new, stamp(90_005, 500)).unwrap();
    Ok(match store.replace(&replacement).await? {
        Replaced::Created(answer) => created(answer),
        Replaced::Stale => "Stale".to_owned(),
    })
}

async fn claim(target: ClaimTarget, store: &PgStore) -> Result<String, PortError> {
    let request = ClaimRequest::new(worker("claimer"), target, HOUR);
    Ok(format!("{} lease", store.claim(&request).await?.len()))
}

/// A pass that failed ends.
async fn release(store: &PgStore) -> Result<String, PortError> {
    let outcome = PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "the API server is away".to_owned(),
        retry_after: None,
    };
    store.release(&lease(cast::failing().id()), Version::FIRST, &outcome).await.map(debug)
}

async fn issue(tokens: &PgTokenIssuer, of: ProvisionedResourceId) -> Result<String, PortError> {
    let request = IssueRequest::new(of, TokenOrdinal::FIRST, LeaseEpoch::new(2), HOUR);
    Ok(match tokens.issue(&request).await? {
        Issue::Issued(_) => "issued".to_owned(),
        Issue::Consumed { .. } => "consumed".to_owned(),
    })
}

/// The lease that the scene's worker holds.
fn lease(of: ProvisionedResourceId) -> Lease {
    Lease::new(of, LeaseEpoch::new(1), worker("holder"), second(0))
}

/// The scene's relay has the first event of a resource.
fn claimed(of: &ResourceBuilder) -> EventClaim {
    let first = id(of.id().as_uuid().as_u128() * 1_000 + 1);
    EventClaim::new(first, worker("relay"), 1)
}

/// What a person wrote about a resource, for the audit.
pub(super) async fn remark(store: &PgStore, of: ProvisionedResourceId) {
    let entry = AuditEntry::new(AuditAction::NodeDeregister, attribution())
        .about(of)
        .with_event_data("written by a person");
    store.record(&entry).await.unwrap();
}

async fn create_and_commit(pool: &PgPool) -> Result<String, PortError> {
    let lost = |error| PortError::unknown("the host's own commit").with_source(error);
    let gone = |error| PortError::transient("the host's own transaction").with_source(error);
    let mut host = pool.begin().await.map_err(gone)?;
    let answer = create_in(&mut host, &cast::new_of_host().admitted()).await.map(created)?;
    host.commit().await.map_err(lost)?;
    Ok(answer)
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where a function of the answer does")]
fn created(created: Created) -> String {
    match created {
        Created::Stored => "Stored",
        Created::Replayed(_) => "Replayed",
        Created::Conflict => "Conflict",
    }
    .to_owned()
}

fn debug(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}
