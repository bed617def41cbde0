//! Fault injection for one call. The ports only delegate to it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::plan::{Answered, Fault, Late};
use super::{Faults, Fired};
use broker_ports::{PortError, PortName};

/// A port that can be wrapped: implemented for `dyn` of each port only.
pub trait FaultyPort: Send + Sync + 'static {
    /// The port's name.
    #[doc(hidden)]
    const PORT: PortName;
    /// The methods that can fail.
    #[doc(hidden)]
    const METHODS: &'static [Method];

    /// Wraps the port.
    #[doc(hidden)]
    fn decorate(port: Arc<Self>, faults: Faults) -> Arc<Self>;
}

/// A method that can fail.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    pub(super) name: &'static str,
    pub(super) may_be_stale: bool,
    pub(super) may_change: bool,
}

/// A wrapped port.
pub(super) struct Faulty<P: ?Sized> {
    inner: Arc<P>,
    faults: Faults,
    /// The [`Past`] of each question, for stale reads.
    answers: Mutex<BTreeMap<Question, Box<dyn Any + Send>>>,
}

/// The latest answer, and the one before it.
type Past<T> = (T, Option<T>);

type Answer<T> = Result<T, PortError>;

/// A method and its arguments.
type Question = (&'static str, String);

impl<P: FaultyPort + ?Sized> Faulty<P> {
    pub(super) fn new(inner: Arc<P>, faults: Faults) -> Self {
        Self { inner, faults, answers: Mutex::default() }
    }

    pub(super) const fn inner(&self) -> &Arc<P> {
        &self.inner
    }

    /// A call whose answer cannot be replayed. `later` builds a request that outlives the caller, if it may change
    /// state.
    pub(super) async fn call<T, F>(
        &self,
        method: Method,
        about: Option<String>,
        now: impl Fn() -> F + Send,
        later: impl FnOnce() -> Option<BoxFuture<'static, Answer<T>>> + Send,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        let (_, fired) = self.faults.count(P::PORT, method, about);
        self.perform(fired, method, now, later).await
    }

    /// A read-only call whose answer can be replayed.
    pub(super) async fn read<T, F>(
        &self,
        method: Method,
        about: Option<String>,
        question: impl FnOnce() -> String + Send,
        copy: fn(&T) -> T,
        now: impl Fn() -> F + Send,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Debug + Send + 'static,
    {
        let (nth, fired) = self.faults.count(P::PORT, method, about);
        if !self.faults.0.plan.has_stale_reads() {
            return self.perform(fired, method, now, || None).await;
        }
        let key = (method.name, question());
        let truth = self.perform(fired, method, now, || None).await?;
        let Some(stale) = self.remember(key, &truth, copy) else { return Ok(truth) };
        self.faults.lock().stale.insert((P::PORT, method.name, nth));
        match fired {
            Some(fired) if fired.fault == Fault::StaleRead => {
                self.faults.record(fired);
                Ok(stale)
            }
            Some(_) | None => Ok(truth),
        }
    }

    /// Performs a call, with a fault if one is planned. A lost answer of a read-only call is `Transient`, because
    /// nothing can have happened.
    async fn perform<T, F>(
        &self,
        fired: Option<Fired>,
        method: Method,
        now: impl Fn() -> F + Send,
        later: impl FnOnce() -> Option<BoxFuture<'static, Answer<T>>> + Send,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        // This call never replays an answer.
        let Some(fired) = fired.filter(|fired| fired.fault != Fault::StaleRead) else {
            return now().await;
        };
        self.faults.record(fired);
        let message = format!("fault: {fired}");
        let lost = if method.may_change { PortError::unknown } else { PortError::transient };
        match fired.fault {
            Fault::BeforeEffect => Err(PortError::transient(message)),
            Fault::AfterEffect => {
                let _lost = now().await;
                Err(lost(message))
            }
            Fault::Delay { by, late: Late::Never } => {
                tokio::time::sleep(by).await;
                Err(lost(message))
            }
            Fault::Delay { by, late: Late::Completes } => {
                let mut under_way = UnderWay { fired, faults: &self.faults, request: later() };
                tokio::time::sleep(by).await;
                match under_way.request.take() {
                    Some(request) => request.await,
                    None => now().await,
                }
            }
            Fault::Duplicate { answered } => {
                let (first, second) = (now().await, now().await);
                match answered {
                    Answered::First => first,
                    Answered::Second => second,
                }
            }
            Fault::StaleRead => now().await,
        }
    }

    /// Records an answer and returns the previous one.
    fn remember<T: Debug + Send + 'static>(
        &self,
        key: Question,
        truth: &T,
        copy: fn(&T) -> T,
    ) -> Option<T> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let past = answers.entry(key).or_insert_with(|| Box::new((copy(truth), None::<T>)));
        let (latest, before) = past.downcast_mut::<Past<T>>()?;
        if format!("{latest:?}") != format!("{truth:?}") {
            *before = Some(std::mem::replace(latest, copy(truth)));
        }
        before.as_ref().map(copy)
    }
}

impl Faults {
    /// Counts a call and returns its number and its planned fault.
    fn count(&self, port: PortName, method: Method, about: Option<String>) -> (u64, Option<Fired>) {
        let mut state = self.lock();
        let calls = state.calls.entry((port, method.name)).or_default();
        *calls += 1;
        let nth = *calls;
        if let Some(about) = about.filter(|_| self.0.plan.remembers()) {
            state.about.insert((port, method.name, nth), about);
        }
        let fault = if state.healed { None } else { self.0.plan.decide(port, method, nth) };
        (nth, fault.map(|fault| Fired { port, method: method.name, nth, fault }))
    }

    fn record(&self, fired: Fired) {
        self.lock().log.push(fired);
    }
}

/// An in-flight request. If its caller drops it, it goes pending.
struct UnderWay<'a, T: Send + 'static> {
    fired: Fired,
    faults: &'a Faults,
    request: Option<BoxFuture<'static, Answer<T>>>,
}

impl<T: Send + 'static> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let unheard = Box::pin(async move { drop(request.await) });
            self.faults.lock().pending.push_back((self.fired, unheard));
        }
    }
}
