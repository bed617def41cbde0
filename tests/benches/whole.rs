//! The whole broker on real servers, beside the bare calls and the naive way, for `cargo xtask bench`.
//!
//! `whole --list` names the works; `whole WORK` measures one and prints a line of JSON for each measurement;
//! `whole WORK --quick` does so with little of everything, to see whether it works. Each work is done in up to three
//! ways, in turns, so that whatever else the machine does meets all of them:
//!
//! - *floor*: the bare calls with the same drivers, and no broker;
//! - *ours*: the broker;
//! - *naive*: sequential, one GET per resource, two applies per converging tick, one transaction per write.
//!
//! A time says something about the machine. Only ratios within a round are kept, and `cargo xtask bench` makes them.

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
