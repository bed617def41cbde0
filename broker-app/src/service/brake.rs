//! An operator shows, sets and releases brakes. A release reads each loss directly first.

use broker_domain::{
    ClusterId, Error as DomainError, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId,
};
use broker_ports::{
    Brake, BrakeRelease, Cluster, FailureClass, Loss, LostObject, PageSize, PortName,
    RequestContext, SweepQuery, UnreadableRow, XrReading,
};

use super::Service;
use super::operations::require_all_scope;
use crate::decide::Mode;
use crate::error::{Error, error_message};
use crate::observe::read_xr_if_applied;
use crate::sweep::is_expected;
use crate::telemetry::traceparent;

/// The brakes of the broker's cluster, and the losses there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeStatus {
    /// The cluster.
    pub cluster: ClusterId,
    /// The brakes that are set: the cluster's own first, then those of Projects.
    pub brakes: Vec<Brake>,
    /// The losses.
    pub losses: BrakeLosses,
}

/// The losses within the reach of a brake, confirmed by direct reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeLosses {
    /// Composite resources that should exist, but that a direct read did not find. A release accepts these losses.
    pub absent: Vec<Absence>,
    /// Resources that could not be read and may be lost. A release does not accept them as losses.
    pub unread: Vec<UnreadResource>,
}

/// A resource whose row or composite resource could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadResource {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// The error, in one line.
    pub problem: String,
}

/// A lost composite resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absence {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project.
    pub project: ProjectId,
    /// Its phase.
    pub phase: Phase,
    /// The loss.
    pub lost: LostObject,
}

impl Service {
    /// The brakes of the cluster, and every composite resource there that should exist, but that a direct read did not
    /// find.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all Projects. The error of a port.
    #[tracing::instrument(name = "broker.brake_status", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn brake_status(&self, context: &RequestContext) -> Result<BrakeStatus, Error> {
        require_all_scope(context)?;
        let cluster = self.cluster().await?;
        let brakes = self.ports.schedule.read(|it| it.brakes(&cluster)).await?;
        let losses = self.losses(&cluster, None).await?;
        Ok(BrakeStatus { cluster, brakes, losses })
    }

    /// Sets the brake of the cluster, or of one Project on it. [`Brake`] describes its effect.
    ///
    /// This works in dry-run mode too, because a brake destroys nothing. Live replicas obey it.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all Projects. The error of a port.
    #[tracing::instrument(name = "broker.set_brake", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn set_brake(
        &self,
        context: &RequestContext,
        project: Option<ProjectId>,
    ) -> Result<ClusterId, Error> {
        require_all_scope(context)?;
        let cluster = self.cluster().await?;
        let mut brake = Brake::new(0, 0, self.ports.clock.now());
        brake.project = project;
        self.ports
            .schedule
            .write(|it| it.set_brake(&cluster, &brake, context.attribution()))
            .await?;
        Ok(cluster)
    }

    /// Releases a brake and accepts the losses within its reach, each confirmed by a direct read. Those resources are
    /// due at once and need no permit. A later loss of the same resource counts again.
    ///
    /// Returns the accepted losses and the resources that could not be read. A resource that could not be read still needs
    /// a permit if it is lost, and the next sweep counts its loss.
    ///
    /// # Errors
    ///
    /// - `invalid_input` unless the scope is all Projects.
    /// - `invalid_input` when `cluster` is not the broker's own.
    /// - `invalid_input` in dry-run mode.
    /// - The error of a port.
    #[tracing::instrument(name = "broker.release_brake", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn release_brake(
        &self,
        context: &RequestContext,
        cluster: &ClusterId,
        project: Option<ProjectId>,
    ) -> Result<BrakeLosses, Error> {
        require_all_scope(context)?;
        let here = self.cluster().await?;
        if here != *cluster {
            let problem = format!("{cluster} is not the cluster of this broker; use {here}");
            return Err(DomainError::invalid("cluster", problem).into());
        }
        if self.config.mode == Mode::DryRun {
            let problem = "is dry-run; release the brake with a broker in live mode";
            return Err(DomainError::invalid("mode", problem).into());
        }
        let losses = self.losses(cluster, project).await?;
        let accepted = losses.absent.iter().map(Absence::loss).collect();
        let by = context.attribution().clone();
        let release = BrakeRelease::new(cluster.clone(), project, accepted, by);
        self.ports.schedule.write(|it| it.release_brake(&release)).await?;
        Ok(losses)
    }

    async fn cluster(&self) -> Result<ClusterId, Error> {
        self.ports.cluster.read(Cluster::identity).await
    }

    /// The losses of a cluster, or of one Project there, confirmed by direct reads, one page of rows at a time.
    ///
    /// A rejection makes only its resource unread. A port that does not answer fails the whole call.
    async fn losses(
        &self,
        cluster: &ClusterId,
        project: Option<ProjectId>,
    ) -> Result<BrakeLosses, Error> {
        let mut query = SweepQuery::new(PageSize::MAX);
        query.project = project;
        let mut losses = BrakeLosses::default();
        loop {
            let page = self.ports.repository.read(|it| it.sweep_page(&query)).await?;
            let here = page.rows.iter().filter(|row| row.cluster.as_ref() == Some(cluster));
            for row in here.filter(|row| is_expected(row)) {
                match read_xr_if_applied(&self.ports, row.id).await {
                    Ok(read) => losses.absent.extend(read.and_then(Absence::from_reading)),
                    Err(error) if concerns_one_resource(&error) => {
                        losses.unread.push(unread(row.id, &error));
                    }
                    Err(error) => return Err(error),
                }
            }
            for UnreadableRow { id, error: source, .. } in page.unreadable {
                let error = Error::Port { port: PortName::Repository, source };
                losses.unread.push(unread(id, &error));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(losses),
            }
        }
    }
}

/// Whether the error concerns this resource only.
fn concerns_one_resource(error: &Error) -> bool {
    match error {
        Error::Domain(_) | Error::Platform(_) | Error::Internal(_) => true,
        Error::Port { source, .. } => source.class() == FailureClass::Rejected,
        Error::LeaseRanOut => false,
    }
}

fn unread(resource: ProvisionedResourceId, error: &Error) -> UnreadResource {
    UnreadResource { resource, problem: error_message(error) }
}

impl Absence {
    fn from_reading((resource, reading): (ProvisionedResource, XrReading)) -> Option<Self> {
        let uid = match reading {
            XrReading::Absent | XrReading::NamespaceAbsent => resource.substrate().applied()?,
            XrReading::Present(_) | XrReading::KindAbsent => return None,
        };
        Some(Self {
            resource: resource.id(),
            project: resource.project_id(),
            phase: resource.phase(),
            lost: LostObject::Xr(uid.clone()),
        })
    }

    fn loss(&self) -> Loss {
        Loss { resource: self.resource, lost: self.lost.clone() }
    }
}
