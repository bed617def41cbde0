//! The command line: what can be asked for, and what becomes of the answer.

use std::ffi::OsString;
use std::io;
use std::ops::RangeInclusive;
use std::process::ExitCode;

use broker_app::one_line;
use clap::{Args, Parser, Subcommand};

use crate::demo::{self, DemoError, Pace};
use crate::terminal::Terminal;

/// The Provisioning Broker: hands out infrastructure through Crossplane, and takes it down again.
///
/// Exit codes: 0 when everything went well, 1 for an error (one line on the standard error), 2 for
/// a command line that cannot be understood.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the broker at work, without Postgres, a cluster or a cloud.
    ///
    /// Service, reconciler and sweep are the real ones; around them everything is simulated in this
    /// process: the store, the management cluster with Crossplane, the mesh, and agents that enrol
    /// with the token that they find on their machine. Nothing outside is read or written.
    ///
    /// Six stories are told side by side: a node, something without a node, a blueprint with
    /// parameters, one that fails for good and is rolled back, one that waits for the namespace of
    /// its Project, and one that is torn down. It takes less than 20 seconds. The exit code is 0
    /// if each of them ended as it should.
    ///
    /// In a terminal it is a live table, elsewhere one line per change of phase. Times are those of
    /// the simulation; at normal speed they are real.
    Demo(DemoArguments),
}

/// What the demo can be asked for.
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Repeats a run exactly: the same ids, the same order, the same output.
    ///
    /// Another seed gives other ids and lets things take longer or shorter.
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u32,
    /// How many resources, 1 to 200: the six stories in turn.
    #[arg(long, value_name = "N", default_value = "6", value_parser = resources)]
    pub(crate) resources: u16,
    /// How fast time passes: 0.5 is half as fast, 10 ten times; `max` does not wait at all.
    #[arg(long, value_name = "X", default_value = "1", value_parser = pace)]
    pub(crate) speed: Pace,
    /// Prints lines where it would show a live table.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
    /// Prints one JSON object per line.
    ///
    /// Each has a `type`: `phase` (a resource changed its phase; `from` is null for a new one),
    /// `event` (a lifecycle event; `event` is what the outbox gave), `namespace` (the namespace of
    /// a Project became ready) and, at the end, `outcome` for each resource. The first three have
    /// `elapsed_ms`, all but `namespace` the `resource`'s name. Keys are added, never changed.
    #[arg(long)]
    pub(crate) json: bool,
}

const RESOURCES: RangeInclusive<u16> = 1..=200;

/// Beyond these nothing can be followed any more, or would ever end.
const SPEEDS: RangeInclusive<f64> = 0.1..=100.0;

fn seed(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("use a whole number from 0 to {}", u32::MAX))
}

fn resources(text: &str) -> Result<u16, String> {
    let (least, most) = (RESOURCES.start(), RESOURCES.end());
    let number = text.parse().ok().filter(|number| RESOURCES.contains(number));
    number.ok_or_else(|| format!("use a whole number from {least} to {most}"))
}

fn pace(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace::Max);
    }
    let (least, most) = (SPEEDS.start(), SPEEDS.end());
    let times = text.parse().ok().filter(|times| SPEEDS.contains(times));
    times.map(Pace::Times).ok_or_else(|| format!("use a number from {least} to {most}, or max"))
}

/// Runs the command that the arguments name; the first of them is the program's own name.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        Err(usage) => {
            // It is the standard output or error itself that failed, so there is nowhere to say so.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let Command::Demo(arguments) = command;
    match demo::run(&arguments, Terminal::of_stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read along has seen enough, as in `… | head`.
        Err(DemoError::Output(gone)) if gone.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn speeds_are_numbers_within_bounds_or_max() {
        assert_eq!(pace("max"), Ok(Pace::Max));
        assert_eq!(pace("0.1"), Ok(Pace::Times(0.1)));
        assert_eq!(pace("100"), Ok(Pace::Times(100.0)));
        for refused in ["0", "0.09", "100.1", "-1", "inf", "NaN", "", "fast", "Max"] {
            assert_eq!(
                pace(refused).unwrap_err(),
                "use a number from 0.1 to 100, or max",
                "{refused}"
            );
        }
    }
}
