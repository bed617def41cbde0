//! Which tiers the workspace has, read from cargo's metadata, and which of them were asked for.

use anyhow::{Result, ensure};
use cargo_metadata::{Package, Target, TargetKind};

/// The package whose test targets are tiers.
const TIERS_PACKAGE: &str = "broker-tests";
/// The tier of everything else.
const UNIT: &str = "unit";
/// The tier of the ports' contract suites, wherever they run.
const CONTRACT: &str = "contract";
/// The package whose test targets run contract suites.
const CONTRACT_PACKAGE: &str = "broker-testkit";
/// The tier of every target that runs on Crossplane.
const CROSSPLANE: &str = "crossplane";
/// The tier that has a task of its own for its big counts.
const PROOF: &str = "proof";
/// A test target that asks for this feature runs on Crossplane, which its own process starts beside the servers.
const CROSSPLANE_FEATURE: &str = "crossplane";

/// A set of tests that is selected as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) name: String,
    pub(super) needs_servers: bool,
    pub(super) needs_crossplane: bool,
}

impl Tier {
    /// A tier that needs nothing but itself.
    fn alone(name: &str) -> Self {
        Self { name: name.to_owned(), needs_servers: false, needs_crossplane: false }
    }

    /// Whether `prove` runs it with its big counts.
    pub(super) fn is_proof(&self) -> bool {
        self.name == PROOF
    }
}

/// The tiers to run, in the order in which they run.
#[derive(Debug)]
pub(super) struct Plan {
    tiers: Vec<Tier>,
    /// The test targets of the tiers, where no other targets but these and libraries are to be built.
    quick: Option<Vec<String>>,
}

impl Plan {
    /// All tiers, or the one that was asked for, or those that an edit is tried with.
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
        // What is quick and needs nothing fails first.
        tiers.sort_by_key(|tier| (tier.needs_servers, tier.needs_crossplane));
        let known: Vec<_> = tiers.iter().map(|tier| tier.name.clone()).collect();
        tiers.retain(|tier| wanted.is_none_or(|wanted| tier.name == wanted));
        tiers.retain(|tier| !quick || !(tier.needs_servers || tier.is_proof()));
        let tier = wanted.unwrap_or_default();
        ensure!(!tiers.is_empty(), "there is no tier {tier:?}; there are {}", known.join(", "));
        targets.retain(|(name, _)| tiers.iter().any(|tier| tier.name == *name));
        let quick = quick.then(|| targets.into_iter().map(|(_, target)| target).collect());
        Ok(Self { tiers, quick })
    }

    /// What cargo is told to build; nothing is everything.
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

    /// The tier that the tests of a target belong to, if they are to run.
    pub(super) fn tier(&self, package: &str, target: &Target) -> Option<&Tier> {
        let test = target.is_kind(TargetKind::Test).then(|| tier_of_target(package, target));
        match test.flatten() {
            Some(tier) => self.named(&tier.name),
            None => self.named(UNIT),
        }
    }

    /// The tier of the documentation's examples, if they are to run.
    pub(super) fn documentation(&self) -> Option<&Tier> {
        self.named(UNIT).filter(|_| self.quick.is_none())
    }

    /// Where a tier comes in the order.
    pub(super) fn position(&self, tier: &Tier) -> Option<usize> {
        self.tiers.iter().position(|known| known == tier)
    }

    fn named(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }
}

/// The tier that a test target stands for; `None` if its tests are units like any other.
///
/// A target of `broker-tests` that asks for features does so because it must not run by accident: it needs
/// servers. Those that need Crossplane are one tier, of several processes: a machine runs one Crossplane at a time,
/// and not every test can share it. The test targets of
/// `broker-testkit` are the contract suites.
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
    fn tiers_are_the_test_targets_and_those_that_need_servers_come_last() {
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
        assert!(error.starts_with("there is no tier \"contact\"; there are unit, "), "{error}");
    }

    #[test]
    fn target_belongs_to_the_tier_of_its_package() {
        let workspace = Workspace::load().unwrap();
        let plan = Plan::new(workspace.packages(), None, false).unwrap();
        for (package, target, expected) in [
            ("broker-tests", "broker_tests", "unit"),
            ("broker-tests", "quickstart", "crossplane"),
            ("broker-tests", "servers", "servers"),
            ("broker-testkit", "cluster", "contract"),
            ("broker-render", "render", "unit"),
        ] {
            let package = workspace.packages().find(|it| it.name == package).unwrap();
            let target = package.targets.iter().find(|it| it.name == target).unwrap();
            let tier = plan.tier(&package.name, target).map(|tier| tier.name.as_str());
            assert_eq!(tier, Some(expected), "{}", target.name);
        }
    }
}
