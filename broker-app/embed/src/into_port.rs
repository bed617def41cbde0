//! [`IntoPort`]: what the builder accepts as a port.

use std::sync::Arc;

use broker_app::ports::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, EventSink, IdSource, NodeDeregistrar, Outbox, Repository, ResourceReader,
    Schedule, TokenIssuer,
};

/// A port for the builder: an adapter, or an `Arc` of one that the embedder keeps using. `Form` distinguishes them; the
/// compiler infers it.
///
/// ```
/// # use std::sync::Arc;
/// use broker_embed::{ApiUrl, Broker, LogEventSink, Ports, TokenIssuer};
///
/// # fn build<T: TokenIssuer + 'static>(url: ApiUrl, ports: Ports, own: &Arc<T>) {
/// Broker::builder(url)
///     .ports(ports)
///     .event_sink(LogEventSink)
///     .token_issuer(|_| Arc::clone(own));
/// # }
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is neither a `{P}` nor an `Arc` of one")]
pub trait IntoPort<P: ?Sized, Form> {
    /// The port that the broker calls.
    fn into_port(self) -> Arc<P>;
}

/// The form of an adapter.
#[derive(Debug)]
pub enum Owned {}

/// The form of an adapter in an `Arc`.
#[derive(Debug)]
pub enum Shared {}

/// The form of an `Arc<dyn Port>`.
#[derive(Debug)]
pub enum Erased {}

macro_rules! into_port {
    ($($port:ident)+) => {
        $(
            impl<T: $port + 'static> IntoPort<dyn $port, Owned> for T {
                fn into_port(self) -> Arc<dyn $port> {
                    Arc::new(self)
                }
            }

            impl<T: $port + 'static> IntoPort<dyn $port, Shared> for Arc<T> {
                fn into_port(self) -> Arc<dyn $port> {
                    self
                }
            }

            impl IntoPort<dyn $port, Erased> for Arc<dyn $port> {
                fn into_port(self) -> Arc<dyn $port> {
                    self
                }
            }
        )+
    };
}

into_port! {
    AssignmentReader AuditSink BlueprintResolver Clock CloudResolver Cluster CredentialResolver
    EventSink IdSource ResourceReader NodeDeregistrar Outbox Repository Schedule TokenIssuer
}
