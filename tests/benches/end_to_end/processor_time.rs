//! Processor time by process, from the kernel's accounting: on a busy machine, processor time limits a
//! workload.

use std::collections::BTreeMap;
use std::fs;

/// Ticks, in hundredths of a second, by process.
pub(super) type ProcessorTicks = BTreeMap<&'static str, u64>;

/// The servers, by process name, which the kernel truncates to 15 characters.
const SERVERS: [(&str, &str); 4] = [
    ("kube-apiserver", "API server"),
    ("etcd", "etcd"),
    ("postgres", "Postgres"),
    ("kube-controller", "garbage collector"),
];

/// This process: the broker, or a baseline that calls the servers directly.
const CALLER: &str = "caller";

pub(super) fn total() -> ProcessorTicks {
    let mut total = ProcessorTicks::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        // A process that ended is counted by the parent that waited for it.
        let Ok(account) = fs::read_to_string(process.path().join("stat")) else { continue };
        let Some((name, ticks)) = read(&account) else { continue };
        if let Some((_, server)) = SERVERS.iter().find(|(process, _)| *process == name) {
            *total.entry(*server).or_default() += ticks;
        }
    }
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    total.insert(CALLER, read(&own).unwrap().1);
    total
}

pub(super) fn between(before: &ProcessorTicks, after: &ProcessorTicks) -> ProcessorTicks {
    let start = |process: &str| before.get(process).copied().unwrap_or_default();
    let spent =
        after.iter().map(|(process, ticks)| (*process, ticks.saturating_sub(start(process))));
    spent.collect()
}

/// A process's name and its user and kernel ticks, including children that it has waited for.
fn read(account: &str) -> Option<(&str, u64)> {
    // A name may contain anything, including parentheses.
    let (before, after) = account.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let ticks = after.split_whitespace().skip(11).take(4);
    Some((name, ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()))
}
