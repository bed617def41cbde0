//! Every path of a resource's lifetime, end to end in memory. [`every_path!`] makes a test of each.

#[path = "paths/teardown.rs"]
mod teardown;
#[path = "paths/converge.rs"]
mod converge;
#[path = "paths/waiting.rs"]
mod waiting;

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_tests::world::{World, operator};

pub(crate) use converge::*;
pub(crate) use teardown::*;
pub(crate) use waiting::*;

async fn request_deletion(world: &World, id: ProvisionedResourceId) -> ProvisionedResource {
    world.service.deprovision(&operator(), id).await.unwrap()
}

fn delete_xr_as_another_party(world: &World, resource: &ProvisionedResource) {
    world.cluster.delete_in_background(&world.xr(resource));
    world.cluster.settle(5);
}

/// Runs passes until the resource is in the phase.
async fn rounds_until(world: &World, id: ProvisionedResourceId, phase: Phase) {
    while world.get(id).await.phase() != phase {
        world.round(id).await.unwrap();
    }
}

async fn audited_actions(world: &World, id: ProvisionedResourceId) -> Vec<&'static str> {
    let records = world.ports.repository.history(id).await.unwrap();
    records.into_iter().map(|record| record.entry.action.as_str()).collect()
}

async fn count_audited(world: &World, id: ProvisionedResourceId, action: &str) -> usize {
    audited_actions(world, id).await.into_iter().filter(|audited| *audited == action).count()
}

/// One test per path, each in the world that the expression creates.
macro_rules! every_path {
    ($world:expr) => {
        every_path!(@ $world;
            // convergence
            node_becomes_ready_and_enrols,
            standalone_resource_becomes_ready_without_a_token,
            required_parameters_are_stored_and_rendered,
            lost_xr_of_a_standalone_resource_is_recreated,
            lost_xr_of_a_node_is_recreated,
            lost_enrolled_node_is_replaced_with_a_new_token,
            drift_repair_keeps_the_injected_token,
            // waiting
            pass_waits_for_an_unready_namespace,
            an_expired_token_is_not_replaced,
            lost_node_gets_no_second_token,
            unassigned_credential_is_refused_as_absent,
            retry_returns_the_first_resource,
            paused_resource_gets_no_pass,
            xr_with_another_token_ends_the_pass_without_error,
            // teardown
            terminal_failure_is_retained_until_deletion,
            terminal_failure_is_rolled_back,
            failure_survives_the_deletion_of_its_xr,
            deletion_in_every_phase_leaves_no_object,
            repeated_deletion_request_changes_nothing,
            xr_deleted_during_teardown_is_not_recreated,
            provider_config_is_deleted_last,
            abandoned_resource_gets_no_pass,
            audit_lists_every_action,
        );
    };
    (@ $world:expr; $($path:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $path() {
                $crate::paths::$path(&$world).await;
            }
        )*
    };
}

pub(crate) use every_path;
