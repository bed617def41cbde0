//! What can be wrong with the way to the cluster, each with a case that has to notice it.

macro_rules! flaws {
    ($($flaw:ident => $case:literal,)+) => {
        /// Which promise a way to the cluster breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Flaw {
            $($flaw,)+
        }

        /// Every flaw, and a case that fails because of it.
        pub(crate) const FLAWS: &[(Flaw, &str)] = &[$((Flaw::$flaw, $case)),+];
    };
}

flaws! {
    // Applying.
    OverwritesOnConflict => "an_older_arm_is_refused_after_a_touch",
    CreatesOnReapply => "a_reapply_of_what_is_gone_creates_nothing",
    OverwritesNamesakes => "a_reapply_of_a_namesake_changes_nothing",
    OverwritesFieldsOfOthers => "fields_of_others_stay",
    ResetsTheStatus => "status_of_others_stays",
    YieldsToOthers => "what_others_changed_of_ours_is_taken_back",
    ChangesEveryTime => "an_apply_that_changes_nothing_keeps_the_version",
    Revives => "an_apply_does_not_revive_what_is_being_deleted",
    LosesTheInjection => "a_reapply_keeps_the_injected_token",
    KeepsThePause => "an_arm_injects_and_drops_the_pause",
    LeavesTheProject => "an_apply_for_another_project_is_refused",
    CreatesNamespaces => "a_namespace_is_never_created",
    EchoesTheToken => "a_refusal_repeats_no_token",
    RefusesTransiently => "an_undeclared_field_is_rejected",
    LeavesHalfAnApply => "a_first_apply_that_was_dropped_is_whole_or_nothing",
    DryRunStores => "a_dry_run_shows_and_stores_nothing",
    DryRunsAnywhere => "a_dry_run_for_another_project_is_refused",
    DryRunsPastPreconditions => "a_dry_run_tells_a_conflict",
    // Deleting.
    DeletesInTheBackground => "a_deletion_waits_for_what_was_composed",
    DeletesInTheBackgroundWhenDropped => "a_deletion_that_was_dropped_still_waits",
    DeletesNamesakes => "a_deletion_of_a_namesake_changes_nothing",
    DeletesComposedObjects => "a_composed_object_is_never_deleted",
    DeletesTheWholeNamespace => "a_deletion_spares_the_neighbours",
    DeletesForEver => "a_deletion_ends_after_what_was_composed",
    OverridesVetoes => "a_veto_is_told_in_its_words",
    VetoesTheNextToo => "a_veto_concerns_one_object",
    TakesGoneForAnError => "a_deletion_of_what_is_gone_says_so",
    TakesForbiddenForGone => "a_forbidden_deletion_is_an_error",
    TakesAnOutageForGone => "a_cluster_that_is_cut_off_changes_nothing",
    // Reading.
    TakesForbiddenForAbsent => "a_forbidden_read_is_an_error",
    TakesAnOutageForAbsent => "a_cluster_that_is_cut_off_never_answers_with_absence",
    ReadsFromACache => "a_reading_is_never_stale",
    ReadsHalf => "half_a_reading_is_an_error",
    ReadsByLabel => "an_object_without_our_label_is_read",
    ReadsNothingOutsideOfNamespaces =>
        "a_cluster_scoped_composite_is_applied_without_a_namespace",
    ReadsWithoutParameters => "a_first_apply_creates_onto_a_free_name",
    ReadsWithoutAnnotations => "a_shell_is_paused_and_carries_its_epoch",
    ReadsWithoutReferences => "references_are_read",
    TakesAbsentKindsForAbsentObjects => "an_absent_kind_is_told_apart",
    TakesAbsentNamespacesForAbsentObjects => "an_absent_namespace_is_told_apart",
    TakesAbsentObjectsForAbsentKinds => "an_absent_object_is_absent",
    ForgetsLabelledObjects => "labelled_objects_are_found",
    ForgetsRecordedObjects => "recorded_objects_are_read_by_name",
    RemembersRecordedObjects => "recorded_objects_of_an_absent_kind_are_gone",
    NamesAnotherCluster => "the_cluster_is_its_kube_system",
    // Looking at many.
    ShufflesObservations => "observations_keep_their_order",
    FailsObservationsTogether => "a_forbidden_kind_spoils_only_its_own",
    ObservesNoReferences => "an_observation_shows_what_stands",
    MissesNoConfig => "drift_and_a_missing_config_are_observed",
    RemembersTheFirstDigest => "the_owned_digest_changes_with_drift",
    EmptiesItsCacheInAnOutage => "an_observation_that_is_cut_off_is_never_absence",
    ListsOnePageOnly => "owned_objects_are_listed_to_the_end",
    ListsByCounting => "owned_pages_do_not_drift_while_objects_go",
    ListsNamesOfOursOnly => "what_carries_our_label_is_listed_whatever_its_name",
    ListsNothingBesideExceptions => "what_is_excepted_hides_nothing_else",
    ListsNothingInAnOutage => "a_cluster_that_is_cut_off_never_answers_with_absence",
    ListsWhatIsNotOurs => "what_lost_our_label_is_not_listed",
    ListsForbiddenAsNothing => "a_forbidden_listing_is_an_error",
    NeverHints => "a_change_gives_a_hint",
    HintsOfCompositesOnly => "a_provider_config_gives_a_hint",
    // Inspecting.
    InventsAbsenceWhenInspecting => "a_forbidden_fact_is_unknown",
    InspectsAnOutageAsAbsence => "an_inspection_that_is_cut_off_knows_nothing",
    ShufflesInspections => "many_are_inspected_as_each_by_itself",
    NamesNoRivals => "a_rival_manager_is_named",
    HidesPauses => "a_pause_and_a_deletion_are_reported",
    HidesDeletions => "a_pause_and_a_deletion_are_reported",
    TakesTerminatingForActive => "a_namespace_that_goes_is_terminating",
    InspectsRecordedObjectsOnly => "composed_objects_are_found_three_ways",
    TellsTheOldestFirst => "events_come_newest_first",
    TellsEventsOfEverybody => "events_come_newest_first",
    EchoesEvents => "an_event_repeats_no_token",
}
