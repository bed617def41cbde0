//! The in-memory store passes its contract suites.

#[path = "../common/in_memory.rs"]
mod in_memory;

use broker_testkit::store::{audit_suite, outbox_suite, repository_suite, schedule_suite};
use in_memory::InMemoryStore;

async fn fresh() -> InMemoryStore {
    InMemoryStore::fresh()
}

#[tokio::test]
async fn memory_store_passes_the_repository_suite() {
    repository_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn memory_store_passes_the_schedule_suite() {
    schedule_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn memory_store_passes_the_outbox_suite() {
    outbox_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn memory_store_passes_the_audit_suite() {
    audit_suite().run(fresh).await.assert_passed();
}
