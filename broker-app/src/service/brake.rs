//! The brake as operators use it: show it, set it, and release it with a look at what is really lost.

use broker_domain::{
    ClusterId, Error as DomainError, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId,
};
use broker_ports::{
    Brake, BrakeRelease, Cluster, FailureClass, Loss, Lost, PageSize, PortName, RequestContext,
    SweepQuery, UnreadableRow, XrReading,
};

use super::Service;
use super::operations::for_everybody;
use crate::decide::Mode;
use crate::error::{Error, in_words};
use crate::observe::read_applied;
use crate::sweep::is_expected;

/// The brakes of the cluster that the broker works on, and what is lost there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeStatus {
    /// The cluster.
    pub cluster: ClusterId,
    /// The brakes that are set: the cluster's own first, then those of Projects.
    pub brakes: Vec<Brake>,
    /// What is lost there.
    pub losses: BrakeLosses,
}

/// What direct reads found in the reach of a brake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrakeLosses {
    /// Every composite resource that was applied, is wanted, and that a direct read did not find. A release accepts
    /// these.
    pub absent: Vec<Absence>,
    /// What could not be read, so that it is not known whether it is lost. A release accepts none of it.
    pub unread: Vec<Unread>,
}

/// A resource that could not be read, or whose composite resource could not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Why it could not be read, in one line.
    pub problem: String,
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
        let cluster = self.cluster().await?;
        let brakes = self.ports.schedule.read(|it| it.brakes(&cluster)).await?;
        let losses = self.losses(&cluster, None).await?;
        Ok(BrakeStatus { cluster, brakes, losses })
    }

    /// Sets the brake of the cluster, or of one Project on it: nothing is re-created, issued, deregistered by
    /// itself, rolled back or failed there until it is released.
    /// A broker in dry-run mode sets it, too: that destroys nothing, and live replicas obey.
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
        let cluster = self.cluster().await?;
        let mut brake = Brake::new(0, 0, self.ports.clock.now());
        brake.project = project;
        self.ports
            .schedule
            .write(|it| it.set_brake(&cluster, &brake, context.attribution()))
            .await?;
        Ok(cluster)
    }

    /// Releases a brake and accepts what is lost in its reach, each loss by a direct read. The resources become
    /// due at once and need no permit; a later loss counts again. Answers what was accepted, and what could not be read:
    /// that stays in the budget, and counts in the next sweep.
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
    ) -> Result<BrakeLosses, Error> {
        for_everybody(context)?;
        let here = self.cluster().await?;
        if here != *cluster {
            let problem = format!("{cluster} is not the cluster of this broker; use {here}");
            return Err(DomainError::invalid("cluster", problem).into());
        }
        if self.config.mode == Mode::DryRun {
            let problem = "is off; a brake is released by a broker that may change something";
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

    /// What is lost on a cluster, or of one Project there: a page of rows at a time. A cache may say that an object is
    /// gone; a direct read decides.
    ///
    /// What a collaborator rejects is that resource's own problem. A collaborator that does not answer ends it all.
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
                match read_applied(&self.ports, row.id).await {
                    Ok(read) => losses.absent.extend(read.and_then(Absence::of)),
                    Err(error) if is_of_one(&error) => losses.unread.push(unread(row.id, &error)),
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

/// Whether the next resource can be read although this one could not.
fn is_of_one(error: &Error) -> bool {
    match error {
        Error::Domain(_) => true,
        Error::Port { source, .. } => source.class() == FailureClass::Rejected,
        Error::LeaseRanOut => false,
    }
}

fn unread(resource: ProvisionedResourceId, error: &Error) -> Unread {
    Unread { resource, problem: in_words(error) }
}

impl Absence {
    fn of((resource, reading): (ProvisionedResource, XrReading)) -> Option<Self> {
        let uid = match reading {
            XrReading::Absent | XrReading::NamespaceAbsent => resource.substrate().applied()?,
            XrReading::Present(_) | XrReading::KindAbsent => return None,
        };
        Some(Self {
            resource: resource.id(),
            project: resource.project_id(),
            phase: resource.phase(),
            lost: Lost::Xr(uid.clone()),
        })
    }

    fn loss(&self) -> Loss {
        Loss { resource: self.resource, lost: self.lost.clone() }
    }
}
