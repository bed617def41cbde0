//! Emit: a sink that records its events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::ProvisionedResourceId;

use crate::PortResult;
use broker_ports::{Envelope, EventSink, FailureClass, PortError};

/// Records every event in order of arrival, including repeated deliveries. Clones are handles on the same record.
///
/// ```
/// use broker_memory::RecordingEventSink;
///
/// let sink = RecordingEventSink::default();
/// assert!(sink.deliveries().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct RecordingEventSink(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    unreachable: bool,
    failures: BTreeMap<ProvisionedResourceId, FailureClass>,
    deliveries: Vec<Envelope>,
}

impl RecordingEventSink {
    /// Every delivery so far.
    pub fn deliveries(&self) -> Vec<Envelope> {
        self.lock().deliveries.clone()
    }

    /// Every delivery of a resource's events so far.
    pub fn deliveries_of(&self, resource: ProvisionedResourceId) -> Vec<Envelope> {
        let of_resource = |envelope: &&Envelope| envelope.resource == resource;
        self.lock().deliveries.iter().filter(of_resource).cloned().collect()
    }

    /// Simulates an outage. While unreachable, every delivery is a `Transient` error and nothing is recorded.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().unreachable = !reachable;
    }

    /// Makes every delivery of a resource's events fail with this class; `None` ends the failures.
    pub fn refuse(&self, resource: ProvisionedResourceId, class: Option<FailureClass>) {
        let failures = &mut self.lock().failures;
        match class {
            Some(class) => drop(failures.insert(resource, class)),
            None => drop(failures.remove(&resource)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EventSink for RecordingEventSink {
    async fn deliver(&self, envelope: &Envelope) -> PortResult<()> {
        let mut record = self.lock();
        if record.unreachable {
            return Err(PortError::transient("the sink is unreachable"));
        }
        match record.failures.get(&envelope.resource) {
            Some(FailureClass::Rejected) => {
                return Err(PortError::rejected("the sink rejects the event"));
            }
            Some(FailureClass::Transient) => {
                return Err(PortError::transient("the sink failed temporarily"));
            }
            Some(FailureClass::Unknown) => {
                return Err(PortError::unknown("the sink did not respond"));
            }
            None => {}
        }
        record.deliveries.push(envelope.clone());
        Ok(())
    }
}
