//! Renders the apply requests of the act stage. A pass sends them, a plan shows them.

use broker_domain::ProvisionedResource;
use broker_ports::{ApplyRequest, LiveObject, ObjectOwner, ObjectVersion};
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, Precondition, ProviderConfigUse, ProviderProfiles,
    inject_bootstrap, preserve_injection,
};
use secrecy::SecretString;

use crate::declare::Views;
use crate::error::Error;

#[derive(Clone, Copy)]
pub(crate) struct Requests<'a> {
    pub(crate) resource: &'a ProvisionedResource,
    pub(crate) views: &'a Views,
    pub(crate) profiles: &'a ProviderProfiles,
}

#[derive(Clone, Copy)]
pub(crate) struct Enrolment<'a> {
    pub(crate) token: &'a SecretString,
    pub(crate) api_url: &'a ApiUrl,
    pub(crate) agent: &'a Agent,
}

impl Requests<'_> {
    pub(crate) fn provider_config(self, precondition: Precondition) -> Result<ApplyRequest, Error> {
        let manifest = self.views.provider_config(self.resource, self.profiles)?;
        let manifest = manifest.ok_or(Error::Internal("the platform owns the ProviderConfig"))?;
        let owner = match &self.views.blueprint.provider_config {
            ProviderConfigUse::Shared(_) => ObjectOwner::Project,
            ProviderConfigUse::PerResource | ProviderConfigUse::Platform => ObjectOwner::Resource,
        };
        let request = ApplyRequest::open(self.resource.project_id(), manifest, precondition);
        Ok(request.owned_by(owner))
    }

    pub(crate) fn shell(
        self,
        epoch: u64,
        precondition: Precondition,
    ) -> Result<ApplyRequest, Error> {
        let shell = self.views.xr(self.resource)?.shell(epoch);
        Ok(ApplyRequest::open(self.resource.project_id(), shell, precondition))
    }

    /// # Errors
    ///
    /// [`Error::Internal`] when the XR is armed with a token and the pass has none; [`Error::Platform`] when the XRD
    /// refuses the injection.
    pub(crate) fn arm(
        self,
        with: Armed,
        enrolment: Option<Enrolment<'_>>,
        precondition: Precondition,
    ) -> Result<ApplyRequest, Error> {
        let project = self.resource.project_id();
        let xr = self.views.xr(self.resource)?;
        match (with, enrolment) {
            (Armed::Standalone, _) => {
                Ok(ApplyRequest::open(project, xr.armed(&with), precondition))
            }
            (Armed::Token(token_id), Some(Enrolment { token, api_url, agent })) => {
                let handle = self.views.handle()?;
                let bootstrap = Bootstrap { token_id, token, api_url, agent, handle };
                let sealed = inject_bootstrap(&xr, &bootstrap).map_err(Error::Platform)?;
                Ok(ApplyRequest::sealed(project, sealed, precondition))
            }
            (Armed::Token(_), None) => {
                Err(Error::Internal("an arm needs the bootstrap token of its pass"))
            }
        }
    }

    /// The armed XR again, with the injection and the Composition of the live one.
    pub(crate) fn reapply(
        self,
        with: Armed,
        live: &LiveObject,
        at: &ObjectVersion,
    ) -> Result<ApplyRequest, Error> {
        let project = self.resource.project_id();
        let xr = self.views.xr(self.resource)?;
        Ok(match with {
            Armed::Token(token) => {
                let manifest =
                    preserve_injection(live.expose(), &xr, token).map_err(Error::Platform)?;
                ApplyRequest::sealed(project, manifest, at.unchanged())
            }
            Armed::Standalone => {
                ApplyRequest::open(project, xr.reapply(live.expose(), &with), at.unchanged())
            }
        })
    }
}
