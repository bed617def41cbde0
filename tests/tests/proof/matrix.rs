//! The fault matrix: each call that leaves the process, each fault, six workflows; one world per
//! cell and call.
//!
//! A fault-free run of each workflow determines its calls. Two workflows include trouble that an
//! operator must resolve, so that dead-lettering an event and setting the brake are among the
//! calls. Then each call gets each fault in a separate world, and the outcome must be the same as
//! without it. The test asserts that every fault fired; the counts are in `docs/fault-matrix.md`.

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

/// The normal run injects faults only into the first calls of a method; the nightly run into all.
const FIRST_CALLS: u64 = 3;

/// How often each fault fired, by call and workflow.
type Cells = BTreeMap<(Call, Mishap, Workflow), usize>;

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

/// Negative control: these reads must be fresh by contract. If the mesh's answer is stale, the
/// substrate of a live Node is deleted.
#[test]
fn stale_answer_to_a_fresh_read_breaks_a_promise() {
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

/// The page is committed, so that a review shows a call or fault that is no longer tried.
fn compare(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fault-matrix.md");
    if environment("BROKER_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/fault-matrix.md is not what this run found; regenerate it with \
         `BROKER_BLESS=1 cargo test --workspace --all-features --test proof matrix`"
    );
}
