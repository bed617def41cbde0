//! The tiers of the workspace, from cargo's metadata, and the selected ones.

use anyhow::{Result, ensure};
use cargo_metadata::{Package, Target, TargetKind};

/// The package whose test targets are tiers.
const TIERS_PACKAGE: &str = "broker-tests";
/// The tier of all other tests.
const UNIT: &str = "unit";
/// The tier of the ports' contract suites.
const CONTRACT: &str = "contract";
/// The package whose test targets run the contract suites.
const CONTRACT_PACKAGE: &str = "broker-testkit";
/// The tier of every target on Crossplane.
const CROSSPLANE: &str = "crossplane";
/// The tier whose big counts `prove --nightly` runs.
const PROOF: &str = "proof";
/// A test target that requires this feature runs on Crossplane, which its own process starts.
const CROSSPLANE_FEATURE: &str = "crossplane";

/// A set of tests that is selected together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) name: String,
    pub(super) needs_servers: bool,
    pub(super) needs_crossplane: bool,
}

impl Tier {
    /// A tier without servers.
    fn alone(name: &str) -> Self {
        Self { name: name.to_owned(), needs_servers: false, needs_crossplane: false }
    }

    /// Whether `prove` runs it with its big counts.
    pub(super) fn is_proof(&self) -> bool {
        self.name == PROOF
    }
}

/// The selected tiers, in execution order.
#[derive(Debug)]
pub(super) struct Plan {
    tiers: Vec<Tier>,
    /// The test targets of a quick run, which builds only these and the libraries; `None` for other runs.
    quick: Option<Vec<String>>,
}

impl Plan {
    /// All tiers, the requested one, or those of a quick run.
    pub(super) fn new<'a>(
        packages: impl Iterator<Item = &'a Package>,
        wanted: Option<&str>,
        quick: bool,
    ) -> Result<Self> {
        let (mut tiers, mut targets) = (vec![Tier::alone(UNIT)], Vec::new());
        for package in packages {
            let tests = package.targets.iter().filter(|target| target.is_kind(TargetKind::Test));
            for target in tests {
                let Some(tier) = tier_of_target(&package.name, target) else { continue };
                targets.push((tier.name.clone(), target.name.clone()));
                if !tiers.contains(&tier) {
                    tiers.push(tier);
                }
            }
        }
        // Fast tiers without servers fail first.
        tiers.sort_by_key(|tier| (tier.needs_servers, tier.needs_crossplane));
        let known: Vec<_> = tiers.iter().map(|tier| tier.name.clone()).collect();
        tiers.retain(|tier| wanted.is_none_or(|wanted| tier.name == wanted));
        tiers.retain(|tier| !quick || !(tier.needs_servers || tier.is_proof()));
        let tier = wanted.unwrap_or_default();
        ensure!(!tiers.is_empty(), "there is no tier {tier:?}; use one of {}", known.join(", "));
        targets.retain(|(name, _)| tiers.iter().any(|tier| tier.name == *name));
        let quick = quick.then(|| targets.into_iter().map(|(_, target)| target).collect());
        Ok(Self { tiers, quick })
    }

    /// The target arguments for cargo; none selects everything.
    pub(super) fn targets(&self) -> Vec<String> {
        let Some(targets) = &self.quick else { return Vec::new() };
        let tests = targets.iter().flat_map(|target| ["--test".to_owned(), target.clone()]);
        ["--lib".to_owned()].into_iter().chain(tests).collect()
    }

    pub(super) fn needs_servers(&self) -> bool {
        self.tiers.iter().any(|tier| tier.needs_servers)
    }

    pub(super) fn needs_crossplane(&self) -> bool {
        self.tiers.iter().any(|tier| tier.needs_crossplane)
    }

    /// The selected tier of a test target.
    pub(super) fn tier(&self, package: &str, target: &Target) -> Option<&Tier> {
        let test = target.is_kind(TargetKind::Test).then(|| tier_of_target(package, target));
        match test.flatten() {
            Some(tier) => self.named(&tier.name),
            None => self.named(UNIT),
        }
    }

    /// The tier of the documentation's examples, if selected.
    pub(super) fn documentation(&self) -> Option<&Tier> {
        self.named(UNIT).filter(|_| self.quick.is_none())
    }

    /// The position of a tier in the order.
    pub(super) fn position(&self, tier: &Tier) -> Option<usize> {
        self.tiers.iter().position(|known| known == tier)
    }

    fn named(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }
}

/// The tier of a test target; `None` if its tests are unit tests.
///
/// A target of `broker-tests` with required features needs servers and must not run by accident. Targets that need
/// Crossplane form one tier of several processes: a machine runs one Crossplane at a time, and some tests cannot share
/// it. The test targets of `broker-testkit` are the contract suites.
fn tier_of_target(package: &str, target: &Target) -> Option<Tier> {
    let features = &target.required_features;
    if package == TIERS_PACKAGE {
        let needs_crossplane = features.iter().any(|feature| feature == CROSSPLANE_FEATURE);
        let name = if needs_crossplane { CROSSPLANE } else { &target.name };
        Some(Tier { name: name.to_owned(), needs_servers: !features.is_empty(), needs_crossplane })
    } else if package == CONTRACT_PACKAGE {
        Some(Tier::alone(CONTRACT))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn tiers_are_test_targets_with_server_tiers_last() {
        let workspace = Workspace::load().unwrap();
        let plan = |wanted, quick| Plan::new(workspace.packages(), wanted, quick);
        let all = "unit contract simulation proof servers crossplane";
        for (wanted, quick, names, servers, crossplane, documented) in [
            (None, false, all, true, true, true),
            (Some("crossplane"), false, "crossplane", true, true, false),
            (Some("contract"), false, "contract", false, false, false),
            (None, true, "unit contract simulation", false, false, false),
        ] {
            let plan = plan(wanted, quick).unwrap();
            let found: Vec<_> = plan.tiers.iter().map(|tier| tier.name.as_str()).collect();
            assert_eq!(found.join(" "), names);
            let needs = (plan.needs_servers(), plan.needs_crossplane());
            assert_eq!(needs, (servers, crossplane), "{wanted:?}");
            assert_eq!(plan.documentation().is_some(), documented, "{wanted:?}");
            assert_eq!(plan.targets().iter().any(|it| it == "simulation"), quick, "{wanted:?}");
        }
        let error = plan(Some("contact"), false).unwrap_err().to_string();
        assert!(error.starts_with("there is no tier \"contact\"; use one of unit, "), "{error}");
    }
}
