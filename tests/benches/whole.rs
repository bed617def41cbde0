//! Benchmarks of the whole broker on real servers, against a baseline and a naive implementation, for
//! `cargo xtask bench`.
//!
//! `whole --list` lists the workloads. `whole WORK` measures one and prints one line of JSON per
//! measurement. `whole WORK --quick` runs it with a few items, as a smoke test. Each workload runs in up to
//! three ways, in turns, so that other load on the machine affects all of them:
//!
//! - *floor*: the bare calls with the same drivers, without the broker;
//! - *ours*: the broker;
//! - *naive*: sequential, one GET per resource, two applies per converging tick, one transaction per write.
//!
//! An absolute time depends on the machine. `cargo xtask bench` keeps only the ratios within a round.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]

mod whole {
    mod lab;
    mod processor;
    mod stand;

    mod played;

    mod claim;
    mod cold;
    mod converge;
    mod crowd;
    mod declare;
    mod drain;
    mod life;
    mod sweep;
    mod teardown;
    mod watch;

    pub(crate) use lab::run;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    whole::run(&arguments);
}
