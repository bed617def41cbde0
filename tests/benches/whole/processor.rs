//! Whose processor time a work took, from the kernel's accounts: on a machine that is busy, that is what bounds it.

use std::collections::BTreeMap;
use std::fs;

/// By whom, in ticks of the kernel.
pub(super) type Spent = BTreeMap<&'static str, u64>;

/// The servers, by the names of their processes, which the kernel cuts after fifteen letters.
const SERVERS: [(&str, &str); 4] = [
    ("kube-apiserver", "API server"),
    ("etcd", "etcd"),
    ("postgres", "Postgres"),
    ("kube-controller", "garbage collector"),
];

/// This process: the broker, or whoever calls the servers without it.
const CALLER: &str = "caller";

/// What everybody has spent since he began.
pub(super) fn spent() -> Spent {
    let mut spent = Spent::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        // Whatever has ended meanwhile is counted by who waited for it.
        let Ok(account) = fs::read_to_string(process.path().join("stat")) else { continue };
        let Some((name, ticks)) = read(&account) else { continue };
        if let Some((_, server)) = SERVERS.iter().find(|(process, _)| *process == name) {
            *spent.entry(*server).or_default() += ticks;
        }
    }
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    spent.insert(CALLER, read(&own).unwrap().1);
    spent
}

/// What was spent between the two.
pub(super) fn between(before: &Spent, after: &Spent) -> Spent {
    let since = |who: &&'static str| before.get(who).copied().unwrap_or_default();
    after.iter().map(|(who, ticks)| (*who, ticks.saturating_sub(since(who)))).collect()
}

/// The name of a process and its ticks, as user and in the kernel, with those of children that it has waited for.
fn read(account: &str) -> Option<(&str, u64)> {
    // A name may hold anything, parentheses too.
    let (before, after) = account.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let ticks = after.split_whitespace().skip(11).take(4);
    Some((name, ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()))
}
