//! An inventory, assignments and labels that are right but for one flaw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use broker_domain::{CloudId, Error, NotFound, ProjectId, ResourceId};
use broker_ports::testing::resolvers::{
    AssignmentReaderUnderTest, CloudResolverUnderTest, LabelTagResolverUnderTest,
};
use broker_ports::{
    AssignmentReader, CloudResolver, CloudView, FailureClass, LabelTagResolver,
    NamespaceObservation, PortError, ResourceView,
};
use broker_render::Provider;

use super::worlds::Neighbourhood;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    CloudsShareAnEndpoint,
    MissingCloudIsAnError,
    NoAnswerIsNoCloud,
    UnreadableCloudIsAbsent,
    UnreadableCloudIsTransient,
    OneUnreadableCloudSpoilsAll,
    EveryProjectIsPlaced,
    EveryNamespaceIsReady,
    ClustersAreForgotten,
    ReadinessIsRemembered,
    NoAnswerIsNoAssignment,
    LabelsAreCutOff,
    EveryResourceHasALabel,
    MissingResourceIsAnError,
    ResourcesLeakAcrossProjects,
    LabelsAreShared,
    EveryLabelPropagates,
    NoAnswerIsNoLabel,
    ManyAreAnsweredOnceEach,
    ManyLeaveOutTheBare,
}

type Labels = BTreeMap<String, String>;

pub(super) struct FlawedNeighbours {
    flaw: Flaw,
    truth: Neighbourhood,
    first_cloud: Mutex<Option<CloudView>>,
    spoilt: Mutex<BTreeSet<CloudId>>,
    first_seen: Mutex<BTreeMap<ProjectId, NamespaceObservation>>,
    first_labels: Mutex<Option<ResourceView>>,
    owners: Mutex<BTreeMap<ResourceId, ProjectId>>,
}

impl FlawedNeighbours {
    pub(super) fn with(flaw: Flaw) -> Self {
        Self {
            flaw,
            truth: Neighbourhood::fresh(),
            first_cloud: Mutex::default(),
            spoilt: Mutex::default(),
            first_seen: Mutex::default(),
            first_labels: Mutex::default(),
            owners: Mutex::default(),
        }
    }
}

impl FlawedNeighbours {
    fn unreadable(&self, id: CloudId) -> Option<PortError> {
        let spoilt = self.spoilt.lock().unwrap();
        let all = self.flaw == Flaw::OneUnreadableCloudSpoilsAll && !spoilt.is_empty();
        let odd = || Error::invalid("provider", "is \"No Such\"; use a DNS label").into();
        (all || spoilt.contains(&id)).then(odd)
    }
}

#[async_trait]
impl CloudResolver for FlawedNeighbours {
    async fn resolve(&self, id: CloudId) -> Result<Option<CloudView>, PortError> {
        let found = match self.unreadable(id) {
            Some(error) => Err(error),
            None => CloudResolver::resolve(&self.truth.neighbours, id).await,
        };
        match (self.flaw, found) {
            (Flaw::UnreadableCloudIsAbsent, Err(error))
                if error.class() == FailureClass::Rejected =>
            {
                Ok(None)
            }
            (Flaw::UnreadableCloudIsTransient, Err(error)) => {
                Err(PortError::transient("later").with_source(error))
            }
            (Flaw::NoAnswerIsNoCloud, Err(_)) => Ok(None),
            (Flaw::MissingCloudIsAnError, Ok(None)) => Err(id.not_found().into()),
            (Flaw::CloudsShareAnEndpoint, Ok(Some(found))) => {
                let first = self.first_cloud.lock().unwrap().get_or_insert(found).endpoint.clone();
                Ok(Some(CloudView::new(id, Provider::new("hetzner")?, first)))
            }
            (_, found) => found,
        }
    }
}

#[async_trait]
impl CloudResolverUnderTest for FlawedNeighbours {
    fn resolver(&self) -> &dyn CloudResolver {
        self
    }

    async fn add(&self, provider: &Provider, endpoint: &str) -> Result<CloudView, PortError> {
        CloudResolverUnderTest::add(&self.truth, provider, endpoint).await
    }

    async fn spoil(&self, id: CloudId) -> Result<bool, PortError> {
        Ok(self.spoilt.lock().unwrap().insert(id))
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        CloudResolverUnderTest::cut_off(&self.truth).await
    }
}

#[async_trait]
impl AssignmentReader for FlawedNeighbours {
    async fn read(&self, project: ProjectId) -> Result<Option<NamespaceObservation>, PortError> {
        let found = self.truth.neighbours.read(project).await;
        match (self.flaw, found) {
            (Flaw::NoAnswerIsNoAssignment, Err(_)) => Ok(None),
            (Flaw::EveryProjectIsPlaced, Ok(None)) => {
                Ok(Some(NamespaceObservation::new("default", true)))
            }
            (Flaw::EveryNamespaceIsReady, Ok(Some(found))) => {
                Ok(Some(NamespaceObservation::new(found.namespace, true)))
            }
            (Flaw::ClustersAreForgotten, Ok(Some(found))) => {
                Ok(Some(NamespaceObservation::new(found.namespace, found.ready)))
            }
            (Flaw::ReadinessIsRemembered, Ok(Some(found))) => {
                let mut seen = self.first_seen.lock().unwrap();
                Ok(Some(seen.entry(project).or_insert(found).clone()))
            }
            (_, found) => found,
        }
    }
}

#[async_trait]
impl AssignmentReaderUnderTest for FlawedNeighbours {
    fn reader(&self) -> &dyn AssignmentReader {
        self
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        AssignmentReaderUnderTest::project(&self.truth).await
    }

    async fn place(
        &self,
        project: ProjectId,
        namespace: &NamespaceObservation,
    ) -> Result<(), PortError> {
        self.truth.place(project, namespace).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        AssignmentReaderUnderTest::cut_off(&self.truth).await
    }
}

#[async_trait]
impl LabelTagResolver for FlawedNeighbours {
    async fn resolve(
        &self,
        project: ProjectId,
        resource: ResourceId,
    ) -> Result<Option<ResourceView>, PortError> {
        let owner = self.owners.lock().unwrap().get(&resource).copied();
        let leaks = self.flaw == Flaw::ResourcesLeakAcrossProjects;
        let project = owner.filter(|_| leaks).unwrap_or(project);
        let found = LabelTagResolver::resolve(&self.truth.neighbours, project, resource).await;
        match (self.flaw, found) {
            (Flaw::NoAnswerIsNoLabel, Err(_)) => Ok(Some(ResourceView::default())),
            (Flaw::LabelsAreCutOff, Ok(Some(found))) => {
                Ok(Some(ResourceView::new(found.labels.into_iter().take(1).collect())))
            }
            (Flaw::EveryResourceHasALabel, Ok(Some(found))) if found.labels.is_empty() => {
                let labels = [("managed".to_owned(), "yes".to_owned())].into();
                Ok(Some(ResourceView::new(labels)))
            }
            (Flaw::MissingResourceIsAnError, Ok(None)) => {
                Err(PortError::rejected("there is no such resource"))
            }
            (Flaw::LabelsAreShared, Ok(Some(found))) => {
                Ok(Some(self.first_labels.lock().unwrap().get_or_insert(found).clone()))
            }
            (_, found) => found,
        }
    }

    async fn resolve_many(
        &self,
        resources: &[(ProjectId, ResourceId)],
    ) -> Result<Vec<Result<Option<ResourceView>, PortError>>, PortError> {
        let mut asked = resources.to_vec();
        if self.flaw == Flaw::ManyAreAnsweredOnceEach {
            asked.sort();
            asked.dedup();
        }
        let mut answers = Vec::new();
        for (project, resource) in asked {
            let answer = LabelTagResolver::resolve(self, project, resource).await;
            let bare = ResourceView::default();
            let is_bare = answer.as_ref().is_ok_and(|found| found.as_ref() == Some(&bare));
            if !(is_bare && self.flaw == Flaw::ManyLeaveOutTheBare) {
                answers.push(answer);
            }
        }
        Ok(answers)
    }
}

#[async_trait]
impl LabelTagResolverUnderTest for FlawedNeighbours {
    fn resolver(&self) -> &dyn LabelTagResolver {
        self
    }

    async fn resource(&self, labels: &Labels) -> Result<(ProjectId, ResourceId), PortError> {
        let (project, resource) = self.truth.resource(labels).await?;
        self.owners.lock().unwrap().insert(resource, project);
        Ok((project, resource))
    }

    async fn keep(&self, resource: ResourceId, labels: &Labels) -> Result<(), PortError> {
        if self.flaw != Flaw::EveryLabelPropagates {
            return self.truth.keep(resource, labels).await;
        }
        for (key, value) in labels {
            self.truth.neighbours.label(resource, key, value);
        }
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        LabelTagResolverUnderTest::cut_off(&self.truth).await
    }
}
