//! Cases for drift: observations of a composite resource that another writer changed, and of its ProviderConfig.

use std::sync::Arc;

use broker_ports::{ConfigKind, ConfigPresence};
use broker_render::ProviderConfigScope;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene { drift_and_a_missing_config_are_observed })
}

async fn drift_and_a_missing_config_are_observed(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.composed(&subject).await?;
    observe_until(scene, &subject, (SpecState::AsApplied, ConfigPresence::Missing)).await?;
    done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    observe_until(scene, &subject, (SpecState::AsApplied, ConfigPresence::Present)).await?;
    let patch = json!({"spec": {"parameters": {"size": Value::Null}}});
    scene.world.patch("another writer", &subject.reference()?, &patch).await?;
    observe_until(scene, &subject, (SpecState::Drifted, ConfigPresence::Present)).await?;
    scene.world.delete_in_background(subject.provider_config()?.reference()).await?;
    observe_until(scene, &subject, (SpecState::Drifted, ConfigPresence::Missing)).await
}

/// Observes a subject with its ProviderConfig until the cache shows the expected state.
async fn observe_until(
    scene: &Scene<'_>,
    subject: &Subject,
    expected: (SpecState, ConfigPresence),
) -> Outcome {
    let kind = config();
    let listed = OwnedKinds::new(Vec::new(), vec![(kind.api_version.clone(), kind.kind.clone())]);
    let kind = ConfigKind::new(kind.api_version, kind.kind, ProviderConfigScope::Namespaced);
    let target = [subject.xr_target().with_config(Some(Arc::new(kind)))];
    let mut rounds = scene.rounds(format!("{expected:?} is not observed"));
    loop {
        // An adapter watches a kind of ProviderConfig after a listing or a read.
        scene.cluster.list_owned(&OwnedQuery::new(listed.clone())).await?;
        let seen = scene.cluster.observe_many(&target).await?;
        if let [Ok(CachedXr::Present { spec, config, .. })] = seen[..]
            && (spec, config) == expected
        {
            return Ok(());
        }
        rounds.wait().await?;
    }
}
