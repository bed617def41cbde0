//! The runner's process is killed at every request that it makes: before the server heard of it, and after the
//! server did it and before the answer. Another one takes over, the resource arrives where it would have, and
//! everything that must hold does.
//!
//! Every request of each workflow is tried in the nightly run. Otherwise it is some of them, spread evenly from
//! the first to the last, the same each time.

use std::sync::Arc;

use broker_domain::{OnFailure, Phase, ProvisionedResource, ProvisionedResourceId};
use broker_tests::proxy::Script;
use broker_tests::real::{Behaviour, LEASE, RealWorld};
use broker_tests::world::{NODE, operator};
use broker_tests::{HttpProxy, PgProxy, until};

use super::host::{Host, Place};
use super::is_nightly;

/// Requests of a workflow that are tried in a run that is not nightly, for each server and moment.
const SAMPLE: usize = 3;

/// What happens to a resource while its replica is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workflow {
    Create,
    Rollback,
    Delete,
    Replace,
}

/// Whose request the replica is killed at.
#[derive(Debug, Clone, Copy)]
enum Server {
    Postgres,
    Kubernetes,
}

/// When it is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    BeforeForward,
    BeforeAnswer,
}

/// The death of a replica.
#[derive(Debug, Clone, Copy)]
struct Death {
    server: Server,
    moment: Moment,
    request: usize,
}

/// The two servers as a replica sees them.
struct Between {
    postgres: PgProxy,
    kubernetes: HttpProxy,
    kubeconfig: String,
}

impl Between {
    async fn world(world: &RealWorld) -> Self {
        let client = world.cluster.identity_in(&world.user, xtask::servers::MASTERS).await;
        let kubernetes = HttpProxy::to(client).await;
        let kubeconfig = kubernetes.kubeconfig();
        Self { postgres: PgProxy::to(world.database()).await, kubernetes, kubeconfig }
    }

    fn place(&self) -> Place<'_> {
        Place { dsn: self.postgres.url(), kubeconfig: &self.kubeconfig, lease: LEASE }
    }

    /// Starts a replica whose end is certain, if it comes that far.
    fn start_doomed(&self, death: Death) -> Host {
        let host = Host::start(&self.place());
        match death.server {
            Server::Postgres => doom(self.postgres.script(), death, host.id()),
            Server::Kubernetes => doom(self.kubernetes.script(), death, host.id()),
        }
        host
    }
}

fn doom<A: Clone + Send>(script: &Script<A>, death: Death, process: u32) {
    let request = script.request(death.request);
    match death.moment {
        Moment::BeforeForward => request.before_forward().kill(process),
        Moment::BeforeAnswer => request.before_answer().kill(process),
    }
}

impl Workflow {
    /// A resource to which it is just about to happen.
    async fn begin(self, world: &RealWorld) -> ProvisionedResource {
        match self {
            Self::Create => world.declare(&world.declaration(NODE)).await.unwrap(),
            Self::Rollback => {
                let declaration = world.declaration(NODE).on_failure(OnFailure::Rollback);
                let declared = world.declare(&declaration).await.unwrap();
                let fails = Behaviour::Failing("quota exceeded".to_owned());
                world.crossplane.behave_for(declared.id(), fails);
                declared
            }
            Self::Delete => {
                let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
                world.service.deprovision(&operator(), ready.id()).await.unwrap()
            }
            Self::Replace => {
                let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
                world.crossplane.delete_by_hand(ready.id()).await;
                ready
            }
        }
    }

    fn is_done(self, resource: &ProvisionedResource) -> bool {
        match self {
            Self::Create => resource.phase() == Phase::Ready,
            Self::Rollback | Self::Delete => resource.phase() == Phase::Deleted,
            Self::Replace => {
                resource.phase() == Phase::Ready && resource.token_ordinal().get() == 2
            }
        }
    }

    async fn until_done(self, world: &RealWorld, id: ProvisionedResourceId) {
        until(format_args!("{self:?} of {id} to be done"), || async {
            self.is_done(&world.get(id).await).then_some(())
        })
        .await;
    }

    /// How many requests to each server it takes when nobody is killed.
    async fn count(self, world: &Arc<RealWorld>) -> (usize, usize) {
        let resource = self.begin(world).await;
        let between = Between::world(world).await;
        let host = Host::start(&between.place());
        let turning = world.keep_turning();
        self.until_done(world, resource.id()).await;
        let postgres = between.postgres.script().seen().len();
        let kubernetes = between.kubernetes.script().seen().len();
        host.stop().await;
        drop(turning);
        self.check(world, resource.id()).await;
        (postgres, kubernetes)
    }

    /// One resource whose replica dies. Answers whether it did before it was done.
    async fn survive(self, world: &Arc<RealWorld>, death: Death) -> bool {
        let resource = self.begin(world).await;
        let id = resource.id();
        let between = Between::world(world).await;
        let mut first = between.start_doomed(death);
        let turning = world.keep_turning();
        let killed = until(format_args!("{self:?} of {id} to be done or {death:?}"), || {
            let ended = first.has_ended();
            async move {
                let done = self.is_done(&world.get(id).await);
                (ended || done).then_some(ended)
            }
        })
        .await;
        if killed {
            world.let_leases_end().await;
            let second = Host::start(&between.place());
            self.until_done(world, id).await;
            second.stop().await;
        } else {
            drop(first);
        }
        drop(turning);
        self.check(world, id).await;
        killed
    }

    /// Everything that must hold does, and nothing is left to be done. What is not to be seen by later resources
    /// goes.
    async fn check(self, world: &RealWorld, id: ProvisionedResourceId) {
        world.assert_sound(id).await;
        if world.get(id).await.phase() == Phase::Ready {
            world.let_leases_end().await;
            world.service.deprovision(&operator(), id).await.unwrap();
            world.until(id, Phase::Deleted).await;
            world.assert_sound(id).await;
        }
    }
}

/// The requests to die at, out of as many.
fn sample(count: usize) -> Vec<usize> {
    if is_nightly() || count <= SAMPLE {
        return (1..=count).collect();
    }
    (0..SAMPLE).map(|number| 1 + number * (count - 1) / (SAMPLE - 1)).collect()
}

async fn survives_every_death(workflow: Workflow) {
    let world = Arc::new(RealWorld::new().await);
    let (postgres, kubernetes) = workflow.count(&world).await;
    assert!(postgres > 10 && kubernetes > 5, "{postgres} and {kubernetes} requests are too few");
    let (mut deaths, mut tried) = (0, 0);
    for (server, count) in [(Server::Postgres, postgres), (Server::Kubernetes, kubernetes)] {
        for moment in [Moment::BeforeForward, Moment::BeforeAnswer] {
            for request in sample(count) {
                tried += 1;
                let death = Death { server, moment, request };
                deaths += usize::from(workflow.survive(&world, death).await);
            }
        }
    }
    println!(
        "{workflow:?}: {postgres} requests to Postgres, {kubernetes} to Kubernetes; \
         killed {deaths} of {tried} times"
    );
    // The last requests of the counted run may come after the resource has arrived.
    assert!(deaths * 2 > tried, "only {deaths} of {tried} replicas died before they were done");
}

#[tokio::test]
async fn a_creation_survives_the_death_of_its_replica_at_any_request() {
    survives_every_death(Workflow::Create).await;
}

#[tokio::test]
async fn a_rollback_survives_the_death_of_its_replica_at_any_request() {
    survives_every_death(Workflow::Rollback).await;
}

#[tokio::test]
async fn a_deletion_survives_the_death_of_its_replica_at_any_request() {
    survives_every_death(Workflow::Delete).await;
}

#[tokio::test]
async fn a_replacement_survives_the_death_of_its_replica_at_any_request() {
    survives_every_death(Workflow::Replace).await;
}
