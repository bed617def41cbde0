//! Every path of a resource's lifetime, end to end in memory. [`every_path!`] makes a test of each.

#[path = "paths/down.rs"]
mod down;
#[path = "paths/up.rs"]
mod up;
#[path = "paths/waiting.rs"]
mod waiting;

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_tests::world::{World, operator};

pub(crate) use down::*;
pub(crate) use up::*;
pub(crate) use waiting::*;

async fn request_deletion(world: &World, id: ProvisionedResourceId) -> ProvisionedResource {
    world.service.deprovision(&operator(), id).await.unwrap()
}

fn delete_by_hand(world: &World, resource: &ProvisionedResource) {
    world.cluster.delete_in_background(&world.xr(resource));
    world.cluster.settle(5);
}

/// Rounds until the resource is in a phase, possibly none.
async fn rounds_until(world: &World, id: ProvisionedResourceId, phase: Phase) {
    while world.get(id).await.phase() != phase {
        world.round(id).await.unwrap();
    }
}

async fn story(world: &World, id: ProvisionedResourceId) -> Vec<&'static str> {
    let lines = world.ports.repository.history(id).await.unwrap();
    lines.into_iter().map(|line| line.entry.action.as_str()).collect()
}

async fn times(world: &World, id: ProvisionedResourceId, action: &str) -> usize {
    story(world, id).await.into_iter().filter(|done| *done == action).count()
}

/// One test per path, each in the world that the expression creates.
macro_rules! every_path {
    ($world:expr) => {
        every_path!(@ $world;
            // convergence
            a_node_comes_up_and_enrols,
            a_standalone_resource_comes_up_without_a_token,
            required_parameters_are_kept_and_rendered,
            lost_xr_of_a_standalone_resource_is_recreated,
            lost_xr_of_a_node_is_recreated,
            an_enrolled_node_is_replaced_by_a_new_one_with_a_new_token,
            drift_is_repaired_and_the_injected_token_kept,
            // waiting
            a_namespace_that_is_not_ready_is_waited_for,
            an_expired_token_is_not_replaced,
            a_lost_node_is_waited_for_and_gets_no_second_token,
            unassigned_credential_is_refused_as_absent,
            retry_is_idempotent_and_its_request_id_is_taken,
            a_paused_resource_is_not_worked_on,
            xr_with_another_token_ends_the_pass_without_error,
            // teardown
            a_terminal_failure_is_retained_until_it_is_deleted,
            a_terminal_failure_is_rolled_back,
            xr_deleted_by_another_party_keeps_a_failure,
            deletion_is_possible_in_every_phase,
            repeated_deletion_request_changes_nothing,
            xr_deleted_by_another_party_in_teardown_stays_deleted,
            the_provider_config_goes_last,
            abandoned_resource_is_left_alone,
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
