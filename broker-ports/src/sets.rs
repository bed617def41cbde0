//! The set of all ports. A missing port is a compile error.

use std::sync::Arc;

use crate::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, EventSink, IdSource, NodeDeregistrar, Outbox, Repository, ResourceReader,
    Schedule, TokenIssuer,
};

/// Every port of the application. Service, reconciler, sweep and relay share one set.
///
/// `repository`, `schedule`, `outbox` and `audit` are handles on one store and share its transactions. They are
/// separate fields so that a fault decorator or a mock can replace one of them.
///
/// A missing port does not compile:
///
/// ```compile_fail,E0063
/// # use broker_ports::Ports;
/// fn rewire(ports: Ports) -> Ports {
///     Ports {
///         repository: ports.repository,
///         schedule: ports.schedule,
///         outbox: ports.outbox,
///         cluster: ports.cluster,
///         tokens: ports.tokens,
///         nodes: ports.nodes,
///         blueprints: ports.blueprints,
///         clouds: ports.clouds,
///         credentials: ports.credentials,
///         assignments: ports.assignments,
///         resources: ports.resources,
///         audit: ports.audit,
///         sink: ports.sink,
///         clock: ports.clock,
///     }
/// }
/// ```
///
/// The variant that compiles:
///
/// ```
/// # use broker_ports::Ports;
/// fn rewire(ports: Ports) -> Ports {
///     Ports {
///         repository: ports.repository,
///         schedule: ports.schedule,
///         outbox: ports.outbox,
///         cluster: ports.cluster,
///         tokens: ports.tokens,
///         nodes: ports.nodes,
///         blueprints: ports.blueprints,
///         clouds: ports.clouds,
///         credentials: ports.credentials,
///         assignments: ports.assignments,
///         resources: ports.resources,
///         audit: ports.audit,
///         sink: ports.sink,
///         clock: ports.clock,
///         ids: ports.ids,
///     }
/// }
/// ```
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the port of its type")]
#[expect(clippy::exhaustive_structs, reason = "an embedder must wire a new port")]
pub struct Ports {
    pub repository: Arc<dyn Repository>,
    pub schedule: Arc<dyn Schedule>,
    pub outbox: Arc<dyn Outbox>,
    pub cluster: Arc<dyn Cluster>,
    pub tokens: Arc<dyn TokenIssuer>,
    pub nodes: Arc<dyn NodeDeregistrar>,
    pub blueprints: Arc<dyn BlueprintResolver>,
    pub clouds: Arc<dyn CloudResolver>,
    pub credentials: Arc<dyn CredentialResolver>,
    pub assignments: Arc<dyn AssignmentReader>,
    pub resources: Arc<dyn ResourceReader>,
    pub audit: Arc<dyn AuditSink>,
    pub sink: Arc<dyn EventSink>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
}
