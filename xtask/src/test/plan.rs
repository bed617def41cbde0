//! Which tiers the workspace has, read from cargo's metadata, and which of them were asked for.

use cargo_metadata::{Package, Target, TargetKind};

use crate::error::TaskError;

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
pub(super) struct Tier {
    pub(super) name: String,
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
}

impl Plan {
    /// All tiers, or the one that was asked for.
    pub(super) fn new<'a>(
        packages: impl Iterator<Item = &'a Package>,
        wanted: Option<&str>,
    ) -> Result<Self, TaskError> {
        let mut tiers = vec![Tier::alone(UNIT)];
        for package in packages {
            let tests = package.targets.iter().filter(|target| target.is_kind(TargetKind::Test));
            for tier in tests.filter_map(|target| tier_of_target(&package.name, target)) {
                if !tiers.contains(&tier) {
                    tiers.push(tier);
                }
            }
        }
        // What is quick and needs nothing fails first.
        tiers.sort_by_key(|tier| (tier.needs_servers, tier.needs_crossplane));
        let Some(wanted) = wanted else { return Ok(Self { tiers }) };
        let known = tiers.iter().map(|tier| tier.name.clone()).collect();
        tiers.retain(|tier| tier.name == wanted);
        if tiers.is_empty() {
            return Err(TaskError::UnknownTier { tier: wanted.to_owned(), known });
        }
        Ok(Self { tiers })
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
        self.named(UNIT)
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
    use cargo_metadata::MetadataCommand;

    /// A metadata document with one package and the given test targets and features that they ask
    /// for.
    fn packages(targets: &[(&str, &[&str])]) -> Vec<Package> {
        let target = |kind: &str, name: &str, features: &[&str]| {
            format!(
                r#"{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/{name}.rs","edition":"2024",
                    "doctest":false,"test":true,"doc":false,"required-features":{features:?}}}"#
            )
        };
        let mut all = vec![target("lib", "broker_tests", &[])];
        all.extend(targets.iter().map(|(name, features)| target("test", name, features)));
        let text = format!(
            r#"{{"packages":[{{"name":"broker-tests","version":"0.1.0","id":"broker-tests","dependencies":[],"features":{{}},
                "manifest_path":"/Cargo.toml","targets":[{}],"authors":[],"categories":[],"keywords":[],"edition":"2024"}}],
                "workspace_members":["broker-tests"],"resolve":null,"target_directory":"/target","version":1,
                "workspace_root":"/"}}"#,
            all.join(",")
        );
        MetadataCommand::parse(text).unwrap().packages
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.tiers.iter().map(|tier| tier.name.as_str()).collect()
    }

    #[test]
    fn contract_suites_are_a_tier_wherever_they_run() {
        let packages: Vec<_> = packages(&[("store", &["memory", "testing"]), ("demo", &[])]);
        let [suite, other] = [1, 2].map(|place: usize| &packages[0].targets[place]);
        let contract = Tier::alone(CONTRACT);
        assert_eq!(tier_of_target("broker-testkit", suite), Some(contract));
        assert_eq!(tier_of_target("provisioning-broker", other), None);
    }

    #[test]
    fn every_test_target_is_a_tier_and_those_that_need_servers_come_last() {
        let packages = packages(&[
            ("crossplane", &["crossplane"]),
            ("contract", &[]),
            ("servers", &["servers"]),
        ]);
        let plan = Plan::new(packages.iter(), None).unwrap();
        assert_eq!(names(&plan), ["unit", "contract", "servers", "crossplane"]);
        assert!(plan.needs_servers() && plan.needs_crossplane());
    }

    #[test]
    fn what_runs_on_crossplane_is_one_tier() {
        let packages = packages(&[("shared", &["crossplane"]), ("alone", &["crossplane"])]);
        let plan = Plan::new(packages.iter(), Some("crossplane")).unwrap();
        assert_eq!(names(&plan), ["crossplane"]);
        for target in &packages[0].targets[1..] {
            let tier = plan.tier("broker-tests", target).unwrap();
            assert_eq!((tier.name.as_str(), tier.needs_crossplane), ("crossplane", true));
        }
    }

    #[test]
    fn one_tier_can_be_chosen_and_needs_only_what_it_needs() {
        let packages = packages(&[("contract", &[]), ("servers", &["servers"])]);
        let plan = Plan::new(packages.iter(), Some("contract")).unwrap();
        assert_eq!(names(&plan), ["contract"]);
        assert!(!plan.needs_servers() && !plan.needs_crossplane());
        assert_eq!(plan.documentation(), None);
    }

    #[test]
    fn a_tier_that_does_not_exist_is_an_error_that_names_those_that_do() {
        let packages = packages(&[("servers", &["servers"])]);
        let error = Plan::new(packages.iter(), Some("contract")).unwrap_err();
        assert_eq!(error.to_string(), "there is no tier \"contract\"; there are unit, servers");
    }

    #[test]
    fn the_harness_own_tests_are_unit_tests() {
        let packages = packages(&[("servers", &["servers"])]);
        let plan = Plan::new(packages.iter(), None).unwrap();
        let [library, servers] = packages[0].targets.as_slice() else { panic!("two targets") };
        assert_eq!(plan.tier("broker-tests", library).map(|tier| tier.name.as_str()), Some("unit"));
        assert_eq!(
            plan.tier("broker-tests", servers).map(|tier| tier.name.as_str()),
            Some("servers")
        );
        assert_eq!(plan.tier("broker-pg", servers).map(|tier| tier.name.as_str()), Some("unit"));
    }
}
