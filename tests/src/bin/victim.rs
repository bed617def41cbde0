//! A process that tests kill: it does one thing with the servers and says when it has done it.
//!
//! ```text
//! victim servers                        starts shared servers and keeps them
//! victim attach                         uses the servers of another run, and stays
//! victim insert URL                     inserts a row into the table `t` and commits
//! ```

use std::{future::pending, io, process::ExitCode};

use broker_test_servers::{servers::start_shared, tools::Tools};
use broker_tests::TestPostgres;
use sqlx::{Connection, PgConnection};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["servers"] => servers(),
        ["attach"] => attach().await,
        ["insert", url] => insert(url).await,
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
    let servers = start_shared(&Tools::find()?, &|_| {})?;
    for (_, directory) in servers.env() {
        println!("{directory}");
    }
    // The end of the input is the end of a run that ends by itself.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

async fn attach() -> Outcome {
    let database = TestPostgres::shared().await.database().await;
    println!("{}", database.name());
    pending().await
}

async fn insert(url: &str) -> Outcome {
    let mut connection = PgConnection::connect(url).await?;
    let mut transaction = connection.begin().await?;
    sqlx::query("INSERT INTO t VALUES (1)").execute(&mut *transaction).await?;
    transaction.commit().await?;
    println!("committed");
    Ok(())
}
