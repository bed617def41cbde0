//! What the commands need to have composed, so that a test can compose it of something else.

use std::sync::Arc;

use async_trait::async_trait;
use broker_app::Service;
use broker_embed::Broker;
use broker_ports::EventSink;
use time::OffsetDateTime;

use crate::catalog::Catalog;
use crate::cli::{Migrate, RunArguments};
use crate::failure::Failure;
use crate::settings::{Replica, Settings};

/// Makes what a command asks for out of what the environment says.
#[async_trait]
pub(crate) trait Composition: Sync {
    /// The service, over the store that is set.
    async fn service(&self, settings: &Settings) -> Result<Service, Failure>;

    /// A replica that is ready to run and delivers events to a sink.
    async fn replica(
        &self,
        replica: Replica<'_>,
        arguments: &RunArguments,
        sink: Arc<dyn EventSink>,
    ) -> Result<Broker, Failure>;

    /// Changes or reads the schema; answers every migration as it is then.
    async fn migrate(
        &self,
        settings: &Settings,
        command: Migrate,
    ) -> Result<Vec<Migration>, Failure>;

    /// Publishes a catalog, all or nothing.
    async fn import(
        &self,
        settings: &Settings,
        catalog: &Catalog,
    ) -> Result<Vec<Publication>, Failure>;

    /// The roles that a replica needs for a catalog, as YAML.
    fn rbac(&self, catalog: &Catalog) -> Result<String, Failure>;
}

/// A migration, and when it was applied, if it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) applied_at: Option<OffsetDateTime>,
}

/// A blueprint version that is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication {
    pub(crate) slug: String,
    pub(crate) version: String,
    pub(crate) id: broker_domain::BlueprintVersionId,
    /// By this import, and not by an earlier one.
    pub(crate) new: bool,
}
