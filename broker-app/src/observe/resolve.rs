//! Resolves what the act stage needs in addition to the facts: brakes, the namespace, and the references to render.

use std::sync::Arc;

use broker_domain::{
    Action, ClusterId, Error as DomainError, ObjectReference, Phase, ProvisionedResource,
};
use broker_ports::{Arming, BlueprintVersionView, LiveObject, LiveXr};
use broker_render::{Manifest, ProviderProfiles, is_applied};

use super::{ActContext, ConfigObservation, Gate, Observation, PassReading, XrObservation};
use crate::deadline::TimedPorts;
use crate::declare::{References, Views};
use crate::error::Error;

/// An observation with everything that the act stage needs.
pub(crate) struct ResolvedObservation {
    /// The input of the pure step.
    pub(crate) observation: Observation,
    /// The references to render, if the pass applies or restores a ProviderConfig.
    pub(crate) views: Option<Views>,
    /// Why a missing ProviderConfig could not be restored. The pass fails with this error at its end.
    pub(crate) unresolved: Option<Error>,
    /// The pass restores a missing ProviderConfig although `next` did not return Apply.
    pub(crate) restores: bool,
    /// The composite resource's full name.
    pub(crate) xr_reference: ObjectReference,
    /// The live composite resource; a re-apply preserves its injection.
    pub(crate) live: Option<LiveObject>,
    /// The live ProviderConfig.
    pub(crate) live_config: Option<LiveObject>,
}

impl ResolvedObservation {
    /// The references to render.
    pub(crate) fn views(&self) -> Result<&Views, Error> {
        self.views.as_ref().ok_or(Error::Internal("an apply needs resolved references"))
    }

    /// The live composite resource.
    pub(crate) fn live(&self) -> Result<&LiveObject, Error> {
        self.live.as_ref().ok_or(Error::Internal("a re-apply needs the composite resource"))
    }

    /// The ProviderConfig's full name.
    pub(crate) fn config_reference(&self) -> Result<ObjectReference, Error> {
        let name = self.observation.config_reference.clone();
        name.ok_or(Error::Internal("a deletion needs the name of the ProviderConfig"))
    }
}

impl PassReading {
    /// Resolves what the decided action needs. Only an apply or a restored ProviderConfig needs references.
    pub(crate) async fn resolve(
        self,
        ports: &TimedPorts,
        profiles: &ProviderProfiles,
        resource: &ProvisionedResource,
        (action, to): (Action, Phase),
    ) -> Result<ResolvedObservation, Error> {
        let Self { raw, blueprint, xr, live, provider_config, leaving_config } = self;
        let will_apply = action == Action::Apply;
        let restores =
            matches!(action, Action::Noop | Action::DeleteSubstrate) && raw.misses_config(resource);
        let (views, unresolved) = if will_apply {
            (Some(ports.views(References::of_resource(resource), blueprint).await?), None)
        } else if restores {
            match views_for_restore(ports, profiles, resource, blueprint, &raw.cluster).await {
                Ok(views) => (views, None),
                Err(error) => (None, Some(error)),
            }
        } else {
            (None, None)
        };
        let rendered = views.as_ref().filter(|_| will_apply);
        let will_fail = to == Phase::Failed && resource.phase() != Phase::Failed;
        let observed = xr_observation(resource, live.as_deref(), rendered)?;
        let creates = observed.needs_shell();
        let context = ActContext {
            xr: observed,
            config: config_observation(profiles, resource, provider_config.as_ref(), rendered)?,
            config_reference: config_reference(profiles, resource, rendered)?,
            gate: match &views {
                Some(_) if leaving_config.is_some() => Gate::ConfigLeaving,
                Some(views) if will_apply => {
                    let withdrawal = views.withdrawal().filter(|_| creates);
                    gate(ports, resource, &raw.cluster).await?.to_create_with(withdrawal)
                }
                Some(_) => Gate::Open,
                None => Gate::NotRead,
            },
            brakes: if will_apply || restores || will_fail {
                ports.schedule.read(|it| it.brakes(&raw.cluster)).await?
            } else {
                Vec::new()
            },
        };
        let observation = raw.into_observation(resource, context);
        let (xr_reference, live) = (xr.reference()?, live.map(|xr| xr.object));
        let live_config = provider_config;
        Ok(ResolvedObservation {
            observation,
            views,
            unresolved,
            restores,
            xr_reference,
            live,
            live_config,
        })
    }
}

/// The references to restore a ProviderConfig; `None` while the Project's namespace takes no objects. An error does not
/// stop the pass.
async fn views_for_restore(
    ports: &TimedPorts,
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    blueprint: Arc<BlueprintVersionView>,
    cluster: &ClusterId,
) -> Result<Option<Views>, Error> {
    if !gate(ports, resource, cluster).await?.is_open() {
        return Ok(None);
    }
    let credential = resource.cloud_credential_id();
    let credential = ports.credential(resource.project_id(), credential).await?;
    let cloud = ports.cloud(credential.cloud_id).await?;
    // A ProviderConfig has no tags, so an unreadable Resource can still get it back.
    let views = Views::new(blueprint, credential, cloud, None);
    let manifest = views.provider_config(resource, profiles)?;
    let reference = manifest.as_ref().map(Manifest::reference);
    if reference.is_some() && reference == resource.substrate().provider_config() {
        return Ok(Some(views));
    }
    // An object that no row records would outlive Deleted.
    let problem = "on record has a different kind from its provider's profile";
    Err(Error::Platform(DomainError::invalid("provider_config", problem)))
}

/// The recorded name of the ProviderConfig, or the name that an apply would create; `None` if the platform owns it.
fn config_reference(
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    views: Option<&Views>,
) -> Result<Option<ObjectReference>, Error> {
    match (resource.substrate().provider_config(), views) {
        (Some(recorded), _) => Ok(Some(recorded.clone())),
        (None, Some(views)) => {
            let manifest = views.provider_config(resource, profiles)?;
            Ok(manifest.map(|manifest| manifest.reference().clone()))
        }
        (None, None) => Ok(None),
    }
}

fn xr_observation(
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

fn config_observation(
    profiles: &ProviderProfiles,
    resource: &ProvisionedResource,
    live: Option<&LiveObject>,
    views: Option<&Views>,
) -> Result<ConfigObservation, Error> {
    let Some(live) = live else { return Ok(ConfigObservation::Absent) };
    let desired = match views {
        Some(views) => views.provider_config(resource, profiles)?,
        None => None,
    };
    let applied = desired.is_none_or(|desired| is_applied(live.expose(), &desired));
    Ok(ConfigObservation::Exists {
        at: live.version().clone(),
        deleting: live.is_being_deleted(),
        applied,
    })
}

async fn gate(
    ports: &TimedPorts,
    resource: &ProvisionedResource,
    cluster: &ClusterId,
) -> Result<Gate, Error> {
    let phase = ports.namespace_phase_on(resource.project_id(), cluster).await?;
    Ok(Gate::of_namespace(phase, resource.substrate().applied()))
}
