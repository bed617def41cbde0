//! Tests of each change: its effect and its rejections.

use crate::testing::{composed, id, resource, second, stamp};
use crate::{
    ClusterId, EventDetail, EventType, FailureReason, OnFailure, Phase, ProvisionedResource,
    ReferencesDigest, Snapshot, Substrate, TokenOrdinal,
};

/// Invariant: `advance` follows the legal edges, and rejects phases that have their own method.
#[test]
fn advance_follows_the_legal_edges() {
    for from in Phase::ALL {
        let initial = resource().in_phase(from);
        assert_eq!(initial.advance(from, stamp(20)).unwrap(), None, "{from}: a no-op");
        for to in Phase::ALL.into_iter().filter(|to| *to != from) {
            // A node without a token cannot be Ready; another test covers that rejection.
            if from == Phase::Pending && to == Phase::Ready {
                continue;
            }
            let result = initial.advance(to, stamp(20));
            let needs_own_method = to == Phase::Failed
                || (to == Phase::Deregistering && !from.is_teardown())
                || (to == Phase::Pending && from == Phase::Failed);
            if from.can_become(to) && !needs_own_method {
                let change = result.unwrap().unwrap();
                assert_eq!(change.resource().phase(), to);
                assert_eq!(change.resource().phase_entered_at(), second(20));
                assert_eq!(change.previous_phase(), Some(from));
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.reason(), "illegal_transition", "{from} to {to}");
                assert_eq!(error.to_string(), format!("a resource in {from} cannot become {to}"));
            }
        }
    }
}

/// Invariant: exactly `Requested`, `Deleting`, `Ready`, `Failed` and `Deleted` emit events.
#[test]
fn only_lifecycle_transitions_emit_events() {
    let provisioning = resource().provisioning();
    let enrolling = provisioning.advance(Phase::Enrolling, stamp(9)).unwrap().unwrap();
    assert_eq!(enrolling.event(), None);
    let ready = provisioning.advance(Phase::Ready, stamp(9)).unwrap().unwrap();
    let event = ready.event().unwrap();
    assert_eq!((event.event_type(), event.sequence()), (EventType::Ready, 2));
    assert_eq!((event.id(), event.occurred_at()), (stamp(9).event_id, second(9)));
    let deleted = resource().deprovisioning().advance(Phase::Deleted, stamp(11)).unwrap().unwrap();
    assert_eq!(
        deleted.event().unwrap().detail(),
        &EventDetail::Deleted { abandoned: false, left_to_garbage_collection: false }
    );
}

#[test]
fn second_ready_keeps_first_ready_at() {
    let ready = resource().ready();
    let lost = ready.advance(Phase::Pending, stamp(10)).unwrap().unwrap().into_resource();
    let second_ready = lost.advance(Phase::Ready, stamp(11)).unwrap().unwrap();
    assert_eq!(second_ready.resource().first_ready_at(), ready.first_ready_at());
}

#[test]
fn failure_survives_rollback() {
    let reason = || FailureReason::from_message("no capacity");
    for step in Phase::ALL {
        let result = resource().rolling_back().in_phase(step).fail(reason(), stamp(9));
        if step == Phase::Failed {
            assert_eq!(result.unwrap(), None, "a second failure is a no-op");
            continue;
        }
        if step.is_teardown() {
            assert_eq!(result.unwrap_err().reason(), "illegal_transition", "{step}");
            continue;
        }
        let failed = result.unwrap().unwrap();
        let failure = failed.resource().failure().unwrap();
        assert_eq!((failure.step(), failure.reason()), (step, &reason()));
        assert_eq!(failed.event().unwrap().detail(), &EventDetail::Failed(failure.clone()));

        let deleting = failed.resource().request_deletion(stamp(10)).unwrap();
        assert_eq!(deleting.resource().phase(), Phase::Deregistering);
        assert_eq!(deleting.resource().failure(), Some(failure));
    }
}

#[test]
fn deletion_request_is_accepted_once() {
    for phase in Phase::ALL {
        let initial = resource().in_phase(phase);
        match initial.request_deletion(stamp(20)) {
            None => assert!(phase.is_teardown(), "{phase}"),
            Some(change) => {
                assert!(!phase.is_teardown(), "{phase}");
                let deleting = change.resource();
                assert_eq!(deleting.phase(), Phase::Deregistering);
                assert_eq!(deleting.deletion_requested_at(), Some(second(20)));
                assert_eq!(deleting.request_deletion(stamp(21)), None);
            }
        }
    }
}

/// Invariant: no resource is Deleted while one of its tokens can still enrol a Node.
#[test]
fn deleted_needs_closed_tokens() {
    let open = resource().ready().request_deletion(stamp(9)).unwrap().into_resource();
    for result in
        [open.advance(Phase::Deleted, stamp(10)).map(|_| ()), open.abandon(stamp(10)).map(|_| ())]
    {
        assert_eq!(
            result.unwrap_err().to_string(),
            "token_closed: is not set; tokens are closed before a resource is Deleted"
        );
    }
    let closed = open.record_closed(second(10)).unwrap().unwrap();
    assert_eq!(closed.event(), None);
    assert_eq!(closed.resource().record_closed(second(11)).unwrap(), None, "already on record");
    assert!(closed.resource().advance(Phase::Deleted, stamp(11)).is_ok());
    let early = resource().enrolling().record_closed(second(9)).unwrap_err();
    assert_eq!(
        early.to_string(),
        "token_closed: is set in Enrolling; tokens are closed by teardown"
    );
}

#[test]
fn abandon_requires_teardown_and_emits_event() {
    for phase in Phase::ALL {
        let result = resource().in_phase(phase).abandon(stamp(20));
        if matches!(phase, Phase::Deregistering | Phase::Deprovisioning) {
            let change = result.unwrap();
            assert_eq!(
                change.event().unwrap().detail(),
                &EventDetail::Deleted { abandoned: true, left_to_garbage_collection: false }
            );
            assert!(change.resource().abandoned());
            assert_eq!(change.resource().phase(), Phase::Deleted);
        } else {
            assert_eq!(result.unwrap_err().reason(), "illegal_transition", "{phase}");
        }
    }
}

#[test]
fn token_is_recorded_only_for_converging_nodes() {
    let ready = resource().ready();
    let reissued = ready.record_token(id(60), TokenOrdinal::FIRST.next(), second(9)).unwrap();
    assert_eq!(reissued.resource().bootstrap_token_id(), Some(id(60)));
    assert_eq!(reissued.resource().token_ordinal(), TokenOrdinal::FIRST.next());
    assert_eq!(reissued.event(), None);

    let rejections: [(ProvisionedResource, u32, &str); 5] = [
        (reissued.resource().clone(), 1, "token_ordinal: is 1; use 2 or 3"),
        (
            resource().standalone().pending(),
            1,
            "bootstrap_token_id: is set on a standalone resource; only a node has a token",
        ),
        (
            resource().deregistering(),
            1,
            "bootstrap_token_id: cannot be recorded in Deregistering; tokens are issued while converging",
        ),
        (
            resource().failed(),
            1,
            "bootstrap_token_id: cannot be recorded in Failed; tokens are issued while converging",
        ),
        (resource().pending(), 3, "token_ordinal: is 3; use 1 or 2"),
    ];
    for (initial, ordinal, message) in rejections {
        let ordinal = TokenOrdinal::new(ordinal).unwrap();
        let error = initial.record_token(id(60), ordinal, second(9)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn node_without_token_cannot_be_ready() {
    let error = resource().pending().advance(Phase::Ready, stamp(9)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bootstrap_token_id: is missing on a node in Ready; a Node enrols with a token"
    );
    assert!(resource().standalone().pending().advance(Phase::Ready, stamp(9)).is_ok());
}

#[test]
fn substrate_stays_on_its_cluster_and_is_final_in_deleted() {
    let cluster = ClusterId::new("here").unwrap();
    let other_cluster = ClusterId::new("there").unwrap();
    for phase in Phase::ALL {
        let initial = resource().in_phase(phase);
        let observed =
            initial.substrate().clone().about_to_apply(cluster.clone(), composed("config"));
        let result = initial.record_substrate(observed.clone(), second(9));
        if phase == Phase::Deleted {
            assert_eq!(result.unwrap_err().to_string(), "substrate: cannot change in Deleted");
            continue;
        }
        let recorded = result.unwrap().unwrap();
        assert_eq!(recorded.event(), None);
        assert_eq!(
            recorded.resource().record_substrate(observed.clone(), second(10)).unwrap(),
            None
        );

        let other = observed.clone().about_to_apply(cluster.clone(), composed("another-config"));
        let error = recorded.resource().record_substrate(other, second(10)).unwrap_err();
        assert!(error.to_string().starts_with("substrate: cannot replace"), "{error}");

        let moved = observed.observed([composed("a")], ReferencesDigest::new([1; 32]));
        let moved = moved.about_to_apply(other_cluster.clone(), composed("config"));
        let error = recorded.resource().record_substrate(moved, second(10)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cluster_id: cannot change; the objects of this resource are on here"
        );
        let lost = recorded.resource().record_substrate(Substrate::default(), second(10));
        assert!(lost.is_err(), "the cluster cannot be removed either");
    }
}

/// Invariant: a Deleted resource has no composed object on record unless it was abandoned (S7). The
/// ProviderConfig's name stays.
#[test]
fn deleted_leaves_nothing_on_record() {
    let deleting = resource().deprovisioning();
    let cluster = ClusterId::new("here").unwrap();
    let substrate = deleting.substrate().clone().about_to_apply(cluster, composed("config"));
    let substrate = substrate.with_labelled([composed("vm")]);
    let initial = deleting.record_substrate(substrate, second(9)).unwrap().unwrap().into_resource();
    let error = initial.advance(Phase::Deleted, stamp(10)).unwrap_err();
    assert!(
        error.to_string().starts_with("substrate: names composed objects in Deleted"),
        "{error}"
    );
    assert!(initial.abandon(stamp(10)).is_ok(), "an operator may abandon it");

    let cleared = initial.substrate().clone().without(&[composed("vm")].into());
    let cleared = initial.record_substrate(cleared, second(10)).unwrap().unwrap();
    let deleted = cleared.resource().advance(Phase::Deleted, stamp(11)).unwrap().unwrap();
    assert_eq!(deleted.resource().substrate().provider_config(), Some(&composed("config")));
}

/// The store's clock may lag behind the clock of the replica that stamped the last event.
#[test]
fn lagging_store_clock_keeps_event_times_monotonic() {
    let ready = resource().ready();
    let row = Snapshot { updated_at: ready.created_at(), ..ready.snapshot() };
    let stored = ProvisionedResource::hydrate(row).unwrap();
    let deleting = stored.request_deletion(stamp(1)).unwrap();
    assert_eq!(deleting.event().unwrap().occurred_at(), ready.phase_entered_at());
    let recorded = stored.record_token(id(7), TokenOrdinal::FIRST, second(1)).unwrap();
    assert_eq!(recorded.resource().updated_at(), ready.phase_entered_at());
}

#[test]
fn is_terminal_holds_for_deleted_and_retained_failed() {
    for phase in Phase::ALL {
        for builder in [resource(), resource().rolling_back()] {
            let initial = builder.in_phase(phase);
            let expected = phase == Phase::Deleted
                || (phase == Phase::Failed && initial.on_failure() == OnFailure::Retain);
            assert_eq!(initial.is_terminal(), expected, "{phase}, {}", initial.on_failure());
        }
    }
}
