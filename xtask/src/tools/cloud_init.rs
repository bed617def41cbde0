//! The JSON Schema by which cloud-init checks what a machine is given at boot.

use std::path::{Path, PathBuf};

use super::{Lookup, SetupError, apt};

/// Where the package keeps it.
const SCHEMA: &str =
    "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json";

/// The schema from the distribution's package, which is unpacked into the cache and not installed.
///
/// # Errors
///
/// When the package is not in the cache and cannot be fetched.
pub fn cloud_init_schema(progress: &dyn Fn(&str)) -> Result<PathBuf, SetupError> {
    let lookup = Lookup::from_environment()?;
    let is_complete = |artifact: &Path| artifact.join(SCHEMA).is_file();
    let artifact = apt::provide(&lookup, "cloud-init", progress, is_complete)?;
    Ok(artifact.join(SCHEMA))
}
