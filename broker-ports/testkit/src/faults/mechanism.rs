//! The one place where calls go wrong; what the ports add is delegation.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::plan::{Answered, Fault, Late};
use super::{Faults, Fired};
use broker_ports::{PortError, PortName};

/// A port that can be wrapped: implemented for `dyn` of each, and for nothing else.
pub trait FaultyPort: Send + Sync + 'static {
    /// Which port it is.
    #[doc(hidden)]
    const PORT: PortName;
    /// What can go wrong.
    #[doc(hidden)]
    const METHODS: &'static [Method];

    /// The same port, with faults.
    #[doc(hidden)]
    fn decorate(port: Arc<Self>, faults: Faults) -> Arc<Self>;
}

/// A method that can go wrong.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    pub(super) name: &'static str,
    pub(super) may_be_stale: bool,
    pub(super) may_change: bool,
}

/// A port in its wrapping.
pub(super) struct Faulty<P: ?Sized> {
    inner: Arc<P>,
    faults: Faults,
    /// The [`Past`] of each question, where a stale answer may be wanted.
    answers: Mutex<BTreeMap<Question, Box<dyn Any + Send>>>,
}

/// What was true, as far as anybody asked, and what was true before that.
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

    /// A call whose answer is not given again. `later` makes a request of it that outlives the caller, if it may
    /// change something.
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

    /// A call that changes nothing and whose answer can be given again.
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

    /// Performs a call, or lets it go wrong. What is lost of a call that changes nothing is only `Transient`: nothing
    /// can have happened.
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
        // Nothing is answered from memory here.
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
            Fault::Delay { by, late: Late::Lands } => {
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

    /// Remembers an answer; answers what was true before it.
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
    /// Counts a call, and says which it is and what should go wrong with it.
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

/// A request on its way to the other side. If its caller is dropped first it goes adrift.
struct UnderWay<'a, T: Send + 'static> {
    fired: Fired,
    faults: &'a Faults,
    request: Option<BoxFuture<'static, Answer<T>>>,
}

impl<T: Send + 'static> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let unheard = Box::pin(async move { drop(request.await) });
            self.faults.lock().adrift.push_back((self.fired, unheard));
        }
    }
}
