//! The callers of a story: they declare and delete through a service with faults.
//!
//! A caller without an answer retries under the same request id, a few times in a row, and once
//! more after the faults stop. Until then only the store knows the outcome: a declaration whose
//! answer was lost is processed like any other.

use std::pin::pin;

use broker_app::{Error, Service};
use broker_domain::{
    Declaration, OnFailure, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_memory::Behaviour;
use broker_ports::{ListQuery, Repository};
use broker_testkit::builders::rows;
use broker_tests::world::{NODE, STANDALONE, World, declaration, decorated_service, operator};
use tokio::time::timeout;

use super::{A_BIT, Stage};
use crate::simulation::Kind;

/// How often a caller retries in a row.
const MOST_ASKED: u8 = 3;

/// A declared resource, and its caller's goal.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) id: ProvisionedResourceId,
    pub(crate) kind: Kind,
    pub(crate) deleted: bool,
}

pub(super) struct Callers {
    service: Service,
    orders: Vec<Order>,
}

struct Order {
    wanted: Declaration,
    kind: Kind,
    /// The id in the answer.
    id: Option<ProvisionedResourceId>,
    deletion: Deletion,
    /// Its Composition will fail and is not yet set up to do so.
    to_be_doomed: bool,
}

/// The state of a deletion, as its caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    Unwanted,
    Wanted,
    Accepted,
}

impl Callers {
    pub(super) fn of(world: &World) -> Self {
        let faults = world.faults.clone();
        let service =
            world.service_rewired(|ports| *ports = decorated_service(ports, &faults), |_| {});
        Self { service, orders: Vec::new() }
    }

    /// Adds a goal; returns its number.
    pub(super) fn want(&mut self, kind: Kind) -> usize {
        let number = self.orders.len();
        let wanted = match kind {
            Kind::Node | Kind::Doomed => declaration(NODE),
            Kind::Standalone => declaration(STANDALONE),
            Kind::RolledBack => declaration(NODE).on_failure(OnFailure::Rollback),
        };
        let name = RequestId::new(format!("order-{number}")).unwrap();
        self.orders.push(Order {
            wanted: wanted.with_request_id(name),
            kind,
            id: None,
            deletion: Deletion::Unwanted,
            to_be_doomed: matches!(kind, Kind::Doomed | Kind::RolledBack),
        });
        number
    }

    /// The caller wants the deletion from now on; returns whether there is such a caller.
    pub(super) fn want_no_more(&mut self, which: usize) -> bool {
        let Some(order) = self.orders.get_mut(which) else { return false };
        order.deletion = Deletion::Wanted;
        true
    }

    pub(super) fn id(&self, which: usize) -> Option<ProvisionedResourceId> {
        self.orders.get(which)?.id
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Option<ProvisionedResourceId>> {
        self.orders.iter().map(|order| order.id)
    }

    /// Every resource whose id its caller knows.
    pub(super) fn declared(&self) -> Vec<Declared> {
        let declared = self.orders.iter().filter_map(|order| {
            let deleted = order.deletion != Deletion::Unwanted;
            Some(Declared { id: order.id?, kind: order.kind, deleted })
        });
        declared.collect()
    }

    /// The caller's next request, until it has all answers.
    fn question(
        &self,
        which: usize,
    ) -> Option<impl Future<Output = Result<ProvisionedResource, Error>> + use<>> {
        let Order { wanted, id, deletion, .. } = &self.orders[which];
        let waits = id.is_none() || *deletion == Deletion::Wanted;
        let (id, wanted, service) = (*id, wanted.clone(), self.service.clone());
        waits.then_some(async move {
            match id {
                None => service.provision(&operator(), &wanted).await,
                Some(id) => service.deprovision(&operator(), id).await,
            }
        })
    }

    fn record(&mut self, which: usize, told: &ProvisionedResource) {
        let order = &mut self.orders[which];
        match order.id {
            None => order.id = Some(told.id()),
            Some(_) => order.deletion = Deletion::Accepted,
        }
    }

    /// Sets up the failure of a Composition before Crossplane's next round, even if the caller does
    /// not know the id yet.
    pub(super) async fn doom(&mut self, world: &World) {
        for order in self.orders.iter_mut().filter(|order| order.to_be_doomed) {
            let Some(name) = &order.wanted.request_id else { continue };
            let stored = world.store.get_by_request(order.wanted.project_id, name).await.unwrap();
            if let Some(stored) = stored {
                let fails = Behaviour::failing_after(1, "out of quota");
                world.cluster.behave_for(stored.resource.id(), fails);
                order.to_be_doomed = false;
            }
        }
    }

    pub(super) async fn no_duplicates(&self, world: &World) -> Result<(), String> {
        let page = world.store.list(&ListQuery::new(rows(100))).await;
        let stored = page.map_err(|error| error.to_string())?.resources.len();
        match self.orders.len() {
            wanted if wanted == stored => Ok(()),
            wanted => Err(format!("S13: {stored} resources came of {wanted} requests")),
        }
    }
}

impl Stage {
    /// A caller retries until it is answered or has reached its limit.
    pub(super) async fn insist(&mut self, which: usize) -> Result<(), String> {
        for _ in 0..MOST_ASKED {
            match self.ask(which).await {
                Ok(()) => return Ok(()),
                Err(Error::Port { .. }) => {
                    self.tell(&format!("  the caller of #{which} gets no answer"));
                }
                // A retry is identical, so a refusal is an error.
                Err(error) => return Err(format!("S13: #{which} is refused: {error}")),
            }
            self.let_pass(A_BIT).await;
        }
        Ok(())
    }

    /// After the faults: every unanswered caller retries once more.
    pub(super) async fn retry_unanswered(&mut self) -> Result<(), String> {
        for which in 0..self.callers.orders.len() {
            let asked = self.ask(which).await;
            asked.map_err(|error| format!("L1: the caller of #{which} gets no answer: {error}"))?;
        }
        Ok(())
    }

    /// One attempt at each unanswered request. A caller finds a lost id only by repeating the
    /// request, which is idempotent.
    async fn ask(&mut self, which: usize) -> Result<(), Error> {
        while let Some(question) = self.callers.question(which) {
            let told = self.waiting_for(question).await?;
            self.callers.record(which, &told);
        }
        Ok(())
    }

    /// Time passes for everything while a caller waits.
    async fn waiting_for<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        loop {
            match timeout(A_BIT, answer.as_mut()).await {
                Ok(answer) => return answer,
                Err(_elapsed) => self.outside(A_BIT).await,
            }
        }
    }
}
