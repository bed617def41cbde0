//! Single-flight: concurrent callers with the same question share one request.
//!
//! Concurrent passes ask the same questions, such as the cluster identity or the state of a namespace. A caller only
//! receives the result of a request that was sent after it called. Callers that arrive during a request share the
//! next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turn;

/// One shared question.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    asked: AtomicU64,
    /// The lock holder sends the request. If its future is dropped, the next caller sends.
    last: Turn<Option<Answered<T>>>,
}

#[derive(Debug)]
struct Answered<T> {
    /// The last call that came before the request was sent.
    covers: u64,
    answer: T,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), last: Turn::new(None) }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// The result of a request that is sent after this call, by this caller or another.
    pub(crate) async fn get(&self, request: impl Future<Output = T>) -> T {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let Some(known) = last.as_ref().filter(|known| known.covers >= number) {
            return known.answer.clone();
        }
        let covers = self.asked.load(Ordering::SeqCst);
        let answer = request.await;
        *last = Some(Answered { covers, answer: answer.clone() });
        answer
    }
}

/// Single-flight by name. Names without callers are removed.
#[derive(Debug)]
pub(crate) struct SingleFlightByName<T> {
    named: Mutex<BTreeMap<String, Arc<SingleFlight<T>>>>,
}

impl<T> Default for SingleFlightByName<T> {
    fn default() -> Self {
        Self { named: Mutex::default() }
    }
}

impl<T: Clone> SingleFlightByName<T> {
    pub(crate) async fn get(&self, name: &str, request: impl Future<Output = T>) -> T {
        let shared = Arc::clone(self.lock().entry(name.to_owned()).or_default());
        let caller = Caller { of: self, name, shared: &shared };
        caller.shared.get(request).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SingleFlight<T>>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting caller. The last one removes the name.
struct Caller<'a, T: Clone> {
    of: &'a SingleFlightByName<T>,
    name: &'a str,
    shared: &'a Arc<SingleFlight<T>>,
}

impl<T: Clone> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        let mut named = self.of.lock();
        // The map and this caller hold one count each.
        if Arc::strong_count(self.shared) <= 2 {
            named.remove(self.name);
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

    /// Counts its requests. Each answer is the count at the start of its request.
    struct Server(Cell<u32>);

    impl Server {
        async fn answer(&self) -> u32 {
            self.0.set(self.0.get() + 1);
            let answer = self.0.get();
            sleep(Duration::from_millis(10)).await;
            answer
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answer_is_shared_by_earlier_callers_only() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlight::default());
        let late = |after: u64| {
            let (server, shared) = (&server, &shared);
            async move {
                sleep(Duration::from_millis(after)).await;
                shared.get(server.answer()).await
            }
        };
        // Calls two and three arrive during the first request, call four during the second.
        assert_eq!(join4(late(0), late(3), late(6), late(13)).await, (1, 2, 2, 3));
        assert_eq!(late(0).await, 4, "an earlier answer is not reused");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_caller_leaves_the_request_to_the_next() {
        let shared = SingleFlight::default();
        let cancelled = timeout(Duration::from_millis(5), shared.get(pending::<u32>()));
        let next = async {
            sleep(Duration::from_millis(1)).await;
            shared.get(async { 7 }).await
        };
        let (timed_out, answer) = join(cancelled, next).await;
        assert!(timed_out.is_err());
        assert_eq!(answer, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_names_are_removed() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlightByName::default());
        let both = join(shared.get("one", server.answer()), shared.get("other", server.answer()));
        assert_eq!(both.await, (1, 2), "each name has its own request");
        drop(timeout(Duration::from_millis(1), shared.get("one", pending())).await);
        assert!(shared.lock().is_empty());
    }
}
