//! Benchmarks of the whole broker on real servers, against a baseline and a naive implementation, for
//! `cargo xtask bench`.
//!
//! `end_to_end --list` lists the workloads. `end_to_end WORKLOAD` measures one and prints a line of JSON per
//! measurement. `--quick` runs it with a few items, as a smoke test. Each workload runs in up to three
//! ways, in alternation, so that other load on the machine affects all of them:
//!
//! - *baseline*: the bare calls with the same drivers, without the broker;
//! - *ours*: the broker;
//! - *naive*: sequential, one GET per resource, two applies per converging tick, one transaction per write.
//!
//! An absolute time depends on the machine, so `cargo xtask bench` only uses the ratios within a round.

#![expect(clippy::unwrap_used, reason = "a benchmark without its setup cannot measure")]

mod end_to_end {
    mod fixture;
    mod harness;
    mod processor_time;

    mod fake_api_server;

    mod claim;
    mod cold;
    mod converge;
    mod declare;
    mod drain;
    mod lifecycle;
    mod million_rows;
    mod sweep;
    mod teardown;
    mod watch;

    pub(crate) use harness::run;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    end_to_end::run(&arguments);
}
