//! The trait through which commands get their adapters; tests implement it over memory.

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

/// Builds the parts of a command from its settings.
#[async_trait]
pub(crate) trait Wiring: Sync {
    /// The service over the configured store.
    async fn service(&self, settings: &Settings) -> Result<Service, Failure>;

    /// A replica that is ready to run and delivers events to a sink.
    async fn replica(
        &self,
        replica: Replica<'_>,
        arguments: &RunArguments,
        sink: Arc<dyn EventSink>,
    ) -> Result<Broker, Failure>;

    /// Changes or reads the schema; returns the resulting state of every migration.
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

/// A migration, with the time of its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) applied_at: Option<OffsetDateTime>,
}

/// A published blueprint version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication {
    pub(crate) slug: String,
    pub(crate) version: String,
    pub(crate) id: broker_domain::BlueprintVersionId,
    /// Whether this import published it; false for an earlier one.
    pub(crate) is_new: bool,
}
