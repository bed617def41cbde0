//! An adapter of one's own: events as lines in files, one file per resource.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;
use broker_ports::testing::event_sink::{self, EventSinkUnderTest};
use broker_ports::{Envelope, EventSink, PortError};
use tempfile::TempDir;

/// Appends each envelope to `<directory>/<resource>.jsonl`.
struct JsonLines {
    directory: PathBuf,
}

impl JsonLines {
    fn file(&self, resource: ProvisionedResourceId) -> PathBuf {
        self.directory.join(format!("{resource}.jsonl"))
    }
}

#[async_trait]
impl EventSink for JsonLines {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let path = self.file(envelope.resource);
        let line = [&envelope.json, b"\n".as_slice()].concat();
        // A disk may be slow: not on the executor's threads. If the caller gives up meanwhile the line is
        // written all the same, and the event comes again, which the port allows.
        tokio::task::spawn_blocking(move || append(&path, &line))
            .await
            .map_err(|error| PortError::unknown("the writer broke off").with_source(error))?
    }
}

/// The adapter alone knows what a failure means: without an open file nothing was written, and from then on
/// nobody can tell.
fn append(path: &Path, line: &[u8]) -> Result<(), PortError> {
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
        PortError::transient(format!("cannot open {}", path.display())).with_source(error)
    })?;
    write(&mut file, line).map_err(|error| {
        PortError::unknown(format!("cannot write {}", path.display())).with_source(error)
    })
}

/// One write for the whole line, and durable before the answer.
fn write(file: &mut File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.sync_data()
}

/// What the suite needs beside the adapter: a look at the other side.
struct World {
    sink: JsonLines,
    _directory: TempDir,
}

impl World {
    fn fresh() -> Self {
        let directory = TempDir::new().expect("a directory for the files");
        Self { sink: JsonLines { directory: directory.path().to_owned() }, _directory: directory }
    }
}

#[async_trait]
impl EventSinkUnderTest for World {
    fn sink(&self) -> &dyn EventSink {
        &self.sink
    }

    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError> {
        match std::fs::read_to_string(self.sink.file(resource)) {
            Ok(text) => Ok(text.lines().map(|line| line.as_bytes().to_vec()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(PortError::transient("cannot read").with_source(error)),
        }
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        std::fs::remove_dir_all(&self.sink.directory)
            .map_err(|error| PortError::transient("cannot remove").with_source(error))
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let report = event_sink::suite().run(async || World::fresh()).await;
    print!("{report}");
    report.assert_passed();
}
