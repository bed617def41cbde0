//! Cases for the lookup of clouds, credentials, assignments and Resources.

use std::collections::BTreeMap;

use broker_domain::{ClusterId, Error, ResourceHandle};
use broker_ports::{
    ApprovalState, CredentialState, NamespaceObservation, NamespacePhase, ResourceView,
};
use broker_render::Provider;

use super::blueprint::require_invalid;
use super::{
    AssignmentReaderUnderTest, CloudResolverUnderTest, CredentialResolverUnderTest,
    ResourceReaderUnderTest, unused_id,
};
use crate::prelude::*;

pub(super) fn cloud_cases<W: CloudResolverUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_cloud_is_found,
        an_invalid_cloud_is_rejected,
        an_unreachable_inventory_never_reports_absence,
    ]
}

pub(super) fn credential_cases<W: CredentialResolverUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_credential_is_found_only_while_assigned,
        the_states_of_a_credential_are_read_without_a_cache,
        unreachable_credentials_are_never_absent,
    ]
}

pub(super) fn assignment_cases<W: AssignmentReaderUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![an_assignment_is_read_without_a_cache, an_unreachable_assignment_is_never_absent,]
}

pub(super) fn resource_cases<W: ResourceReaderUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_resource_is_found_in_its_own_project,
        read_many_equals_single_calls,
        an_invalid_handle_is_rejected,
        unreachable_resources_are_never_absent,
    ]
}

async fn a_cloud_is_found(world: &dyn CloudResolverUnderTest) -> Outcome {
    let provider = Provider::new("hetzner")?;
    let clouds = [
        world.add(&provider, r#"{"region":"fsn1"}"#).await?,
        world.add(&provider, r#"{"region":"nbg1"}"#).await?,
    ];
    for cloud in clouds {
        let found = world.resolver().resolve(cloud.id).await?;
        let is_equal = found.as_ref().is_some_and(|found| {
            found.id == cloud.id
                && found.provider == cloud.provider
                && json(&found.endpoint) == json(&cloud.endpoint)
        });
        require(is_equal, &format!("instead of {cloud:?}, {found:?} is found"))?;
    }
    let found = world.resolver().resolve(unused_id()?).await?;
    require(found.is_none(), "a cloud that does not exist is found")
}

/// Parses the text, because a store may keep the document instead of its text.
fn json(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

async fn an_invalid_cloud_is_rejected(world: &dyn CloudResolverUnderTest) -> Outcome {
    let provider = Provider::new("hetzner")?;
    let (invalid, valid) = (world.add(&provider, "{}").await?, world.add(&provider, "{}").await?);
    if !world.corrupt(invalid.id).await? {
        return Ok(());
    }
    for _ in 0..2 {
        require_invalid(world.resolver().resolve(invalid.id).await)?;
        let found = world.resolver().resolve(valid.id).await?;
        require(found.is_some(), "a valid cloud is not found next to an invalid one")?;
    }
    Ok(())
}

async fn an_unreachable_inventory_never_reports_absence(
    world: &dyn CloudResolverUnderTest,
) -> Outcome {
    let cloud = world.add(&Provider::new("hetzner")?, "{}").await?;
    world.cut_off().await?;
    require_outage(world.resolver().resolve(cloud.id).await, "a cloud")
}

async fn a_credential_is_found_only_while_assigned(
    world: &dyn CredentialResolverUnderTest,
) -> Outcome {
    let (first, second) = (world.project().await?, world.project().await?);
    let credential = world.add("kv", "clouds/hetzner").await?;
    for project in [first, second] {
        let resolve = async || world.resolver().resolve(project, credential.id).await;
        require(resolve().await?.is_none(), "a credential that is not assigned is found")?;
        world.assign(project, credential.id).await?;
        let found = resolve().await?;
        require(found.as_ref() == Some(&credential), &format!("{found:?}, not {credential:?}"))?;
        // After the lookup of its own Project, to detect a cache that is keyed by the credential only.
        let unassigned = world.project().await?;
        let leaked = world.resolver().resolve(unassigned, credential.id).await?;
        require(leaked.is_none(), "an unassigned credential is found")?;
        world.withdraw(project, credential.id).await?;
        require(resolve().await?.is_none(), "a credential that was withdrawn is found")?;
    }
    let found = world.resolver().resolve(first, unused_id()?).await?;
    require(found.is_none(), "a credential that does not exist is found")
}

/// Each Project sees the state of its own assignment.
async fn the_states_of_a_credential_are_read_without_a_cache(
    world: &dyn CredentialResolverUnderTest,
) -> Outcome {
    let (project, other) = (world.project().await?, world.project().await?);
    let credential = world.add("kv", "clouds/hetzner").await?;
    world.assign(project, credential.id).await?;
    world.assign(other, credential.id).await?;
    for state in CredentialState::ALL.iter().copied() {
        for approval in ApprovalState::ALL.iter().copied() {
            world.set_states(project, credential.id, (state, approval)).await?;
            for (project, approval) in [(project, approval), (other, ApprovalState::Approved)] {
                let expected = Some(credential.clone().in_state(state, approval));
                let found = world.resolver().resolve(project, credential.id).await?;
                require(
                    found == expected,
                    &format!("instead of {expected:?}, {found:?} is found"),
                )?;
            }
        }
    }
    Ok(())
}

async fn unreachable_credentials_are_never_absent(
    world: &dyn CredentialResolverUnderTest,
) -> Outcome {
    let project = world.project().await?;
    let credential = world.add("kv", "clouds/hetzner").await?;
    world.assign(project, credential.id).await?;
    world.cut_off().await?;
    require_outage(world.resolver().resolve(project, credential.id).await, "a credential")
}

/// Phase and cluster change, and the cluster may be unnamed.
async fn an_assignment_is_read_without_a_cache(world: &dyn AssignmentReaderUnderTest) -> Outcome {
    let project = world.project().await?;
    for unplaced in [project, unused_id()?] {
        let found = world.reader().read(unplaced).await?;
        require(found.is_none(), "a project that was not placed has a namespace")?;
    }
    let name = format!("plexsphere-project-{project}");
    let in_phase = |phase| NamespaceObservation::new(name.as_str(), phase);
    let ready = in_phase(NamespacePhase::Ready);
    let on_cluster = |uid| ClusterId::new(uid).map(|cluster| ready.clone().on_cluster(cluster));
    let moved = [on_cluster("uid-1")?, on_cluster("uid-2")?, ready.clone()];
    for namespace in NamespacePhase::ALL.iter().copied().map(in_phase).chain(moved) {
        world.place(project, &namespace).await?;
        let found = world.reader().read(project).await?;
        require(found.as_ref() == Some(&namespace), &format!("{found:?}, not {namespace:?}"))?;
    }
    Ok(())
}

async fn an_unreachable_assignment_is_never_absent(
    world: &dyn AssignmentReaderUnderTest,
) -> Outcome {
    let project = world.project().await?;
    let namespace =
        NamespaceObservation::new(format!("plexsphere-project-{project}"), NamespacePhase::Ready);
    world.place(project, &namespace).await?;
    world.cut_off().await?;
    require_outage(world.reader().read(project).await, "an assignment")
}

/// Handle and propagating labels, in the Resource's own Project only.
async fn a_resource_is_found_in_its_own_project(world: &dyn ResourceReaderUnderTest) -> Outcome {
    let local_labels = labels(&[("cost-centre", "4711")]);
    let rows = [
        (resource("web-1", &[("team", "payments"), ("tier", "gold")])?, false),
        (resource("a/b:c@d", &[("team", "search")])?, true),
        (resource("7", &[])?, false),
        (resource("true", &[])?, true),
    ];
    let mut resources = Vec::new();
    for (view, has_local) in rows {
        let (project, resource) = world.resource(&view).await?;
        if has_local {
            world.add_local_labels(resource, &local_labels).await?;
        }
        resources.push((project, resource, view));
    }
    for (project, resource, view) in resources {
        let found = world.reader().read(project, resource).await?;
        let expected = Some(view);
        require(found == expected, &format!("instead of {expected:?}, {found:?} is found"))?;
        // A missing Resource and a Resource of another Project both give `None`.
        for (project, resource) in [(project, unused_id()?), (unused_id()?, resource)] {
            let found = world.reader().read(project, resource).await?;
            require(found.is_none(), &format!("another project finds {found:?}"))?;
        }
    }
    Ok(())
}

/// The batch includes a repeated Resource, a missing one, one without labels and one of another Project.
async fn read_many_equals_single_calls(world: &dyn ResourceReaderUnderTest) -> Outcome {
    let first =
        world.resource(&resource("web-1", &[("team", "payments"), ("tier", "gold")])?).await?;
    let second = world.resource(&resource("web-2", &[("team", "search")])?).await?;
    let unlabelled = world.resource(&resource("web-3", &[])?).await?;
    world.add_local_labels(second.1, &labels(&[("cost-centre", "4711")])).await?;
    let requests =
        [second, unlabelled, first, (first.0, unused_id()?), (first.0, second.1), second];
    let results = world.reader().read_many(&requests).await?;
    require(results.len() == requests.len(), &format!("{} of six results", results.len()))?;
    for ((project, resource), result) in requests.into_iter().zip(results) {
        let (single, result) = (world.reader().read(project, resource).await?, result?);
        require(result == single, &format!("{result:?} in the batch, {single:?} alone"))?;
    }
    let none = world.reader().read_many(&[]).await?;
    require(none.is_empty(), "an empty batch has results")
}

async fn an_invalid_handle_is_rejected(world: &dyn ResourceReaderUnderTest) -> Outcome {
    let invalid = world.resource(&resource("web-1", &[("team", "payments")])?).await?;
    let valid = world.resource(&resource("web-2", &[])?).await?;
    if !world.corrupt(invalid.1).await? {
        return Ok(());
    }
    require_invalid(world.reader().read(invalid.0, invalid.1).await)?;
    let results = world.reader().read_many(&[invalid, valid]).await?;
    require(results.len() == 2, &format!("{} results for two requests", results.len()))?;
    for (index, result) in results.into_iter().enumerate() {
        if index == 0 {
            require_invalid(result)?;
        } else {
            require(result?.is_some(), "a valid Resource is not found next to an invalid one")?;
        }
    }
    Ok(())
}

async fn unreachable_resources_are_never_absent(world: &dyn ResourceReaderUnderTest) -> Outcome {
    let (project, resource) = world.resource(&resource("web-1", &[("team", "payments")])?).await?;
    world.cut_off().await?;
    require_outage(world.reader().read(project, resource).await, "a Resource")?;
    match world.reader().read_many(&[(project, resource)]).await {
        Ok(results) => {
            require(!results.is_empty(), "the batch of an unreachable source is empty")?;
            let what = "one of many Resources";
            results.into_iter().try_for_each(|result| require_outage(result, what))
        }
        failed @ Err(_) => require_outage(failed, "many Resources"),
    }
}

fn resource(handle: &str, pairs: &[(&str, &str)]) -> Result<ResourceView, Error> {
    Ok(ResourceView::new(ResourceHandle::new(handle)?, labels(pairs)))
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
