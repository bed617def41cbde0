//! Reads a catalog from a tar archive, plain or compressed with gzip. Nothing is unpacked to disk.
//!
//! An archive may come from another party. Its size and number of entries are limited, and an entry that a catalog has
//! no use for is refused instead of interpreted.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use broker_render::catalog::File;
use flate2::bufread::MultiGzDecoder;
use tar::{Archive, Entry};

use super::files::{BlueprintFiles, Blueprints, is_hidden, read_limited};

/// The maximum number of entries, directories included.
const MAX_ENTRIES: usize = 4096;

/// The maximum size of an archive, uncompressed.
const MAX_BYTES: u64 = 64 << 20;

/// The characters of a path that an error prints. An archive may hold longer paths.
const MAX_PRINTED: usize = 200;

/// The first bytes of a file in the format of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why an archive is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("the archive is incomplete, or not a tar archive")]
    Unreadable(#[from] io::Error),
    #[error("the archive has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    #[error("the entry {path:?} {problem}")]
    Entry { path: String, problem: &'static str },
}

pub(super) fn read(file: impl Read) -> Result<Blueprints, ArchiveError> {
    let mut file = BufReader::new(file);
    if file.fill_buf()?.starts_with(&GZIP) {
        read_tar(MultiGzDecoder::new(file))
    } else {
        read_tar(file)
    }
}

fn read_tar(file: impl Read) -> Result<Blueprints, ArchiveError> {
    let mut archive = Archive::new(Limited { file, left: MAX_BYTES });
    let mut contents = Contents::default();
    for (number, entry) in archive.entries()?.enumerate() {
        if number == MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        contents.add(entry?)?;
    }
    Ok(contents.blueprints)
}

/// The entries that were read so far.
#[derive(Default)]
struct Contents {
    blueprints: Blueprints,
    /// Every path, with its kind.
    seen: BTreeMap<String, EntryKind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Directory,
}

impl Contents {
    fn add(&mut self, mut entry: Entry<'_, impl Read>) -> Result<(), ArchiveError> {
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |problem| ArchiveError::Entry {
            path: path.chars().take(MAX_PRINTED).collect(),
            problem,
        };
        let entry_type = entry.header().entry_type();
        if entry_type.is_pax_global_extensions() {
            // A comment, which `git archive` writes.
            return Ok(());
        }
        let kind = if entry_type.is_file() || entry_type.is_contiguous() {
            EntryKind::File
        } else if entry_type.is_dir() {
            EntryKind::Directory
        } else if entry_type.is_hard_link() || entry_type.is_symlink() {
            return Err(refused("is a link; use files and directories"));
        } else {
            return Err(refused("is neither a file nor a directory"));
        };
        if path.starts_with('/') || path.split('/').any(|name| name == "..") {
            return Err(refused("leaves the archive; use paths below its root"));
        }
        let names: Vec<_> = path.split('/').filter(|name| !["", "."].contains(name)).collect();
        let earlier = self.seen.insert(names.join("/"), kind);
        if earlier.is_some_and(|earlier| (earlier, kind) != (EntryKind::Directory, kind)) {
            return Err(refused("occurs twice"));
        }
        let (slug, rest) = match *names {
            [slug, ref rest @ ..] if !is_hidden(slug) => (slug, rest),
            _ => return Ok(()),
        };
        if rest.is_empty() && kind == EntryKind::File {
            return Ok(());
        }
        let files = self.blueprints.entry(slug.to_owned()).or_default();
        if let ([name], EntryKind::File) = (rest, kind) {
            store(files, name, &mut entry)?;
        }
        Ok(())
    }
}

/// Keeps the file if a blueprint has one of its name.
fn store(
    files: &mut BlueprintFiles,
    name: &str,
    entry: &mut Entry<'_, impl Read>,
) -> Result<(), ArchiveError> {
    let place = File::ALL.into_iter().zip(files).find(|(file, _)| file.as_str() == name);
    if let Some((_, bytes)) = place {
        *bytes = Some(read_limited(entry)?);
    }
    Ok(())
}

/// Fails after the maximum size, which a small compressed file could exceed.
struct Limited<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(format!("it holds more than {MAX_BYTES} bytes")))?;
        Ok(count)
    }
}
