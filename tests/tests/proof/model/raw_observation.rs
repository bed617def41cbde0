//! Turns a worker's reading into the product's own `RawObservation`.

use std::collections::{BTreeMap, BTreeSet};

use broker_app::observe::{
    ActContext, ConfigObservation, Gate, Observation, RawObservation, RawXr, XrObservation,
};
use broker_domain::{NodeObservation, ObjectReference, ProvisionedResource};
use broker_ports::{ConditionStatus, ObjectVersion, Presence, XrStatus};
use broker_render::references_digest;
use broker_testkit::builders::{cluster, composed};

use super::rule::Rule;
use super::vocabulary::{View, XrView, uid};
use super::world::Readiness;

/// The product's observation of a reading; a disabled rule falsifies it.
pub(super) fn raw_observation(
    without: Option<Rule>,
    composes_secret: bool,
    resource: &ProvisionedResource,
    view: View,
) -> Observation {
    let View { mut xr, config, composed: existing, registered, namespace } = view;
    // A ProviderConfig is read by its recorded name.
    let config = config && resource.substrate().provider_config().is_some();
    if without == Some(Rule::ShellByToken)
        && let Some(paused) = xr.as_mut().filter(|xr| xr.paused)
    {
        paused.armed = None;
    }
    if without == Some(Rule::ForegroundSeen)
        && let Some(xr) = xr.as_mut()
    {
        xr.foreground = xr.deleting;
    }
    let named = if composes_secret { secret } else { composed_name };
    let exists = |name: &u8| existing & (1 << *name) != 0;
    let recorded = resource.substrate().composed().iter().map(|reference| {
        let exists = (0..8).any(|name| exists(&name) && named(name) == *reference);
        (reference.clone(), if exists { Presence::Present } else { Presence::Gone })
    });
    let looked_for = RawObservation::needs_composed(resource.phase());
    // A converging pass also reads objects that its composite resource no longer refers to.
    let referred: Option<BTreeSet<_>> = xr.map(|xr| xr.refers_to.map(named).into_iter().collect());
    let known = resource.substrate().references_digest();
    let dropped = |object: &ObjectReference| {
        referred
            .as_ref()
            .is_some_and(|all| known != Some(&references_digest(all)) && !all.contains(object))
    };
    let recorded =
        recorded.filter(|(object, _)| !composes_secret && (looked_for || dropped(object)));
    let looked_for = looked_for && without != Some(Rule::LabelList);
    let labelled = (0..8).filter(|name| looked_for && exists(name)).map(named).collect();
    let registered = resource.bootstrap_token_id().map(|_| registered);
    let raw_observation = RawObservation {
        cluster: cluster(1),
        xr: xr.map(|xr| raw_xr(xr, named)),
        config_exists: config,
        recorded: recorded.collect::<BTreeMap<_, _>>(),
        labelled,
        node: NodeObservation::of(resource.mesh_role(), registered),
    };
    let context = ActContext {
        xr: xr.map_or(XrObservation::Absent, xr_observation),
        config_reference: Some(config_of(resource)),
        config: if config {
            ConfigObservation::Exists { at: seen_version(0), deleting: false, applied: true }
        } else {
            ConfigObservation::Absent
        },
        gate: if without == Some(Rule::Gate) {
            Gate::Open
        } else {
            Gate::of_namespace(namespace, resource.substrate().applied())
        },
        brakes: Vec::new(),
    };
    let mut seen = raw_observation.into_observation(resource, context);
    if without == Some(Rule::ConfigLast) {
        seen.composed_left = false;
    }
    if without == Some(Rule::ConfigRestored) {
        seen.misses_config = false;
    }
    seen
}

/// The ProviderConfig of its own.
fn config_of(resource: &ProvisionedResource) -> ObjectReference {
    composed(resource.xr_name().as_str())
}

fn raw_xr(view: XrView, named: fn(u8) -> ObjectReference) -> RawXr {
    let mut status = XrStatus::new(2);
    status.deleting = view.deleting;
    status.foreground = view.foreground;
    (status.ready, status.ready_generation) = match view.ready {
        Readiness::No => (None, None),
        Readiness::Stale => (Some(ConditionStatus::True), Some(1)),
        Readiness::Live => (Some(ConditionStatus::True), Some(2)),
    };
    status.provisioning_failed = view.failed.then(|| "out of quota".to_owned());
    let references: BTreeSet<_> = view.refers_to.map(named).into_iter().collect();
    RawXr { status, references_digest: references_digest(&references), references }
}

fn xr_observation(view: XrView) -> XrObservation {
    let (at, deleting) = (seen_version(view.uid), view.deleting);
    match view.armed {
        None => XrObservation::Shell { at, deleting },
        Some(with) => {
            XrObservation::Armed { at, with: Some(with.armed()), deleting, applied: !view.drifted }
        }
    }
}

fn seen_version(number: u8) -> ObjectVersion {
    ObjectVersion::new(uid(number), "seen")
}

fn composed_name(name: u8) -> ObjectReference {
    composed(&format!("composed-{name}"))
}

pub(super) fn secrets_of(resource: &ProvisionedResource) -> u8 {
    let is_recorded = |name: &u8| resource.substrate().composed().contains(&secret(*name));
    (0..8).filter(is_recorded).fold(0, |bits, name| bits | (1 << name))
}

fn secret(name: u8) -> ObjectReference {
    let name = format!("secret-{name}");
    ObjectReference::new("v1", "Secret", name, Some("team-a")).expect("a complete reference")
}
