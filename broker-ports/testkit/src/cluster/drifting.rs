//! Cases for drift: observations of a composite resource that another writer changed, and of its ProviderConfig.

use std::sync::Arc;

use broker_ports::{ConfigKind, ConfigPresence};
use broker_render::ProviderConfigScope;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture { drift_and_a_missing_config_are_observed })
}

async fn drift_and_a_missing_config_are_observed(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    fixture.apply_composed(&subject).await?;
    observe_until(fixture, &subject, (SpecState::AsApplied, ConfigPresence::Missing)).await?;
    applied_version(fixture.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    observe_until(fixture, &subject, (SpecState::AsApplied, ConfigPresence::Present)).await?;
    let patch = json!({"spec": {"parameters": {"size": Value::Null}}});
    fixture.world.patch("another writer", &subject.reference()?, &patch).await?;
    observe_until(fixture, &subject, (SpecState::Drifted, ConfigPresence::Present)).await?;
    fixture.world.delete_in_background(subject.provider_config()?.reference()).await?;
    observe_until(fixture, &subject, (SpecState::Drifted, ConfigPresence::Missing)).await
}

/// Observes a subject with its ProviderConfig until the cache shows the expected state.
async fn observe_until(
    fixture: &Fixture<'_>,
    subject: &Subject,
    expected: (SpecState, ConfigPresence),
) -> Outcome {
    let kind = provider_config_kind();
    let listed = OwnedKinds::new(Vec::new(), vec![(kind.api_version.clone(), kind.kind.clone())]);
    let kind = ConfigKind::new(kind.api_version, kind.kind, ProviderConfigScope::Namespaced);
    let target = [subject.xr_target().with_config(Some(Arc::new(kind)))];
    let mut polls = fixture.polls(format!("{expected:?} is not observed"));
    loop {
        // An adapter watches a kind of ProviderConfig after a listing or a read.
        fixture.cluster.list_owned(&OwnedQuery::new(listed.clone())).await?;
        let observed = fixture.cluster.observe_many(&target).await?;
        if let [Ok(CachedXr::Present { spec, config, .. })] = observed[..]
            && (spec, config) == expected
        {
            return Ok(());
        }
        polls.wait().await?;
    }
}
