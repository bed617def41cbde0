//! The servers that all tests share: those of the surrounding run, or else servers of this process.

use std::{
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use broker_test_servers::{
    one_line,
    servers::{Description, Run, SERVERS_VARIABLE, SharedServers, start_shared},
    tools::Tools,
};

use crate::failure::OrFail;

/// The shared servers' addresses; starts the servers if necessary.
pub(crate) async fn servers() -> &'static Description {
    let found = tokio::task::spawn_blocking(find_or_start).await;
    match found.or_fail("the servers cannot start") {
        Ok(description) => description,
        Err(reason) => panic!("the servers cannot start: {reason}"),
    }
}

/// The server binaries, for a dedicated server.
pub(crate) fn tools() -> Tools {
    if let Some(directory) = std::env::var_os(SERVERS_VARIABLE) {
        exit_when_run_ends(PathBuf::from(directory));
    }
    Tools::find().or_fail("the servers cannot start")
}

fn find_or_start() -> Result<&'static Description, &'static str> {
    // The error is kept, so that every test that needs a server fails with it.
    static FOUND: OnceLock<Result<Description, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match std::env::var_os(SERVERS_VARIABLE).map(PathBuf::from) {
        Some(directory) => attach(&directory),
        None => start(),
    });
    found.as_ref().map_err(String::as_str)
}

fn attach(directory: &Path) -> Result<Description, String> {
    let description = Description::read(directory)
        .map_err(|error| format!("{SERVERS_VARIABLE}: {}", one_line(&*error)))?;
    exit_when_run_ends(directory.to_owned());
    Ok(description)
}

/// Exits this process when the run ends: without servers its tests would only fail slowly. Reapers end the
/// servers that this process started.
fn exit_when_run_ends(directory: PathBuf) {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        std::thread::spawn(move || {
            Run::wait_for_end(&directory);
            eprintln!("the run in {} has ended; its tests end too", directory.display());
            std::process::exit(1);
        });
    });
}

fn start() -> Result<Description, String> {
    // A static is never dropped: the servers live as long as this process, and a reaper ends them.
    static OWN_SERVERS: OnceLock<SharedServers> = OnceLock::new();
    let tools = Tools::find().map_err(|error| one_line(&*error))?;
    let servers = start_shared(&tools).map_err(|error| one_line(&*error))?;
    Ok(OWN_SERVERS.get_or_init(|| servers).description())
}
