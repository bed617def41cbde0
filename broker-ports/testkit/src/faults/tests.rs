//! Each fault has its documented effect, checked against the in-memory issuer and the state of its tokens.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use time::OffsetDateTime;
use tokio::time::timeout;

use super::{DuplicateResponse, Fault, FaultPlan, Faults, LateArrival};
use broker_memory::{ManualClock, MemoryPlatform, MemoryTokens, SequentialIds};
use broker_ports::{
    Clock, FailureClass, IdSource, Issue, IssueRequest, LeaseEpoch, PortName, TokenIssuer,
    TokenState,
};

const DELAY: Duration = Duration::from_mins(1);
const REQUEST_LOST: Fault = Fault::Delay { by: DELAY, late: LateArrival::Never };
const ARRIVES_LATE: Fault = Fault::Delay { by: DELAY, late: LateArrival::Completes };

/// An issuer with one live token, with and without faults.
struct Fixture {
    unwrapped: MemoryTokens,
    faults: Faults,
    issuer: Arc<dyn TokenIssuer>,
    resource: ProvisionedResourceId,
    token: BootstrapTokenId,
}

impl Fixture {
    async fn with_plan(plan: FaultPlan) -> Self {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
        let unwrapped = MemoryTokens::seeded(1, Arc::new(clock));
        let faults = Faults::new(plan);
        let issuer = faults.wrap::<dyn TokenIssuer>(Arc::new(unwrapped.clone()));
        let resource = SequentialIds::seeded(2).provisioned_resource_id();
        let token = issue_token(&unwrapped, resource).await;
        Self { unwrapped, faults, issuer, resource, token }
    }

    /// A fixture with a fault in the first call of a method.
    async fn with_first_call(method: &'static str, fault: Fault) -> Self {
        Self::with_plan(FaultPlan::none().on(PortName::TokenIssuer, method, 1, fault)).await
    }

    fn token_is_live(&self) -> bool {
        self.unwrapped.live_token(self.resource).is_some()
    }
}

async fn issue_token(
    issuer: &dyn TokenIssuer,
    resource: ProvisionedResourceId,
) -> BootstrapTokenId {
    let (epoch, ttl) = (LeaseEpoch::new(1), Duration::from_hours(1));
    let request = IssueRequest::new(resource, TokenOrdinal::FIRST, epoch, ttl);
    match issuer.issue(&request).await.unwrap() {
        Issue::Issued(token) => token.id,
        Issue::Consumed { id } => panic!("{id} was consumed"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_has_its_documented_effect() {
    let twice = Fault::Duplicate { response: DuplicateResponse::First };
    // The error of a write, whether the token is live afterwards, and the error of a read. The caller waits.
    for (fault, write_error, live, read_error) in [
        (Fault::BeforeEffect, Some(FailureClass::Transient), true, Some(FailureClass::Transient)),
        (Fault::AfterEffect, Some(FailureClass::Unknown), false, Some(FailureClass::Transient)),
        (REQUEST_LOST, Some(FailureClass::Unknown), true, Some(FailureClass::Transient)),
        (ARRIVES_LATE, None, false, None),
        (twice, None, false, None),
    ] {
        let fixture = Fixture::with_first_call("close", fault).await;
        let result = fixture.issuer.close(fixture.resource).await;
        assert_eq!(result.err().map(|error| error.class()), write_error, "{fault}");
        assert_eq!(
            (fixture.token_is_live(), fixture.faults.pending_requests()),
            (live, 0),
            "{fault}"
        );
        let line = format!("token_issuer.close call 1: {fault}\n");
        assert_eq!(fixture.faults.log().to_string(), line);
        fixture.issuer.close(fixture.resource).await.unwrap();

        let fixture = Fixture::with_first_call("state", fault).await;
        let result = fixture.issuer.state(fixture.token).await;
        assert_eq!(result.err().map(|error| error.class()), read_error, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_write_takes_effect_when_completed() {
    for (method, fault, pending) in
        [("close", ARRIVES_LATE, 1), ("close", REQUEST_LOST, 0), ("state", ARRIVES_LATE, 0)]
    {
        let fixture = Fixture::with_first_call(method, fault).await;
        let call = async {
            match method {
                "close" => fixture.issuer.close(fixture.resource).await.map(drop),
                _ => fixture.issuer.state(fixture.token).await.map(drop),
            }
        };
        timeout(DELAY / 2, call).await.unwrap_err();
        assert_eq!(
            (fixture.faults.pending_requests(), fixture.token_is_live()),
            (pending, true),
            "{method}, {fault}"
        );
        assert_eq!(fixture.faults.complete_pending().await, pending, "{method}, {fault}");
        assert_eq!(fixture.token_is_live(), pending == 0, "{method}, {fault}");
    }
}

#[tokio::test]
async fn stale_read_returns_the_previous_response_until_healed() {
    let plan = FaultPlan::none().from_call(PortName::TokenIssuer, "state", 1, Fault::StaleRead);
    for (plan, fires) in [(plan, true), (FaultPlan::none().remembering(), false)] {
        let fixture = Fixture::with_plan(plan).await;
        let state = async || fixture.issuer.state(fixture.token).await.unwrap();
        for _ in 0..2 {
            assert!(matches!(state().await, Some(TokenState::Live { .. })));
        }
        assert!(fixture.faults.stale_calls().is_empty(), "nothing has changed");
        fixture.unwrapped.close(fixture.resource).await.unwrap();
        assert_eq!(state().await == Some(TokenState::Invalidated), !fires);
        let third = (PortName::TokenIssuer, "state", 3);
        assert_eq!(fixture.faults.stale_calls().into_iter().collect::<Vec<_>>(), [third]);
        fixture.faults.heal();
        assert_eq!(state().await, Some(TokenState::Invalidated));
        assert_eq!(fixture.faults.log().entries().len(), usize::from(fires));
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
    let cluster = faults.wrap(platform.living_ports().cluster);
    let before = platform.adapters.clock.now();
    assert!(timeout(DELAY, cluster.watch()).await.is_err(), "the watch returned");
    assert!(platform.adapters.clock.now() > before, "the platform took no turn");
}
