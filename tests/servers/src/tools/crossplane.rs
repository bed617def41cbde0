//! Crossplane, two composition functions and a provider that does nothing, built with Go, each from a module file
//! of its own: their dependencies do not agree with each other.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Lookup;
use super::go::{self, Binary, Module};

/// A binary that has a module file of its own.
macro_rules! binary {
    ($name:literal, $module:literal, $package:literal) => {
        Binary::new(
            $name,
            $module,
            $package,
            Module {
                go_mod: include_str!(concat!("../../modules/", $name, "/go.mod")),
                go_sum: include_str!(concat!("../../modules/", $name, "/go.sum")),
            },
        )
    };
}

const CROSSPLANE: Binary = Binary {
    documents: &[("cluster/crds", CRDS), ("cluster/webhookconfigurations", WEBHOOKS)],
    ..binary!("crossplane", "github.com/crossplane/crossplane/v2", "/cmd/crossplane")
};
const PATCH_AND_TRANSFORM: Binary = binary!(
    "function-patch-and-transform",
    "github.com/crossplane-contrib/function-patch-and-transform",
    ""
);
const AUTO_READY: Binary =
    binary!("function-auto-ready", "github.com/crossplane/function-auto-ready", "");
const PROVIDER_NOP: Binary = Binary {
    documents: &[("package/crds", CRDS)],
    ..binary!("provider-nop", "github.com/crossplane-contrib/provider-nop", "/cmd/provider")
};

const BINARIES: [&Binary; 4] = [&CROSSPLANE, &PATCH_AND_TRANSFORM, &AUTO_READY, &PROVIDER_NOP];

const CRDS: &str = "crds";
const WEBHOOKS: &str = "webhookconfigurations";

/// The port of provider-nop's metrics, for which it has no option, so that a machine runs one at a time.
const LOCK: &str = "provider-nop-port-8080.lock";

/// Where Crossplane and what it runs with are.
#[derive(Clone, Debug)]
pub struct CrossplaneTools {
    /// Crossplane itself.
    pub crossplane: PathBuf,
    /// Its `CustomResourceDefinition`s, one file each.
    pub crds: PathBuf,
    /// The configuration of the webhook that keeps what is in use from being deleted.
    pub usage_webhook: PathBuf,
    /// The function that composes.
    pub patch_and_transform: PathBuf,
    /// The function that says when all is ready.
    pub auto_ready: PathBuf,
    /// The provider whose resources cost nothing.
    pub provider_nop: PathBuf,
    /// The provider's `CustomResourceDefinition`s, one file each.
    pub provider_crds: PathBuf,
    /// Locked by whoever runs the provider.
    pub provider_lock: PathBuf,
}

impl CrossplaneTools {
    /// Finds every program in the cache, and builds what is not there.
    ///
    /// # Errors
    ///
    /// As [`super::Tools::find_or_build`].
    pub fn find_or_build(progress: &dyn Fn(&str)) -> Result<Self> {
        Self::provide(Some(progress))
    }

    /// Finds every program without building any.
    ///
    /// # Errors
    ///
    /// When one was not built yet.
    pub fn find() -> Result<Self> {
        Self::provide(None)
    }

    fn provide(progress: Option<&dyn Fn(&str)>) -> Result<Self> {
        let lookup = Lookup::from_environment()?;
        let [crossplane, patch_and_transform, auto_ready, provider_nop] =
            go::provide(&lookup, BINARIES, "", progress)?;
        Ok(Self {
            crds: crossplane.with_file_name(CRDS),
            usage_webhook: crossplane.with_file_name(WEBHOOKS).join("usage.yaml"),
            crossplane,
            patch_and_transform,
            auto_ready,
            provider_crds: provider_nop.with_file_name(CRDS),
            provider_nop,
            provider_lock: lookup.cache.artifact(LOCK),
        })
    }

    /// Every program with its name.
    #[must_use]
    pub fn programs(&self) -> [(&'static str, &Path); 4] {
        [
            (CROSSPLANE.name, &self.crossplane),
            (PATCH_AND_TRANSFORM.name, &self.patch_and_transform),
            (AUTO_READY.name, &self.auto_ready),
            (PROVIDER_NOP.name, &self.provider_nop),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    #[test]
    fn missing_programs_are_named_with_the_versions_of_their_module_files() {
        let machine = Machine::new();
        let missing = go::check(&machine.lookup(), BINARIES, "").unwrap_err().to_string();
        assert_eq!(
            missing,
            "missing crossplane 2.3.4, function-patch-and-transform 0.5.0, function-auto-ready 0.6.0, \
             provider-nop 0.5.0: install Go 1.26 or newer to have them built"
        );
        for binary in BINARIES {
            let go = format!("\ngo {}", go::GO_VERSION);
            assert!(binary.built_from.go_mod.contains(&go), "{}", binary.name);
        }
    }
}
