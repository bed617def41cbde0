//! etcd, kube-apiserver and kube-controller-manager, built with Go from the module files beside
//! this crate unless the machine has them.

use std::path::PathBuf;

use super::go::{self, Binary, Module};
use super::{Lookup, SetupError, is_executable};

const MODULE: Module = Module {
    go_mod: include_str!("../../modules/control-plane/go.mod"),
    go_sum: include_str!("../../modules/control-plane/go.sum"),
};

/// What a person may do who has no Go.
const OTHERWISE: &str = ", or set KUBEBUILDER_ASSETS to a directory that holds them";

const ETCD: Binary = Binary {
    name: "etcd",
    package: "go.etcd.io/etcd/server/v3",
    module: "go.etcd.io/etcd/server/v3",
    version_variables: None,
    built_from: MODULE,
    documents: &[],
};
const KUBE_APISERVER: Binary = Binary {
    name: "kube-apiserver",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    module: "k8s.io/kubernetes",
    version_variables: Some("k8s.io/component-base/version"),
    built_from: MODULE,
    documents: &[],
};
const KUBE_CONTROLLER_MANAGER: Binary = Binary {
    name: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    module: "k8s.io/kubernetes",
    version_variables: Some("k8s.io/component-base/version"),
    built_from: MODULE,
    documents: &[],
};

/// The three, wherever they were found.
pub(super) struct ControlPlane {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    pub(super) kube_controller_manager: PathBuf,
}

/// Fails early, with everything that is missing in one line, when [`find_or_build`] would fail.
pub(super) fn check(lookup: &Lookup) -> Result<(), SetupError> {
    let missing: Vec<String> = [&ETCD, &KUBE_APISERVER, &KUBE_CONTROLLER_MANAGER]
        .into_iter()
        .filter(|binary| find_one(binary, lookup).is_none())
        .map(Binary::title)
        .collect();
    go::check(lookup, &missing, OTHERWISE)
}

/// The three, whatever is missing built.
pub(super) fn find_or_build(
    lookup: &Lookup,
    progress: &dyn Fn(&str),
) -> Result<ControlPlane, SetupError> {
    each(|binary| {
        if let Some(found) = find_one(binary, lookup) {
            return Ok(found);
        }
        let go = lookup.on_path("go").ok_or_else(|| go::no_go(binary.title(), OTHERWISE))?;
        binary.build(lookup, &go, progress)
    })
}

/// The three as they are, nothing built.
pub(super) fn find(lookup: &Lookup) -> Result<ControlPlane, SetupError> {
    each(|binary| {
        find_one(binary, lookup).ok_or_else(|| SetupError::NotSetUp { what: binary.title() })
    })
}

fn each(
    mut path_of: impl FnMut(&Binary) -> Result<PathBuf, SetupError>,
) -> Result<ControlPlane, SetupError> {
    Ok(ControlPlane {
        etcd: path_of(&ETCD)?,
        kube_apiserver: path_of(&KUBE_APISERVER)?,
        kube_controller_manager: path_of(&KUBE_CONTROLLER_MANAGER)?,
    })
}

/// `KUBEBUILDER_ASSETS` first: who sets it wants those, whatever else there is.
fn find_one(binary: &Binary, lookup: &Lookup) -> Option<PathBuf> {
    let assets = lookup.kubebuilder_assets.iter().map(|directory| directory.join(binary.name));
    let mut assets = assets.filter(|candidate| is_executable(candidate));
    assets.next().or_else(|| binary.cached(lookup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    #[test]
    fn versions_and_flags_come_from_the_module_file() {
        assert_eq!(ETCD.title(), "etcd 3.6.8");
        assert_eq!(KUBE_APISERVER.title(), "kube-apiserver 1.36.3");
        assert_eq!(ETCD.linker_flags(), "-s -w");
        assert!(KUBE_APISERVER.linker_flags().contains("version.gitVersion=v1.36.3 "));
        assert!(MODULE.go_mod.contains(&format!("\ngo {}", go::GO_VERSION)));
    }

    #[test]
    fn the_key_names_the_version_and_differs_between_binaries() {
        assert!(ETCD.key().starts_with("etcd-3.6.8-"), "{}", ETCD.key());
        assert_ne!(KUBE_APISERVER.key(), KUBE_CONTROLLER_MANAGER.key());
    }

    #[test]
    fn each_is_looked_for_by_itself_and_assets_come_first() {
        let machine = Machine::new();
        machine.put("assets/etcd");
        machine.put("assets/kube-apiserver");
        for binary in [&ETCD, &KUBE_CONTROLLER_MANAGER] {
            machine.put(&format!("cache/{}/{}", binary.key(), binary.name));
        }
        let mut lookup = machine.lookup();
        lookup.kubebuilder_assets = Some(machine.path("assets"));

        let found = find(&lookup).ok().unwrap();

        assert_eq!(found.etcd, machine.path("assets/etcd"));
        assert_eq!(found.kube_apiserver, machine.path("assets/kube-apiserver"));
        assert!(found.kube_controller_manager.starts_with(machine.path("cache")));
    }

    #[test]
    fn without_go_the_one_line_names_what_is_missing_and_both_ways_out() {
        let machine = Machine::new();
        machine.put("assets/etcd");
        machine.put("assets/kube-apiserver");
        let mut lookup = machine.lookup();

        let all = check(&lookup).err().unwrap().to_string();
        lookup.kubebuilder_assets = Some(machine.path("assets"));
        let one = check(&lookup).err().unwrap().to_string();

        assert_eq!(
            all,
            "missing etcd 3.6.8, kube-apiserver 1.36.3, kube-controller-manager 1.36.3: install Go 1.26 or newer to \
             have them built, or set KUBEBUILDER_ASSETS to a directory that holds them"
        );
        assert!(one.starts_with("missing kube-controller-manager 1.36.3: install Go"), "{one}");
    }

    #[test]
    fn a_build_is_kept_and_not_repeated() {
        let machine = Machine::new();
        // Stands in for the compiler: writes to the path after `-o`, and counts its runs.
        machine.put_script(
            "bin/go",
            r#"echo run >> "$(dirname "$0")/runs"; while [ "$1" != -o ]; do shift; done; echo binary > "$2""#,
        );
        let lookup = machine.lookup();
        for _ in 0..2 {
            let built = find_or_build(&lookup, &|_| {}).ok().unwrap();
            assert!(is_executable(&built.kube_controller_manager));
        }
        let runs = std::fs::read_to_string(machine.path("bin/runs")).unwrap();
        assert_eq!(runs.lines().count(), 3);
    }

    #[test]
    fn a_failed_build_says_which_and_leaves_nothing() {
        let machine = Machine::new();
        machine.put_script("bin/go", "echo no such module; exit 1");
        let lookup = machine.lookup();
        let error = find_or_build(&lookup, &|_| {}).err().unwrap().to_string();
        assert!(
            error.starts_with(
                "building etcd 3.6.8 failed (exit status: 1); the whole output is in "
            ),
            "{error}"
        );
        assert!(!lookup.cache.artifact(&ETCD.key()).exists());
    }
}
