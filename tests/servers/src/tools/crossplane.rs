//! Builds Crossplane, two composition functions and provider-nop with Go, each from its own module file: their
//! dependencies conflict.

use std::path::PathBuf;

use anyhow::Result;

use super::Missing;
use super::go::{self, Binary, Module};
use crate::cache::Cache;

/// A binary with its own module file.
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

/// The lock for the metrics port of provider-nop, which is not configurable: a machine runs one instance at a time.
const LOCK: &str = "provider-nop-port-8080.lock";

/// The paths of Crossplane and its companions.
#[derive(Clone, Debug)]
pub struct CrossplaneTools {
    /// Crossplane itself.
    pub crossplane: PathBuf,
    /// Its `CustomResourceDefinition`s, one file each.
    pub crds: PathBuf,
    /// The configuration of the webhook that protects used objects from deletion.
    pub usage_webhook: PathBuf,
    /// The function that composes resources.
    pub patch_and_transform: PathBuf,
    /// The function that derives readiness.
    pub auto_ready: PathBuf,
    /// The provider that manages no external resources.
    pub provider_nop: PathBuf,
    /// The provider's `CustomResourceDefinition`s, one file each.
    pub provider_crds: PathBuf,
    /// The run that uses the provider holds this lock.
    pub provider_lock: PathBuf,
}

impl CrossplaneTools {
    /// Finds every program in the cache and builds missing ones.
    ///
    /// # Errors
    ///
    /// As [`super::Tools::find_or_build`].
    pub fn find_or_build() -> Result<Self> {
        Self::provide(Missing::Build)
    }

    /// Finds every program; builds nothing.
    ///
    /// # Errors
    ///
    /// A program is not built.
    pub fn find() -> Result<Self> {
        Self::provide(Missing::Fail)
    }

    fn provide(missing: Missing) -> Result<Self> {
        let [crossplane, patch_and_transform, auto_ready, provider_nop] =
            go::provide(BINARIES, "cargo xtask setup --crossplane", missing)?;
        Ok(Self {
            crds: crossplane.with_file_name(CRDS),
            usage_webhook: crossplane.with_file_name(WEBHOOKS).join("usage.yaml"),
            crossplane,
            patch_and_transform,
            auto_ready,
            provider_crds: provider_nop.with_file_name(CRDS),
            provider_nop,
            provider_lock: Cache::from_environment()?.artifact(LOCK),
        })
    }
}
