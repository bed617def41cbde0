//! The trait through which commands get their adapters; tests implement it over memory.

use std::sync::Arc;

use async_trait::async_trait;
use broker_app::Service;
use broker_embed::Broker;
use broker_ports::EventSink;
use broker_render::catalog::{Blueprint, ImportReport, Source};
use time::OffsetDateTime;

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

    /// Publishes a catalog, all or nothing, or compares it with the published versions.
    async fn import(
        &self,
        settings: &Settings,
        mode: ImportMode,
        sources: &[Source<'_>],
    ) -> Result<ImportReport, Failure>;

    /// The roles that a replica needs for a catalog, as YAML.
    fn rbac(&self, blueprints: &[Blueprint]) -> Result<String, Failure>;
}

/// Whether an import writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImportMode {
    Publish,
    /// Only reports what it would do.
    Diff,
}

/// A migration, with the time of its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) applied_at: Option<OffsetDateTime>,
}
