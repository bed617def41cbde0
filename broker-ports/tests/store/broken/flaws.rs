//! The ways to break the contract, each with a case that has to notice it.

macro_rules! flaws {
    ($($(#[$docs:meta])* $flaw:ident => $case:literal,)+) => {
        /// Which promise a store breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Flaw {
            $($(#[$docs])* $flaw,)+
        }

        /// Every flaw, and a case that fails because of it.
        pub(crate) const FLAWS: &[(Flaw, &str)] = &[$((Flaw::$flaw, $case)),+];
    };
}

flaws! {
    // Repository: writes.
    DropsTheVersionCheck => "a_write_from_an_older_version_changes_nothing",
    IgnoresTheEpoch => "a_write_of_a_worker_that_lost_its_lease_changes_nothing",
    TakesAnyNewerEpoch => "an_epoch_that_was_never_given_writes_nothing",
    AcceptsIllegalEdges => "teardown_never_turns_back",
    AcceptsOtherKinds => "a_change_of_another_kind_is_refused",
    WritesHalfOfAStaleChange => "a_write_from_an_older_version_changes_nothing",
    ForgetsTheAuditLine => "a_deletion_request_commits_with_its_event_and_is_due_at_once",
    ForgetsTheEvent => "an_acknowledged_event_makes_room_for_the_next",
    AuditForgetsEpoch => "a_change_of_phase_commits_row_event_and_audit_line",
    DeletionWaitsForTheLease => "a_deletion_request_goes_through_whoever_holds_the_lease",
    DeletionIsNotDue => "a_deletion_request_commits_with_its_event_and_is_due_at_once",
    KeepsTheCallersTime => "the_time_of_the_last_change_is_the_stores",
    TellsLosersThatTheyWon => "of_16_writers_of_one_version_one_commits",
    KeepsTheLosersEvent => "a_write_that_lost_its_race_leaves_no_event",
    RefusesLeasesThatAreOver => "a_lease_that_is_over_and_was_not_taken_still_writes",
    CommitsInAnOutage => "a_store_that_is_cut_off_commits_nothing",
    // Repository: creation and reading.
    LosesTheRequestId => "a_request_id_finds_its_resource_and_digest",
    StoresEveryRequest => "of_16_creations_with_one_request_id_one_stores",
    ReplaysOnConflict => "a_request_id_with_another_declaration_is_a_conflict",
    BelievesEveryReference => "what_a_declaration_refers_to_has_to_exist",
    TakesAnIdTwice => "an_id_that_is_taken_is_refused",
    TakesAnEventIdTwice => "an_event_id_that_is_taken_is_refused",
    ReplaysWithoutARequestId => "declarations_without_a_request_id_are_all_stored",
    SharesRequestIdsBetweenProjects => "a_request_id_that_nobody_used_finds_nothing",
    LosesTheParameters => "a_declaration_reads_back_as_it_was_made",
    LosesTheSubstrate => "every_phase_reads_back_as_it_was_written",
    InventsAResource => "an_id_that_was_never_stored_is_absent",
    ListsAGhost => "an_empty_store_lists_nothing",
    SweepsWithoutVersions => "a_compact_row_says_what_its_resource_says",
    InventsAbsence => "a_store_that_is_cut_off_never_answers_with_absence",
    SkipsARowBetweenPages => "pages_come_in_the_order_of_ids_and_visit_each_once",
    EndsWithTheFirstPage => "sweep_pages_visit_each_once",
    WatermarkTooNew => "following_the_watermark_misses_no_change",
    WatermarkNeverMoves => "updated_since_leaves_out_what_did_not_change",
    SweepsWithoutRollbacks => "what_is_at_rest_is_not_swept",
    // Repository: the end.
    PurgesWithUnacknowledgedEvents => "a_purge_waits_for_events_to_be_acknowledged",
    PurgesAtOnce => "only_what_was_deleted_for_long_is_purged",
    PurgesWithoutAudit => "every_purged_resource_has_its_audit_line",
    PurgesWithoutLimit => "a_purge_takes_no_more_than_it_was_told",
    PurgesTheRowAlone => "a_purge_frees_the_request_id",
    RemembersWhatWasPurged => "a_purged_resource_is_gone",
    MixesHistories => "histories_of_resources_are_apart",
    ScrubRemovesLines => "scrubbing_blanks_what_people_wrote_and_nothing_else",
    ScrubsNothingWithALine => "scrubbing_what_has_no_audit_leaves_no_line",
    // Schedule.
    ClaimsTwice => "what_is_held_is_not_claimed",
    SharesWhatIsDue => "claims_at_once_share_what_is_due",
    ClaimsMoreThanAskedFor => "no_more_is_claimed_than_was_asked_for",
    ClaimsWhatIsNotDue => "only_what_is_due_is_claimed_unless_by_name",
    ClaimsWhatIsAtRest => "what_is_at_rest_is_never_claimed",
    LeasesForTooShort => "a_lease_says_who_holds_what_until_when",
    KeepsTheEpoch => "every_claim_raises_the_epoch_by_one",
    IgnoresThePause => "what_is_paused_is_never_claimed",
    NeverTakesOver => "a_lease_that_is_over_is_taken_over",
    HidesTheTakeover => "a_lease_that_is_over_is_taken_over",
    HasOneLane => "lanes_are_apart",
    ServesTheOldestProject => "one_claim_serves_every_project",
    ServesOneProjectPerClaim => "projects_take_turns_however_few_are_claimed",
    PutsOffAfterAChange => "a_release_never_puts_off_what_somebody_changed",
    ReleaseResetsNothing => "a_failure_is_counted_and_kept_until_a_success",
    ReleasesTwice => "a_lease_is_given_back_once",
    KeepsWhatWasGivenBack => "a_lease_that_was_given_back_is_held_by_nobody",
    ForgetsThatItWasGivenBack => "a_lease_that_was_given_back_is_no_takeover",
    TakesNoLateRelease => "a_lease_that_is_over_and_was_not_taken_is_given_back",
    ForgetsTheDueTime => "a_success_is_due_again_when_it_said",
    SeesOwnWritesAsOthers => "a_release_counts_from_the_versions_of_its_own_writes",
    BacksOffWithoutJitter => "failures_back_off_within_bounds_and_apart",
    BacksOffWithoutBound => "failures_back_off_within_bounds_and_apart",
    NeverBacksOff => "failures_back_off_within_bounds_and_apart",
    PutsOffWhatIsDue => "setting_due_puts_nothing_off",
    AuditsTheSchedule => "setting_due_leaves_attempts_and_audit_as_they_are",
    SchedulesNothing => "what_is_not_there_has_no_schedule",
    InventsAnEmptySchedule => "a_schedule_that_is_cut_off_never_answers_with_absence",
    PauseEndsTheLease => "a_pause_lets_the_pass_under_way_go_on",
    ResumesWithoutHaste => "a_resumed_resource_is_due_at_once",
    BrakesEveryCluster => "a_brake_holds_until_it_is_released",
    PausesWithoutAudit => "pause_and_resume_are_audited_once_each",
    OverwritesTheBrake => "a_second_brake_keeps_the_first",
    BrakesWithoutAudit => "a_brake_is_audited_where_it_changes",
    WakesNobody => "whoever_listens_is_woken",
    // Outbox.
    EventsOutOfOrder => "events_of_a_resource_arrive_in_order_without_a_gap",
    RewritesThePayload => "events_come_as_they_were_committed",
    ClaimsAnEventTwice => "of_16_claims_on_one_event_one_gets_it",
    AcknowledgesWithALostClaim => "a_lost_claim_acknowledges_nothing",
    LosesClaimsByTime => "a_late_acknowledgement_is_taken_if_nobody_claimed_since",
    SetsNothingAside =>
        "what_was_set_aside_is_not_claimed_and_holds_up_its_resource_only",
    ResumesEventsWithoutAudit => "taking_up_is_audited",
    SkipsOnRetry => "a_retry_delivers_again_with_fresh_attempts",
    PurgesWaitingEvents => "only_events_that_were_acknowledged_for_long_are_purged",
    PurgesEventsWithoutLimit => "a_purge_of_events_takes_no_more_than_it_was_told",
    ForgetsWhatIsSetAside =>
        "what_was_set_aside_is_not_claimed_and_holds_up_its_resource_only",
    // Audit.
    LosesRecordedLines => "a_line_is_kept_as_it_was_recorded",
    RecordsAThingOnce => "what_is_recorded_twice_has_two_lines",
    AuditNewestFirst => "lines_keep_their_order_among_those_of_writes",
    RecordsNothingInAnOutage => "an_audit_that_is_cut_off_says_so",
}
