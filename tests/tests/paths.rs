//! Every path of a resource's life, walked from end to end in memory. [`every_path!`] makes a test of each.

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

/// Another party deletes the composite resource, and what it composed goes with it.
fn delete_by_hand(world: &World, resource: &ProvisionedResource) {
    world.cluster.delete_in_background(&world.xr(resource));
    world.cluster.settle(5);
}

/// Rounds until the resource is in a phase that it may be in already.
async fn rounds_until(world: &World, id: ProvisionedResourceId, phase: Phase) {
    while world.get(id).await.phase() != phase {
        world.round(id).await.unwrap();
    }
}

/// What was done to a resource, in the audit's words.
async fn story(world: &World, id: ProvisionedResourceId) -> Vec<&'static str> {
    let lines = world.ports.repository.history(id).await.unwrap();
    lines.into_iter().map(|line| line.entry.action.as_str()).collect()
}

/// How often something was done to it.
async fn times(world: &World, id: ProvisionedResourceId, action: &str) -> usize {
    story(world, id).await.into_iter().filter(|done| *done == action).count()
}

/// A test for every path, each in a world that the expression makes.
macro_rules! every_path {
    ($world:expr) => {
        every_path!(@ $world;
            // up
            a_node_comes_up_and_enrols,
            a_standalone_resource_comes_up_without_a_token,
            required_parameters_are_kept_and_rendered,
            a_composite_resource_deleted_by_hand_is_made_again,
            a_node_whose_composite_resource_is_deleted_is_made_again,
            an_enrolled_node_is_replaced_by_a_new_one_with_a_new_token,
            drift_is_mended_and_the_injected_token_is_kept,
            // waiting
            a_namespace_that_is_not_ready_is_waited_for,
            an_expired_token_is_not_replaced,
            a_lost_node_is_waited_for_and_gets_no_second_token,
            a_credential_that_was_not_assigned_does_not_exist,
            a_retry_is_free_and_another_declaration_under_its_name_is_refused,
            a_paused_resource_is_not_worked_on,
            a_composite_resource_with_another_token_ends_the_pass_quietly,
            // down
            a_terminal_failure_is_retained_until_it_is_deleted,
            a_terminal_failure_is_rolled_back,
            a_composite_resource_deleted_by_hand_leaves_a_failure_as_it_is,
            deletion_leads_away_from_every_phase,
            asking_for_a_deletion_again_changes_nothing,
            a_composite_resource_deleted_by_hand_on_the_way_down_is_not_made_again,
            the_provider_config_goes_last,
            an_abandoned_resource_is_left_alone,
            the_audit_tells_the_story,
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
