//! What a waiting person sees: one line per slow step, with the time it has taken so far.
//!
//! Plain lines rather than a bar: they read the same on a terminal, in a pipe and in a CI log, and
//! they mix with the output of cargo and of the tests.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Quicker steps than this say nothing.
const QUIET: Duration = Duration::from_secs(1);
/// How often a step that goes on says so.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Writes a line where `cargo` writes its own.
pub fn to_stderr(line: &str) {
    eprintln!("xtask: {line}");
}

/// Runs `work` and tells `progress` about it as soon as it is slow.
///
/// `work` runs on a thread of its own, so that a blocked one (a child process, a lock) cannot
/// silence the heartbeat.
pub fn step<T: Send>(progress: &dyn Fn(&str), what: &str, work: impl FnOnce() -> T + Send) -> T {
    let started = Instant::now();
    thread::scope(|scope| {
        let (done, waiting) = channel();
        let worker = scope.spawn(move || {
            let result = work();
            // Nobody listens only if the waiting thread is gone, and then the scope is over.
            let _ = done.send(());
            result
        });
        let mut patience = QUIET;
        // A worker that panicked hangs up instead of answering; both end the wait.
        while waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            progress(&format!("{what} … ({})", elapsed(started.elapsed())));
            patience = HEARTBEAT;
        }
        let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        if started.elapsed() >= QUIET {
            progress(&format!("{what}: done ({})", elapsed(started.elapsed())));
        }
        result
    })
}

/// A duration as a person says it: `0.4s`, `12s`, `3m05s`.
pub fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        _ => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn slow_step_says_that_it_goes_on_and_ends_and_a_quick_one_says_nothing() {
        let (said, heard) = channel();
        let lines = RefCell::new(Vec::new());
        let progress = |line: &str| {
            lines.borrow_mut().push(line.to_owned());
            let _ = said.send(());
        };
        assert_eq!(step(&progress, "adding", || 1 + 1), 2);
        assert_eq!(*lines.borrow(), Vec::<String>::new());
        // The worker waits for the first line, so that the test takes no longer than it must.
        step(&progress, "waiting", move || heard.recv()).unwrap();
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("waiting … (") && lines[1].starts_with("waiting: done ("));
    }

    #[test]
    fn panic_in_the_work_reaches_the_caller() {
        let caught = catch_unwind(AssertUnwindSafe(|| step(&|_| {}, "falling", || panic!("over"))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"over"));
    }

    #[test]
    fn times_read_as_people_say_them() {
        for (milliseconds, words) in
            [(40, "0.0s"), (1_250, "1.2s"), (12_900, "12s"), (60_000, "1m00s"), (185_000, "3m05s")]
        {
            assert_eq!(elapsed(Duration::from_millis(milliseconds)), words);
        }
    }
}
