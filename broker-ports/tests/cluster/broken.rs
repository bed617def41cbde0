//! The suite finds what is wrong: each broken way to the cluster fails at least the case that names it.

use broker_ports::testing::cluster::suite;

use crate::flaws::Flaw;
use crate::world::World;

/// The case that has to fail, among perhaps others.
const fn caught_by(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::OverwritesOnConflict => "an_older_arm_is_refused_after_a_touch",
        Flaw::CreatesOnReapply => "a_reapply_of_what_is_gone_creates_nothing",
        Flaw::OverwritesNamesakes => "a_reapply_of_a_namesake_changes_nothing",
        Flaw::OverwritesFieldsOfOthers => "fields_of_others_stay",
        Flaw::LosesTheInjection => "a_reapply_keeps_the_injected_token",
        Flaw::KeepsThePause => "an_arm_injects_and_drops_the_pause",
        Flaw::LeavesTheProject => "an_apply_for_another_project_is_refused",
        Flaw::CreatesNamespaces => "a_namespace_is_never_created",
        Flaw::EchoesTheToken => "a_refusal_repeats_no_token",
        Flaw::RefusesTransiently => "an_undeclared_field_is_rejected",
        Flaw::DryRunStores => "a_dry_run_shows_and_stores_nothing",
        Flaw::DeletesInTheBackground => "a_deletion_waits_for_what_was_composed",
        Flaw::DeletesNamesakes => "a_deletion_of_a_namesake_changes_nothing",
        Flaw::DeletesComposedObjects => "a_composed_object_is_never_deleted",
        Flaw::OverridesVetoes => "a_veto_is_told_in_its_words",
        Flaw::TakesForbiddenForGone => "a_forbidden_deletion_is_an_error",
        Flaw::TakesForbiddenForAbsent => "a_forbidden_read_is_an_error",
        Flaw::TakesAnOutageForGone => "a_cluster_that_is_cut_off_changes_nothing",
        Flaw::TakesAnOutageForAbsent => "a_cluster_that_is_cut_off_never_answers_with_absence",
        Flaw::ReadsFromACache => "a_reading_is_never_stale",
        Flaw::ReadsHalf => "half_a_reading_is_an_error",
        Flaw::TakesAbsentKindsForAbsentObjects => "an_absent_kind_is_told_apart",
        Flaw::TakesAbsentNamespacesForAbsentObjects => "an_absent_namespace_is_told_apart",
        Flaw::ForgetsLabelledObjects => "labelled_objects_are_found",
        Flaw::ForgetsRecordedObjects => "recorded_objects_are_read_by_name",
        Flaw::ShufflesObservations => "observations_keep_their_order",
        Flaw::FailsObservationsTogether => "a_forbidden_kind_spoils_only_its_own",
        Flaw::ListsOnePageOnly => "owned_objects_are_listed_to_the_end",
        Flaw::NeverHints => "a_change_gives_a_hint",
        Flaw::InventsAbsenceWhenInspecting => "a_forbidden_fact_is_unknown",
        Flaw::EmptiesItsCacheInAnOutage => "an_observation_that_is_cut_off_is_never_absence",
        Flaw::NamesAnotherCluster => "the_cluster_is_its_kube_system",
    }
}

#[tokio::test(start_paused = true)]
async fn every_flaw_is_caught_by_the_case_that_names_it() {
    let suite = suite();
    for flaw in Flaw::ALL {
        let report = suite.run(|| async { World::with(flaw) }).await;
        let failed: Vec<_> = report.failures().map(|(name, _)| name).collect();
        println!("{flaw:?} fails {}", failed.join(", "));
        let expected = caught_by(flaw);
        assert!(failed.contains(&expected), "{flaw:?} passes {expected}; it fails {failed:?}");
        // A flaw that fails everything says nothing about any one case.
        assert!(failed.len() < report.ran() / 2, "{flaw:?} fails {} cases", failed.len());
    }
}
