//! Provides cloud-init's JSON Schema of user data.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apt;

/// The schema's path in the package.
const SCHEMA: &str =
    "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json";

/// The path of the schema, for machines without cloud-init and without Debian packages.
const VARIABLE: &str = "BROKER_CLOUD_INIT_SCHEMA";

/// The schema from `BROKER_CLOUD_INIT_SCHEMA`, from an installed cloud-init, or from the distribution's package,
/// unpacked into the cache.
///
/// # Errors
///
/// The package is neither installed nor cached and cannot be fetched.
pub fn cloud_init_schema() -> Result<PathBuf> {
    let configured = std::env::var_os(VARIABLE).map(PathBuf::from);
    let installed = Path::new("/").join(SCHEMA);
    if let Some(found) = configured.into_iter().chain([installed]).find(|file| file.is_file()) {
        return Ok(found);
    }
    let artifact = apt::provide("cloud-init", |artifact| artifact.join(SCHEMA).is_file())?;
    Ok(artifact.join(SCHEMA))
}
