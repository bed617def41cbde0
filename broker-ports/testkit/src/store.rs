//! The contracts of [`Repository`], [`Schedule`], [`Outbox`] and [`AuditSink`], which one store implements
//! together.
//!
//! Every promise of their documentation is a case. A case never sleeps: it moves the store's time by a hook
//! that the embedder provides.
//!
//! ```
//! # fn main() {
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use async_trait::async_trait;
//! # use broker_domain::Declaration;
//! # use broker_ports::*;
//! # use broker_memory::{ManualClock, MemoryStore};
//! # use broker_testkit::builders::second;
//! # struct MyStore { store: MemoryStore, clock: ManualClock }
//! # impl MyStore {
//! #     async fn fresh() -> Self {
//! #         let clock = ManualClock::at(second(0));
//! #         Self { store: MemoryStore::new(Arc::new(clock.clone())).checking_references(), clock }
//! #     }
//! # }
//! use broker_testkit::store::{StoreUnderTest, outbox_suite};
//!
//! #[async_trait]
//! impl StoreUnderTest for MyStore {
//!     fn repository(&self) -> &dyn Repository { &self.store }
//!     fn schedule(&self) -> &dyn Schedule { &self.store }
//!     fn outbox(&self) -> &dyn Outbox { &self.store }
//!     fn audit(&self) -> &dyn AuditSink { &self.store }
//!     fn backoff(&self) -> Backoff { self.store.backoff() }
//!
//!     async fn know(&self, declaration: &Declaration) -> Result<(), PortError> {
//!         self.store.know(declaration);
//!         Ok(())
//!     }
//!     async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
//!         Ok(self.store.audit_trail())
//!     }
//!     async fn advance(&self, by: Duration) -> Result<(), PortError> {
//!         self.clock.advance(by);
//!         Ok(())
//!     }
//!     async fn cut_off(&self) -> Result<(), PortError> {
//!         self.store.set_reachable(false);
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! outbox_suite().run(MyStore::fresh).await.assert_passed();
//! # });
//! # }
//! ```

mod audit;
mod bench;
mod brake;
mod claim;
mod create;
mod delayed;
mod dropping;
mod guard;
mod list;
mod moments;
mod outage;
mod outbox;
mod purge;
mod release;
mod replace;
mod schedule;
mod set_aside;
mod unreadable;
mod write;

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResourceId};

use super::cases::suite_of;
use super::{Case, Suite, Violation};
use broker_ports::Admitted;
use broker_ports::AuditSink;
use broker_ports::Outbox;
use broker_ports::PortError;
use broker_ports::{AuditRecord, Created, Repository};
use broker_ports::{Backoff, Schedule};

type Outcome = Result<(), Violation>;

/// A store that is empty and that nobody else uses, with the hooks that the suites need.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The aggregate in the store.
    fn repository(&self) -> &dyn Repository;

    /// Who works on what, over the same store.
    fn schedule(&self) -> &dyn Schedule;

    /// Events on their way out, over the same store.
    fn outbox(&self) -> &dyn Outbox;

    /// The audit, over the same store.
    fn audit(&self) -> &dyn AuditSink;

    /// The bounds of the back-off that the store was told.
    fn backoff(&self) -> Backoff;

    /// Makes everything exist that the declaration refers to. What nobody asked for must not exist.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn know(&self, declaration: &Declaration) -> Result<(), PortError>;

    /// The whole audit, of all resources and of none, oldest line first.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError>;

    /// Lets time pass for the store, without waiting: by a clock that it was given, or by moving every time
    /// that it stored into the past. The suites compare times only within one answer, so that both will do.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn advance(&self, by: Duration) -> Result<(), PortError>;

    /// Begins to store a declaration, in a transaction that stays open until the case commits it: the new row
    /// is written and nobody sees it yet. Whoever can store in a transaction of the host's does it here.
    ///
    /// The default is for a store whose writes are one step, so that none of them can be seen half way:
    /// everything happens at the commit.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn begin_create<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        Ok(Box::new(OneStep { repository: self.repository(), admitted: admitted.clone() }))
    }

    /// Makes the stored row of a resource unreadable, behind the adapter's back: as it would be if somebody else
    /// had written what the domain's rules forbid. Answers whether that is possible.
    ///
    /// The default is for a store that keeps what it was given and reads nothing back.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn spoil(&self, _id: ProvisionedResourceId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Cuts the adapter off from its store for the rest of the case, as a network does that fails.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// A transaction of [`StoreUnderTest::begin_create`].
#[async_trait]
pub trait OpenTransaction: Send {
    /// Commits it.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn commit(self: Box<Self>) -> Result<(), PortError>;
}

/// A write that is one step, and happens when it is committed.
struct OneStep<'a> {
    repository: &'a dyn Repository,
    admitted: Admitted,
}

#[async_trait]
impl OpenTransaction for OneStep<'_> {
    async fn commit(self: Box<Self>) -> Result<(), PortError> {
        match self.repository.create(&self.admitted).await? {
            Created::Stored => Ok(()),
            other @ (Created::Replayed(_) | Created::Conflict) => {
                Err(PortError::rejected(format!("a new declaration is answered {other:?}")))
            }
        }
    }
}

/// Every promise of [`Repository`].
pub fn repository_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let mut cases = writing();
    cases.extend(reading());
    cases.extend(suite_of!(outage {
        a_store_that_is_cut_off_never_answers_with_absence,
        a_store_that_is_cut_off_commits_nothing,
    }));
    cases.extend(suite_of!(dropping {
        a_creation_that_was_dropped_is_whole_or_nothing,
        a_change_that_was_dropped_is_whole_or_nothing,
        a_deletion_request_that_was_dropped_is_whole_or_nothing,
        a_purge_that_was_dropped_is_audited_once,
    }));
    cases.extend(suite_of!(unreadable {
        a_row_that_cannot_be_read_is_rejected_by_name,
        unreadable_row_shows_in_its_own_project_only,
        a_row_that_cannot_be_read_concerns_nobody_else,
        a_listing_names_a_row_that_cannot_be_read_and_goes_on,
        a_sweep_page_goes_on_past_a_row_that_cannot_be_read,
    }));
    Suite::new(cases)
}

/// Every promise of [`Schedule`].
pub fn schedule_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let mut cases = suite_of!(claim {
        every_claim_raises_the_epoch_by_one,
        a_lease_says_who_holds_what_until_when,
        of_16_claims_on_one_resource_one_gets_it,
        claims_at_once_share_what_is_due,
        what_is_held_is_not_claimed,
        a_lease_that_is_over_is_taken_over,
        a_lease_that_was_given_back_is_no_takeover,
        lanes_are_apart,
        what_is_at_rest_is_never_claimed,
        what_is_paused_is_never_claimed,
        claim_of_another_cluster_gets_nothing,
        claim_without_a_cluster_gets_every_clusters,
        claim_even_paused_gets_a_paused_resource,
        a_pause_lets_the_pass_under_way_go_on,
        only_what_is_due_is_claimed_unless_by_name,
        no_more_is_claimed_than_was_asked_for,
        one_claim_serves_every_project,
        projects_take_turns_however_few_are_claimed,
        within_a_project_what_is_due_longest_comes_first,
    });
    cases.extend(suite_of!(release {
        a_success_is_due_again_when_it_said,
        a_success_that_names_no_time_leaves_it_to_the_sweep,
        a_lease_that_was_given_back_is_held_by_nobody,
        a_failure_is_counted_and_kept_until_a_success,
        failures_back_off_within_bounds_and_apart,
        a_failure_waits_as_long_as_it_was_asked_to,
        a_wait_that_was_asked_for_is_capped,
        a_pass_that_ended_early_backs_off_from_soon,
        a_row_that_was_not_read_is_released_with_its_failure,
        a_release_counts_from_the_versions_of_its_own_writes,
        a_release_never_puts_off_what_somebody_changed,
        a_release_never_puts_off_a_wish_of_meanwhile,
        a_wish_from_before_a_claim_is_heard_by_it,
        a_release_may_bring_forward_what_somebody_changed,
        a_lost_lease_gives_nothing_back,
        a_lease_is_given_back_once,
        a_lease_that_is_over_and_was_not_taken_is_given_back,
    }));
    cases.extend(suite_of!(schedule {
        what_is_set_due_is_due,
        setting_due_puts_nothing_off,
        setting_due_leaves_attempts_and_audit_as_they_are,
        what_is_not_there_has_no_schedule,
        pause_and_resume_are_audited_once_each,
        a_resumed_resource_is_due_at_once,
        whoever_listens_is_woken,
    }));
    cases.extend(suite_of!(brake {
        a_brake_holds_until_it_is_released,
        a_second_brake_keeps_the_first,
        a_brake_is_audited_where_it_changes,
        permits_stay_within_the_allowance,
        permits_at_once_stay_within_the_allowance,
        the_allowance_grows_with_what_was_applied,
        a_loss_is_permitted_once_and_reused,
        a_brake_grants_nothing_in_its_reach,
        an_accepted_loss_is_due_and_needs_no_permit,
        a_permit_needs_lease_and_version,
        acceptance_ends_when_the_composite_stands,
        permit_of_a_purged_resource_stays_spent,
    }));
    cases.extend(suite_of!(outage {
        a_schedule_that_is_cut_off_never_answers_with_absence,
        a_schedule_that_is_cut_off_changes_nothing,
    }));
    cases.extend(suite_of!(dropping {
        a_claim_that_was_dropped_ends_by_itself,
        a_release_that_was_dropped_counts_once,
        a_pause_that_was_dropped_is_audited_once,
    }));
    Suite::new(cases)
}

/// Every promise of [`Outbox`].
pub fn outbox_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let mut cases = suite_of!(outbox {
        events_come_as_they_were_committed,
        of_each_resource_only_the_earliest_event_is_claimed,
        events_of_a_resource_arrive_in_order_without_a_gap,
        of_16_claims_on_one_event_one_gets_it,
        a_claim_that_is_over_makes_room_and_is_no_attempt,
        an_acknowledged_event_makes_room_for_the_next,
        a_lost_claim_acknowledges_nothing,
        a_late_acknowledgement_is_taken_if_nobody_claimed_since,
        an_event_is_acknowledged_once,
        no_more_events_are_claimed_than_were_asked_for,
        a_write_that_lost_its_race_leaves_no_event,
        only_events_that_were_acknowledged_for_long_are_purged,
        a_purge_of_events_takes_no_more_than_it_was_told,
        a_skipped_event_is_purged_like_any_other,
        the_backlog_counts_what_waits,
    });
    cases.extend(suite_of!(delayed {
        a_delayed_event_holds_up_its_resource_only,
        only_a_rejection_counts_as_an_attempt,
        a_claim_that_was_delayed_is_lost,
    }));
    cases.extend(suite_of!(set_aside {
        what_was_set_aside_is_not_claimed_and_holds_up_its_resource_only,
        an_event_is_set_aside_once,
        a_retry_delivers_again_with_fresh_attempts,
        a_claim_from_before_a_retry_is_lost,
        a_skip_goes_on_with_the_next,
        taking_up_is_audited,
        taking_up_nothing_changes_nothing,
        what_was_set_aside_can_be_asked_for,
        what_was_set_aside_can_be_asked_for_by_project,
    }));
    cases.extend(suite_of!(outage { an_outbox_that_is_cut_off_never_answers_with_absence }));
    cases.extend(suite_of!(dropping {
        an_acknowledgement_that_was_dropped_is_taken_once,
        a_delay_that_was_dropped_counts_once,
        a_retry_that_was_dropped_is_audited_once,
    }));
    Suite::new(cases)
}

/// Every promise of [`AuditSink`].
pub fn audit_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    Suite::new(suite_of!(audit {
        a_line_is_kept_as_it_was_recorded,
        every_action_is_kept,
        lines_keep_their_order_among_those_of_writes,
        a_line_about_no_resource_is_kept,
        a_line_about_an_unknown_resource_is_kept,
        what_is_recorded_twice_has_two_lines,
        lines_recorded_at_once_have_places_of_their_own,
        a_line_has_the_time_of_the_store,
        an_audit_that_is_cut_off_says_so,
    }))
}

/// What is written, and what is not.
fn writing<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(create {
        a_declaration_is_stored_with_event_audit_line_and_schedule,
        a_declaration_reads_back_as_it_was_made,
        of_16_creations_with_one_request_id_one_stores,
        a_repeated_request_is_answered_with_the_first_resource,
        a_request_id_with_another_declaration_is_a_conflict,
        projects_have_request_ids_of_their_own,
        declarations_without_a_request_id_are_all_stored,
        a_request_id_finds_its_resource_and_digest,
        a_request_id_that_nobody_used_finds_nothing,
        what_a_declaration_refers_to_has_to_exist,
        a_refused_declaration_leaves_nothing_behind,
        an_id_that_is_taken_is_refused,
        an_event_id_that_is_taken_is_refused,
        an_id_that_was_never_stored_is_absent,
        resource_is_found_in_its_own_project_only,
        creations_at_once_do_not_disturb_each_other,
    });
    cases.extend(suite_of!(write {
        a_change_of_phase_commits_row_event_and_audit_line,
        a_quiet_change_of_phase_carries_no_event,
        every_phase_reads_back_as_it_was_written,
        every_commit_raises_the_version_by_one,
        what_is_recorded_is_stored_and_audited_without_an_event,
        what_is_recorded_leaves_the_schedule_as_it_was,
        a_change_of_phase_is_due_at_once_and_forgets_failures,
        a_deletion_request_commits_with_its_event_and_is_due_at_once,
        a_deletion_request_goes_through_whoever_holds_the_lease,
        giving_up_is_audited_with_what_was_written,
        a_failure_is_audited_with_its_step,
        the_time_of_the_last_change_is_the_stores,
        a_resource_may_become_ready_twice,
    }));
    cases.extend(suite_of!(replace {
        replacement_commits_deletion_and_creation,
        replacement_from_an_older_version_stores_nothing,
        repeated_replacement_is_answered_with_the_first,
        replacement_under_a_used_request_id_is_a_conflict,
        refused_replacement_leaves_the_old_one_as_it_was,
        replacement_of_a_leaving_resource_only_declares,
        of_16_replacements_with_one_request_id_one_stores,
        dropped_replacement_is_whole_or_nothing,
    }));
    cases.extend(suite_of!(guard {
        a_write_from_an_older_version_changes_nothing,
        a_write_from_a_newer_version_changes_nothing,
        of_16_writers_of_one_version_one_commits,
        a_write_to_a_resource_that_is_not_there_is_stale,
        a_write_of_a_worker_that_lost_its_lease_changes_nothing,
        an_epoch_that_was_never_given_writes_nothing,
        a_worker_that_lost_lease_and_version_is_told_of_the_lease,
        a_lease_that_is_over_and_was_not_taken_still_writes,
        illegal_edges_on_the_way_up_are_refused_from_the_stored_phase,
        teardown_never_turns_back,
        a_failed_resource_is_left_by_deletion_alone,
        a_deleted_resource_stays_deleted,
        a_change_of_another_kind_is_refused,
        a_write_with_an_event_id_that_is_taken_is_refused,
    }));
    cases
}

/// What is read, and how it ends.
fn reading<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(list {
        pages_come_in_the_order_of_ids_and_visit_each_once,
        a_full_page_that_is_the_last_has_no_next,
        an_empty_store_lists_nothing,
        filters_leave_out_the_others,
        pages_visit_each_once_while_rows_change,
        pages_do_not_drift_while_rows_leave_the_filter,
        updated_since_leaves_out_what_did_not_change,
        following_the_watermark_misses_no_change,
        a_reader_beside_writers_misses_no_change,
        what_is_at_rest_is_not_swept,
        list_pages_are_bounded_by_bytes,
        sweep_pages_visit_each_once,
        sweep_pages_are_bounded_by_bytes,
        sweep_pages_of_a_project_hold_its_rows_only,
        sweep_pages_do_not_drift_while_rows_come_to_rest,
        a_compact_row_says_what_its_resource_says,
        a_compact_row_shows_due_time_lease_and_pause,
    });
    cases.extend(suite_of!(moments {
        times_keep_their_microseconds,
        no_change_is_older_than_its_resource,
        the_watermark_waits_for_open_transactions,
    }));
    cases.extend(suite_of!(purge {
        history_is_oldest_first,
        histories_of_resources_are_apart,
        history_outlives_its_resource,
        scrubbing_blanks_what_people_wrote_and_nothing_else,
        scrubbing_twice_blanks_once,
        scrubbing_what_has_no_audit_leaves_no_line,
        only_what_was_deleted_for_long_is_purged,
        a_purge_waits_for_events_to_be_acknowledged,
        a_purge_waits_for_what_was_set_aside_until_it_is_skipped,
        every_purged_resource_has_its_audit_line,
        a_purge_takes_no_more_than_it_was_told,
        a_purged_resource_is_gone,
        a_purge_frees_the_request_id,
    }));
    cases
}
