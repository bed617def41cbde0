//! Act: performs one effect after another and reports each result to the pure step.
//!
//! It decides nothing. It audits each external effect before it sends it; if the audit fails, it sends nothing.

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

/// Runs one stage: performs each effect that the pure step requests and feeds its result back.
pub(crate) async fn drive(
    pass: &Pass<'_>,
    state: PassState,
    resolved: Option<&ResolvedObservation>,
) -> Result<ProvisionedResource, Abort> {
    // Only this variable holds the plaintext, from issue to arm.
    let mut token = None;
    let (mut state, mut next_step) = step(&state, EffectResult::Begin);
    loop {
        match next_step {
            NextStep::Continue => return Ok(state.into_resource()),
            NextStep::End(exit) => return Err(Abort::Ended(exit)),
            NextStep::Perform(effect) => {
                let executor = EffectExecutor { pass, resource: state.resource(), resolved };
                let result = executor.perform(effect, &mut token).await?;
                (state, next_step) = step(&state, result);
            }
        }
    }
}

pub(crate) struct EffectExecutor<'a> {
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) resource: &'a ProvisionedResource,
    resolved: Option<&'a ResolvedObservation>,
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
                self.delete(self.resolved()?.config_reference()?, &uid).await
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

/// External effects: each is audited first, then sent once.
impl EffectExecutor<'_> {
    async fn audit(&self, action: AuditAction) -> Result<(), Error> {
        let entry = AuditEntry::new(action, self.pass.by.clone())
            .in_project(self.resource.project_id())
            .for_resource(self.resource.id())
            .in_phase(self.resource.phase());
        self.pass.ports.audit.within(self.pass.time_left()?).write(|it| it.record(&entry)).await
    }

    async fn close_tokens(&self) -> Result<EffectResult, Error> {
        self.audit(AuditAction::TokensClose).await?;
        let tokens = self.pass.ports.tokens.within(self.pass.time_left()?);
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
        let tokens = self.pass.ports.tokens.within(self.pass.time_left()?);
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

    /// Checks that an issued token is valid. If the network repeats a request, the issuer issues a second token and
    /// invalidates the first, and the response may carry either. A machine with an invalid token never enrols.
    async fn expect_live(&self, token: BootstrapTokenId) -> Result<(), Error> {
        let tokens = self.pass.ports.tokens.within(self.pass.time_left()?);
        let state = tokens.read(|it| it.state(token)).await?;
        if let Some(TokenState::Live { .. } | TokenState::Consumed { .. }) = state {
            return Ok(());
        }
        let message = "the issued token is invalid; the network may have repeated the request";
        Err(Error::Port { port: PortName::TokenIssuer, source: PortError::unknown(message) })
    }

    async fn deregister(&self, token: BootstrapTokenId) -> Result<EffectResult, Error> {
        self.audit(AuditAction::NodeDeregister).await?;
        let nodes = self.pass.ports.nodes.within(self.pass.time_left()?);
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

    /// If a ProviderConfig cannot be restored, the pass continues and fails with that error at its end.
    async fn apply_config(&self, precondition: Precondition) -> Result<EffectResult, Error> {
        let request = self.requests()?.provider_config(precondition)?;
        match self.apply(request).await {
            Err(error) if self.resolved()?.restores => {
                self.pass.fail_at_the_end(error);
                Ok(EffectResult::Done)
            }
            result => result,
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
                api_url: config.require_api_url()?,
                agent: &config.agent,
            }),
            None => None,
        };
        let request = self.requests()?.arm(with, enrolment, shell.unchanged())?;
        self.apply_with_tags(request).await
    }

    async fn reapply(&self, with: Armed, at: &ObjectVersion) -> Result<EffectResult, Error> {
        let request = self.requests()?.reapply(with, self.resolved()?.live()?, at)?;
        self.apply_with_tags(request).await
    }

    /// Applies an armed XR, then logs each label that cannot become a tag. It logs only after success, so that a retry
    /// does not repeat the log.
    async fn apply_with_tags(&self, request: ApplyRequest) -> Result<EffectResult, Error> {
        let result = self.apply(request).await?;
        if matches!(result, EffectResult::Applied(_)) {
            for skipped in self.requests()?.views.xr(self.resource)?.skipped_tags() {
                tracing::warn!(
                    resource = %self.resource.id(),
                    key = skipped.key,
                    reason = %skipped.reason,
                    "a label could not become a tag"
                );
            }
        }
        Ok(result)
    }

    async fn apply(&self, request: ApplyRequest) -> Result<EffectResult, Error> {
        self.audit(AuditAction::SubstrateApply).await?;
        let cluster = self.pass.ports.cluster.within(self.pass.time_left()?);
        Ok(match cluster.write(|it| it.apply(&request)).await? {
            Applied::Done(version) => EffectResult::Applied(version),
            Applied::Conflict | Applied::NameTaken => EffectResult::LostRace,
        })
    }

    async fn delete(&self, target: ObjectReference, uid: &str) -> Result<EffectResult, Error> {
        self.audit(AuditAction::SubstrateDelete).await?;
        let request = DeleteRequest::new(self.resource.project_id(), &target, uid);
        let cluster = self.pass.ports.cluster.within(self.pass.time_left()?);
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

impl EffectExecutor<'_> {
    fn resolved(&self) -> Result<&ResolvedObservation, Error> {
        // Only the prepare stage has no observation, and it has no effect on the cluster.
        self.resolved.ok_or(Error::Internal("an effect on the cluster needs an observation"))
    }

    fn requests(&self) -> Result<Requests<'_>, Error> {
        let profiles = &self.pass.config.profiles;
        Ok(Requests { resource: self.resource, views: self.resolved()?.views()?, profiles })
    }

    fn xr_reference(&self) -> Result<ObjectReference, Error> {
        Ok(self.resolved()?.xr_reference.clone())
    }
}
