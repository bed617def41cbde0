//! An agent that behaves like a current `plexd`; see `broker_test_servers::agent`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use broker_test_servers::agent::{Started, start};

#[expect(clippy::disallowed_methods, reason = "the agent reads its own environment")]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let environment: BTreeMap<_, _> = std::env::vars().collect();
    match start(&arguments, &environment) {
        Ok(Started::Registered(node)) => println!("registered {node}"),
        Ok(Started::Resumed(node)) => println!("resumed {node}"),
        Err(error) => {
            eprintln!("plexd: {error}");
            return ExitCode::from(error.exit_code());
        }
    }
    ExitCode::SUCCESS
}
