//! Observe: reads cluster and mesh. What they say is reduced to facts by the pure [`RawObservation`].
//!
//! Read only. What could not be learnt is an error, and the pass is over: no information never decides
//! anything.

mod resolve;
mod observation;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker_domain::{
    NodeObservation, ObjectReference, ObservedXr, PLAIN_DATA, ProvisionedResource,
    ProvisionedResourceId,
};
use broker_ports::{
    BlueprintVersionView, LiveObject, LiveXr, PortError, PortName, Presence, Reading, Target,
    XrReading, XrTarget,
};
use broker_render::catalog::ComposedKind;

use crate::deadline::TimedPorts;
use crate::error::Error;

pub use observation::{ConfigObservation, Gate, Observation, XrObservation};
pub use raw::{ActContext, RawObservation, RawXr};

pub(crate) use raw::{facts, needs_config};
pub(crate) use resolve::ResolvedObservation;

/// What one look at cluster and mesh brought, before anything is decided.
pub(crate) struct PassReading {
    sight: RawObservation,
    blueprint: Arc<BlueprintVersionView>,
    xr: XrTarget,
    live: Option<Box<LiveXr>>,
    provider_config: Option<LiveObject>,
}

impl PassReading {
    /// The facts that [`next`](broker_domain::next()) decides on.
    pub(crate) fn facts(&self, resource: &ProvisionedResource) -> ObservedXr {
        self.sight.facts(resource)
    }
}

/// Reads cluster and mesh, and nothing that an apply is rendered from: a reference that is gone must keep no resource
/// from failing, becoming Ready or being torn down.
pub(crate) async fn observe(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
) -> Result<PassReading, Error> {
    let blueprint = ports.blueprint(resource.blueprint_version_id()).await?;
    let mut target = target(resource, &blueprint);
    if !RawObservation::needs_composed(resource.phase()) {
        target = target.composing([]).with_recorded(BTreeSet::new());
    }
    let reading = ports.cluster.read(|it| it.read(&target)).await?;
    expect_same_cluster(resource, &reading)?;
    let node = node(ports, resource).await?;

    let Reading { cluster, xr, provider_config, mut recorded, labelled, .. } = reading;
    let live = live_xr(resource, xr)?;
    if let Some(xr) = live.as_deref().filter(|_| !RawObservation::needs_composed(resource.phase()))
    {
        recorded = dropped(ports, resource, &blueprint, xr).await;
    }
    let sight = RawObservation {
        cluster,
        xr: live.as_deref().map(|xr| RawXr {
            status: xr.status.clone(),
            references: xr.references.clone(),
            references_digest: xr.references_digest,
        }),
        config_stands: provider_config.is_some(),
        recorded,
        labelled,
        node,
    };
    Ok(PassReading { sight, blueprint, xr: target.xr, live, provider_config })
}

/// Everything of a resource that may stand. The name of a ProviderConfig is recorded before its first apply, so a
/// row that names none has none.
pub(crate) fn target(resource: &ProvisionedResource, blueprint: &BlueprintVersionView) -> Target {
    let xr = XrTarget::new(resource.id(), resource.project_id(), Arc::clone(&blueprint.xrd));
    let substrate = resource.substrate();
    Target::new(xr, substrate.provider_config().cloned())
        .composing(readable_kinds(blueprint))
        .with_recorded(substrate.clone().without_plain_data().composed().clone())
}

/// The kinds that a Composition makes, without those that the broker never reads.
fn readable_kinds(blueprint: &BlueprintVersionView) -> Arc<[ComposedKind]> {
    let plain = |it: &ComposedKind| PLAIN_DATA.contains(&(&it.api_version, &it.kind));
    if blueprint.composed_kinds.iter().any(plain) {
        return blueprint.composed_kinds.iter().filter(|it| !plain(it)).cloned().collect();
    }
    Arc::clone(&blueprint.composed_kinds)
}

/// What a converging composite resource refers to no more is read once its references changed, so that the record does
/// not grow without bound. Nothing is decided by it: what cannot be read stays on record, and a teardown reads it.
async fn dropped(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
    xr: &LiveXr,
) -> BTreeMap<ObjectReference, Presence> {
    if resource.substrate().references_digest() == Some(&xr.references_digest) {
        return BTreeMap::new();
    }
    let mut target = target(resource, blueprint).composing([]);
    target.recorded.retain(|it| !xr.references.contains(it) && is_listed(it, blueprint));
    if target.recorded.is_empty() {
        return BTreeMap::new();
    }
    let reading = ports.cluster.read(|it| it.read(&target)).await;
    reading.map(|reading| reading.recorded).unwrap_or_default()
}

/// Whether an object is of a kind that the blueprint lists, and that the generated roles let the broker read. They grant
/// it whatever its version.
pub(crate) fn is_listed(object: &ObjectReference, blueprint: &BlueprintVersionView) -> bool {
    let group = |api_version: &str| api_version.split_once('/').map(|(group, _)| group.to_owned());
    blueprint.composed_kinds.iter().any(|listed| {
        listed.kind == object.kind() && group(&listed.api_version) == group(object.api_version())
    })
}

/// What a direct read says of the composite resource of a row that was applied, and of nothing else. `None` if
/// there is no such row, or if it was never applied.
pub(crate) async fn read_applied(
    ports: &TimedPorts,
    id: ProvisionedResourceId,
) -> Result<Option<(ProvisionedResource, XrReading)>, Error> {
    let row = ports.repository.read(|it| it.get_by_id(id)).await?;
    let applied = |row: &ProvisionedResource| row.substrate().applied().is_some();
    let Some(resource) = row.filter(applied) else { return Ok(None) };
    let blueprint = ports.blueprint(resource.blueprint_version_id()).await?;
    let xr = XrTarget::new(resource.id(), resource.project_id(), Arc::clone(&blueprint.xrd));
    let target = Target::new(xr, None);
    let reading = ports.cluster.read(|it| it.read(&target)).await?;
    expect_same_cluster(&resource, &reading)?;
    Ok(Some((resource, reading.xr)))
}

/// Absence on another cluster proves nothing.
fn expect_same_cluster(resource: &ProvisionedResource, reading: &Reading) -> Result<(), Error> {
    match resource.substrate().cluster() {
        Some(own) if *own != reading.cluster => {
            let message = format!(
                "this is cluster {}, the objects of {} stand on {own}",
                reading.cluster,
                resource.id()
            );
            Err(Error::Port { port: PortName::Cluster, source: PortError::transient(message) })
        }
        Some(_) | None => Ok(()),
    }
}

async fn node(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
) -> Result<NodeObservation, Error> {
    let registered = match resource.bootstrap_token_id() {
        None => None,
        Some(token) => Some(ports.nodes.read(|it| it.node_registered(token)).await?),
    };
    Ok(NodeObservation::of(resource.mesh_role(), registered))
}

/// A kind that is not installed is absence on the way down, for a kind goes only after its objects; on the
/// way up somebody has to install it.
fn live_xr(resource: &ProvisionedResource, xr: XrReading) -> Result<Option<Box<LiveXr>>, Error> {
    match xr {
        XrReading::Present(live) => Ok(Some(live)),
        XrReading::Absent | XrReading::NamespaceAbsent => Ok(None),
        XrReading::KindAbsent if resource.phase().is_teardown() => Ok(None),
        XrReading::KindAbsent => {
            let message = "the kind of the composite resource is not installed on the cluster";
            Err(Error::Port { port: PortName::Cluster, source: PortError::rejected(message) })
        }
    }
}
