//! Each flaw is caught by the case that was written against it, and an adapter without one by none.

use std::fmt::Debug;

use broker_ports::testing::{Suite, clock, event_sink, node_deregistrar, resolvers, token_issuer};

use super::coverage::Coverage;
use super::flawed_issuer::{self as issuer, FlawedIssuer};
use super::flawed_mesh::{self as mesh, FlawedMesh};
use super::flawed_neighbours::{self as neighbours, FlawedNeighbours};
use super::flawed_others::{self as others, FlawedWorld};

/// Runs a suite on a sound world and on each flawed one: the first passes, each of the others fails the case that
/// was written against it, and each case is failed by one of them.
async fn check<F: Copy + Debug, W>(
    suite: Suite<W>,
    with: impl Fn(F) -> W,
    sound: F,
    table: &[(F, &'static str)],
) {
    suite.run(async || with(sound)).await.assert_passed();
    let cases: Vec<_> = suite.names().collect();
    let most = cases.len() - 1;
    let mut coverage = Coverage::of(cases, most);
    for (flaw, named) in table {
        let report = suite.run(async || with(*flaw)).await;
        coverage.note(flaw, named, report.failures().map(|(name, _)| name).collect());
    }
    coverage.assert_complete();
}

#[tokio::test]
async fn a_flawed_issuer_is_caught() {
    use issuer::Flaw::*;
    let table = [
        (ReusesTheToken, "issue_whose_answer_was_lost_is_replaced_by_the_next"),
        (IssuesWithoutInvalidating, "late_arm_carries_a_dead_token"),
        (InvalidatesItsOwnOrdinalOnly, "another_ordinal_invalidates_what_is_unconsumed"),
        (LetsAnEpochAskOnce, "an_epoch_may_ask_again"),
        (AcceptsAnOlderEpoch, "issue_by_a_worker_that_lost_its_lease_is_rejected"),
        (HasOneEpochForAll, "resources_do_not_disturb_each_other"),
        (ForgetsTheEpochOfConsumed, "an_epoch_that_was_told_consumed_was_seen"),
        (InvalidatesOnRejection, "late_shell_gets_no_token"),
        (RejectsAsTransient, "issue_by_a_worker_that_lost_its_lease_is_rejected"),
        (IssuesAfterClose, "close_before_issue_rejects_it"),
        (CloseLeavesLiveTokens, "close_after_issue_invalidates_it"),
        (CloseClosesEverybody, "resources_do_not_disturb_each_other"),
        (CloseErasesConsumption, "close_keeps_what_was_consumed"),
        (CloseNeedsAToken, "close_without_a_token_rejects_later_issues"),
        (CloseWorksOnce, "close_twice_is_once"),
        (ConsumedInvalidates, "record_lost_after_issue_leaves_one_live_token"),
        (ReissuesAConsumedOrdinal, "consumption_between_observation_and_reissue_is_answered"),
        (NamesAnotherConsumedToken, "a_consumed_ordinal_stays_consumed"),
        (IgnoresTheWindow, "ttl_outside_of_the_window_is_rejected"),
        (AlwaysGrantsMax, "a_token_lives_as_long_as_was_asked_for"),
        (AlwaysGrantsMin, "a_token_lives_as_long_as_was_asked_for"),
        (TokensNeverExpire, "a_token_expires"),
        (ConsumesTwice, "a_token_is_consumed_once"),
        (ChecksFirstAndActsLater, "close_against_issue_leaves_nothing_live"),
        (IssuesHalfWhenDropped, "issue_that_was_dropped_half_way_leaves_one_token_at_most"),
        (TwoIssuesAtOnceBothLive, "at_most_one_live_token_under_32_at_once"),
        (CloseReadsThenWrites, "close_against_issue_leaves_nothing_live"),
        (ClosesHalfWhenDropped, "close_that_was_dropped_is_finished_by_the_next"),
        (PlaintextsHoldSpaces, "plaintexts_are_printable_and_new"),
        (KnowsEveryToken, "a_token_that_was_never_issued_has_no_state"),
        (NoAnswerIsNoToken, "an_issuer_that_is_cut_off_never_answers_with_absence"),
        (ClosesInAnOutage, "an_issuer_that_is_cut_off_issues_and_closes_nothing"),
        (RejectsInAnOutage, "an_issuer_that_is_cut_off_issues_and_closes_nothing"),
    ];
    check(token_issuer::suite(), FlawedIssuer::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_mesh_is_caught_by_the_deregistrar_s_suite() {
    use mesh::Flaw::*;
    let table = [
        (RegistersWhatWasIssued, "an_unconsumed_token_is_not_registered"),
        (RefusesEmptyBatches, "an_empty_batch_is_empty"),
        (RetiresEverybody, "nodes_do_not_disturb_each_other"),
        (StaysUnderWayWhenDropped, "deregister_that_was_dropped_is_finished_by_the_next"),
        (DeregistersConsumedTokensOnly, "deregister_of_an_unconsumed_token_is_success"),
        (RegisteredNeedsAPeer, "a_peer_does_not_change_that"),
        (BatchIsSorted, "a_batch_equals_its_questions_in_order"),
        (BatchAnswersATokenOnce, "a_batch_equals_its_questions_in_order"),
        (UnknownTokensAreErrors, "an_unknown_token_is_not_registered"),
        (RetireForgetsTheMark, "a_deregistered_node_gets_no_peer"),
        (RetireNeedsAPeer, "deregister_without_a_peer_is_success"),
        (RetireWorksOnce, "deregister_twice_is_once"),
        (MarkedNodesJoin, "a_deregistered_node_gets_no_peer"),
        (MarksLongAfterItDrained, "join_against_deregister_leaves_no_peer"),
        (GuessesUnregisteredInAnOutage, "a_deregistrar_that_is_cut_off_never_answers_with_absence"),
        (DeregisterSwallowsAnOutage, "a_deregistrar_that_is_cut_off_deregisters_nothing"),
    ];
    check(node_deregistrar::suite(), FlawedMesh::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_mesh_is_caught_by_the_seams_suite() {
    use mesh::Flaw::*;
    let table = [
        (BatchIsSorted, "consumers_answer_in_order"),
        (ForgetsDeregisteredNodes, "consumers_answer_in_order"),
        (RetireMarksWhileAPeerLives, "retire_leaves_a_node_whose_peer_was_not_named"),
        (RetireDrainsWhateverLives, "retire_leaves_a_node_whose_peer_is_another"),
        (RetireForgetsTheMark, "retire_drains_the_named_peer_and_marks"),
        (RetireNeedsAPeer, "retire_with_a_peer_that_is_gone_marks"),
        (RetireWorksOnce, "retire_twice_is_once"),
        (MarkedNodesJoin, "a_marked_node_gets_no_peer"),
        (MarksLongAfterItDrained, "join_against_retire_has_one_winner"),
        (RetiresHalfWhenDropped, "retire_that_was_dropped_is_finished_by_the_next"),
        (FindsPeersThatWentAway, "a_live_peer_is_found"),
        (GuessesUnregisteredInAnOutage, "seams_that_are_cut_off_never_answer_with_absence"),
        (NoAnswerIsNoPeer, "seams_that_are_cut_off_never_answer_with_absence"),
        (RetiresInAnOutage, "a_commander_that_is_cut_off_retires_nothing"),
    ];
    check(node_deregistrar::seams_suite(), FlawedMesh::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_sink_is_caught() {
    use others::Flaw::*;
    let table = [
        (SinkSaysYesAndDrops, "what_was_delivered_is_there"),
        (SinkPrintsJsonAgain, "bytes_arrive_as_they_are"),
        (SinkDeliversBackwards, "events_of_a_resource_keep_their_order"),
        (SinkMixesUpWhatArrivesAtOnce, "resources_arrive_side_by_side"),
        (SinkRefusesASecondDelivery, "a_second_delivery_is_no_error"),
        (SinkWritesHalfWhenDropped, "a_delivery_that_was_dropped_leaves_no_half_event"),
        (SinkSaysDeliveredInAnOutage, "a_sink_that_is_cut_off_delivers_nothing"),
    ];
    check(event_sink::suite(), FlawedWorld::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_clock_is_caught() {
    use others::Flaw::*;
    let table = [(ClockShowsLocalTime, "the_time_is_utc"), (ClockStandsStill, "time_passes")];
    check(clock::clock_suite(), FlawedWorld::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_id_source_is_caught() {
    use others::Flaw::*;
    let table = [
        (IdsAreVersion4, "ids_of_resources_are_version_7"),
        (IdsShrink, "ids_of_resources_grow"),
        (IdsRepeat, "no_id_is_given_twice"),
        (ReplicasShareASeed, "replicas_never_give_the_same_id"),
    ];
    check(clock::id_source_suite(), FlawedWorld::with, None, &table).await;
}

#[tokio::test]
async fn flawed_credentials_are_caught() {
    use others::Flaw::*;
    let table = [
        (CredentialsLoseTheirPath, "an_assigned_credential_is_found"),
        (CredentialsLeakAcrossProjects, "a_credential_of_another_project_is_none"),
        (CredentialsNeedNoAssignment, "a_credential_that_nobody_was_assigned_is_none"),
        (WithdrawalIsIgnored, "a_credential_that_was_withdrawn_is_none"),
        (MissingCredentialIsAnError, "a_credential_that_does_not_exist_is_none"),
        (NoAnswerIsNoCredential, "credentials_that_are_cut_off_are_never_absent"),
    ];
    check(resolvers::credential_suite(), FlawedWorld::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_catalog_is_caught() {
    use others::Flaw::*;
    let table = [
        (EveryBlueprintMakesANode, "a_published_version_is_found"),
        (OneUnreadableBlueprintSpoilsAll, "an_unreadable_version_concerns_nobody_else"),
        (UnreadableBlueprintIsAbsent, "a_version_whose_xrd_does_not_parse_is_rejected"),
        (UnreadableBlueprintIsTransient, "a_version_whose_schema_does_not_parse_is_rejected"),
        (RejectionHidesTheDomainError, "a_version_whose_xrd_does_not_parse_is_rejected"),
        (MissingBlueprintIsAnError, "a_version_that_was_not_published_is_none"),
        (UnreadableBlueprintIsAbsent, "a_catalog_that_is_cut_off_never_answers_with_absence"),
        (RejectsBlueprintsInAnOutage, "a_catalog_that_is_cut_off_never_answers_with_absence"),
    ];
    check(resolvers::blueprint_suite(), FlawedWorld::with, None, &table).await;
}

#[tokio::test]
async fn a_flawed_inventory_is_caught() {
    use neighbours::Flaw::*;
    let table = [
        (CloudsShareAnEndpoint, "a_cloud_is_found"),
        (MissingCloudIsAnError, "a_cloud_that_does_not_exist_is_none"),
        (UnreadableCloudIsAbsent, "a_cloud_that_cannot_be_read_is_rejected"),
        (UnreadableCloudIsTransient, "a_cloud_that_cannot_be_read_is_rejected"),
        (OneUnreadableCloudSpoilsAll, "an_unreadable_cloud_concerns_nobody_else"),
        (NoAnswerIsNoCloud, "an_inventory_that_is_cut_off_never_answers_with_absence"),
    ];
    check(resolvers::cloud_suite(), FlawedNeighbours::with, None, &table).await;
}

#[tokio::test]
async fn flawed_assignments_are_caught() {
    use neighbours::Flaw::*;
    let table = [
        (EveryProjectIsPlaced, "a_project_that_was_not_placed_is_none"),
        (ClustersAreForgotten, "assignment_names_its_cluster"),
        (EveryNamespaceIsReady, "a_placed_project_has_its_namespace"),
        (ReadinessIsRemembered, "readiness_is_read_anew"),
        (NoAnswerIsNoAssignment, "an_assignment_that_is_cut_off_is_never_absent"),
    ];
    check(resolvers::assignment_suite(), FlawedNeighbours::with, None, &table).await;
}

#[tokio::test]
async fn flawed_labels_are_caught() {
    use neighbours::Flaw::*;
    let table = [
        (LabelsAreCutOff, "labels_are_found"),
        (EveryResourceHasALabel, "a_resource_without_labels_has_none"),
        (MissingResourceIsAnError, "resource_absent_is_none"),
        (ResourcesLeakAcrossProjects, "resource_of_another_project_is_none"),
        (LabelsAreShared, "labels_stay_with_their_resource"),
        (ManyAreAnsweredOnceEach, "many_are_answered_as_one_is"),
        (ManyLeaveOutTheBare, "many_are_answered_as_one_is"),
        (EveryLabelPropagates, "labels_that_do_not_propagate_stay_here"),
        (NoAnswerIsNoLabel, "labels_that_are_cut_off_are_never_empty"),
    ];
    check(resolvers::label_suite(), FlawedNeighbours::with, None, &table).await;
}
