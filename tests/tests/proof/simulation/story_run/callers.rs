//! The callers of a story: they declare and delete through a service with faults.
//!
//! A caller without a response retries under the same request id, a few times in a row, and once
//! more after the faults stop. The broker processes a declaration whose response was lost like any
//! other.

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

use super::{StoryRun, TIME_STEP};
use crate::simulation::Kind;

/// How often a caller retries in a row.
const MAX_ATTEMPTS: u8 = 3;

/// A declared resource, and the state that its caller wants.
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
    declaration: Declaration,
    kind: Kind,
    /// The id in the response.
    id: Option<ProvisionedResourceId>,
    deletion: Deletion,
    /// The Composition must fail, and the simulated cluster does not know it yet.
    failure_pending: bool,
}

/// The state of a deletion, as its caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    Unwanted,
    Wanted,
    Accepted,
}

impl Callers {
    pub(super) fn new(world: &World) -> Self {
        let faults = world.faults.clone();
        let service =
            world.service_rewired(|ports| *ports = decorated_service(ports, &faults), |_| {});
        Self { service, orders: Vec::new() }
    }

    /// Adds an order; returns its number.
    pub(super) fn add_order(&mut self, kind: Kind) -> usize {
        let number = self.orders.len();
        let order = match kind {
            Kind::Node | Kind::Failing => declaration(NODE),
            Kind::Standalone => declaration(STANDALONE),
            Kind::RolledBack => declaration(NODE).on_failure(OnFailure::Rollback),
        };
        let name = RequestId::new(format!("order-{number}")).unwrap();
        self.orders.push(Order {
            declaration: order.with_request_id(name),
            kind,
            id: None,
            deletion: Deletion::Unwanted,
            failure_pending: matches!(kind, Kind::Failing | Kind::RolledBack),
        });
        number
    }

    /// Makes a caller want the deletion; returns whether the caller exists.
    pub(super) fn order_deletion(&mut self, number: usize) -> bool {
        let Some(order) = self.orders.get_mut(number) else { return false };
        order.deletion = Deletion::Wanted;
        true
    }

    pub(super) fn id(&self, number: usize) -> Option<ProvisionedResourceId> {
        self.orders.get(number)?.id
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

    /// The caller's next request; `None` if it has every response.
    fn next_request(
        &self,
        number: usize,
    ) -> Option<impl Future<Output = Result<ProvisionedResource, Error>> + use<>> {
        let Order { declaration, id, deletion, .. } = &self.orders[number];
        let waits = id.is_none() || *deletion == Deletion::Wanted;
        let (id, declaration, service) = (*id, declaration.clone(), self.service.clone());
        waits.then_some(async move {
            match id {
                None => service.provision(&operator(), &declaration).await,
                Some(id) => service.deprovision(&operator(), id).await,
            }
        })
    }

    fn record(&mut self, number: usize, response: &ProvisionedResource) {
        let order = &mut self.orders[number];
        match order.id {
            None => order.id = Some(response.id()),
            Some(_) => order.deletion = Deletion::Accepted,
        }
    }

    /// Sets up the failure of a Composition before Crossplane's next round, even if the caller does
    /// not know the id yet.
    pub(super) async fn fail_compositions(&mut self, world: &World) {
        for order in self.orders.iter_mut().filter(|order| order.failure_pending) {
            let Some(name) = &order.declaration.request_id else { continue };
            let stored =
                world.store.get_by_request(order.declaration.project_id, name).await.unwrap();
            if let Some(stored) = stored {
                let fails = Behaviour::failing_after(1, "out of quota");
                world.cluster.behave_for(stored.resource.id(), fails);
                order.failure_pending = false;
            }
        }
    }

    pub(super) async fn no_duplicates(&self, world: &World) -> Result<(), String> {
        let page = world.store.list(&ListQuery::new(rows(100))).await;
        let stored = page.map_err(|error| error.to_string())?.resources.len();
        match self.orders.len() {
            orders if orders == stored => Ok(()),
            orders => Err(format!("S13: {stored} resources exist for {orders} requests")),
        }
    }
}

impl StoryRun {
    /// A caller retries until it gets a response or reaches its limit.
    pub(super) async fn request_with_retries(&mut self, number: usize) -> Result<(), String> {
        for _ in 0..MAX_ATTEMPTS {
            match self.send_requests(number).await {
                Ok(()) => return Ok(()),
                Err(Error::Port { .. }) => {
                    self.trace_line(&format!("  the caller of #{number} gets no response"));
                }
                // A retry is identical, so a refusal is an error.
                Err(error) => return Err(format!("S13: #{number} is refused: {error}")),
            }
            self.let_time_pass(TIME_STEP).await;
        }
        Ok(())
    }

    /// After the faults, every caller without a response retries once more.
    pub(super) async fn retry_without_response(&mut self) -> Result<(), String> {
        for number in 0..self.callers.orders.len() {
            let result = self.send_requests(number).await;
            result.map_err(|error| {
                format!("L1: the caller of #{number} gets no response: {error}")
            })?;
        }
        Ok(())
    }

    /// Sends each request without a response once. A caller learns a lost id only from a repeated
    /// request.
    async fn send_requests(&mut self, number: usize) -> Result<(), Error> {
        while let Some(request) = self.callers.next_request(number) {
            let response = self.advance_until_done(request).await?;
            self.callers.record(number, &response);
        }
        Ok(())
    }

    /// Time passes for everything while a caller waits.
    async fn advance_until_done<T>(&mut self, response: impl Future<Output = T>) -> T {
        let mut response = pin!(response);
        loop {
            match timeout(TIME_STEP, response.as_mut()).await {
                Ok(response) => return response,
                Err(_elapsed) => self.advance_environment(TIME_STEP).await,
            }
        }
    }
}
