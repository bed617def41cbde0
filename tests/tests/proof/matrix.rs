//! The fault matrix: each call that leaves the process, each fault, six workflows; one world per cell and call.
//!
//! A workflow is run once without faults to learn which calls it makes; two of them meet what a person has to help with,
//! so that setting an event aside and pulling the brake are among these calls. Then each of them goes wrong in each way,
//! in a world of its own, and everything has to come out as if nothing had happened. That every fault fired is asserted,
//! and the counts are a page: `docs/fault-matrix.md`.

mod mishap;
mod page;
mod run;
mod workflow;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_ports::PortName;
use tokio::runtime::Builder;

use super::environment;
use broker_tests::is_nightly;
use mishap::Mishap;
use workflow::{Call, Made, Workflow};

/// Of a method that is called more often than that, only the first calls go wrong in the normal run.
const FIRST_CALLS: u64 = 3;

/// How often each fault fired, by what it befell.
type Cells = BTreeMap<(Call, Mishap, Workflow), usize>;

/// One world to be lived through.
#[derive(Debug, Clone)]
struct Cell {
    workflow: Workflow,
    call: Call,
    nth: u64,
    mishap: Mishap,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for workflow in Workflow::ALL {
        for made in on_one_thread(workflow.calls()) {
            let mishaps = Mishap::ALL.into_iter().filter(|mishap| mishap.can_befall(&made));
            let Made { call, nth, .. } = &made;
            let cell = |mishap| Cell { workflow, call: call.clone(), nth: *nth, mishap };
            cells.extend(mishaps.map(cell));
        }
    }
    cells
}

fn on_one_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

#[test]
fn every_fault_of_every_call_is_survived() {
    let mut wanted = cells();
    if !is_nightly() {
        let mut first: BTreeMap<_, u64> = BTreeMap::new();
        wanted.retain(|cell| {
            let seen = first.entry((cell.workflow, cell.call.clone(), cell.mishap)).or_default();
            *seen += 1;
            *seen <= FIRST_CALLS
        });
    }
    let (next, fired, failed) =
        (AtomicUsize::new(0), Mutex::new(Cells::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(cell) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match on_one_thread(cell.workflow.survive(&cell.call, cell.nth, cell.mishap)) {
                        Ok(()) => {
                            let key = (cell.call.clone(), cell.mishap, cell.workflow);
                            *fired.lock().unwrap().entry(key).or_default() += 1;
                        }
                        Err(wrong) => failed.lock().unwrap().push(format!("{cell:?}: {wrong}")),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {} cells failed:\n{}",
        failed.len(),
        wanted.len(),
        failed.join("\n")
    );
    let fired = fired.into_inner().unwrap();
    println!("proof: {} worlds, {} cells", wanted.len(), fired.len());
    if !is_nightly() {
        compare(&page::written(&fired));
    }
}

/// A check that cannot fail is none, and a contract that nothing needs is none either: of a Node that is live, and that
/// an old answer does not know of yet, the substrate is deleted.
#[test]
fn what_has_to_be_fresh_cannot_be_stale() {
    let asked = (PortName::NodeDeregistrar, "node_registered");
    let calls = on_one_thread(Workflow::Delete.calls());
    let stale = calls
        .iter()
        .filter(|made| (made.call.port, made.call.method) == asked && made.could_be_stale);
    let lived = stale
        .map(|made| on_one_thread(Workflow::Delete.survive(&made.call, made.nth, Mishap::Stale)));
    let harmed: Vec<_> = lived.filter_map(Result::err).collect();
    assert!(harmed.iter().any(|wrong| wrong.starts_with("S5")), "{harmed:?}");
}

/// The page is committed, so that a call or a fault that is not tried any more is seen in a review.
fn compare(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fault-matrix.md");
    if environment("BROKER_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/fault-matrix.md is not what this run found; write it anew with \
         `BROKER_BLESS=1 cargo test --workspace --all-features --test proof matrix`"
    );
}
