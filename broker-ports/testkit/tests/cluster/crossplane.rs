//! Crossplane and the providers, as far as the broker can see them.

use broker_domain::{ClusterId, Phase};
use broker_memory::{Activity, Behaviour, Part};
use broker_ports::{Cluster as _, ConditionStatus, Deleted, XrReading};
use broker_render::InjectionStrategy;
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::resource::{PART, Resource, TOKEN};

#[tokio::test]
async fn a_shell_composes_nothing_and_goes_freely() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.shell().await;
    resource.cluster.settle(20);
    let reference = resource.reference();
    assert!(resource.parts().is_empty());
    assert_eq!(resource.finalizers(&reference), [""; 0]);
    assert_eq!(resource.condition(&reference, "Synced").1, "ReconcilePaused");
    assert_eq!(resource.condition(&reference, "Ready").0, "");
    assert_eq!(resource.delete().await, Deleted::Accepted);
    resource.cluster.tick();
    assert!(!resource.stands());
}

/// Crossplane says on a shell that it is paused. Whoever arms after that has to look again first; once said,
/// it is not said again.
#[tokio::test]
async fn a_shell_changes_once_under_the_hands_of_its_maker() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    let made = resource.shell().await;
    resource.cluster.tick();
    let paused = resource.live().await.object.version().clone();
    assert_eq!(made.uid, paused.uid);
    assert_ne!(made, paused);
    resource.cluster.settle(20);
    assert_eq!(resource.live().await.object.version(), &paused);
}

#[tokio::test]
async fn an_armed_resource_becomes_ready_in_generation_three() {
    let resource = Resource::standalone(Behaviour::ready_after(2));
    resource.start().await;
    assert_eq!(resource.cluster.tick(), Activity::Changed);
    let live = resource.live().await;
    assert_eq!(live.status.ready, Some(ConditionStatus::False));
    assert_eq!(live.references, resource.parts().into_iter().collect());
    resource.cluster.settle(20);
    let live = resource.live().await;
    assert!(live.status.crossplane_ready(Phase::Provisioning));
    assert_eq!((live.status.generation, live.status.ready_generation), (3, Some(3)));
    let reference = resource.reference();
    assert_eq!(resource.finalizers(&reference), ["composite.apiextensions.crossplane.io"]);
    let [part] = &resource.parts()[..] else { panic!("one part") };
    let object = resource.cluster.object(part).unwrap();
    assert_eq!(object["metadata"]["labels"]["crossplane.io/composite"], json!(reference.name()));
    assert_eq!(object["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], json!(true));
    assert_eq!(resource.cluster.tick(), Activity::Idle, "a converged world stays as it is");
}

#[tokio::test]
async fn an_arm_of_a_node_is_one_generation_more() {
    let resource = Resource::node(InjectionStrategy::CloudInitUserData);
    resource.start().await;
    resource.cluster.settle(20);
    assert_eq!(resource.live().await.status.generation, 4);
}

#[tokio::test]
async fn behaviours_end_as_they_say() {
    let rows = [
        ("never", Behaviour::never_ready(), "False", "True", ""),
        ("stuck", Behaviour::stuck("quota exceeded"), "False", "True", ""),
        ("failing", Behaviour::failing_after(1, "no such size"), "False", "True", "True"),
        (
            "ready and failed",
            Behaviour::ready_after(1).declaring_failure("no such size"),
            "True",
            "True",
            "True",
        ),
        ("one by one", Behaviour::one_by_one(2).composing(3), "True", "True", ""),
        ("unsynced", Behaviour::unsynced("step broke"), "", "False", ""),
    ];
    for (why, behaviour, ready, synced, failed) in rows {
        let resource = Resource::standalone(behaviour);
        resource.start().await;
        assert!(resource.cluster.settle(50) < 50, "{why} never settles");
        let reference = resource.reference();
        let status = |kind: &str| resource.condition(&reference, kind).0;
        let found = (status("Ready"), status("Synced"), status("ProvisioningFailed"));
        assert_eq!(found, (ready.into(), synced.into(), failed.into()), "{why}");
    }
}

#[tokio::test]
async fn a_message_is_found_where_it_was_said() {
    let failing = Resource::standalone(Behaviour::failing_after(0, "no such size"));
    failing.start().await;
    failing.cluster.settle(20);
    let status = failing.live().await.status;
    assert_eq!(status.provisioning_failed.as_deref(), Some("no such size"));

    let stuck = Resource::standalone(Behaviour::stuck("quota exceeded"));
    stuck.start().await;
    stuck.cluster.settle(20);
    let synced = stuck.condition(&stuck.parts()[0], "Synced");
    assert_eq!(synced.2, "quota exceeded");

    let unsynced = Resource::standalone(Behaviour::unsynced("step broke"));
    unsynced.start().await;
    unsynced.cluster.settle(20);
    let inspection = unsynced.cluster.inspect(&unsynced.target()).await.unwrap();
    let events = inspection.events.unwrap();
    assert_eq!(events.len(), 1, "the same is not said twice");
    assert!(events[0].warning && events[0].message.ends_with("step broke"));
}

#[tokio::test]
async fn parts_become_ready_one_after_another() {
    let resource = Resource::standalone(Behaviour::one_by_one(1).composing(3));
    resource.start().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        resource.cluster.tick();
        let parts = resource.parts();
        let ready = |part| resource.condition(part, "Ready").0 == "True";
        let composite = resource.condition(&resource.reference(), "Ready").0;
        seen.push((parts.iter().filter(|part| ready(part)).count(), composite));
    }
    let expected = [(0, "False"), (1, "False"), (2, "False"), (3, "True"), (3, "True")];
    assert_eq!(seen, expected.map(|(count, ready)| (count, ready.to_owned())));
}

#[tokio::test]
async fn a_flapping_resource_never_settles() {
    let resource = Resource::standalone(Behaviour::flapping(1, 2, 1));
    resource.start().await;
    let mut ready = Vec::new();
    for _ in 0..8 {
        resource.cluster.tick();
        ready.push(resource.condition(&resource.reference(), "Ready").0 == "True");
    }
    assert_eq!(ready, [false, true, true, false, true, true, false, true]);
    assert_eq!(resource.cluster.settle(30), 30);
}

#[tokio::test]
async fn a_mended_composition_goes_on() {
    let resource = Resource::standalone(Behaviour::unsynced("step broke"));
    resource.start().await;
    resource.cluster.settle(20);
    assert!(resource.parts().is_empty());
    resource.cluster.behave_for(resource.id(), Behaviour::ready_after(0));
    resource.cluster.settle(20);
    assert_eq!(resource.condition(&resource.reference(), "Synced").0, "True");
    assert!(resource.live().await.status.crossplane_ready(Phase::Provisioning));
}

#[tokio::test]
async fn a_kind_that_is_missing_is_said() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.cluster.remove_kind(PART.0, PART.1);
    resource.start().await;
    resource.cluster.settle(20);
    let (synced, _, message) = resource.condition(&resource.reference(), "Synced");
    assert_eq!(synced, "False");
    assert!(message.contains("no matches for kind \"NopResource\""), "{message}");
}

#[tokio::test]
async fn foreground_deletion_waits_for_the_provider() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(4));
    resource.start().await;
    resource.cluster.settle(20);
    assert_eq!(resource.delete().await, Deleted::Accepted);
    let mut order = Vec::new();
    while resource.stands() {
        let parts = resource.parts().len();
        order.push((parts, resource.finalizers(&resource.reference()).join(" ")));
        resource.cluster.tick();
        assert!(order.len() < 20, "it never ends");
    }
    assert_eq!(order[0], (1, "composite.apiextensions.crossplane.io foregroundDeletion".into()));
    assert!(order[1..].iter().all(|(_, finalizers)| finalizers == "foregroundDeletion"));
    assert_eq!(order.last().unwrap().0, 0, "the composite goes after its part");
}

#[tokio::test]
async fn a_resource_that_goes_is_not_ready() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(9));
    resource.start().await;
    resource.cluster.settle(20);
    let _ = resource.delete().await;
    resource.cluster.tick();
    let ready = resource.condition(&resource.reference(), "Ready");
    assert_eq!((ready.0.as_str(), ready.1.as_str()), ("False", "Deleting"));
    assert!(!resource.live().await.status.crossplane_ready(Phase::Ready));
}

#[tokio::test]
async fn background_deletion_leaves_the_part_behind() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(5));
    resource.start().await;
    resource.cluster.settle(20);
    resource.cluster.delete_in_background(&resource.reference());
    resource.cluster.tick();
    assert!(!resource.stands());
    let reading = resource.cluster.read(&resource.target()).await.unwrap();
    assert!(matches!(reading.xr, XrReading::Absent));
    assert_eq!(reading.labelled, resource.parts().into_iter().collect());
    assert_eq!(resource.parts().len(), 1);
    resource.cluster.settle(20);
    assert!(resource.parts().is_empty());
}

/// Found by the differential oracle: an API server lets go of what waited in the foreground when somebody asks again
/// in the background.
#[tokio::test]
async fn a_background_deletion_ends_the_wait_of_one_in_the_foreground() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(9));
    resource.start().await;
    resource.cluster.settle(20);
    assert_eq!(resource.delete().await, Deleted::Accepted);
    resource.cluster.tick();
    assert_eq!(resource.finalizers(&resource.reference()), ["foregroundDeletion"]);
    resource.cluster.delete_in_background(&resource.reference());
    assert!(!resource.stands());
    assert_eq!(resource.parts().len(), 1, "its part is still being deleted");
    resource.cluster.settle(20);
    assert!(resource.parts().is_empty());
}

#[tokio::test]
async fn a_stopped_provider_holds_everything() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    resource.cluster.settle(20);
    resource.cluster.stop(Part::Provider);
    let _ = resource.delete().await;
    assert!(resource.cluster.settle(20) < 20);
    assert!(resource.stands() && resource.parts().len() == 1);
    resource.cluster.start(Part::Provider);
    resource.cluster.settle(20);
    assert!(!resource.stands() && resource.parts().is_empty());
}

#[tokio::test]
async fn without_a_garbage_collector_nothing_goes_in_the_foreground() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    resource.cluster.settle(20);
    resource.cluster.stop(Part::GarbageCollector);
    let _ = resource.delete().await;
    resource.cluster.settle(20);
    assert!(resource.stands() && resource.parts().len() == 1);
}

#[tokio::test]
async fn a_pause_blocks_the_own_deletion_once_composed() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    resource.cluster.settle(20);
    resource.cluster.pause(&resource.reference());
    let _ = resource.delete().await;
    resource.cluster.settle(20);
    assert!(resource.stands(), "the finalizer of Crossplane stays");
    assert!(resource.parts().is_empty(), "the part does not wait for Crossplane");
    resource.cluster.unpause(&resource.reference());
    resource.cluster.settle(20);
    assert!(!resource.stands());
}

#[tokio::test]
async fn a_stopped_crossplane_composes_nothing() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.cluster.stop(Part::Crossplane);
    resource.start().await;
    assert_eq!(resource.cluster.tick(), Activity::Idle);
    resource.cluster.start(Part::Crossplane);
    resource.cluster.settle(20);
    assert!(resource.live().await.status.crossplane_ready(Phase::Provisioning));
}

#[tokio::test]
async fn a_composite_that_was_made_anew_composes_new_parts() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(50));
    resource.start().await;
    resource.cluster.settle(20);
    let old = resource.parts();
    resource.cluster.delete_in_background(&resource.reference());
    resource.cluster.tick();
    resource.start().await;
    resource.cluster.tick();
    let live = resource.live().await;
    assert!(live.references.is_disjoint(&old.iter().cloned().collect()));
    let reading = resource.cluster.read(&resource.target()).await.unwrap();
    assert_eq!(reading.labelled.len(), 2, "the old part may still live");
}

#[tokio::test]
async fn a_part_that_was_deleted_by_hand_is_composed_anew() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    resource.cluster.settle(20);
    let before = resource.live().await;
    resource.cluster.delete_in_background(&resource.parts()[0]);
    resource.cluster.settle(20);
    let after = resource.live().await;
    assert_ne!(before.references_digest, after.references_digest);
    assert_eq!(after.references, resource.parts().into_iter().collect());
}

#[tokio::test]
async fn a_provider_needs_its_config_to_the_end() {
    let behaviour = Behaviour::ready_after(0).needing_provider_config();
    let resource = Resource::standalone(behaviour);
    resource.start().await;
    resource.cluster.settle(20);
    let (_, _, message) = resource.condition(&resource.parts()[0], "Synced");
    assert!(message.contains("cannot get ProviderConfig"), "{message}");
    let config = resource.apply_config().await;
    resource.cluster.settle(20);
    assert!(resource.live().await.status.crossplane_ready(Phase::Provisioning));

    let _ = resource.delete().await;
    let _ = resource.delete_config(&config.uid).await;
    resource.cluster.settle(20);
    assert!(resource.stands(), "whoever deletes the config first waits for ever");
    resource.apply_config().await;
    resource.cluster.settle(20);
    assert!(!resource.stands());
}

#[tokio::test]
async fn a_machine_finds_its_token_in_each_of_the_three_ways() {
    for strategy in InjectionStrategy::ALL {
        let resource = Resource::node(strategy);
        resource.shell().await;
        resource.cluster.settle(20);
        assert!(resource.cluster.bootstrap_token_of(resource.id()).is_none(), "{strategy}");
        let shell = resource.live().await;
        resource.arm(shell.object.version()).await;
        resource.cluster.settle(20);
        let documents = resource.cluster.agent_documents();
        let [document] = &documents[..] else { panic!("{strategy}: {}", documents.len()) };
        assert_eq!(document.token.secret().expose_secret(), TOKEN, "{strategy}");
        assert!(document.booted && document.machine == resource.parts()[0]);
        let printed = format!("{document:?} {:?}", resource.cluster);
        assert!(!printed.contains("canary"), "{printed}");
        let _ = resource.delete().await;
        resource.cluster.tick();
        assert!(resource.cluster.agent_documents().is_empty(), "{strategy}: it is shut down");
    }
}

#[tokio::test]
async fn a_standalone_resource_has_no_token() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    resource.cluster.settle(20);
    assert!(resource.cluster.bootstrap_token_of(resource.id()).is_none());
}

#[tokio::test]
async fn references_stand_where_the_scope_keeps_them() {
    for (api, scope) in [("v2", "Cluster"), ("v1", "LegacyCluster")] {
        let resource = Resource::cluster_scoped(api, scope);
        resource.start().await;
        resource.cluster.settle(20);
        let live = resource.live().await;
        assert_eq!(live.references, resource.parts().into_iter().collect(), "{scope}");
        assert_eq!(live.references.len(), 1, "{scope}");
        assert!(live.status.crossplane_ready(Phase::Provisioning), "{scope}");
        let _ = resource.delete().await;
        resource.cluster.settle(20);
        assert!(resource.cluster.objects().is_empty(), "{scope}");
    }
}

#[tokio::test]
async fn a_kind_goes_after_its_objects() {
    let resource = Resource::standalone(Behaviour::ready_after(0).finalizing_after(3));
    resource.start().await;
    resource.cluster.settle(20);
    resource.cluster.hold(&resource.reference(), "held");
    resource.cluster.remove_kind(&resource.xrd.api_version(), "Machine");
    resource.cluster.settle(20);
    assert!(resource.live().await.status.deleting);
    resource.cluster.let_go(&resource.reference(), "held");
    resource.cluster.settle(20);
    let reading = resource.cluster.read(&resource.target()).await.unwrap();
    assert!(matches!(reading.xr, XrReading::KindAbsent));
    assert!(resource.parts().is_empty());
}

#[tokio::test]
async fn another_cluster_and_an_emptied_one_are_not_this_one() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.start().await;
    let before = resource.cluster.read(&resource.target()).await.unwrap().cluster;
    resource.cluster.lose_everything();
    resource.cluster.swap_identity(ClusterId::new("another").unwrap());
    let after = resource.cluster.read(&resource.target()).await.unwrap();
    assert_ne!(before, after.cluster);
    assert!(matches!(after.xr, XrReading::NamespaceAbsent));
}
