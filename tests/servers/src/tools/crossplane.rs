//! Crossplane, two composition functions and a provider that does nothing, built with Go, each from a module file
//! of its own: their dependencies do not agree with each other.

use std::path::PathBuf;

use anyhow::Result;

use super::Missing;
use super::go::{self, Binary, Module};
use crate::cache::Cache;

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
    pub fn find_or_build() -> Result<Self> {
        Self::provide(Missing::IsMade)
    }

    /// Finds every program without building any.
    ///
    /// # Errors
    ///
    /// When one was not built yet.
    pub fn find() -> Result<Self> {
        Self::provide(Missing::IsAnError)
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
