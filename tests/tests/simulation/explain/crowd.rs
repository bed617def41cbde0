//! Explaining 1,000 resources: for no more requests than sweeping them, apart from those that are blocked.

use broker_app::explain::{Explanation, Verdict};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_memory::{Behaviour, Verb};
use broker_ports::PageSize;
use broker_testkit::faults::FaultPlan;
use broker_tests::world::{STANDALONE, World, declaration, operator, xrd_of};

const RESOURCES: usize = 1_000;

async fn crowd() -> (World, Vec<ProvisionedResourceId>) {
    let world = World::new();
    let plain = Behaviour::ready_after(0).composing(0);
    world.cluster.behave(&xrd_of("Bucket", "buckets"), plain);
    let ids = world.declare_many(RESOURCES, &declaration(STANDALONE)).await;
    // The first pass applies, the second sees it composed, the third sees it ready.
    for _ in 0..3 {
        assert!(world.round_of(&ids).await.is_empty());
    }
    (world, ids)
}

fn requests(world: &World) -> u64 {
    [Verb::Get, Verb::List, Verb::Create, Verb::Patch, Verb::Delete]
        .into_iter()
        .map(|verb| world.cluster.requests(verb))
        .sum()
}

async fn explained(world: &World) -> (Vec<Explanation>, u64, u64) {
    let (service, faults) = world.service_under(FaultPlan::none());
    let before = requests(world);
    let page = service.explain_all(&operator(), None, PageSize::MAX).await.unwrap();
    assert_eq!(page.next, None);
    let calls: u64 = faults.calls().values().sum();
    (page.explanations, calls, requests(world) - before)
}

#[tokio::test]
async fn a_thousand_cost_no_more_than_a_sweep_apart_from_the_blocked() {
    let (world, ids) = crowd().await;
    world.sweep().await;
    let before = (requests(&world), world.faults.calls().values().sum::<u64>());
    let (work, report) = world.sweep().await;
    assert_eq!((work.len(), report.settled), (0, RESOURCES));
    let swept = requests(&world) - before.0;
    let sweep_calls = world.faults.calls().values().sum::<u64>() - before.1;

    let (all, calls, asked) = explained(&world).await;
    assert_eq!(all.len(), RESOURCES);
    assert!(all.iter().all(|it| it.verdict == Verdict::Ready && it.phase == Some(Phase::Ready)));
    assert!(asked <= swept, "{asked} requests to the cluster, a sweep makes {swept}");
    assert!(calls <= sweep_calls, "{calls} calls of ports, a sweep makes {sweep_calls}");

    let blocked = [ids[3], ids[500], ids[999]];
    for id in blocked {
        world.cluster.behave_for(id, Behaviour::unsynced("no such function"));
    }
    world.cluster.tick();
    let (all, _, with_blocked) = explained(&world).await;
    let found = |verdict| all.iter().filter(move |it| it.verdict == verdict).map(|it| it.resource);
    assert_eq!(found(Verdict::Degraded).collect::<Vec<_>>(), blocked);
    assert_eq!(found(Verdict::Ready).count(), RESOURCES - blocked.len());
    // Composite resource, ProviderConfig, identity, namespace, kind, composed objects and events of each.
    let most = asked + 10 * blocked.len() as u64;
    assert!(with_blocked <= most, "{with_blocked} requests, at most {most} are accounted for");
}
