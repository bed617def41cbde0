//! Requests that outlive their callers arrive as they were sent, though everything that they were made of
//! was only borrowed.

use std::sync::Arc;

use broker_domain::Phase;
use tokio::time::timeout;

use super::{DEADLINE, DELAY};
use crate::builders::{attribution, resource, second, stamp};
use crate::faults::{Fault, FaultPlan, Faults, Late};
use broker_memory::{ManualClock, MemoryStore};
use broker_ports::{PortName, Repository, Write, WriteKind};

#[tokio::test(start_paused = true)]
async fn a_write_to_the_store_lands_late() {
    let store = MemoryStore::new(Arc::new(ManualClock::at(second(0))));
    let pending = resource();
    let _stored = store.create(&pending.admitted()).await.unwrap();
    let faults = Faults::new(FaultPlan::none().on(
        PortName::Repository,
        "record_deletion_intent",
        1,
        Fault::Delay { by: DELAY, late: Late::Lands },
    ));
    let repository = faults.around::<dyn Repository>(Arc::new(store.clone()));
    {
        let change = pending.build().request_deletion(stamp(99, 1)).unwrap();
        let by = attribution();
        let write = Write::by_caller(&change, &by).with_event_data("not needed any more");
        timeout(DEADLINE, repository.write(WriteKind::DeletionIntent, &write)).await.unwrap_err();
    }
    let phase = async || store.get_by_id(pending.id()).await.unwrap().unwrap().phase();
    assert_eq!(phase().await, Phase::Pending, "not yet");
    assert_eq!(faults.land_all().await, 1);
    assert_eq!(phase().await, Phase::Deregistering, "now");
    let history = store.history(pending.id()).await.unwrap();
    let line = &history.last().unwrap().entry;
    assert_eq!(line.event_data.as_deref(), Some("not needed any more"));
}
