//! Which ports each part of the application needs. A missing one does not compile.

use std::sync::Arc;

use crate::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, EventSink, IdSource, LabelTagResolver, NodeDeregistrar, Outbox, Repository,
    Schedule, TokenIssuer,
};

/// What the service facade needs.
///
/// `repository`, `schedule`, `outbox` and `audit` are handles on one store: their promises are those of one
/// transaction. They are four fields because a fault decorator or a mock stands in for one of them at a time.
///
/// A port that is not wired does not compile:
///
/// ```compile_fail,E0063
/// # use broker_ports::ServicePorts;
/// fn rewire(ports: ServicePorts) -> ServicePorts {
///     ServicePorts {
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
///         labels: ports.labels,
///         audit: ports.audit,
///         clock: ports.clock,
///     }
/// }
/// ```
///
/// The twin that does compile:
///
/// ```
/// # use broker_ports::ServicePorts;
/// fn rewire(ports: ServicePorts) -> ServicePorts {
///     ServicePorts {
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
///         labels: ports.labels,
///         audit: ports.audit,
///         clock: ports.clock,
///         ids: ports.ids,
///     }
/// }
/// ```
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the port of its type")]
pub struct ServicePorts {
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
    pub labels: Arc<dyn LabelTagResolver>,
    pub audit: Arc<dyn AuditSink>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
}

/// What the reconciler needs, and with it sweep and runner.
///
/// `repository`, `schedule` and `audit` are handles on one store, as in [`ServicePorts`]. A port that is not
/// wired does not compile:
///
/// ```compile_fail,E0063
/// # use broker_ports::ReconcilerPorts;
/// fn rewire(ports: ReconcilerPorts) -> ReconcilerPorts {
///     ReconcilerPorts {
///         repository: ports.repository,
///         schedule: ports.schedule,
///         cluster: ports.cluster,
///         tokens: ports.tokens,
///         nodes: ports.nodes,
///         blueprints: ports.blueprints,
///         clouds: ports.clouds,
///         credentials: ports.credentials,
///         assignments: ports.assignments,
///         labels: ports.labels,
///         audit: ports.audit,
///         clock: ports.clock,
///     }
/// }
/// ```
///
/// The twin that does compile:
///
/// ```
/// # use broker_ports::ReconcilerPorts;
/// fn rewire(ports: ReconcilerPorts) -> ReconcilerPorts {
///     ReconcilerPorts {
///         repository: ports.repository,
///         schedule: ports.schedule,
///         cluster: ports.cluster,
///         tokens: ports.tokens,
///         nodes: ports.nodes,
///         blueprints: ports.blueprints,
///         clouds: ports.clouds,
///         credentials: ports.credentials,
///         assignments: ports.assignments,
///         labels: ports.labels,
///         audit: ports.audit,
///         clock: ports.clock,
///         ids: ports.ids,
///     }
/// }
/// ```
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the port of its type")]
pub struct ReconcilerPorts {
    pub repository: Arc<dyn Repository>,
    pub schedule: Arc<dyn Schedule>,
    pub cluster: Arc<dyn Cluster>,
    pub tokens: Arc<dyn TokenIssuer>,
    pub nodes: Arc<dyn NodeDeregistrar>,
    pub blueprints: Arc<dyn BlueprintResolver>,
    pub clouds: Arc<dyn CloudResolver>,
    pub credentials: Arc<dyn CredentialResolver>,
    pub assignments: Arc<dyn AssignmentReader>,
    pub labels: Arc<dyn LabelTagResolver>,
    pub audit: Arc<dyn AuditSink>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
}

/// The reconciler beside a service, on the same ports.
impl From<&ServicePorts> for ReconcilerPorts {
    fn from(ports: &ServicePorts) -> Self {
        // Named one by one, so that a port which the service gains has to be decided on here.
        let ServicePorts {
            repository,
            schedule,
            outbox: _,
            cluster,
            tokens,
            nodes,
            blueprints,
            clouds,
            credentials,
            assignments,
            labels,
            audit,
            clock,
            ids,
        } = ports.clone();
        Self {
            repository,
            schedule,
            cluster,
            tokens,
            nodes,
            blueprints,
            clouds,
            credentials,
            assignments,
            labels,
            audit,
            clock,
            ids,
        }
    }
}

/// What the relay needs. A port that is not wired does not compile:
///
/// ```compile_fail,E0063
/// # use std::sync::Arc;
/// # use broker_ports::{EventSink, Outbox, RelayPorts};
/// fn wire(outbox: Arc<dyn Outbox>, sink: Arc<dyn EventSink>) -> RelayPorts {
///     RelayPorts { outbox }
/// }
/// ```
///
/// The twin that does compile:
///
/// ```
/// # use std::sync::Arc;
/// # use broker_ports::{EventSink, Outbox, RelayPorts};
/// fn wire(outbox: Arc<dyn Outbox>, sink: Arc<dyn EventSink>) -> RelayPorts {
///     RelayPorts { outbox, sink }
/// }
/// ```
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the port of its type")]
pub struct RelayPorts {
    pub outbox: Arc<dyn Outbox>,
    pub sink: Arc<dyn EventSink>,
}
