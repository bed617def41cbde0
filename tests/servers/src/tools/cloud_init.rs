//! The JSON Schema by which cloud-init checks what a machine is given at boot.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Lookup, apt};

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
pub fn cloud_init_schema(progress: &dyn Fn(&str)) -> Result<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let installed = Path::new("/").join(SCHEMA);
    if let Some(found) = named.into_iter().chain([installed]).find(|file| file.is_file()) {
        return Ok(found);
    }
    let lookup = Lookup::from_environment()?;
    let is_complete = |artifact: &Path| artifact.join(SCHEMA).is_file();
    let artifact = apt::provide_one(&lookup, "cloud-init", progress, is_complete)?;
    Ok(artifact.join(SCHEMA))
}
