//! Observe: reads cluster and mesh; the pure [`RawObservation`] reduces the readings to facts.
//!
//! Read only. A failed read ends the pass with an error: missing information never decides anything.

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
    BlueprintVersionView, LiveObject, LiveXr, PortError, PortName, Presence, Reading, SharedConfig,
    Target, XrReading, XrTarget,
};
use broker_render::ProviderConfigUse;
use broker_render::catalog::ComposedKind;

use crate::deadline::TimedPorts;
use crate::error::Error;

pub use observation::{ConfigObservation, Gate, Observation, XrObservation};
pub use raw::{ActContext, RawObservation, RawXr};

pub(crate) use raw::{facts, needs_config};
pub(crate) use resolve::ResolvedObservation;

/// The readings of cluster and mesh, before any decision.
pub(crate) struct PassReading {
    raw: RawObservation,
    blueprint: Arc<BlueprintVersionView>,
    xr: XrTarget,
    live: Option<Box<LiveXr>>,
    provider_config: Option<LiveObject>,
    /// The shared ProviderConfig, if it is being deleted: the resource waits.
    leaving_config: Option<SharedConfig>,
}

impl PassReading {
    /// The facts that [`next`](broker_domain::next()) decides on.
    pub(crate) fn facts(&self, resource: &ProvisionedResource) -> ObservedXr {
        self.raw.facts(resource)
    }

    /// The shared ProviderConfig, if it is being deleted.
    pub(crate) const fn leaving_config(&self) -> Option<&SharedConfig> {
        self.leaving_config.as_ref()
    }
}

/// Reads cluster and mesh, but no reference that only an apply needs: a resource with a missing reference can still fail,
/// become Ready or be torn down.
pub(crate) async fn observe(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
) -> Result<PassReading, Error> {
    let blueprint = ports.blueprint(resource.blueprint_version_id()).await?;
    let mut target = target(resource, &blueprint);
    if !RawObservation::needs_composed(resource.phase()) {
        target = target.composing([]).with_recorded(BTreeSet::new());
    }
    // Before the cluster: once a user found no mark, none is set while it lives, so a ProviderConfig that it reads stays.
    let leaving_config = leaving_config(ports, resource, &blueprint).await?;
    let reading = ports.cluster.read(|it| it.read(&target)).await?;
    expect_same_cluster(resource, &reading)?;
    let node = node(ports, resource).await?;

    let Reading { cluster, xr, provider_config, mut recorded, labelled, .. } = reading;
    let live = live_xr(resource, xr)?;
    if let Some(xr) = live.as_deref().filter(|_| !RawObservation::needs_composed(resource.phase()))
    {
        recorded = read_unreferenced(ports, resource, &blueprint, xr).await;
    }
    let raw = RawObservation {
        cluster,
        xr: live.as_deref().map(|xr| RawXr {
            status: xr.status.clone(),
            references: xr.references.clone(),
            references_digest: xr.references_digest,
        }),
        config_exists: provider_config.is_some(),
        recorded,
        labelled,
        node,
    };
    Ok(PassReading { raw, blueprint, xr: target.xr, live, provider_config, leaving_config })
}

/// The shared ProviderConfig of a converging resource, if its former users left it to be deleted.
pub(crate) async fn leaving_config(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
) -> Result<Option<SharedConfig>, Error> {
    match blueprint.provider_config {
        ProviderConfigUse::Shared(_) if resource.phase().is_converging() => {
            let config = ports.repository.read(|it| it.shared_config(resource.id())).await?;
            Ok(config.filter(|config| config.deleting.is_some()))
        }
        ProviderConfigUse::Shared(_)
        | ProviderConfigUse::PerResource
        | ProviderConfigUse::Platform => Ok(None),
    }
}

/// Every object of a resource that may exist. The row names the ProviderConfig before its first apply, so without a name
/// none exists.
pub(crate) fn target(resource: &ProvisionedResource, blueprint: &BlueprintVersionView) -> Target {
    let xr = XrTarget::new(resource.id(), resource.project_id(), Arc::clone(&blueprint.xrd));
    let substrate = resource.substrate();
    Target::new(xr, substrate.provider_config().cloned())
        .composing(readable_kinds(blueprint))
        .with_recorded(substrate.clone().without_plain_data().composed().clone())
}

/// The composed kinds of the blueprint without plain data, which the broker never reads.
fn readable_kinds(blueprint: &BlueprintVersionView) -> Arc<[ComposedKind]> {
    let is_plain_data = |it: &ComposedKind| PLAIN_DATA.contains(&(&it.api_version, &it.kind));
    if blueprint.composed_kinds.iter().any(is_plain_data) {
        return blueprint.composed_kinds.iter().filter(|it| !is_plain_data(it)).cloned().collect();
    }
    Arc::clone(&blueprint.composed_kinds)
}

/// Reads recorded objects that a converging composite resource no longer refers to, so that absent ones leave the
/// record. After a failed read they stay on record for the teardown.
async fn read_unreferenced(
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

/// Whether the blueprint lists the object's kind. The generated roles grant reads of listed kinds in any version.
pub(crate) fn is_listed(object: &ObjectReference, blueprint: &BlueprintVersionView) -> bool {
    let group = |api_version: &str| api_version.split_once('/').map(|(group, _)| group.to_owned());
    blueprint.composed_kinds.iter().any(|listed| {
        listed.kind == object.kind() && group(&listed.api_version) == group(object.api_version())
    })
}

/// Reads the row and only its composite resource. `None` if the row does not exist or no composite resource was applied.
pub(crate) async fn read_xr_if_applied(
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
                "connected to cluster {}, but the objects of {} are on {own}",
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

/// In a teardown, a missing kind proves absence: Kubernetes removes a kind only after its objects. While converging, a
/// missing kind is an error.
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
