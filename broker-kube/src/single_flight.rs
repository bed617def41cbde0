//! Single-flight: concurrent callers share one request.
//!
//! Concurrent passes need the same facts, such as the cluster identity or the state of a namespace. A caller only
//! receives the result of a request that was sent after it called. Callers that arrive during a request share the
//! next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

/// Shares one kind of request between callers.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    calls: AtomicU64,
    /// The lock holder sends the request. If its future is dropped, the next caller sends.
    latest: AsyncMutex<Option<SharedResult<T>>>,
}

#[derive(Debug)]
struct SharedResult<T> {
    /// The number of the last call before the request was sent.
    last_call: u64,
    result: T,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { calls: AtomicU64::new(0), latest: AsyncMutex::new(None) }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// The result of a request that is sent after this call, by this caller or another.
    pub(crate) async fn get(&self, request: impl Future<Output = T>) -> T {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut latest = self.latest.lock().await;
        if let Some(known) = latest.as_ref().filter(|known| known.last_call >= call) {
            return known.result.clone();
        }
        let last_call = self.calls.load(Ordering::SeqCst);
        let result = request.await;
        *latest = Some(SharedResult { last_call, result: result.clone() });
        result
    }
}

/// Single-flight by name. A name without callers is removed.
#[derive(Debug)]
pub(crate) struct SingleFlightByName<T> {
    flights: Mutex<BTreeMap<String, Arc<SingleFlight<T>>>>,
}

impl<T> Default for SingleFlightByName<T> {
    fn default() -> Self {
        Self { flights: Mutex::default() }
    }
}

impl<T: Clone> SingleFlightByName<T> {
    pub(crate) async fn get(&self, name: &str, request: impl Future<Output = T>) -> T {
        let flight = Arc::clone(self.lock().entry(name.to_owned()).or_default());
        let caller = Caller { flights: self, name, flight: &flight };
        caller.flight.get(request).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SingleFlight<T>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting caller. The last caller of a name removes it.
struct Caller<'a, T: Clone> {
    flights: &'a SingleFlightByName<T>,
    name: &'a str,
    flight: &'a Arc<SingleFlight<T>>,
}

impl<T: Clone> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // The map and this caller hold one count each.
        if Arc::strong_count(self.flight) <= 2 {
            flights.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::time::Duration;

    use futures_util::future::{join, join4};
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Counts its requests. Each response is the count at the start of its request.
    struct Server(Cell<u32>);

    impl Server {
        async fn respond(&self) -> u32 {
            self.0.set(self.0.get() + 1);
            let count = self.0.get();
            sleep(Duration::from_millis(10)).await;
            count
        }
    }

    #[tokio::test(start_paused = true)]
    async fn result_is_shared_by_earlier_callers_only() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlight::default());
        let call_after = |after: u64| {
            let (server, shared) = (&server, &shared);
            async move {
                sleep(Duration::from_millis(after)).await;
                shared.get(server.respond()).await
            }
        };
        // Calls two and three arrive during the first request, call four during the second.
        assert_eq!(
            join4(call_after(0), call_after(3), call_after(6), call_after(13)).await,
            (1, 2, 2, 3)
        );
        assert_eq!(call_after(0).await, 4, "an earlier result is not reused");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_caller_leaves_the_request_to_the_next() {
        let shared = SingleFlight::default();
        let cancelled = timeout(Duration::from_millis(5), shared.get(pending::<u32>()));
        let next = async {
            sleep(Duration::from_millis(1)).await;
            shared.get(async { 7 }).await
        };
        let (timed_out, result) = join(cancelled, next).await;
        assert!(timed_out.is_err());
        assert_eq!(result, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_names_are_removed() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlightByName::default());
        let both = join(shared.get("one", server.respond()), shared.get("other", server.respond()));
        assert_eq!(both.await, (1, 2), "each name has its own request");
        drop(timeout(Duration::from_millis(1), shared.get("one", pending())).await);
        assert!(shared.lock().is_empty());
    }
}
