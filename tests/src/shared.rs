//! The servers that all tests share: those of the run that this process belongs to, or else its
//! own.

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

/// Where the shared servers are; starts them if nobody has.
pub(crate) async fn servers() -> &'static Description {
    let found = tokio::task::spawn_blocking(find_or_start).await;
    match found.or_fail("the servers cannot be had") {
        Ok(description) => description,
        Err(reason) => panic!("the servers cannot be had: {reason}"),
    }
}

/// The binaries of a server that a test wants for itself.
pub(crate) fn tools() -> Tools {
    if let Some(directory) = std::env::var_os(SERVERS_VARIABLE) {
        end_with_the_run(PathBuf::from(directory));
    }
    Tools::find().or_fail("the servers cannot be had")
}

fn find_or_start() -> Result<&'static Description, &'static str> {
    // The reason is kept, so that every test that needs a server fails with it, not only the first.
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
    end_with_the_run(directory.to_owned());
    Ok(description)
}

/// Nobody but the run can stop this process when the run was killed, and without its servers it
/// could only fail slowly. What it started itself has reapers of its own.
fn end_with_the_run(directory: PathBuf) {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        std::thread::spawn(move || {
            Run::wait_for_end(&directory);
            eprintln!("the run in {} has ended, and with it these tests", directory.display());
            std::process::exit(1);
        });
    });
}

fn start() -> Result<Description, String> {
    // Nothing drops a static, so the servers live as long as this process and end by their reaper.
    static OWN: OnceLock<SharedServers> = OnceLock::new();
    let tools = Tools::find().map_err(|error| one_line(&*error))?;
    let servers = start_shared(&tools).map_err(|error| one_line(&*error))?;
    Ok(OWN.get_or_init(|| servers).description())
}
