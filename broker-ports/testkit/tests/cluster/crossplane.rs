//! Crossplane and the providers, as far as the broker can see them and no recorded life of the real ones shows it.

use broker_domain::{ClusterId, Phase};
use broker_memory::{Behaviour, Part};
use broker_ports::{Cluster as _, Deleted, XrReading};
use broker_render::InjectionStrategy;
use secrecy::ExposeSecret as _;

use crate::resource::{PART, Resource, TOKEN};

/// A resource that was armed, and had all the time that it needs.
async fn settled(behaviour: Behaviour) -> Resource {
    let resource = Resource::standalone(behaviour);
    resource.start().await;
    assert!(resource.cluster.settle(50) < 50, "it never settles");
    resource
}

#[tokio::test]
async fn behaviours_end_as_they_say() {
    let rows = [
        ("never", Behaviour::never_ready(), "False", "True", "", ""),
        ("stuck", Behaviour::stuck("no quota"), "False", "True", "", "no quota"),
        ("failing", Behaviour::failing_after(1, "no such size"), "False", "True", "True", ""),
        ("one by one", Behaviour::one_by_one(2).composing(3), "True", "True", "", ""),
        ("unsynced", Behaviour::unsynced("step broke"), "", "False", "", ""),
    ];
    for (why, behaviour, ready, synced, failed, of_part) in rows {
        let resource = settled(behaviour).await;
        let reference = resource.reference();
        let status = |kind: &str| resource.condition(&reference, kind).0;
        let found = (status("Ready"), status("Synced"), status("ProvisioningFailed"));
        assert_eq!(found, (ready.into(), synced.into(), failed.into()), "{why}");
        let part = resource.parts().first().map(|part| resource.condition(part, "Synced").2);
        assert_eq!(part.unwrap_or_default(), of_part, "{why}");
        let failure = resource.live().await.status.provisioning_failed;
        assert_eq!(failure.as_deref(), Some("no such size").filter(|_| failed == "True"), "{why}");
    }
}

#[tokio::test]
async fn a_composition_that_fails_says_why_and_goes_on_once_it_is_mended() {
    let resource = settled(Behaviour::unsynced("step broke")).await;
    let events = resource.cluster.inspect(&resource.target()).await.unwrap().events.unwrap();
    assert_eq!(events.len(), 1, "the same is not said twice");
    assert!(events[0].warning && events[0].message.ends_with("step broke"));
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

/// Found by the differential oracle: an API server lets go of what waited in the foreground when somebody asks again
/// in the background.
#[tokio::test]
async fn a_background_deletion_ends_the_wait_of_one_in_the_foreground() {
    let resource = settled(Behaviour::ready_after(0).finalizing_after(9)).await;
    assert_eq!(resource.delete().await, Deleted::Accepted);
    resource.cluster.tick();
    assert!(resource.live().await.status.foreground);
    resource.cluster.delete_in_background(&resource.reference());
    assert!(!resource.stands());
    let reading = resource.cluster.read(&resource.target()).await.unwrap();
    assert_eq!(reading.labelled, resource.parts().into_iter().collect());
    assert_eq!(resource.parts().len(), 1, "its part is still being deleted");
    resource.cluster.settle(20);
    assert!(resource.parts().is_empty());
}

#[tokio::test]
async fn what_is_stopped_or_paused_holds_its_share_of_a_deletion() {
    // What is left of the composite resource and of its parts until it runs again.
    for (part, composite, parts) in
        [(Some(Part::Provider), true, 1), (Some(Part::GarbageCollector), true, 1), (None, true, 0)]
    {
        let resource = settled(Behaviour::ready_after(0)).await;
        match part {
            Some(part) => resource.cluster.stop(part),
            None => resource.cluster.pause(&resource.reference()),
        }
        let _ = resource.delete().await;
        assert!(resource.cluster.settle(20) < 20);
        assert_eq!((resource.stands(), resource.parts().len()), (composite, parts), "{part:?}");
        match part {
            Some(part) => resource.cluster.start(part),
            None => resource.cluster.unpause(&resource.reference()),
        }
        resource.cluster.settle(20);
        assert!(!resource.stands() && resource.parts().is_empty(), "{part:?}");
    }
}

#[tokio::test]
async fn a_stopped_crossplane_composes_nothing() {
    let resource = Resource::standalone(Behaviour::ready_after(0));
    resource.cluster.stop(Part::Crossplane);
    resource.start().await;
    assert_eq!(resource.cluster.settle(20), 1, "there is nothing to do");
    resource.cluster.start(Part::Crossplane);
    resource.cluster.settle(20);
    assert!(resource.live().await.status.crossplane_ready(Phase::Provisioning));
}

#[tokio::test]
async fn what_is_gone_is_composed_again_under_another_name() {
    let resource = settled(Behaviour::ready_after(0).finalizing_after(50)).await;
    let old = resource.parts();
    resource.cluster.delete_in_background(&resource.reference());
    resource.cluster.tick();
    resource.start().await;
    resource.cluster.tick();
    let live = resource.live().await;
    assert!(live.references.is_disjoint(&old.iter().cloned().collect()));
    let reading = resource.cluster.read(&resource.target()).await.unwrap();
    assert_eq!(reading.labelled.len(), 2, "the old part may still live");

    let resource = settled(Behaviour::ready_after(0)).await;
    let before = resource.live().await;
    resource.cluster.delete_in_background(&resource.parts()[0]);
    resource.cluster.settle(20);
    let after = resource.live().await;
    assert_ne!(before.references_digest, after.references_digest);
    assert_eq!(after.references, resource.parts().into_iter().collect());
}

#[tokio::test]
async fn a_provider_needs_its_config_to_the_end() {
    let resource = settled(Behaviour::ready_after(0).needing_provider_config()).await;
    let (_, _, message) = resource.condition(&resource.parts()[0], "Synced");
    assert!(message.contains("cannot get ProviderConfig"), "{message}");
    let config = resource.apply_config().await;
    resource.cluster.settle(20);
    assert!(resource.live().await.status.crossplane_ready(Phase::Provisioning));

    let _ = resource.delete().await;
    let _ = resource.delete_config(&config.uid).await;
    resource.cluster.settle(20);
    assert!(resource.stands(), "a deletion waits for a ProviderConfig that was deleted first");
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
    let standalone = settled(Behaviour::ready_after(0)).await;
    assert!(standalone.cluster.bootstrap_token_of(standalone.id()).is_none());
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
    let resource = settled(Behaviour::ready_after(0).finalizing_after(3)).await;
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
    let resource = settled(Behaviour::ready_after(0)).await;
    let before = resource.cluster.read(&resource.target()).await.unwrap().cluster;
    resource.cluster.lose_everything();
    resource.cluster.swap_identity(ClusterId::new("another").unwrap());
    let after = resource.cluster.read(&resource.target()).await.unwrap();
    assert_ne!(before, after.cluster);
    assert!(matches!(after.xr, XrReading::NamespaceAbsent));
}
