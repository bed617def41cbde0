//! The table never wraps, never outgrows its terminal, and climbs exactly over the last frame.

use broker_domain::ProvisionedResourceId;
use uuid::Uuid;

use super::*;
use crate::demo::story::Role;

const BILL: Bill = Bill { seed: 1, resources: 30 };

fn entries(count: u64) -> Vec<Entry> {
    let id = ProvisionedResourceId::new(Uuid::from_u128(1)).unwrap();
    let entry = |nth| {
        let mut entry = Entry::new(&format!("web-{nth}"), Role::Node, id);
        let note = "a note ".repeat(20);
        let happening = Happening::Phase { from: None, to: Phase::Deprovisioning, note };
        entry.record(Duration::from_secs(nth), &happening);
        entry
    };
    (1..=count).map(entry).collect()
}

fn drawn(colour: bool, frames: &[&[Entry]]) -> String {
    let mut out = Vec::new();
    let size = || Size { columns: 60, rows: 12 };
    let mut live = Live::new(&mut out, Terminal { colour }, size);
    live.begin(BILL).unwrap();
    for entries in frames {
        live.round(Duration::from_secs(40), entries).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn no_line_reaches_the_right_edge() {
    let text = drawn(false, &[&entries(3)]);
    let longest = text.lines().map(|line| line.trim_end_matches("\x1b[K").chars().count()).max();
    assert_eq!(longest, Some(59));
    assert!(text.contains("web-2        Deprovisioning  38.0s  a note"), "{text}");
}

#[test]
fn what_does_not_fit_is_counted_and_the_latest_changes_stay() {
    let text = drawn(false, &[&entries(30)]);
    assert_eq!(text.lines().filter(|line| line.starts_with("web-")).count(), 7);
    assert!(text.contains("web-24 ") && text.contains("web-30 ") && !text.contains("web-23 "));
    assert!(text.contains("and 23 more, which changed longer ago"));
    assert!(text.matches('\n').count() < 12, "the cursor stays on the screen");
}

#[test]
fn a_frame_climbs_over_the_one_before() {
    let (few, more) = (entries(2), entries(4));
    let text = drawn(false, &[&few, &more, &few]);
    assert!(text.contains("\x1b[J\x1b[5A\r"), "title, gap, heads and two rows: {text:?}");
    assert!(text.contains("\x1b[J\x1b[7A\r"), "{text:?}");
}

#[test]
fn colours_are_shown_to_those_who_want_them() {
    assert!(drawn(true, &[&entries(1)]).contains("web-1        \x1b[33mDeprovisioning\x1b[0m "));
    assert!(!drawn(false, &[&entries(1)]).contains("\x1b[33m"));
}
