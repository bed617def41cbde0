//! The contract of [`Cluster`].
//!
//! A case plays everybody but the broker through the hooks of [`ClusterUnderTest`]: the platform that
//! installs kinds and namespaces, Crossplane that composes, people who patch. So it needs an API server and
//! a garbage collector, and no Crossplane.

mod applying;
mod arming;
mod deleting;
mod drifting;
mod dropping;
mod home;
mod inspecting;
mod kinds;
mod listing;
mod outage;
mod owning;
mod reading;
mod refusing;
mod scene;
mod subject;

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::ObjectReference;
use serde_json::Value;
use uuid::Uuid;

use super::cases::suite_of;
use crate::{Case, Suite};
use broker_ports::PortError;
use broker_ports::{Cluster, ClusterEvent};

/// A cluster, and the world around it that the suite needs.
///
/// Hooks act with every right and past the port. They return when the API server has answered; whatever
/// follows from that (collected garbage, finished namespaces) may take its time, and the suite asks again
/// after each [`settle`](Self::settle). An error of a hook ends the case as a violation.
#[async_trait]
pub trait ClusterUnderTest: Send + Sync {
    /// The port.
    fn cluster(&self) -> Arc<dyn Cluster>;

    /// The port on the same cluster, for an identity that may do everything with objects of these kinds and
    /// nothing else. The core kind `Namespace` counts like any other.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn limited_to(&self, kinds: &[PlainKind]) -> Result<Arc<dyn Cluster>, PortError>;

    /// An id that nobody used on this cluster before.
    fn fresh_id(&self) -> Uuid;

    /// The uid of the namespace `kube-system`.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn kube_system_uid(&self) -> Result<String, PortError>;

    /// Serves a kind. One that is there already stays.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn install(&self, kind: &ServedKind) -> Result<(), PortError>;

    /// Deletes a kind.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn remove_kind(&self, kind: &PlainKind) -> Result<(), PortError>;

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn create_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Deletes a namespace.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn remove_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Creates an object; finalizers and owners included.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn create(&self, target: &ObjectReference, object: &Value) -> Result<(), PortError>;

    /// Changes an object by a JSON merge patch under another field manager.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn patch(
        &self,
        manager: &str,
        target: &ObjectReference,
        patch: &Value,
    ) -> Result<(), PortError>;

    /// Changes the status of an object by a JSON merge patch.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn patch_status(&self, target: &ObjectReference, patch: &Value) -> Result<(), PortError>;

    /// Deletes an object in the background.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn delete_in_background(&self, target: &ObjectReference) -> Result<(), PortError>;

    /// Says something about an object, as its controllers do.
    ///
    /// The default creates a core `Event` through [`create`](Self::create), which an API server takes.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn say(&self, about: &ObjectReference, said: &ClusterEvent) -> Result<(), PortError> {
        let live = self.object(about).await?.unwrap_or_default();
        let (reference, event) = inspecting::core_event(about, &live, said, self.fresh_id())?;
        self.create(&reference, &event).await
    }

    /// Vetoes the deletion of this one object from now on, as a Usage does, in these words.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn veto(&self, target: &ObjectReference, words: &str) -> Result<(), PortError>;

    /// An object as the API server has it now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn object(&self, target: &ObjectReference) -> Result<Option<Value>, PortError>;

    /// Whether a namespace exists.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn namespace_exists(&self, name: &str) -> Result<bool, PortError>;

    /// Lets every cache lag from now on, where that is in somebody's hands.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn freeze_caches(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// Cuts the port off from its API server for the rest of the case, also where it was handed out before:
    /// nobody listens there any more. Hooks need not get through either.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn cut_off(&self) -> Result<(), PortError>;

    /// Gives the cluster a moment to get on with what it has to do.
    async fn settle(&self);
}

/// A kind to be served.
#[derive(Debug, Clone)]
pub enum ServedKind {
    /// The kind of an XRD, here as its JSON text; with the fields that Crossplane adds to it.
    Composite(String),
    /// A kind whose objects may hold anything, with a status of its own.
    Plain(PlainKind),
}

/// The names of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The plural by which it is served.
    pub plural: String,
    /// Its objects stand in namespaces.
    pub namespaced: bool,
}

/// Every promise of [`Cluster`].
pub fn suite<W: ClusterUnderTest + 'static>() -> Suite<W> {
    let mut cases = writing();
    cases.extend(looking());
    Suite::new(cases)
}

fn writing<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(applying {
        a_first_apply_creates_onto_a_free_name,
        a_first_apply_onto_a_taken_name_changes_nothing,
        of_two_first_applies_one_wins,
        a_reapply_changes_the_observed_object,
        a_reapply_at_a_stale_version_changes_nothing,
        a_reapply_of_what_is_gone_creates_nothing,
        a_reapply_of_a_namesake_changes_nothing,
        of_two_reapplies_at_one_version_one_wins,
        an_apply_that_changes_nothing_keeps_the_version,
        an_apply_does_not_revive_what_is_being_deleted,
        a_provider_config_is_applied_like_any_other,
        a_cluster_scoped_composite_is_applied_without_a_namespace,
        a_dry_run_shows_and_stores_nothing,
        a_dry_run_of_a_change_stores_nothing,
        a_dry_run_tells_a_conflict,
    });
    cases.extend(suite_of!(arming {
        a_shell_is_paused_and_carries_its_epoch,
        a_touch_makes_every_older_request_stale,
        an_arm_injects_and_drops_the_pause,
        an_arm_lands_once,
        an_older_arm_is_refused_after_a_touch,
        a_reapply_keeps_the_injected_token,
        a_standalone_composite_is_armed_without_a_token,
        an_annotation_by_hand_is_no_shell,
        a_shell_is_deleted_freely,
    }));
    cases.extend(suite_of!(owning {
        fields_of_others_stay,
        status_of_others_stays,
        what_we_no_longer_send_goes,
        what_others_changed_of_ours_is_taken_back,
        the_owned_digest_is_that_of_what_was_sent,
        the_owned_digest_changes_with_drift,
    }));
    cases.extend(suite_of!(drifting { drift_and_a_missing_config_are_observed }));
    cases.extend(suite_of!(deleting {
        a_deletion_waits_for_what_was_composed,
        a_deletion_ends_after_what_was_composed,
        a_deletion_spares_the_neighbours,
        a_deletion_of_a_namesake_changes_nothing,
        a_deletion_of_what_is_gone_says_so,
        a_deletion_in_an_absent_namespace_says_gone,
        a_deletion_of_an_absent_kind_says_gone,
        a_second_deletion_is_accepted,
        a_deletion_turns_a_background_one_into_a_foreground_one,
        a_veto_is_told_in_its_words,
        a_veto_concerns_one_object,
        a_finalizer_of_others_holds,
        a_provider_config_goes_by_itself,
        a_forbidden_deletion_is_an_error,
    }));
    cases.extend(suite_of!(home {
        an_apply_for_another_project_is_refused,
        a_dry_run_for_another_project_is_refused,
        a_deletion_in_another_namespace_is_refused,
        a_deletion_of_a_foreign_name_is_refused,
        a_composed_object_is_never_deleted,
        a_namespace_is_never_created,
        a_namespace_is_never_deleted,
    }));
    cases.extend(suite_of!(refusing {
        an_undeclared_field_is_rejected,
        a_broken_rule_is_rejected,
        a_refusal_repeats_no_token,
        a_refusal_names_the_object,
        an_apply_of_an_absent_kind_is_rejected,
        an_apply_into_an_absent_namespace_is_rejected,
        a_forbidden_apply_is_an_error,
        nothing_prints_a_token,
    }));
    cases.extend(suite_of!(dropping {
        a_first_apply_that_was_dropped_is_whole_or_nothing,
        an_arm_that_was_dropped_is_whole_or_nothing,
        a_deletion_that_was_dropped_still_waits,
    }));
    cases
}

fn looking<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of!(reading {
        the_cluster_is_its_kube_system,
        an_absent_object_is_absent,
        an_absent_namespace_is_told_apart,
        an_absent_kind_is_told_apart,
        a_forbidden_read_is_an_error,
        half_a_reading_is_an_error,
        a_reading_is_never_stale,
        an_object_without_our_label_is_read,
        conditions_are_read_as_they_stand,
        a_stale_generation_shows,
        references_are_read,
        recorded_objects_are_read_by_name,
        recorded_objects_of_an_absent_kind_are_gone,
        labelled_objects_are_found,
        an_object_that_is_being_deleted_says_so,
    });
    cases.extend(suite_of!(listing {
        observations_keep_their_order,
        an_observation_shows_what_stands,
        an_absent_kind_is_observed_as_absent,
        a_forbidden_kind_spoils_only_its_own,
        owned_objects_are_listed_to_the_end,
        owned_pages_do_not_drift_while_objects_go,
        what_carries_our_label_is_listed_whatever_its_name,
        what_is_excepted_hides_nothing_else,
        what_lost_our_label_is_not_listed,
        a_forbidden_listing_is_an_error,
        a_change_gives_a_hint,
        a_deletion_gives_a_hint,
        a_provider_config_gives_a_hint,
    }));
    cases.extend(suite_of!(inspecting {
        every_fact_is_reported,
        absent_things_are_reported_as_absent,
        a_forbidden_fact_is_unknown,
        many_are_inspected_as_each_by_itself,
        a_rival_manager_is_named,
        a_condition_repeats_no_token,
        a_pause_and_a_deletion_are_reported,
        a_namespace_that_goes_is_terminating,
        composed_objects_are_found_three_ways,
        events_come_newest_first,
        an_event_repeats_no_token,
    }));
    cases.extend(suite_of!(outage {
        a_cluster_that_is_cut_off_never_answers_with_absence,
        an_observation_that_is_cut_off_is_never_absence,
        an_inspection_that_is_cut_off_knows_nothing,
        a_cluster_that_is_cut_off_changes_nothing,
    }));
    cases
}
