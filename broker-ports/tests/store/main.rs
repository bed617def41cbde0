//! The in-memory store keeps its contract, the contract notices every way to break it, and what many tasks
//! see of the store at once could have been seen one after the other.

mod broken;
#[path = "../common/coverage.rs"]
mod coverage;
#[path = "../common/half_way.rs"]
mod half_way;
mod linearizability;

use broker_ports::testing::store::{
    InMemory, audit_suite, outbox_suite, repository_suite, schedule_suite,
};

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
