//! Stage 5, act, and the writing halves of prepare and persist: performs one effect and feeds the answer back.
//!
//! Nothing is decided here. What goes outside is audited before it is sent, and not sent if that fails.

use broker_domain::{
    BootstrapTokenId, Change, Error as DomainError, ObjectReference, ProvisionedResource, Stamp,
    TokenOrdinal,
};
use broker_ports::{
    Applied, ApplyRequest, AuditAction, AuditEntry, DeleteRequest, Deleted, Issue, IssueRequest,
    IssuedToken, ObjectVersion, PortError, PortName, Refusal, TokenState, Write, Written,
};
use broker_render::{Armed, Bootstrap, Precondition, inject_bootstrap, preserve_injection};

use crate::call::{Kind, call};
use crate::error::Error;
use crate::observe::Observed;
use crate::pass::{Pass, Stop};
use crate::step::{Answer, Effect, PassState, Verdict, step};
use crate::views::Views;

/// Holds the conversation of one stage: asks the pure step what to do, does it, and tells it the answer.
pub(crate) async fn converse(
    pass: &Pass<'_>,
    state: PassState,
    observed: Option<&Observed>,
) -> Result<ProvisionedResource, Stop> {
    // The plaintext lives here, between issue and arm, and nowhere else.
    let mut token = None;
    let (mut state, mut verdict) = step(&state, Answer::Begin);
    loop {
        match verdict {
            Verdict::Continue => return Ok(state.into_resource()),
            Verdict::End(ending) => return Err(Stop::Ended(ending)),
            Verdict::Perform(effect) => {
                let hand = Hand { pass, resource: state.resource(), observed };
                let answer = hand.perform(effect, &mut token).await?;
                (state, verdict) = step(&state, answer);
            }
        }
    }
}

/// What performs effects on one resource.
struct Hand<'a> {
    pass: &'a Pass<'a>,
    resource: &'a ProvisionedResource,
    observed: Option<&'a Observed>,
}

/// Which write of the repository a change is for.
#[derive(Clone, Copy)]
enum Record {
    Phase,
    Token,
    Closed,
    Substrate,
    Deletion,
}

impl Hand<'_> {
    async fn perform(
        &self,
        effect: Effect,
        token: &mut Option<IssuedToken>,
    ) -> Result<Answer, Error> {
        let stamp = self.stamp();
        let at = stamp.at;
        match effect {
            Effect::RequestDeletion => self.roll_back(stamp).await,
            Effect::CloseTokens => self.close_tokens().await,
            Effect::RecordClosed => {
                self.write(Record::Closed, self.resource.record_closed(at)?).await
            }
            Effect::RecordSubstrate(substrate) => {
                self.write(Record::Substrate, self.resource.record_substrate(substrate, at)?).await
            }
            Effect::ApplyProviderConfig(precondition) => self.apply_config(precondition).await,
            Effect::ApplyShell(precondition) => self.apply_shell(precondition).await,
            Effect::IssueToken(ordinal) => self.issue(ordinal, token).await,
            Effect::DeregisterNode(consumed) => self.deregister(consumed).await,
            Effect::RecordToken(id, ordinal) => {
                self.write(Record::Token, Some(self.resource.record_token(id, ordinal, at)?)).await
            }
            Effect::Arm(with, shell) => self.arm(with, &shell, token.take()).await,
            Effect::Reapply(with, at) => self.reapply(with, &at).await,
            Effect::DeleteXr(uid) => self.delete(self.xr_reference()?, &uid).await,
            Effect::DeleteProviderConfig(uid) => {
                self.delete(self.observed()?.seen.config_reference.clone(), &uid).await
            }
            Effect::UpdatePhase(to) => {
                self.write(Record::Phase, self.resource.advance(to, stamp)?).await
            }
            Effect::Fail(reason) => {
                self.write(Record::Phase, self.resource.fail(reason, stamp)?).await
            }
        }
    }
}

/// Writes of the row: one transaction each, guarded by version and epoch.
impl Hand<'_> {
    fn stamp(&self) -> Stamp {
        let ports = self.pass.ports;
        Stamp::new(ports.ids.event_id(), ports.clock.now())
    }

    /// Commits a change; one that there is nothing to in is committed already.
    async fn write(&self, record: Record, change: Option<Change>) -> Result<Answer, Error> {
        let Some(change) = change else {
            return Ok(Answer::Committed(Box::new(self.resource.clone())));
        };
        let write = Write::by_worker(&change, self.pass.lease.epoch, &self.pass.by);
        let repository = &self.pass.ports.repository;
        let sent = match record {
            Record::Phase => repository.update_phase(&write),
            Record::Token => repository.record_token(&write),
            Record::Closed => repository.record_closed(&write),
            Record::Substrate => repository.record_substrate(&write),
            Record::Deletion => repository.record_deletion_intent(&write),
        };
        let patience = self.pass.patience(self.pass.config.deadlines.store)?;
        let written = call(PortName::Repository, Kind::Write, patience, sent).await?;
        Ok(match written {
            Written::Committed => {
                self.pass.committed(self.resource, &change);
                Answer::Committed(Box::new(change.into_resource()))
            }
            Written::Stale | Written::LeaseLost => Answer::LostRace,
        })
    }

    /// A failure that is rolled back is the one thing a person has to hear about at once.
    async fn roll_back(&self, stamp: Stamp) -> Result<Answer, Error> {
        if let Some(failure) = self.resource.failure() {
            tracing::error!(
                resource = %self.resource.id(),
                step = %failure.step(),
                reason = %failure.reason(),
                "a failed resource is rolled back"
            );
        }
        self.write(Record::Deletion, self.resource.request_deletion(stamp)).await
    }
}

/// What goes outside: audited first, then sent once.
impl Hand<'_> {
    async fn audit(&self, action: AuditAction) -> Result<(), Error> {
        let entry = AuditEntry::new(action, self.pass.by.clone())
            .in_project(self.resource.project_id())
            .about(self.resource.id())
            .in_phase(self.resource.phase());
        let patience = self.pass.patience(self.pass.config.deadlines.store)?;
        let recorded = self.pass.ports.audit.record(&entry);
        call(PortName::AuditSink, Kind::Write, patience, recorded).await
    }

    async fn close_tokens(&self) -> Result<Answer, Error> {
        self.audit(AuditAction::TokensClose).await?;
        let closed = self.pass.ports.tokens.close(self.resource.id());
        let patience = self.pass.patience(self.pass.config.deadlines.token)?;
        call(PortName::TokenIssuer, Kind::Write, patience, closed).await?;
        Ok(Answer::Done)
    }

    async fn issue(
        &self,
        ordinal: TokenOrdinal,
        token: &mut Option<IssuedToken>,
    ) -> Result<Answer, Error> {
        self.audit(AuditAction::TokenIssue).await?;
        let Pass { lease, config, .. } = self.pass;
        let request = IssueRequest::new(self.resource.id(), ordinal, lease.epoch, config.token_ttl);
        let patience = self.pass.patience(self.pass.config.deadlines.token)?;
        let issued = self.pass.ports.tokens.issue(&request);
        match call(PortName::TokenIssuer, Kind::Write, patience, issued).await? {
            Issue::Issued(issued) => {
                let id = issued.id;
                self.expect_live(id).await?;
                *token = Some(issued);
                Ok(Answer::Issued(id))
            }
            Issue::Consumed { id } => Ok(Answer::Consumed(id)),
        }
    }

    /// A request that was repeated on its way has issued a second token and killed the first, and which of the two
    /// answers came back nobody can tell: to arm with a dead one would leave a machine that never enrols.
    async fn expect_live(&self, token: BootstrapTokenId) -> Result<(), Error> {
        let state = self.pass.ports.tokens.state(token);
        let patience = self.pass.patience(self.pass.config.deadlines.token)?;
        let state = call(PortName::TokenIssuer, Kind::Read, patience, state).await?;
        if let Some(TokenState::Live { .. } | TokenState::Consumed { .. }) = state {
            return Ok(());
        }
        let message = "the token that was issued is dead; it may have been issued twice";
        Err(Error::Port { port: PortName::TokenIssuer, source: PortError::unknown(message) })
    }

    async fn deregister(&self, token: BootstrapTokenId) -> Result<Answer, Error> {
        self.audit(AuditAction::NodeDeregister).await?;
        let patience = self.pass.patience(self.pass.config.deadlines.node)?;
        let left = self.pass.ports.nodes.deregister(token);
        match call(PortName::NodeDeregistrar, Kind::Write, patience, left).await {
            Ok(()) => Ok(Answer::Done),
            Err(Error::LeaseRanOut) => Err(Error::LeaseRanOut),
            Err(error) => Err(DomainError::NodeDeregistrationFailed {
                resource: self.resource.id(),
                source: Box::new(error),
            }
            .into()),
        }
    }

    async fn apply_config(&self, precondition: Precondition) -> Result<Answer, Error> {
        let profiles = &self.pass.config.profiles;
        let manifest = self.views()?.provider_config(self.resource, profiles)?;
        self.apply(ApplyRequest::open(self.resource.project_id(), manifest, precondition)).await
    }

    async fn apply_shell(&self, precondition: Precondition) -> Result<Answer, Error> {
        let xr = self.views()?.xr(self.resource)?;
        for skipped in xr.skipped_tags() {
            tracing::warn!(resource = %self.resource.id(), key = skipped.key, reason = %skipped.reason, "a label became no tag");
        }
        let shell = xr.shell(self.pass.lease.epoch.get());
        self.apply(ApplyRequest::open(self.resource.project_id(), shell, precondition)).await
    }

    async fn arm(
        &self,
        with: Armed,
        shell: &ObjectVersion,
        token: Option<IssuedToken>,
    ) -> Result<Answer, Error> {
        let project = self.resource.project_id();
        let xr = self.views()?.xr(self.resource)?;
        let request = match (with, token) {
            (Armed::Standalone, _) => {
                ApplyRequest::open(project, xr.armed(&with), shell.unchanged())
            }
            (Armed::Token(token_id), Some(issued)) if issued.id == token_id => {
                let config = self.pass.config;
                let bootstrap = Bootstrap {
                    token_id,
                    token: issued.plaintext.secret(),
                    api_url: &config.api_url,
                    agent: &config.agent,
                };
                ApplyRequest::sealed(project, inject_bootstrap(&xr, &bootstrap)?, shell.unchanged())
            }
            (Armed::Token(_), _) => {
                return Err(DomainError::invalid(
                    "bootstrap_token_id",
                    "was not issued in this pass",
                )
                .into());
            }
        };
        self.apply(request).await
    }

    async fn reapply(&self, with: Armed, at: &ObjectVersion) -> Result<Answer, Error> {
        let project = self.resource.project_id();
        let xr = self.views()?.xr(self.resource)?;
        let request = match (with, &self.observed()?.live) {
            (Armed::Token(token), Some(live)) => {
                let kept = preserve_injection(live.expose(), &xr, token)?;
                ApplyRequest::sealed(project, kept, at.unchanged())
            }
            (Armed::Standalone | Armed::Token(_), _) => {
                ApplyRequest::open(project, xr.armed(&with), at.unchanged())
            }
        };
        self.apply(request).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Answer, Error> {
        self.audit(AuditAction::SubstrateApply).await?;
        let patience = self.pass.patience(self.pass.config.deadlines.cluster_write)?;
        let applied = self.pass.ports.cluster.apply(&request);
        Ok(match call(PortName::Cluster, Kind::Write, patience, applied).await? {
            Applied::Done(version) => Answer::Applied(version),
            Applied::Conflict | Applied::NameTaken => Answer::LostRace,
        })
    }

    async fn delete(&self, target: ObjectReference, uid: &str) -> Result<Answer, Error> {
        self.audit(AuditAction::SubstrateDelete).await?;
        let patience = self.pass.patience(self.pass.config.deadlines.cluster_write)?;
        let request = DeleteRequest::new(self.resource.project_id(), &target, uid);
        let deleted = self.pass.ports.cluster.delete(&request);
        match call(PortName::Cluster, Kind::Write, patience, deleted).await? {
            Deleted::Accepted | Deleted::Gone => Ok(Answer::Done),
            Deleted::Replaced => Ok(Answer::LostRace),
            Deleted::Vetoed { message } => {
                let source =
                    PortError::rejected(format!("the deletion of {target} was vetoed: {message}"))
                        .with_refusal(Refusal::Vetoed);
                Err(Error::Port { port: PortName::Cluster, source })
            }
        }
    }
}

/// What the observation brought along.
impl Hand<'_> {
    fn observed(&self) -> Result<&Observed, Error> {
        // Only the prepare stage has none, and it asks for nothing on the cluster.
        self.observed.ok_or_else(|| DomainError::invalid("observation", "is missing").into())
    }

    fn views(&self) -> Result<&Views, Error> {
        let views = self.observed()?.views.as_ref();
        views.ok_or_else(|| DomainError::invalid("views", "were not resolved for an apply").into())
    }

    fn xr_reference(&self) -> Result<ObjectReference, Error> {
        Ok(self.observed()?.xr_reference.clone())
    }
}
