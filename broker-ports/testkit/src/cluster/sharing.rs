//! Cases for a ProviderConfig that two resources of a Project share.

use std::sync::Arc;

use broker_ports::{ConfigKind, ConfigPresence, ObjectOwner, Target};
use broker_render::{ProviderConfigScope, SharedConfigName};

use super::deleting::UNUSED_UID;
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture { two_resources_share_one_config, a_shared_object_is_written_as_such_only })
}

fn fresh_name(fixture: &Fixture<'_>) -> Checked<SharedConfigName> {
    Ok(SharedConfigName::new(&format!("shared-{}", fixture.world.fresh_id().simple()))?)
}

/// Both render the same object, read it and observe it. It is deleted by its uid.
async fn two_resources_share_one_config(fixture: &Fixture<'_>) -> Outcome {
    let name = fresh_name(fixture)?;
    let users = [fixture.machine()?, fixture.machine()?];
    let [manifest, other] = [users[0].shared_config(&name)?, users[1].shared_config(&name)?];
    require(manifest.to_bytes() == other.to_bytes(), "two users render different objects")?;
    let target = manifest.reference().clone();
    let create = |manifest| {
        ApplyRequest::open(fixture.project, manifest, Precondition::Absent)
            .owned_by(ObjectOwner::Project)
    };
    let version = applied_version(fixture.cluster.apply(&create(manifest)).await?)?;
    let second = fixture.cluster.apply(&create(other)).await?;
    require(second != Applied::Done(version.clone()), "a second create is not refused")?;
    let kind = provider_config_kind();
    let listed = OwnedKinds::new(Vec::new(), vec![(kind.api_version.clone(), kind.kind.clone())]);
    let kind = ConfigKind::new(kind.api_version, kind.kind, ProviderConfigScope::Namespaced);
    let kind = Arc::new(kind.shared_as(Some(name)));
    for user in &users {
        fixture.apply_shell(user).await?;
        let read = fixture.cluster.read(&Target::new(user.xr_target(), target.clone())).await?;
        let found = read.provider_config.map(|live| live.version().uid.clone());
        require(found.as_ref() == Some(&version.uid), "a user does not read the object")?;
    }
    let targets = users.map(|user| user.xr_target().with_config(Some(Arc::clone(&kind))));
    for expected in [ConfigPresence::Present, ConfigPresence::Missing] {
        if expected == ConfigPresence::Missing {
            let delete = DeleteRequest::new(fixture.project, &target, &version.uid);
            let deleted = fixture.cluster.delete(&delete.owned_by(ObjectOwner::Project)).await?;
            require(deleted == Deleted::Accepted, "its deletion is not accepted")?;
            fixture.until_removed(&target).await?;
        }
        let mut polls = fixture.polls(format!("{expected:?} is not observed"));
        loop {
            fixture.cluster.list_owned(&OwnedQuery::new(listed.clone())).await?;
            let observed = fixture.cluster.observe_many(&targets).await?;
            let is_expected = |view: &Result<CachedXr, PortError>| matches!(view, Ok(CachedXr::Present { config, .. }) if *config == expected);
            if observed.iter().all(is_expected) {
                break;
            }
            polls.wait().await?;
        }
    }
    Ok(())
}

async fn a_shared_object_is_written_as_such_only(fixture: &Fixture<'_>) -> Outcome {
    let (subject, name) = (fixture.machine()?, fresh_name(fixture)?);
    let shared = || subject.shared_config(&name);
    let own = subject.provider_config()?;
    let elsewhere = fixture.machine()?.in_project(ProjectId::new(fixture.world.fresh_id())?);
    let rows = [
        ("a shared object of a resource", shared()?, ObjectOwner::Resource),
        ("an object of a resource as a shared one", own, ObjectOwner::Project),
        ("one of another Project", elsewhere.shared_config(&name)?, ObjectOwner::Project),
    ];
    for (why, manifest, owner) in rows {
        let target = manifest.reference().clone();
        let request = ApplyRequest::open(fixture.project, manifest, Precondition::Absent);
        let request = request.owned_by(owner);
        require_rejected(fixture.cluster.apply(&request).await, why)?;
        require_rejected(fixture.cluster.dry_run(&request).await, why)?;
        require(fixture.world.object(&target).await?.is_none(), why)?;
        let request = DeleteRequest::new(fixture.project, &target, UNUSED_UID).owned_by(owner);
        require_rejected(fixture.cluster.delete(&request).await, why)?;
    }
    Ok(())
}
