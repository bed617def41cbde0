//! Act: performs one effect after the other and tells the decisions what became of it.
//!
//! Nothing is decided here. What goes outside is audited before it is sent, and not sent if that fails.

pub(crate) mod requests;

use broker_domain::{
    BootstrapTokenId, Error as DomainError, ObjectReference, ProvisionedResource, TokenOrdinal,
};
use broker_ports::{
    Applied, ApplyRequest, AuditAction, AuditEntry, DeleteRequest, Deleted, Issue, IssueRequest,
    IssuedToken, ObjectVersion, PortError, PortName, Refusal, TokenState, WriteKind,
};
use broker_render::{Armed, Precondition};

use crate::act::requests::{Enrolment, Requests};
use crate::decide::{Effect, EffectResult, NextStep, PassState, step};
use crate::error::Error;
use crate::observe::ResolvedObservation;
use crate::reconcile::{Abort, Pass};

/// Holds the conversation of one stage: asks the pure step what to do, does it, and tells it the answer.
pub(crate) async fn drive(
    pass: &Pass<'_>,
    state: PassState,
    observed: Option<&ResolvedObservation>,
) -> Result<ProvisionedResource, Abort> {
    // The plaintext lives here, between issue and arm, and nowhere else.
    let mut token = None;
    let (mut state, mut next_step) = step(&state, EffectResult::Begin);
    loop {
        match next_step {
            NextStep::Continue => return Ok(state.into_resource()),
            NextStep::End(ending) => return Err(Abort::Ended(ending)),
            NextStep::Perform(effect) => {
                let hand = EffectExecutor { pass, resource: state.resource(), observed };
                let answer = hand.perform(effect, &mut token).await?;
                (state, next_step) = step(&state, answer);
            }
        }
    }
}

/// What performs effects on one resource.
pub(crate) struct EffectExecutor<'a> {
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) resource: &'a ProvisionedResource,
    observed: Option<&'a ResolvedObservation>,
}

impl EffectExecutor<'_> {
    async fn perform(
        &self,
        effect: Effect,
        token: &mut Option<IssuedToken>,
    ) -> Result<EffectResult, Error> {
        let stamp = self.stamp();
        let at = stamp.at;
        match effect {
            Effect::CheckBrake => self.check_brake().await,
            Effect::TakePermit(lost) => self.take_permit(lost).await,
            Effect::RequestDeletion => self.roll_back(stamp).await,
            Effect::CloseTokens => self.close_tokens().await,
            Effect::RecordClosed => {
                self.write(WriteKind::Closed, self.resource.record_closed(at)?).await
            }
            Effect::RecordSubstrate(substrate) => {
                self.write(WriteKind::Substrate, self.resource.record_substrate(substrate, at)?)
                    .await
            }
            Effect::ApplyProviderConfig(precondition) => self.apply_config(precondition).await,
            Effect::ApplyShell(precondition) => self.apply_shell(precondition).await,
            Effect::IssueToken(ordinal) => self.issue(ordinal, token).await,
            Effect::DeregisterNode(consumed) => self.deregister(consumed).await,
            Effect::RecordToken(id, ordinal, xr) => {
                let change = match xr {
                    Some(xr) => self.resource.record_token_for(xr, id, ordinal, at)?,
                    None => self.resource.record_token(id, ordinal, at)?,
                };
                self.write(WriteKind::Token, Some(change)).await
            }
            Effect::Arm(with, shell) => self.arm(with, &shell, token.take()).await,
            Effect::Reapply(with, at) => self.reapply(with, &at).await,
            Effect::DeleteXr(uid) => self.delete(self.xr_reference()?, &uid).await,
            Effect::DeleteProviderConfig(uid) => {
                self.delete(self.observed()?.config_reference()?, &uid).await
            }
            Effect::UpdatePhase(to) => {
                self.write(WriteKind::Phase, self.resource.advance(to, stamp)?).await
            }
            Effect::Fail(reason) => {
                self.write(WriteKind::Phase, self.resource.fail(reason, stamp)?).await
            }
        }
    }
}

/// What goes outside: audited first, then sent once.
impl EffectExecutor<'_> {
    async fn audit(&self, action: AuditAction) -> Result<(), Error> {
        let entry = AuditEntry::new(action, self.pass.by.clone())
            .in_project(self.resource.project_id())
            .about(self.resource.id())
            .in_phase(self.resource.phase());
        self.pass.ports.audit.within(self.pass.left()?).write(|it| it.record(&entry)).await
    }

    async fn close_tokens(&self) -> Result<EffectResult, Error> {
        self.audit(AuditAction::TokensClose).await?;
        let tokens = self.pass.ports.tokens.within(self.pass.left()?);
        tokens.write(|it| it.close(self.resource.id())).await?;
        Ok(EffectResult::Done)
    }

    async fn issue(
        &self,
        ordinal: TokenOrdinal,
        token: &mut Option<IssuedToken>,
    ) -> Result<EffectResult, Error> {
        self.audit(AuditAction::TokenIssue).await?;
        let Pass { lease, config, .. } = self.pass;
        let request = IssueRequest::new(self.resource.id(), ordinal, lease.epoch, config.token_ttl);
        let tokens = self.pass.ports.tokens.within(self.pass.left()?);
        match tokens.write(|it| it.issue(&request)).await? {
            Issue::Issued(issued) => {
                let id = issued.id;
                self.expect_live(id).await?;
                *token = Some(issued);
                Ok(EffectResult::Issued(id))
            }
            Issue::Consumed { id } => Ok(EffectResult::Consumed(id)),
        }
    }

    /// A request that was repeated on its way has issued a second token and killed the first, and which of the two
    /// answers came back nobody can tell: to arm with a dead one would leave a machine that never enrols.
    async fn expect_live(&self, token: BootstrapTokenId) -> Result<(), Error> {
        let tokens = self.pass.ports.tokens.within(self.pass.left()?);
        let state = tokens.read(|it| it.state(token)).await?;
        if let Some(TokenState::Live { .. } | TokenState::Consumed { .. }) = state {
            return Ok(());
        }
        let message = "the token that was issued is dead; it may have been issued twice";
        Err(Error::Port { port: PortName::TokenIssuer, source: PortError::unknown(message) })
    }

    async fn deregister(&self, token: BootstrapTokenId) -> Result<EffectResult, Error> {
        self.audit(AuditAction::NodeDeregister).await?;
        let nodes = self.pass.ports.nodes.within(self.pass.left()?);
        match nodes.write(|it| it.deregister(token)).await {
            Ok(()) => Ok(EffectResult::Done),
            Err(Error::LeaseRanOut) => Err(Error::LeaseRanOut),
            Err(error) => Err(DomainError::NodeDeregistrationFailed {
                resource: self.resource.id(),
                source: Box::new(error),
            }
            .into()),
        }
    }

    /// A ProviderConfig that is put back and cannot be keeps the pass from nothing else: the pass fails with that at its
    /// end.
    async fn apply_config(&self, precondition: Precondition) -> Result<EffectResult, Error> {
        let request = self.requests()?.provider_config(precondition)?;
        match self.apply(request).await {
            Err(error) if self.observed()?.restores => {
                self.pass.fail_at_the_end(error);
                Ok(EffectResult::Done)
            }
            answered => answered,
        }
    }

    async fn apply_shell(&self, precondition: Precondition) -> Result<EffectResult, Error> {
        let epoch = self.pass.lease.epoch.get();
        self.apply(self.requests()?.shell(epoch, precondition)?).await
    }

    async fn arm(
        &self,
        with: Armed,
        shell: &ObjectVersion,
        token: Option<IssuedToken>,
    ) -> Result<EffectResult, Error> {
        let token = token.filter(|issued| with == Armed::Token(issued.id));
        let config = self.pass.config;
        let enrolment = match &token {
            Some(issued) => Some(Enrolment {
                token: issued.plaintext.secret(),
                api_url: config.agents_enrol_at()?,
                agent: &config.agent,
            }),
            None => None,
        };
        let request = self.requests()?.arm(with, enrolment, shell.unchanged())?;
        self.apply_with_tags(request).await
    }

    async fn reapply(&self, with: Armed, at: &ObjectVersion) -> Result<EffectResult, Error> {
        let request = self.requests()?.reapply(with, self.observed()?.live()?, at)?;
        self.apply_with_tags(request).await
    }

    /// Applies an armed XR and logs each label that became no tag, once it stands. A pass that failed before
    /// logs nothing, so that every change logs them once.
    async fn apply_with_tags(&self, request: ApplyRequest) -> Result<EffectResult, Error> {
        let answer = self.apply(request).await?;
        if matches!(answer, EffectResult::Applied(_)) {
            for skipped in self.requests()?.views.xr(self.resource)?.skipped_tags() {
                tracing::warn!(
                    resource = %self.resource.id(),
                    key = skipped.key,
                    reason = %skipped.reason,
                    "a label became no tag"
                );
            }
        }
        Ok(answer)
    }

    async fn apply(&self, request: ApplyRequest) -> Result<EffectResult, Error> {
        self.audit(AuditAction::SubstrateApply).await?;
        let cluster = self.pass.ports.cluster.within(self.pass.left()?);
        Ok(match cluster.write(|it| it.apply(&request)).await? {
            Applied::Done(version) => EffectResult::Applied(version),
            Applied::Conflict | Applied::NameTaken => EffectResult::LostRace,
        })
    }

    async fn delete(&self, target: ObjectReference, uid: &str) -> Result<EffectResult, Error> {
        self.audit(AuditAction::SubstrateDelete).await?;
        let request = DeleteRequest::new(self.resource.project_id(), &target, uid);
        let cluster = self.pass.ports.cluster.within(self.pass.left()?);
        match cluster.write(|it| it.delete(&request)).await? {
            Deleted::Accepted => Ok(EffectResult::Deleting),
            Deleted::Gone => Ok(EffectResult::Done),
            Deleted::Replaced => Ok(EffectResult::LostRace),
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
impl EffectExecutor<'_> {
    fn observed(&self) -> Result<&ResolvedObservation, Error> {
        // Only the prepare stage has none, and it asks for nothing on the cluster.
        self.observed.ok_or_else(|| DomainError::invalid("observation", "is missing").into())
    }

    fn requests(&self) -> Result<Requests<'_>, Error> {
        let profiles = &self.pass.config.profiles;
        Ok(Requests { resource: self.resource, views: self.observed()?.views()?, profiles })
    }

    fn xr_reference(&self) -> Result<ObjectReference, Error> {
        Ok(self.observed()?.xr_reference.clone())
    }
}
