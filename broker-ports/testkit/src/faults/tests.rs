//! One test per kind of fault, against the in-memory issuer: its tokens show what really happened.

mod late;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use time::OffsetDateTime;
use tokio::time::timeout;

use super::{Answered, Fault, FaultPlan, Faults, Late, Odds};
use broker_memory::{ManualClock, MemoryTokens, RecordingEventSink, SequentialIds};
use broker_ports::{
    Clock, EventSink, FailureClass, IdSource, Issue, IssueRequest, LeaseEpoch, PortName,
    TokenIssuer, TokenState,
};

const HOUR: Duration = Duration::from_hours(1);
const DEADLINE: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_mins(1);

/// The issuer as it is, and as a caller sees it.
struct Bench {
    clock: ManualClock,
    truth: MemoryTokens,
    faults: Faults,
    issuer: Arc<dyn TokenIssuer>,
    resource: ProvisionedResourceId,
}

impl Bench {
    fn with(plan: FaultPlan) -> Self {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
        let truth = MemoryTokens::seeded(1, Arc::new(clock.clone()));
        let faults = Faults::new(plan);
        let issuer = faults.around::<dyn TokenIssuer>(Arc::new(truth.clone()));
        let resource = SequentialIds::seeded(2).provisioned_resource_id();
        Self { clock, truth, faults, issuer, resource }
    }

    /// The first call of a method goes wrong.
    fn first(method: &'static str, fault: Fault) -> Self {
        Self::with(FaultPlan::none().on(PortName::TokenIssuer, method, 1, fault))
    }

    fn request(&self) -> IssueRequest {
        let (resource, epoch) = (self.resource, LeaseEpoch::new(1));
        IssueRequest::new(resource, TokenOrdinal::FIRST, epoch, HOUR)
    }

    async fn issue(&self) -> BootstrapTokenId {
        match self.truth.issue(&self.request()).await.unwrap() {
            Issue::Issued(token) => token.id,
            Issue::Consumed { id } => panic!("{id} was consumed"),
        }
    }

    fn live(&self) -> Option<BootstrapTokenId> {
        self.truth.live_token(self.resource)
    }

    fn log(&self) -> String {
        self.faults.log().to_string()
    }
}

#[tokio::test]
async fn a_failed_write_happened_or_not_as_its_fault_says() {
    for (fault, class, lives) in [
        (Fault::BeforeEffect, FailureClass::Transient, true),
        (Fault::AfterEffect, FailureClass::Unknown, false),
    ] {
        let bench = Bench::first("close", fault);
        let token = bench.issue().await;
        let error = bench.issuer.close(bench.resource).await.unwrap_err();
        assert_eq!(error.class(), class);
        assert_eq!(bench.live(), Some(token).filter(|_| lives), "{fault}");
        assert_eq!(bench.log(), format!("token_issuer.close call 1: {fault}\n"));
        bench.issuer.close(bench.resource).await.unwrap();
        assert_eq!(bench.live(), None, "the second call goes through");
    }
}

#[tokio::test]
async fn what_a_read_loses_is_only_transient() {
    for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
        let bench = Bench::first("state", fault);
        let token = bench.issue().await;
        let error = bench.issuer.state(token).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient, "{fault}");
        assert!(bench.issuer.state(token).await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_never_arrives() {
    let bench = Bench::first("close", Fault::Delay { by: DELAY, late: Late::Never });
    let token = bench.issue().await;
    timeout(DEADLINE, bench.issuer.close(bench.resource)).await.unwrap_err();
    assert_eq!(bench.faults.land_all().await, 0, "nothing is under way");
    assert_eq!(bench.live(), Some(token));
    assert_eq!(bench.log(), "token_issuer.close call 1: delayed by 60s, never arrives\n");

    // More patience does not help: the answer is that nobody knows.
    let bench = Bench::first("close", Fault::Delay { by: DELAY, late: Late::Never });
    let error = timeout(2 * DELAY, bench.issuer.close(bench.resource)).await.unwrap().unwrap_err();
    assert_eq!(error.class(), FailureClass::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_lands_late_or_waits_for_a_patient_caller() {
    let late = Fault::Delay { by: DELAY, late: Late::Lands };
    let bench = Bench::first("close", late);
    let token = bench.issue().await;
    timeout(DEADLINE, bench.issuer.close(bench.resource)).await.unwrap_err();
    assert_eq!((bench.faults.adrift(), bench.live()), (1, Some(token)), "not yet");
    let landed = bench.faults.land_next().await.unwrap();
    assert_eq!((landed.method, landed.nth), ("close", 1));
    assert_eq!((bench.faults.adrift(), bench.live()), (0, None), "now");
    assert!(bench.faults.land_next().await.is_none());

    let bench = Bench::first("issue", late);
    let request = bench.request();
    let issue = timeout(2 * DELAY, bench.issuer.issue(&request)).await.unwrap().unwrap();
    let Issue::Issued(token) = issue else { panic!("{issue:?}") };
    assert_eq!((bench.faults.adrift(), bench.live()), (0, Some(token.id)));
}

#[tokio::test(start_paused = true)]
async fn a_hung_read_costs_its_deadline_only() {
    let bench = Bench::first("state", Fault::Delay { by: DELAY, late: Late::Lands });
    let token = bench.issue().await;
    timeout(DEADLINE, bench.issuer.state(token)).await.unwrap_err();
    assert_eq!(bench.faults.adrift(), 0, "a read has no effect that could come late");
    assert!(bench.issuer.state(token).await.unwrap().is_some());
}

#[tokio::test]
async fn a_duplicate_is_performed_twice() {
    for (answered, lives) in [(Answered::First, false), (Answered::Second, true)] {
        let bench = Bench::first("issue", Fault::Duplicate { answered });
        let issue = bench.issuer.issue(&bench.request()).await.unwrap();
        let Issue::Issued(token) = issue else { panic!("{issue:?}") };
        assert!(bench.live().is_some(), "the second one lives");
        assert_eq!(bench.live() == Some(token.id), lives, "{answered:?}");
    }
}

#[tokio::test]
async fn a_stale_read_answers_what_was_true_before() {
    let plan = FaultPlan::none().on(PortName::TokenIssuer, "state", 3, Fault::StaleRead).on(
        PortName::TokenIssuer,
        "state",
        5,
        Fault::StaleRead,
    );
    let bench = Bench::with(plan);
    let (token, nobodys) = (bench.issue().await, SequentialIds::seeded(3).uuid());
    let nobodys = BootstrapTokenId::new(nobodys).unwrap();
    let live = TokenState::Live { expires_at: bench.clock.now() + HOUR };
    assert_eq!(bench.issuer.state(token).await.unwrap(), Some(live));
    assert_eq!(bench.issuer.state(nobodys).await.unwrap(), None, "another question");
    bench.truth.close(bench.resource).await.unwrap();
    assert_eq!(bench.issuer.state(token).await.unwrap(), Some(live), "stale");
    assert_eq!(bench.issuer.state(token).await.unwrap(), Some(TokenState::Invalidated));
    assert_eq!(bench.issuer.state(token).await.unwrap(), Some(live), "stale once more");
    assert_eq!(
        bench.log(),
        "token_issuer.state call 3: stale read\ntoken_issuer.state call 5: stale read\n"
    );
}

#[tokio::test]
async fn a_stale_read_needs_a_change() {
    let plan = FaultPlan::none().from_call(PortName::TokenIssuer, "state", 1, Fault::StaleRead);
    for (plan, fires) in [(plan, true), (FaultPlan::none().remembering(), false)] {
        let bench = Bench::with(plan);
        let token = bench.issue().await;
        for _ in 0..2 {
            let state = bench.issuer.state(token).await.unwrap();
            assert!(matches!(state, Some(TokenState::Live { .. })), "{state:?}");
        }
        assert!(bench.faults.stale_calls().is_empty(), "nothing has changed");
        assert_eq!(bench.log(), "", "it did not fire");
        bench.truth.close(bench.resource).await.unwrap();
        let state = bench.issuer.state(token).await.unwrap();
        assert_eq!(state == Some(TokenState::Invalidated), !fires, "{state:?}");
        let third = (PortName::TokenIssuer, "state", 3);
        assert_eq!(bench.faults.stale_calls().into_iter().collect::<Vec<_>>(), [third]);
        assert_eq!(!bench.log().is_empty(), fires);
    }
}

#[tokio::test]
async fn a_method_goes_wrong_until_it_is_healed() {
    let plan = FaultPlan::none().from_call(PortName::TokenIssuer, "close", 2, Fault::BeforeEffect);
    let bench = Bench::with(plan);
    bench.issuer.close(bench.resource).await.unwrap();
    for _ in 0..3 {
        bench.issuer.close(bench.resource).await.unwrap_err();
    }
    bench.faults.heal();
    bench.issuer.close(bench.resource).await.unwrap();
    assert_eq!(bench.faults.log().entries().len(), 3);
}

#[tokio::test]
async fn one_plan_counts_the_calls_of_each_port_by_itself() {
    let plan = FaultPlan::none().on(PortName::TokenIssuer, "close", 2, Fault::BeforeEffect).on(
        PortName::EventSink,
        "deliver",
        1,
        Fault::BeforeEffect,
    );
    let bench = Bench::with(plan);
    let sink = bench.faults.around::<dyn EventSink>(Arc::new(RecordingEventSink::default()));
    let event_id = SequentialIds::seeded(4).event_id();
    let ready = broker_domain::EventType::Ready;
    let envelope = broker_ports::Envelope::new(event_id, ready, bench.resource, 1, b"{}".to_vec());
    bench.issuer.close(bench.resource).await.unwrap();
    sink.deliver(&envelope).await.unwrap_err();
    sink.deliver(&envelope).await.unwrap();
    bench.issuer.close(bench.resource).await.unwrap_err();
    assert_eq!(
        bench.log(),
        "event_sink.deliver call 1: before effect\ntoken_issuer.close call 2: before effect\n"
    );
}

/// What fires in a run of 500 writes and 500 reads. A paused clock makes the delays short.
async fn run_seeded(seed: u64, odds: Odds) -> Faults {
    let bench = Bench::with(FaultPlan::seeded(seed, odds));
    let token = bench.issue().await;
    let _ = timeout(DEADLINE, bench.issuer.state(token)).await;
    for _ in 0..500 {
        let _ = timeout(DEADLINE, bench.issuer.issue(&bench.request())).await;
        let _ = timeout(DEADLINE, bench.issuer.state(token)).await;
    }
    bench.faults
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_what_fires() {
    let odds = Odds::evenly(40);
    let log = run_seeded(7, odds).await.log();
    assert_eq!(log, run_seeded(7, odds).await.log(), "the same seed");
    assert_ne!(log, run_seeded(8, odds).await.log(), "another seed");
    let kinds: BTreeSet<_> = log.entries().iter().map(|fired| fired.fault.to_string()).collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [
            "after effect",
            "before effect",
            "delayed by 3600s, lands late",
            "delayed by 3600s, never arrives",
            "stale read",
            "twice, first answer",
            "twice, second answer",
        ],
        "every fault has its turn"
    );
    assert_eq!(run_seeded(7, Odds::NONE).await.log().entries(), [], "without odds nothing fires");
}

#[test]
#[should_panic(expected = "token_issuer has no method \"isue\" that can fail; use issue, close")]
fn a_script_that_names_no_method_is_refused() {
    let _ = FaultPlan::none().on(PortName::TokenIssuer, "isue", 1, Fault::BeforeEffect);
}

#[test]
#[should_panic(expected = "token_issuer.issue has no stale answer to give")]
fn a_script_of_a_stale_write_is_refused() {
    let _ = FaultPlan::none().on(PortName::TokenIssuer, "issue", 1, Fault::StaleRead);
}

#[test]
#[should_panic(expected = "the odds come to 1005 of 1,000 calls; use 1,000 at the most")]
fn odds_beyond_a_thousand_are_refused() {
    let _ = FaultPlan::seeded(7, Odds::evenly(200));
    let _ = FaultPlan::seeded(7, Odds::evenly(201));
}

#[test]
fn every_port_that_can_fail_can_be_wrapped() {
    for port in PortName::ALL.iter().copied() {
        assert!(!super::ports::methods_of(port).is_empty(), "{port}");
    }
}
