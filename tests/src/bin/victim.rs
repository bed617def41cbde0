//! A process that tests kill: it starts or uses servers, and prints a line when it is ready.
//!
//! ```text
//! victim servers                        starts shared servers and keeps them
//! victim attach                         uses the servers of another run until it is killed
//! ```

use std::{future::pending, io, process::ExitCode};

use broker_test_servers::{servers::start_shared, tools::Tools};
use broker_tests::TestPostgres;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["servers"] => servers(),
        ["attach"] => attach().await,
        _ => Err(format!("unknown arguments: {arguments:?}").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn servers() -> Outcome {
    let servers = start_shared(&Tools::find()?)?;
    for (_, directory) in servers.env() {
        println!("{directory}");
    }
    // A run that ends normally closes the input.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

async fn attach() -> Outcome {
    let database = TestPostgres::shared().await.database().await;
    println!("{}", database.name());
    pending().await
}
