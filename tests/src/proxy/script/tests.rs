//! Tests of the script engine without a server.

use std::{
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

type TestScript = Script<&'static str>;

async fn pass(script: &TestScript, verb: &str) -> (Verdict<&'static str>, Verdict<&'static str>) {
    let request = script.receive(verb.to_owned(), String::new());
    let before = script.perform(Moment::BeforeForward, &request).await;
    let after = script.perform(Moment::BeforeAnswer, &request).await;
    (before, after)
}

#[tokio::test]
async fn request_number_matches_one_request() {
    let script = TestScript::default();
    script.request(2).before_forward().cut();
    assert_eq!(pass(&script, "A").await, (Verdict::Continue, Verdict::Continue));
    assert_eq!(pass(&script, "B").await, (Verdict::Cut, Verdict::Continue));
    assert_eq!(pass(&script, "C").await, (Verdict::Continue, Verdict::Continue));
}

#[tokio::test]
async fn rule_applies_only_at_its_moment() {
    let script = TestScript::default();
    script.request(1).before_answer().cut();
    assert_eq!(pass(&script, "A").await, (Verdict::Continue, Verdict::Cut));
}

#[tokio::test]
async fn first_rule_applies_once_and_each_rule_always() {
    let script = TestScript::default();
    script.first(|request| request.verb == "A").before_forward().answer("once");
    script.each(|request| request.verb == "A").before_answer().answer("always");
    assert_eq!(pass(&script, "B").await, (Verdict::Continue, Verdict::Continue));
    assert_eq!(pass(&script, "A").await, (Verdict::Answer("once"), Verdict::Answer("always")));
    assert_eq!(pass(&script, "A").await, (Verdict::Continue, Verdict::Answer("always")));
    script.clear();
    assert_eq!(pass(&script, "A").await, (Verdict::Continue, Verdict::Continue));
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
    assert_eq!(pass(&script, "A").await.0, Verdict::Cut);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn held_request_continues_when_released_or_dropped() {
    for release in [true, false] {
        let script = TestScript::default();
        let mut held = script.request(1).before_forward().hold();
        let request = script.receive("A".to_owned(), String::new());
        let performing = script.perform(Moment::BeforeForward, &request);
        tokio::pin!(performing);
        tokio::select! {
            biased;
            verdict = &mut performing => panic!("it was not held: {verdict:?}"),
            () = held.reached() => {}
        }
        if release {
            held.release();
        } else {
            drop(held);
        }
        assert_eq!(performing.await, Verdict::Continue);
    }
}

#[tokio::test]
async fn killed_process_is_dead_before_its_connection_is_cut() {
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    let script = TestScript::default();
    script.request(1).before_answer().kill(process.id());
    assert_eq!(pass(&script, "A").await, (Verdict::Continue, Verdict::Cut));
    let status = process.try_wait().unwrap().expect("the process is still alive");
    assert!(!status.success());
}
