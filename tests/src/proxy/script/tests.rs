//! Tests of the script engine without a server.

use std::{
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

type TestScript = Script<&'static str>;

async fn perform_both(
    script: &TestScript,
    verb: &str,
) -> (Decision<&'static str>, Decision<&'static str>) {
    let request = script.receive(verb.to_owned(), String::new());
    let before = script.perform(InterceptPoint::BeforeForward, &request).await;
    let after = script.perform(InterceptPoint::BeforeResponse, &request).await;
    (before, after)
}

#[tokio::test]
async fn request_number_matches_one_request() {
    let script = TestScript::default();
    script.request(2).before_forward().cut();
    assert_eq!(perform_both(&script, "A").await, (Decision::Continue, Decision::Continue));
    assert_eq!(perform_both(&script, "B").await, (Decision::Cut, Decision::Continue));
    assert_eq!(perform_both(&script, "C").await, (Decision::Continue, Decision::Continue));
}

#[tokio::test]
async fn rule_applies_only_at_its_moment() {
    let script = TestScript::default();
    script.request(1).before_response().cut();
    assert_eq!(perform_both(&script, "A").await, (Decision::Continue, Decision::Cut));
}

#[tokio::test]
async fn first_rule_applies_once_and_each_rule_always() {
    let script = TestScript::default();
    script.first(|request| request.verb == "A").before_forward().respond("once");
    script.each(|request| request.verb == "A").before_response().respond("always");
    assert_eq!(perform_both(&script, "B").await, (Decision::Continue, Decision::Continue));
    assert_eq!(
        perform_both(&script, "A").await,
        (Decision::Respond("once"), Decision::Respond("always"))
    );
    assert_eq!(perform_both(&script, "A").await, (Decision::Continue, Decision::Respond("always")));
    script.clear();
    assert_eq!(perform_both(&script, "A").await, (Decision::Continue, Decision::Continue));
}

#[tokio::test]
async fn rules_apply_in_order_until_one_ends_the_request() {
    let script = TestScript::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = |step| {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(step, Ordering::SeqCst);
        }
    };
    script.request(1).before_forward().run(count(1));
    script.request(1).before_forward().cut();
    script.request(1).before_forward().run(count(10));
    assert_eq!(perform_both(&script, "A").await.0, Decision::Cut);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn held_request_continues_when_released_or_dropped() {
    for release in [true, false] {
        let script = TestScript::default();
        let mut held = script.request(1).before_forward().hold();
        let request = script.receive("A".to_owned(), String::new());
        let performing = script.perform(InterceptPoint::BeforeForward, &request);
        tokio::pin!(performing);
        tokio::select! {
            biased;
            decision = &mut performing => panic!("the request was not held: {decision:?}"),
            () = held.wait_until_held() => {}
        }
        if release {
            held.release();
        } else {
            drop(held);
        }
        assert_eq!(performing.await, Decision::Continue);
    }
}

#[tokio::test]
async fn killed_process_is_dead_before_its_connection_is_cut() {
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    let script = TestScript::default();
    script.request(1).before_response().kill(process.id());
    assert_eq!(perform_both(&script, "A").await, (Decision::Continue, Decision::Cut));
    let status = process.try_wait().unwrap().expect("the process is still alive");
    assert!(!status.success());
}
