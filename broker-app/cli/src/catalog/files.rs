//! Reads a catalog: a directory with one directory per blueprint, or a tar archive of one. Each file has a size limit.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use broker_render::MAX_DOCUMENT_BYTES;
use broker_render::catalog::{File, Source};

use super::archive;
use crate::failure::Failure;

/// The files of a catalog, not yet checked.
pub(crate) struct CatalogFiles {
    path: PathBuf,
    blueprints: Blueprints,
}

/// The blueprints by slug.
pub(super) type Blueprints = BTreeMap<String, BlueprintFiles>;

/// The files of a blueprint in the order of [`File::ALL`]; `None` is a missing file.
pub(super) type BlueprintFiles = [Option<Vec<u8>>; 3];

impl CatalogFiles {
    /// Reads a directory or an archive.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable = |source| Failure::File { path: path.to_owned(), source };
        let blueprints = if fs::metadata(path).map_err(unreadable)?.is_dir() {
            read_directory(path)?
        } else {
            let file = fs::File::open(path).map_err(unreadable)?;
            let unusable = |source| Failure::Archive { path: path.to_owned(), source };
            archive::read(file).map_err(unusable)?
        };
        Ok(Self { path: path.to_owned(), blueprints })
    }

    /// The blueprints, by slug.
    pub(crate) fn sources(&self) -> Vec<Source<'_>> {
        let blueprints = self.blueprints.iter();
        blueprints
            .map(|(slug, files)| Source::with_missing(slug, files.each_ref().map(Option::as_deref)))
            .collect()
    }

    /// An error if there is no blueprint, which is the wrong path rather than nothing to do.
    pub(crate) fn ensure_not_empty(&self) -> Result<(), Failure> {
        if self.blueprints.is_empty() {
            return Err(Failure::EmptyCatalog { path: self.path.clone() });
        }
        Ok(())
    }
}

/// Every visible subdirectory is a blueprint; other files are not part of the catalog.
fn read_directory(path: &Path) -> Result<Blueprints, Failure> {
    let unreadable = |source| Failure::File { path: path.to_owned(), source };
    let mut blueprints = Blueprints::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let slug = entry.file_name().to_string_lossy().into_owned();
        if is_hidden(&slug) || !entry.path().is_dir() {
            continue;
        }
        let mut files = BlueprintFiles::default();
        for (file, bytes) in File::ALL.into_iter().zip(&mut files) {
            *bytes = read_file(&entry.path().join(file.as_str()))?;
        }
        blueprints.insert(slug, files);
    }
    Ok(blueprints)
}

pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// The bytes of a file; `None` if it is missing.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let unreadable = |source| Failure::File { path: path.to_owned(), source };
    match fs::File::open(path) {
        Ok(file) => read_limited(file).map(Some).map_err(unreadable),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

/// Reads one byte more than the limit, so that the check rejects a larger file.
pub(super) fn read_limited(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
