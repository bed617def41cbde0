//! The brake as operators use it: show it, set it, and release it with a look at what is really lost.

use broker_domain::{ClusterId, Error as DomainError, Phase, ProjectId, ProvisionedResourceId};
use broker_ports::{
    Brake, BrakeRelease, Loss, Lost, PortName, ReconcilerPorts, RequestContext, SweepQuery,
    XrReading,
};

use super::Service;
use super::steer::for_everybody;
use crate::call::{Kind, call};
use crate::error::Error;
use crate::observe::{brakes, read_applied};
use crate::step::Mode;

/// The brakes of the cluster that the broker works on, and what is lost there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeStatus {
    /// The cluster.
    pub cluster: ClusterId,
    /// The brakes that are set: the cluster's own first, then those of Projects.
    pub brakes: Vec<Brake>,
    /// Every composite resource that was applied, is wanted, and that a direct read did not find.
    pub absent: Vec<Absence>,
}

/// A composite resource that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absence {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project.
    pub project: ProjectId,
    /// Its phase.
    pub phase: Phase,
    /// What was lost.
    pub lost: Lost,
}

impl Service {
    /// The brakes of the cluster, and every composite resource that is lost there, each by a direct read.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all; a port's own.
    pub async fn brake_status(&self, context: &RequestContext) -> Result<BrakeStatus, Error> {
        for_everybody(context)?;
        let ports = self.reconciler_ports();
        let deadlines = &self.config.deadlines;
        let cluster = ports.cluster.identity();
        let cluster = call(PortName::Cluster, Kind::Read, deadlines.cluster_read, cluster).await?;
        let brakes = brakes(&ports, deadlines.store, &cluster).await?;
        let absent = self.absent(&ports, &cluster).await?;
        Ok(BrakeStatus { cluster, brakes, absent })
    }

    /// Sets the brake of the cluster, or of one Project on it: nothing is re-created, issued, deregistered by
    /// itself, rolled back or failed there until it is released.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all; a port's own.
    pub async fn set_brake(
        &self,
        context: &RequestContext,
        project: Option<ProjectId>,
    ) -> Result<ClusterId, Error> {
        for_everybody(context)?;
        let deadlines = &self.config.deadlines;
        let cluster = self.ports.cluster.identity();
        let cluster = call(PortName::Cluster, Kind::Read, deadlines.cluster_read, cluster).await?;
        let mut brake = Brake::new(0, 0, self.ports.clock.now());
        brake.project = project;
        let set = self.ports.schedule.set_brake(&cluster, &brake, context.attribution());
        call(PortName::Schedule, Kind::Write, deadlines.store, set).await?;
        Ok(cluster)
    }

    /// Releases a brake and accepts what is lost in its reach, each loss by a direct read. The resources become
    /// due at once and need no permit; a later loss counts again. Answers what was accepted.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all, or when `cluster` is not the one that the broker works on; a
    /// port's own.
    pub async fn release_brake(
        &self,
        context: &RequestContext,
        cluster: &ClusterId,
        project: Option<ProjectId>,
    ) -> Result<Vec<Absence>, Error> {
        let status = self.brake_status(context).await?;
        if status.cluster != *cluster {
            let problem =
                format!("{cluster} is not the cluster of this broker; use {}", status.cluster);
            return Err(DomainError::invalid("cluster", problem).into());
        }
        let in_reach = |absence: &Absence| project.is_none_or(|project| absence.project == project);
        let absent: Vec<_> = status.absent.into_iter().filter(in_reach).collect();
        if self.config.mode == Mode::DryRun {
            let problem = "is off; a brake is released by a broker that may change something";
            return Err(DomainError::invalid("mode", problem).into());
        }
        let accepted = absent.iter().map(Absence::loss).collect();
        let by = context.attribution().clone();
        let release = BrakeRelease::new(cluster.clone(), project, accepted, by);
        let released = self.ports.schedule.release_brake(&release);
        let deadline = self.config.deadlines.store;
        call(PortName::Schedule, Kind::Write, deadline, released).await?;
        Ok(absent)
    }

    /// A page of rows at a time. A cache may say that an object is gone; a direct read decides.
    async fn absent(
        &self,
        ports: &ReconcilerPorts,
        cluster: &ClusterId,
    ) -> Result<Vec<Absence>, Error> {
        let deadlines = &self.config.deadlines;
        let mut query = SweepQuery::new(broker_ports::PageSize::MAX);
        let mut absent = Vec::new();
        loop {
            let page = ports.repository.sweep_page(&query);
            let page = call(PortName::Repository, Kind::Read, deadlines.store, page).await?;
            let here = page.rows.iter().filter(|row| row.cluster.as_ref() == Some(cluster));
            let wanted = here.filter(|row| row.phase.is_converging() && row.applied.is_some());
            for row in wanted {
                let read = read_applied(ports, deadlines, row.id).await?;
                let Some((resource, reading)) = read else { continue };
                let gone = matches!(reading, XrReading::Absent | XrReading::NamespaceAbsent);
                if let (true, Some(uid)) = (gone, resource.substrate().applied()) {
                    absent.push(Absence {
                        resource: resource.id(),
                        project: resource.project_id(),
                        phase: resource.phase(),
                        lost: Lost::Xr(uid.clone()),
                    });
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(absent),
            }
        }
    }

    fn reconciler_ports(&self) -> ReconcilerPorts {
        ReconcilerPorts::from(&self.ports)
    }
}

impl Absence {
    fn loss(&self) -> Loss {
        Loss { resource: self.resource, lost: self.lost.clone() }
    }
}
