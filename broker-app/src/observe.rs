//! Stage 3, observe: reads cluster and mesh. What they say is reduced to facts by the pure [`Sight`].
//!
//! Read only. What could not be learnt is an error, and the pass is over: no information never decides
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{
    Action, ClusterId, Error as DomainError, NodeObservation, ObjectReference, PLAIN_DATA, Phase,
    ProvisionedResource, ProvisionedResourceId, next,
};
use broker_ports::{
    Arming, BlueprintVersionView, Brake, Deadlines, LiveObject, LiveXr, PortError, PortName,
    Reading, ReconcilerPorts, Standing, Target, XrReading, XrTarget,
};
use broker_render::catalog::ComposedKind;
use broker_render::is_applied;

use crate::call::{Kind, call};
use crate::config::Eyes;
use crate::error::Error;
use crate::step::{Around, ConfigSeen, Gate, Seen, Sight, XrSeen, XrSight};
use crate::views::{References, Resolvers, Views};

/// One observation: the facts to decide on, and what acting on them needs.
pub(crate) struct Observed {
    /// What [`next`] decides on, and what the step needs beside it.
    pub(crate) seen: Seen,
    /// Everything to render from, if an apply was decided or a ProviderConfig has to be put back.
    pub(crate) views: Option<Views>,
    /// The error that kept a missing ProviderConfig from being resolved. The pass returns it after its other stages.
    pub(crate) unresolved: Option<Error>,
    /// A ProviderConfig that is applied is put back, and not part of an apply that was decided.
    pub(crate) restores: bool,
    /// The composite resource's complete name.
    pub(crate) xr_reference: ObjectReference,
    /// The composite resource as it stands, whose injection a re-apply preserves.
    pub(crate) live: Option<LiveObject>,
    /// The ProviderConfig as it stands.
    pub(crate) live_config: Option<LiveObject>,
}

impl Observed {
    /// What an apply is rendered from.
    pub(crate) fn views(&self) -> Result<&Views, DomainError> {
        let views = self.views.as_ref();
        views.ok_or_else(|| DomainError::invalid("views", "were not resolved for an apply"))
    }

    /// The composite resource as it stands, for an effect that rests on it.
    pub(crate) fn live(&self) -> Result<&LiveObject, DomainError> {
        let live = self.live.as_ref();
        live.ok_or_else(|| DomainError::invalid("composite_resource", "was not seen"))
    }

    /// The ProviderConfig's complete name.
    pub(crate) fn config_reference(&self) -> Result<ObjectReference, Error> {
        let name = self.seen.config_reference.clone();
        name.ok_or_else(|| DomainError::invalid("substrate", "names no ProviderConfig").into())
    }
}

/// Reads cluster and mesh first, and resolves what an apply is rendered from only if `next` decides on one: a
/// reference that is gone must keep no resource from failing, becoming Ready or being torn down.
pub(crate) async fn observe(
    ports: &ReconcilerPorts,
    config: Eyes<'_>,
    resource: &ProvisionedResource,
) -> Result<Observed, Error> {
    let resolvers = Resolvers::of(ports, config.deadlines.resolve);
    let blueprint = resolvers.blueprint(resource.blueprint_version_id()).await?;
    let mut target = target(resource, &blueprint);
    if !Sight::needs_composed(resource.phase()) {
        target = target.composing([]).with_recorded(BTreeSet::new());
    }
    let patience = config.deadlines.cluster_read;
    let reading =
        call(PortName::Cluster, Kind::Read, patience, ports.cluster.read(&target)).await?;
    expect_same_cluster(resource, &reading)?;
    let node = node(ports, config, resource).await?;

    let Reading { cluster, xr, provider_config, mut recorded, labelled, .. } = reading;
    let live = live_xr(resource, xr)?;
    if let Some(xr) = live.as_deref().filter(|_| !Sight::needs_composed(resource.phase())) {
        recorded = dropped(ports, config, resource, &blueprint, xr).await;
    }
    let sight = Sight {
        cluster,
        xr: live.as_deref().map(|xr| XrSight {
            status: xr.status.clone(),
            references: xr.references.clone(),
            references_digest: xr.references_digest,
        }),
        config_stands: provider_config.is_some(),
        recorded,
        labelled,
        node,
    };
    let facts = sight.facts(resource);

    let (action, to) = next(&facts, resource.phase());
    let applies = action == Action::Apply;
    let restores =
        matches!(action, Action::Noop | Action::DeleteSubstrate) && sight.misses_config(resource);
    let (views, unresolved) = if applies {
        (Some(resolvers.views(References::of(resource), blueprint).await?), None)
    } else if restores {
        match restorable(resolvers, config, resource, blueprint, &sight.cluster).await {
            Ok(views) => (views, None),
            Err(error) => (None, Some(error)),
        }
    } else {
        (None, None)
    };
    let rendered = views.as_ref().filter(|_| applies);
    let around = Around {
        xr: xr_seen(resource, live.as_deref(), rendered)?,
        config: config_seen(config, resource, provider_config.as_ref(), rendered)?,
        config_reference: config_reference(config, resource, rendered)?,
        gate: match &views {
            Some(_) if applies => gate(resolvers, resource, &sight.cluster).await?,
            Some(_) => Gate::Open,
            None => Gate::Closed,
        },
        brakes: if applies || restores || (to == Phase::Failed && resource.phase() != Phase::Failed)
        {
            brakes(ports, config.deadlines.store, &sight.cluster).await?
        } else {
            Vec::new()
        },
    };
    let seen = sight.seen(resource, around);
    let xr_reference = target.xr.reference()?;
    let live = live.map(|xr| xr.object);
    let live_config = provider_config;
    Ok(Observed { seen, views, unresolved, restores, xr_reference, live, live_config })
}

/// What a missing ProviderConfig is rendered from; `None` while the Project's namespace takes no objects. No failure here
/// keeps the pass from what else it has to do.
async fn restorable(
    resolvers: Resolvers<'_>,
    config: Eyes<'_>,
    resource: &ProvisionedResource,
    blueprint: Arc<BlueprintVersionView>,
    cluster: &ClusterId,
) -> Result<Option<Views>, Error> {
    match gate(resolvers, resource, cluster).await? {
        Gate::Closed => return Ok(None),
        Gate::Open => {}
    }
    let credential = resource.cloud_credential_id();
    let credential = resolvers.credential(resource.project_id(), credential).await?;
    let cloud = resolvers.cloud(credential.cloud_id).await?;
    // A ProviderConfig has no tags, so that a Resource without readable labels can have it back.
    let views = Views::new(blueprint, credential, cloud, &BTreeMap::new());
    let manifest = views.provider_config(resource, config.profiles)?;
    if Some(manifest.reference()) == resource.substrate().provider_config() {
        return Ok(Some(views));
    }
    // An object that no row names would outlive Deleted.
    let problem = "on record is of another kind than the profile of its provider";
    Err(DomainError::invalid("provider_config", problem).into())
}

/// The name on record, or else that of the ProviderConfig which an apply would create.
fn config_reference(
    config: Eyes<'_>,
    resource: &ProvisionedResource,
    views: Option<&Views>,
) -> Result<Option<ObjectReference>, Error> {
    match (resource.substrate().provider_config(), views) {
        (Some(recorded), _) => Ok(Some(recorded.clone())),
        (None, Some(views)) => {
            Ok(Some(views.provider_config(resource, config.profiles)?.reference().clone()))
        }
        (None, None) => Ok(None),
    }
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
    ports: &ReconcilerPorts,
    config: Eyes<'_>,
    resource: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
    xr: &LiveXr,
) -> BTreeMap<ObjectReference, Standing> {
    if resource.substrate().references_digest() == Some(&xr.references_digest) {
        return BTreeMap::new();
    }
    let mut target = target(resource, blueprint).composing([]);
    target.recorded.retain(|it| !xr.references.contains(it) && is_listed(it, blueprint));
    if target.recorded.is_empty() {
        return BTreeMap::new();
    }
    let patience = config.deadlines.cluster_read;
    let reading = call(PortName::Cluster, Kind::Read, patience, ports.cluster.read(&target)).await;
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
    ports: &ReconcilerPorts,
    deadlines: &Deadlines,
    id: ProvisionedResourceId,
) -> Result<Option<(ProvisionedResource, XrReading)>, Error> {
    let row = ports.repository.get_by_id(id);
    let row = call(PortName::Repository, Kind::Read, deadlines.store, row).await?;
    let applied = |row: &ProvisionedResource| row.substrate().applied().is_some();
    let Some(resource) = row.filter(applied) else { return Ok(None) };
    let resolvers = Resolvers::of(ports, deadlines.resolve);
    let blueprint = resolvers.blueprint(resource.blueprint_version_id()).await?;
    let xr = XrTarget::new(resource.id(), resource.project_id(), Arc::clone(&blueprint.xrd));
    let target = Target::new(xr, None);
    let reading = ports.cluster.read(&target);
    let reading = call(PortName::Cluster, Kind::Read, deadlines.cluster_read, reading).await?;
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
    ports: &ReconcilerPorts,
    config: Eyes<'_>,
    resource: &ProvisionedResource,
) -> Result<NodeObservation, Error> {
    let registered = match resource.bootstrap_token_id() {
        None => None,
        Some(token) => {
            let registered = ports.nodes.node_registered(token);
            let patience = config.deadlines.node;
            Some(call(PortName::NodeDeregistrar, Kind::Read, patience, registered).await?)
        }
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

fn xr_seen(
    resource: &ProvisionedResource,
    live: Option<&LiveXr>,
    views: Option<&Views>,
) -> Result<XrSeen, Error> {
    let Some(xr) = live else { return Ok(XrSeen::Absent) };
    let at = xr.object.version().clone();
    let deleting = xr.status.deleting;
    let with = match xr.armed {
        Arming::Shell => return Ok(XrSeen::Shell { at, deleting }),
        Arming::Armed(with) => Some(with),
        Arming::Unreadable => None,
    };
    let applied = match (views, with) {
        (Some(views), Some(with)) => {
            is_applied(xr.object.expose(), &views.xr(resource)?.armed(&with))
        }
        (Some(_), None) | (None, _) => true,
    };
    Ok(XrSeen::Armed { at, with, deleting, applied })
}

fn config_seen(
    config: Eyes<'_>,
    resource: &ProvisionedResource,
    live: Option<&LiveObject>,
    views: Option<&Views>,
) -> Result<ConfigSeen, Error> {
    let Some(live) = live else { return Ok(ConfigSeen::Absent) };
    let applied = match views {
        Some(views) => {
            is_applied(live.expose(), &views.provider_config(resource, config.profiles)?)
        }
        None => true,
    };
    Ok(ConfigSeen::Stands {
        at: live.version().clone(),
        deleting: live.is_being_deleted(),
        applied,
    })
}

/// Not ready is no error: whoever owns the namespace is working on it.
async fn gate(
    resolvers: Resolvers<'_>,
    resource: &ProvisionedResource,
    cluster: &ClusterId,
) -> Result<Gate, Error> {
    let ready = resolvers.namespace_is_ready_on(resource.project_id(), cluster).await?;
    Ok(if ready { Gate::Open } else { Gate::Closed })
}

/// The brakes of a cluster, where something may be applied or failed.
pub(crate) async fn brakes(
    ports: &ReconcilerPorts,
    deadline: Duration,
    cluster: &ClusterId,
) -> Result<Vec<Brake>, Error> {
    call(PortName::Schedule, Kind::Read, deadline, ports.schedule.brakes(cluster)).await
}
