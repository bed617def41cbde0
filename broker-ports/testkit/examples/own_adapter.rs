//! A custom event sink: it stores events as files, one directory per resource.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_ports::{Envelope, EventSink, PortError};
use broker_testkit::event_sink::{self, EventSinkUnderTest};
use tempfile::{NamedTempFile, TempDir};

/// Writes each envelope to `<root>/<resource>/<sequence>.json`.
struct Spool {
    root: PathBuf,
}

impl Spool {
    fn directory(&self, resource: ProvisionedResourceId) -> PathBuf {
        self.root.join(resource.to_string())
    }
}

#[async_trait]
impl EventSink for Spool {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let directory = self.directory(envelope.resource);
        // The sequence is the file name: a repeated delivery overwrites its file, and a late delivery keeps the order.
        let name = format!("{:020}.json", envelope.sequence);
        let (root, json) = (self.root.clone(), envelope.json.clone());
        // Disk I/O blocks, so it runs outside of the executor. After a dropped call the write still completes and the
        // event is delivered again, which the port allows.
        tokio::task::spawn_blocking(move || store(&root, &directory, &name, &json))
            .await
            .map_err(|error| PortError::unknown("the write task failed").with_source(error))?
    }
}

/// The adapter chooses the error class: a failure before the rename has no effect; afterwards the outcome is unknown.
fn store(root: &Path, directory: &Path, name: &str, json: &[u8]) -> Result<(), PortError> {
    let file = write(root, directory, json).map_err(|error| {
        PortError::transient(format!("cannot write in {}", directory.display())).with_source(error)
    })?;
    publish(file, root, directory, name).map_err(|error| {
        PortError::unknown(format!("cannot publish in {}", directory.display())).with_source(error)
    })
}

/// Writes the event to a temporary file. A full disk or a crash leaves a partial file here, never under an event's
/// name.
fn write(root: &Path, directory: &Path, json: &[u8]) -> io::Result<NamedTempFile> {
    // Never create the root: if it is missing, an operator removed the spool.
    root.metadata()?;
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(json)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Renames the file in one step, then syncs its directory and the root.
fn publish(file: NamedTempFile, root: &Path, directory: &Path, name: &str) -> io::Result<()> {
    file.persist(directory.join(name))?;
    for directory in [directory, root] {
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// The world of the suite: the adapter, and access to its files.
struct World {
    spool: Spool,
    _root: TempDir,
}

impl World {
    fn fresh() -> Self {
        let root = TempDir::new().expect("a directory for the spool");
        Self { spool: Spool { root: root.path().to_owned() }, _root: root }
    }
}

/// The events of a directory, ordered by name.
fn read_events(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files.iter().map(fs::read).collect()
}

#[async_trait]
impl EventSinkUnderTest for World {
    fn sink(&self) -> &dyn EventSink {
        &self.spool
    }

    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError> {
        match read_events(&self.spool.directory(resource)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            events => {
                events.map_err(|error| PortError::transient("cannot read").with_source(error))
            }
        }
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        fs::remove_dir_all(&self.spool.root)
            .map_err(|error| PortError::transient("cannot remove").with_source(error))
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let report = event_sink::suite().run(async || World::fresh()).await;
    print!("{report}");
    report.assert_passed();
}
