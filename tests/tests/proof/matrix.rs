//! The fault matrix: each call that leaves the process, each fault, six workflows; one world per
//! cell and call.
//!
//! A fault-free run of each workflow determines its calls. Two workflows need an operator, so that
//! the calls include dead-lettering an event and setting the brake. Then each call gets each fault
//! in a separate world, and the outcome must be the same as without the fault. The test asserts
//! that every fault fired; the counts are in `docs/fault-matrix.md`.

mod fault_kind;
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
use fault_kind::FaultKind;
use workflow::{Call, NumberedCall, Workflow};

/// The number of calls per cell of the table into which the normal run injects a fault. The nightly run uses all calls.
const FIRST_CALLS: u64 = 3;

/// How often each fault fired, by call and workflow.
type Cells = BTreeMap<(Call, FaultKind, Workflow), usize>;

/// One world: the `nth` call of a method in a workflow gets a fault.
#[derive(Debug, Clone)]
struct Cell {
    workflow: Workflow,
    call: Call,
    nth: u64,
    fault_kind: FaultKind,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for workflow in Workflow::ALL {
        for numbered in on_one_thread(workflow.calls()) {
            let fault_kinds =
                FaultKind::ALL.into_iter().filter(|fault_kind| fault_kind.applies_to(&numbered));
            let NumberedCall { call, nth, .. } = &numbered;
            let cell = |fault_kind| Cell { workflow, call: call.clone(), nth: *nth, fault_kind };
            cells.extend(fault_kinds.map(cell));
        }
    }
    cells
}

fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

#[test]
fn every_fault_of_every_call_is_survived() {
    let mut selected = cells();
    if !is_nightly() {
        let mut first: BTreeMap<_, u64> = BTreeMap::new();
        selected.retain(|cell| {
            let seen =
                first.entry((cell.workflow, cell.call.clone(), cell.fault_kind)).or_default();
            *seen += 1;
            *seen <= FIRST_CALLS
        });
    }
    let (next, fired, failed) =
        (AtomicUsize::new(0), Mutex::new(Cells::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(cell) = selected.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match on_one_thread(cell.workflow.run_with_fault(
                        &cell.call,
                        cell.nth,
                        cell.fault_kind,
                    )) {
                        Ok(()) => {
                            let key = (cell.call.clone(), cell.fault_kind, cell.workflow);
                            *fired.lock().unwrap().entry(key).or_default() += 1;
                        }
                        Err(error) => failed.lock().unwrap().push(format!("{cell:?}: {error}")),
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
        selected.len(),
        failed.join("\n")
    );
    let fired = fired.into_inner().unwrap();
    println!("proof: {} worlds, {} cells", selected.len(), fired.len());
    if !is_nightly() {
        compare(&page::render(&fired));
    }
}

/// Negative control: these reads must be fresh by contract. If the mesh's response is stale, the
/// substrate of a live Node is deleted.
#[test]
fn stale_response_to_a_fresh_read_breaks_a_promise() {
    let fresh_read = (PortName::NodeDeregistrar, "node_registered");
    let calls = on_one_thread(Workflow::Delete.calls());
    let stale = calls
        .iter()
        .filter(|call| (call.call.port, call.call.method) == fresh_read && call.can_be_stale);
    let outcomes = stale.map(|call| {
        on_one_thread(Workflow::Delete.run_with_fault(&call.call, call.nth, FaultKind::StaleRead))
    });
    let failures: Vec<_> = outcomes.filter_map(Result::err).collect();
    assert!(failures.iter().any(|error| error.starts_with("S5")), "{failures:?}");
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
