//! The in-memory store passes its contract suites.

#[path = "../common/in_memory.rs"]
mod in_memory;

use broker_testkit::store::{audit_suite, outbox_suite, repository_suite, schedule_suite};
use in_memory::InMemory;

async fn fresh() -> InMemory {
    InMemory::fresh()
}

#[tokio::test]
async fn the_memory_store_keeps_the_repositorys_contract() {
    repository_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn the_memory_store_keeps_the_schedules_contract() {
    schedule_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn the_memory_store_keeps_the_outbox_contract() {
    outbox_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn the_memory_store_keeps_the_audits_contract() {
    audit_suite().run(fresh).await.assert_passed();
}
