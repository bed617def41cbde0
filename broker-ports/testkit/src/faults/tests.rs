//! Each fault has its documented effect, checked against the in-memory issuer and the state of its tokens.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use time::OffsetDateTime;
use tokio::time::timeout;

use super::{Answered, Fault, FaultPlan, Faults, Late};
use broker_memory::{ManualClock, MemoryPlatform, MemoryTokens, SequentialIds};
use broker_ports::{
    Clock, FailureClass, IdSource, Issue, IssueRequest, LeaseEpoch, PortName, TokenIssuer,
    TokenState,
};

const DELAY: Duration = Duration::from_mins(1);
const NEVER: Fault = Fault::Delay { by: DELAY, late: Late::Never };
const COMPLETES: Fault = Fault::Delay { by: DELAY, late: Late::Completes };

/// An issuer with one live token, bare and wrapped.
struct Bench {
    truth: MemoryTokens,
    faults: Faults,
    issuer: Arc<dyn TokenIssuer>,
    resource: ProvisionedResourceId,
    token: BootstrapTokenId,
}

impl Bench {
    async fn with(plan: FaultPlan) -> Self {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
        let truth = MemoryTokens::seeded(1, Arc::new(clock));
        let faults = Faults::new(plan);
        let issuer = faults.around::<dyn TokenIssuer>(Arc::new(truth.clone()));
        let resource = SequentialIds::seeded(2).provisioned_resource_id();
        let token = issued(&truth, resource).await;
        Self { truth, faults, issuer, resource, token }
    }

    /// A fault in the first call of a method.
    async fn first(method: &'static str, fault: Fault) -> Self {
        Self::with(FaultPlan::none().on(PortName::TokenIssuer, method, 1, fault)).await
    }

    fn lives(&self) -> bool {
        self.truth.live_token(self.resource).is_some()
    }
}

async fn issued(issuer: &dyn TokenIssuer, resource: ProvisionedResourceId) -> BootstrapTokenId {
    let (epoch, ttl) = (LeaseEpoch::new(1), Duration::from_hours(1));
    let request = IssueRequest::new(resource, TokenOrdinal::FIRST, epoch, ttl);
    match issuer.issue(&request).await.unwrap() {
        Issue::Issued(token) => token.id,
        Issue::Consumed { id } => panic!("{id} was consumed"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_has_its_documented_effect() {
    let twice = Fault::Duplicate { answered: Answered::First };
    // The result of a patient caller's write, whether the token is live afterwards, and the result of a read.
    for (fault, write, lives, read) in [
        (Fault::BeforeEffect, Some(FailureClass::Transient), true, Some(FailureClass::Transient)),
        (Fault::AfterEffect, Some(FailureClass::Unknown), false, Some(FailureClass::Transient)),
        (NEVER, Some(FailureClass::Unknown), true, Some(FailureClass::Transient)),
        (COMPLETES, None, false, None),
        (twice, None, false, None),
    ] {
        let bench = Bench::first("close", fault).await;
        let answer = bench.issuer.close(bench.resource).await;
        assert_eq!(answer.err().map(|error| error.class()), write, "{fault}");
        assert_eq!((bench.lives(), bench.faults.pending_requests()), (lives, 0), "{fault}");
        let line = format!("token_issuer.close call 1: {fault}\n");
        assert_eq!(bench.faults.log().to_string(), line);
        bench.issuer.close(bench.resource).await.unwrap();

        let bench = Bench::first("state", fault).await;
        let answer = bench.issuer.state(bench.token).await;
        assert_eq!(answer.err().map(|error| error.class()), read, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_delayed_write_lands_late() {
    for (method, fault, pending) in
        [("close", COMPLETES, 1), ("close", NEVER, 0), ("state", COMPLETES, 0)]
    {
        let bench = Bench::first(method, fault).await;
        let gives_up = async {
            match method {
                "close" => bench.issuer.close(bench.resource).await.map(drop),
                _ => bench.issuer.state(bench.token).await.map(drop),
            }
        };
        timeout(DELAY / 2, gives_up).await.unwrap_err();
        assert_eq!(
            (bench.faults.pending_requests(), bench.lives()),
            (pending, true),
            "{method}, {fault}"
        );
        assert_eq!(bench.faults.complete_pending().await, pending, "{method}, {fault}");
        assert_eq!(bench.lives(), pending == 0, "{method}, {fault}");
    }
}

#[tokio::test]
async fn stale_read_returns_the_previous_answer_until_healed() {
    let plan = FaultPlan::none().from_call(PortName::TokenIssuer, "state", 1, Fault::StaleRead);
    for (plan, fires) in [(plan, true), (FaultPlan::none().remembering(), false)] {
        let bench = Bench::with(plan).await;
        let state = async || bench.issuer.state(bench.token).await.unwrap();
        for _ in 0..2 {
            assert!(matches!(state().await, Some(TokenState::Live { .. })));
        }
        assert!(bench.faults.stale_calls().is_empty(), "nothing has changed");
        bench.truth.close(bench.resource).await.unwrap();
        assert_eq!(state().await == Some(TokenState::Invalidated), !fires);
        let third = (PortName::TokenIssuer, "state", 3);
        assert_eq!(bench.faults.stale_calls().into_iter().collect::<Vec<_>>(), [third]);
        bench.faults.heal();
        assert_eq!(state().await, Some(TokenState::Invalidated));
        assert_eq!(bench.faults.log().entries().len(), usize::from(fires));
    }
}

#[test]
#[should_panic(expected = "token_issuer has no method \"isue\" that can fail; use issue, close")]
fn a_script_with_an_unknown_method_panics() {
    let _ = FaultPlan::none().on(PortName::TokenIssuer, "isue", 1, Fault::BeforeEffect);
}

#[tokio::test(start_paused = true)]
async fn cluster_with_faults_is_watched() {
    let platform = MemoryPlatform::new();
    let faults = Faults::new(FaultPlan::none());
    let cluster = faults.around(platform.living_ports().cluster);
    let before = platform.adapters.clock.now();
    assert!(timeout(DELAY, cluster.watch()).await.is_err(), "a watch never returns");
    assert!(platform.adapters.clock.now() > before, "the platform does not live");
}
