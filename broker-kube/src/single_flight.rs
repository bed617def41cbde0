//! One answer for all who ask at the same time.
//!
//! Passes that run side by side ask the same: which cluster is this, does that namespace stand? An answer may be shared,
//! but only by those who had asked before the request for it was sent: nobody is told what was true before he asked. So
//! whoever comes while a request is under way waits for the next one, together with all the others who came meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turn;

/// A question that many ask.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    /// How many have asked so far.
    asked: AtomicU64,
    /// Whoever holds it asks the server. Dropping the one who asks leaves the question to the next.
    last: Turn<Option<Answered<T>>>,
}

#[derive(Debug)]
struct Answered<T> {
    /// As many had asked before the request was sent.
    covers: u64,
    answer: T,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), last: Turn::new(None) }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// The answer to a request that is sent after this was called, be it this one or another's.
    pub(crate) async fn ask(&self, request: impl Future<Output = T>) -> T {
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

/// The same question about many things, by name. Those that nobody asks about are not kept.
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
    /// As [`SingleFlight::ask`], of this name.
    pub(crate) async fn ask(&self, name: &str, request: impl Future<Output = T>) -> T {
        let shared = Arc::clone(self.lock().entry(name.to_owned()).or_default());
        let asking = Asking { of: self, name, shared: &shared };
        asking.shared.ask(request).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SingleFlight<T>>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who asks. The last one to go takes the question along.
struct Asking<'a, T: Clone> {
    of: &'a SingleFlightByName<T>,
    name: &'a str,
    shared: &'a Arc<SingleFlight<T>>,
}

impl<T: Clone> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        let mut named = self.of.lock();
        // One count is the map's and one is ours.
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

    /// A server that counts what it is asked, and answers with how often that was when it began.
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
    async fn an_answer_is_shared_by_those_who_asked_before_it_was_sent_for() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlight::default());
        let late = |after: u64| {
            let (server, shared) = (&server, &shared);
            async move {
                sleep(Duration::from_millis(after)).await;
                shared.ask(server.answer()).await
            }
        };
        // The second and the third come while the first is under way, the fourth when theirs is.
        assert_eq!(join4(late(0), late(3), late(6), late(13)).await, (1, 2, 2, 3));
        assert_eq!(late(0).await, 4, "nobody is told what was true before");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_gives_up_leaves_the_question_to_the_next() {
        let shared = SingleFlight::default();
        let gives_up = timeout(Duration::from_millis(5), shared.ask(pending::<u32>()));
        let next = async {
            sleep(Duration::from_millis(1)).await;
            shared.ask(async { 7 }).await
        };
        let (gave_up, answer) = join(gives_up, next).await;
        assert!(gave_up.is_err());
        assert_eq!(answer, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_about_is_not_kept() {
        let (server, shared) = (Server(Cell::new(0)), SingleFlightByName::default());
        let both = join(shared.ask("one", server.answer()), shared.ask("other", server.answer()));
        assert_eq!(both.await, (1, 2), "each name by itself");
        drop(timeout(Duration::from_millis(1), shared.ask("one", pending())).await);
        assert!(shared.lock().is_empty());
    }
}
