//! Stage 3, observe: reads cluster and mesh. What they say is reduced to facts by the pure [`Sight`].
//!
//! Read only. What could not be learnt is an error, and the pass is over: no information never decides
//! anything.

use std::sync::Arc;

use broker_domain::{
    Action, ClusterId, Error as DomainError, NodeObservation, ObjectReference, ProvisionedResource,
    next,
};
use broker_ports::{
    Arming, BlueprintVersionView, LiveObject, LiveXr, PortError, PortName, Reading,
    ReconcilerPorts, Target, XrReading, XrTarget,
};
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
    /// Everything to render from, if an apply may be ahead.
    pub(crate) views: Option<Views>,
    /// The composite resource's complete name.
    pub(crate) xr_reference: ObjectReference,
    /// The composite resource as it stands, whose injection a re-apply preserves.
    pub(crate) live: Option<LiveObject>,
    /// The ProviderConfig as it stands.
    pub(crate) live_config: Option<LiveObject>,
}

pub(crate) async fn observe(
    ports: &ReconcilerPorts,
    config: Eyes<'_>,
    resource: &ProvisionedResource,
) -> Result<Observed, Error> {
    let resolvers = Resolvers::of(ports, config.deadlines.resolve);
    let blueprint = resolvers.blueprint(resource.blueprint_version_id()).await?;
    let views = views(resolvers, resource, &blueprint).await?;
    let config_reference = config_reference(config, resource, views.as_ref())?;
    let mut target = target(resource, &blueprint, config_reference.clone());
    if !Sight::needs_labelled(resource.phase()) {
        target = target.composing([]);
    }
    let patience = config.deadlines.cluster_read;
    let reading =
        call(PortName::Cluster, Kind::Read, patience, ports.cluster.read(&target)).await?;
    expect_same_cluster(resource, &reading)?;
    let node = node(ports, config, resource).await?;

    let Reading { cluster, xr, provider_config, recorded, labelled, .. } = reading;
    let live = live_xr(resource, xr)?;
    let sight = Sight {
        cluster,
        xr: live.as_deref().map(|xr| XrSight {
            status: xr.status.clone(),
            references: xr.references.clone(),
            references_digest: xr.references_digest,
        }),
        config_stands: provider_config.is_some(),
        config_reference,
        recorded,
        labelled,
        node,
    };
    let facts = sight.facts(resource);

    let applies = next(&facts, resource.phase()).0 == Action::Apply;
    let rendered = views.as_ref().filter(|_| applies);
    let around = Around {
        xr: xr_seen(resource, live.as_deref(), rendered)?,
        config: config_seen(config, resource, provider_config.as_ref(), rendered)?,
        gate: if applies { gate(resolvers, resource).await? } else { Gate::Closed },
        braked: applies && braked(ports, config, &sight.cluster).await?,
    };
    let seen = sight.seen(resource, around);
    let xr_reference = target.xr.reference()?;
    let live = live.map(|xr| xr.object);
    Ok(Observed { seen, views, xr_reference, live, live_config: provider_config })
}

/// On the way up a resource may have to be rendered; on the way down it never is, and its references must
/// not be needed any more.
async fn views(
    resolvers: Resolvers<'_>,
    resource: &ProvisionedResource,
    blueprint: &Arc<BlueprintVersionView>,
) -> Result<Option<Views>, Error> {
    let recorded = resource.substrate().provider_config().is_some();
    if resource.phase().is_teardown() && recorded {
        return Ok(None);
    }
    resolvers.views(References::of(resource), Arc::clone(blueprint)).await.map(Some)
}

fn config_reference(
    config: Eyes<'_>,
    resource: &ProvisionedResource,
    views: Option<&Views>,
) -> Result<ObjectReference, Error> {
    match (resource.substrate().provider_config(), views) {
        (Some(recorded), _) => Ok(recorded.clone()),
        (None, Some(views)) => {
            Ok(views.provider_config(resource, config.profiles)?.reference().clone())
        }
        (None, None) => Err(DomainError::invalid("substrate", "names no ProviderConfig").into()),
    }
}

pub(crate) fn target(
    resource: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
    provider_config: ObjectReference,
) -> Target {
    let xr = XrTarget::new(resource.id(), resource.project_id(), Arc::clone(&blueprint.xrd));
    Target::new(xr, provider_config)
        .composing(Arc::clone(&blueprint.composed_kinds))
        .with_recorded(resource.substrate().composed().clone())
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
async fn gate(resolvers: Resolvers<'_>, resource: &ProvisionedResource) -> Result<Gate, Error> {
    let ready = resolvers.namespace_is_ready(resource.project_id()).await?;
    Ok(if ready { Gate::Open } else { Gate::Closed })
}

/// Nothing is created while the brake is on, and absence is not believed.
async fn braked(
    ports: &ReconcilerPorts,
    config: Eyes<'_>,
    cluster: &ClusterId,
) -> Result<bool, Error> {
    let brake = ports.schedule.brake(cluster);
    let brake = call(PortName::Schedule, Kind::Read, config.deadlines.store, brake).await?;
    Ok(brake.is_some())
}
