//! The JSON Schema by which cloud-init checks what a machine is given at boot.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apt;

/// Where the package keeps it.
const SCHEMA: &str =
    "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json";

/// Names the schema's file, for machines that have no cloud-init and no packages of Debian's.
const VARIABLE: &str = "BROKER_CLOUD_INIT_SCHEMA";

/// The file that `BROKER_CLOUD_INIT_SCHEMA` names, or that of an installed cloud-init, or else from the distribution's package, which is unpacked into the
/// cache and not installed.
///
/// # Errors
///
/// When the package is neither installed nor in the cache and cannot be fetched.
pub fn cloud_init_schema() -> Result<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let installed = Path::new("/").join(SCHEMA);
    if let Some(found) = named.into_iter().chain([installed]).find(|file| file.is_file()) {
        return Ok(found);
    }
    let artifact = apt::provide("cloud-init", |artifact| artifact.join(SCHEMA).is_file())?;
    Ok(artifact.join(SCHEMA))
}
