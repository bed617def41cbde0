//! What acting on a decision needs beside the facts: brakes, the namespace, and everything that an apply is rendered from.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_domain::{
    Action, ClusterId, Error as DomainError, ObjectReference, Phase, ProvisionedResource,
};
use broker_ports::{Arming, BlueprintVersionView, LiveObject, LiveXr};
use broker_render::{ProviderProfiles, is_applied};

use super::{ActContext, ConfigObservation, Gate, Observation, PassReading, XrObservation};
use crate::deadline::TimedPorts;
use crate::declare::{References, Views};
use crate::error::Error;

/// One observation: the facts to decide on, and what acting on them needs.
pub(crate) struct ResolvedObservation {
    /// What [`next`](broker_domain::next()) decides on, and what the step needs beside it.
    pub(crate) seen: Observation,
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

impl ResolvedObservation {
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

impl PassReading {
    /// Resolves what the decision needs. Only an apply, and a ProviderConfig that has to be put back, need references.
    pub(crate) async fn resolve(
        self,
        ports: &TimedPorts,
        profiles: &ProviderProfiles,
        resource: &ProvisionedResource,
        (action, to): (Action, Phase),
    ) -> Result<ResolvedObservation, Error> {
        let Self { sight, blueprint, xr, live, provider_config } = self;
        let applies = action == Action::Apply;
        let restores = matches!(action, Action::Noop | Action::DeleteSubstrate)
            && sight.misses_config(resource);
        let (views, unresolved) = if applies {
            (Some(ports.views(References::of(resource), blueprint).await?), None)
        } else if restores {
            match restorable(ports, profiles, resource, blueprint, &sight.cluster).await {
                Ok(views) => (views, None),
                Err(error) => (None, Some(error)),
            }
        } else {
            (None, None)
        };
        let rendered = views.as_ref().filter(|_| applies);
        let fails = to == Phase::Failed && resource.phase() != Phase::Failed;
        let around = ActContext {
            xr: xr_seen(resource, live.as_deref(), rendered)?,
            config: config_seen(profiles, resource, provider_config.as_ref(), rendered)?,
            config_reference: config_reference(profiles, resource, rendered)?,
            gate: match &views {
                Some(_) if applies => gate(ports, resource, &sight.cluster).await?,
                Some(_) => Gate::Open,
                None => Gate::Closed,
            },
            brakes: if applies || restores || fails {
                ports.schedule.read(|it| it.brakes(&sight.cluster)).await?
            } else {
                Vec::new()
            },
        };
        let seen = sight.seen(resource, around);
        let (xr_reference, live) = (xr.reference()?, live.map(|xr| xr.object));
        let live_config = provider_config;
        Ok(ResolvedObservation {
            seen,
            views,
            unresolved,
            restores,
            xr_reference,
            live,
            live_config,
        })
    }
}

/// What a missing ProviderConfig is rendered from; `None` while the Project's namespace takes no objects. No failure here
/// keeps the pass from what else it has to do.
async fn restorable(
    ports: &TimedPorts,
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    blueprint: Arc<BlueprintVersionView>,
    cluster: &ClusterId,
) -> Result<Option<Views>, Error> {
    match gate(ports, resource, cluster).await? {
        Gate::Closed => return Ok(None),
        Gate::Open => {}
    }
    let credential = resource.cloud_credential_id();
    let credential = ports.credential(resource.project_id(), credential).await?;
    let cloud = ports.cloud(credential.cloud_id).await?;
    // A ProviderConfig has no tags, so that a Resource without readable labels can have it back.
    let views = Views::new(blueprint, credential, cloud, &BTreeMap::new());
    let manifest = views.provider_config(resource, profiles)?;
    if Some(manifest.reference()) == resource.substrate().provider_config() {
        return Ok(Some(views));
    }
    // An object that no row names would outlive Deleted.
    let problem = "on record is of another kind than the profile of its provider";
    Err(DomainError::invalid("provider_config", problem).into())
}

/// The name on record, or else that of the ProviderConfig which an apply would create.
fn config_reference(
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    views: Option<&Views>,
) -> Result<Option<ObjectReference>, Error> {
    match (resource.substrate().provider_config(), views) {
        (Some(recorded), _) => Ok(Some(recorded.clone())),
        (None, Some(views)) => {
            Ok(Some(views.provider_config(resource, profiles)?.reference().clone()))
        }
        (None, None) => Ok(None),
    }
}

fn xr_seen(
    resource: &ProvisionedResource,
    live: Option<&LiveXr>,
    views: Option<&Views>,
) -> Result<XrObservation, Error> {
    let Some(xr) = live else { return Ok(XrObservation::Absent) };
    let at = xr.object.version().clone();
    let deleting = xr.status.deleting;
    let with = match xr.armed {
        Arming::Shell => return Ok(XrObservation::Shell { at, deleting }),
        Arming::Armed(with) => Some(with),
        Arming::Unreadable => None,
    };
    let applied = match (views, with) {
        (Some(views), Some(with)) => {
            is_applied(xr.object.expose(), &views.xr(resource)?.armed(&with))
        }
        (Some(_), None) | (None, _) => true,
    };
    Ok(XrObservation::Armed { at, with, deleting, applied })
}

fn config_seen(
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    live: Option<&LiveObject>,
    views: Option<&Views>,
) -> Result<ConfigObservation, Error> {
    let Some(live) = live else { return Ok(ConfigObservation::Absent) };
    let applied = match views {
        Some(views) => is_applied(live.expose(), &views.provider_config(resource, profiles)?),
        None => true,
    };
    Ok(ConfigObservation::Stands {
        at: live.version().clone(),
        deleting: live.is_being_deleted(),
        applied,
    })
}

/// Not ready is no error: whoever owns the namespace is working on it.
async fn gate(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
    cluster: &ClusterId,
) -> Result<Gate, Error> {
    let ready = ports.namespace_is_ready_on(resource.project_id(), cluster).await?;
    Ok(if ready { Gate::Open } else { Gate::Closed })
}
