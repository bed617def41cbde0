//! Crossplane, two composition functions and a provider that does nothing, built with Go, each from a module file
//! of its own: their dependencies do not agree with each other.

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::go::{self, Binary, Module};
use super::{Lookup, SetupError, others_can_run};

const CROSSPLANE: Binary = Binary {
    name: "crossplane",
    package: "github.com/crossplane/crossplane/v2/cmd/crossplane",
    module: "github.com/crossplane/crossplane/v2",
    version_variables: None,
    built_from: Module {
        go_mod: include_str!("../../modules/crossplane/go.mod"),
        go_sum: include_str!("../../modules/crossplane/go.sum"),
    },
    documents: &[("cluster/crds", CRDS), ("cluster/webhookconfigurations", WEBHOOKS)],
};
const PATCH_AND_TRANSFORM: Binary = Binary {
    name: "function-patch-and-transform",
    package: "github.com/crossplane-contrib/function-patch-and-transform",
    module: "github.com/crossplane-contrib/function-patch-and-transform",
    version_variables: None,
    built_from: Module {
        go_mod: include_str!("../../modules/function-patch-and-transform/go.mod"),
        go_sum: include_str!("../../modules/function-patch-and-transform/go.sum"),
    },
    documents: &[],
};
const AUTO_READY: Binary = Binary {
    name: "function-auto-ready",
    package: "github.com/crossplane/function-auto-ready",
    module: "github.com/crossplane/function-auto-ready",
    version_variables: None,
    built_from: Module {
        go_mod: include_str!("../../modules/function-auto-ready/go.mod"),
        go_sum: include_str!("../../modules/function-auto-ready/go.sum"),
    },
    documents: &[],
};
const PROVIDER_NOP: Binary = Binary {
    name: "provider-nop",
    package: "github.com/crossplane-contrib/provider-nop/cmd/provider",
    module: "github.com/crossplane-contrib/provider-nop",
    version_variables: None,
    built_from: Module {
        go_mod: include_str!("../../modules/provider-nop/go.mod"),
        go_sum: include_str!("../../modules/provider-nop/go.sum"),
    },
    documents: &[("package/crds", CRDS)],
};

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
    pub fn find_or_build(progress: &dyn Fn(&str)) -> Result<Self, SetupError> {
        let lookup = Lookup::from_environment()?;
        Self::check(&lookup)?;
        Self::build(&lookup, progress)
    }

    /// Finds every program without building any.
    ///
    /// # Errors
    ///
    /// When one was not built yet.
    pub fn find() -> Result<Self, SetupError> {
        let lookup = Lookup::from_environment()?;
        Self::each(&lookup, |binary| {
            binary.cached(&lookup).ok_or_else(|| SetupError::NotSetUp {
                what: format!("{} (add --crossplane)", binary.title()),
            })
        })
    }

    /// Fails early, with everything that is missing in one line, when a build would fail.
    fn check(lookup: &Lookup) -> Result<(), SetupError> {
        let missing: Vec<String> = [&CROSSPLANE, &PATCH_AND_TRANSFORM, &AUTO_READY, &PROVIDER_NOP]
            .into_iter()
            .filter(|binary| binary.cached(lookup).is_none())
            .map(Binary::title)
            .collect();
        go::check(lookup, &missing, "")
    }

    fn build(lookup: &Lookup, progress: &dyn Fn(&str)) -> Result<Self, SetupError> {
        Self::each(lookup, |binary| {
            if let Some(found) = binary.cached(lookup) {
                return Ok(found);
            }
            let go = lookup.on_path("go").ok_or_else(|| go::no_go(binary.title(), ""))?;
            binary.build(lookup, &go, progress)
        })
    }

    fn each(
        lookup: &Lookup,
        mut path_of: impl FnMut(&Binary) -> Result<PathBuf, SetupError>,
    ) -> Result<Self, SetupError> {
        let beside = |binary: &Path, name: &str| binary.with_file_name(name);
        let (crossplane, provider_nop) = (path_of(&CROSSPLANE)?, path_of(&PROVIDER_NOP)?);
        let tools = Self {
            crds: beside(&crossplane, CRDS),
            usage_webhook: beside(&crossplane, WEBHOOKS).join("usage.yaml"),
            crossplane,
            patch_and_transform: path_of(&PATCH_AND_TRANSFORM)?,
            auto_ready: path_of(&AUTO_READY)?,
            provider_crds: beside(&provider_nop, CRDS),
            provider_nop,
            provider_lock: lookup.cache.artifact(LOCK),
        };
        let closed = tools.programs().into_iter().find(|(_, path)| !others_can_run(path));
        if let Some((_, path)) = closed
            && geteuid().is_root()
        {
            return Err(SetupError::OutOfReach { path: path.to_owned() });
        }
        Ok(tools)
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
    fn versions_come_from_the_module_files_and_those_name_one_go() {
        let binaries = [&CROSSPLANE, &PATCH_AND_TRANSFORM, &AUTO_READY, &PROVIDER_NOP];
        let titles = binaries.map(Binary::title);
        assert_eq!(
            titles,
            [
                "crossplane 2.3.4",
                "function-patch-and-transform 0.5.0",
                "function-auto-ready 0.6.0",
                "provider-nop 0.5.0",
            ]
        );
        for binary in binaries {
            let go = format!("\ngo {}", go::GO_VERSION);
            assert!(binary.built_from.go_mod.contains(&go), "{}", binary.name);
        }
    }

    #[test]
    fn without_go_the_one_line_names_what_is_missing() {
        let machine = Machine::new();
        let missing = CrossplaneTools::check(&machine.lookup()).err().unwrap().to_string();
        assert_eq!(
            missing,
            "missing crossplane 2.3.4, function-patch-and-transform 0.5.0, function-auto-ready 0.6.0, \
             provider-nop 0.5.0: install Go 1.26 or newer to have them built"
        );
    }
}
