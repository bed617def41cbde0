//! The one place where calls go wrong; what the ports add is delegation.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::plan::{Answered, Fault, Late};
use super::{Faults, Fired};
use crate::error::{PortError, PortName};

/// A port that can be wrapped: implemented for `dyn` of each, and for nothing else.
pub trait FaultyPort: Send + Sync + 'static + sealed::Sealed {
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

pub(super) mod sealed {
    pub trait Sealed {}
}

/// A method that can go wrong.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    pub(super) name: &'static str,
    pub(super) may_be_stale: bool,
}

/// A port in its wrapping.
pub(super) struct Faulty<P: ?Sized> {
    inner: Arc<P>,
    faults: Faults,
    /// The last answer to each question, where a stale one may be wanted.
    answers: Mutex<BTreeMap<Question, Box<dyn Any + Send>>>,
}

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

    /// A call that may change something. `now` performs it for this caller, `later` makes a request of it
    /// that outlives the caller.
    pub(super) async fn write<T, F>(
        &self,
        method: Method,
        now: impl Fn() -> F + Send,
        later: impl FnOnce() -> BoxFuture<'static, Answer<T>> + Send,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        let Some(fired) = self.faults.next_call(P::PORT, method) else { return now().await };
        let lost = || Err(PortError::unknown(format!("fault: {fired}")));
        if fired.fault != Fault::StaleRead {
            self.faults.record(fired);
        }
        match fired.fault {
            Fault::BeforeEffect => Err(PortError::transient(format!("fault: {fired}"))),
            Fault::AfterEffect => {
                let _lost = now().await;
                lost()
            }
            Fault::Delay { by, late: Late::Never } => {
                tokio::time::sleep(by).await;
                lost()
            }
            Fault::Delay { by, late: Late::Lands } => {
                let under_way = UnderWay { fired, faults: &self.faults, request: Some(later()) };
                tokio::time::sleep(by).await;
                under_way.arrive().await
            }
            Fault::Duplicate { answered } => twice(answered, now).await,
            // Nothing that changes something is answered from memory.
            Fault::StaleRead => now().await,
        }
    }

    /// A call that changes nothing and whose answer can be given again.
    pub(super) async fn read<T, F>(
        &self,
        method: Method,
        question: impl FnOnce() -> String + Send,
        copy: fn(&T) -> T,
        now: impl Fn() -> F + Send,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        if !self.faults.0.plan.has_stale_reads() {
            return self.ask(method, now).await;
        }
        let key = (method.name, question());
        let fired = self.faults.next_call(P::PORT, method);
        let answer = match fired {
            Some(fired) if fired.fault == Fault::StaleRead => {
                if let Some(answer) = self.recall(&key, copy) {
                    self.faults.record(fired);
                    return Ok(answer);
                }
                now().await
            }
            Some(fired) => self.answer(fired, now).await,
            None => now().await,
        };
        if let Ok(answer) = &answer {
            self.remember(key, copy(answer));
        }
        answer
    }

    /// A call that changes nothing.
    pub(super) async fn ask<T, F>(&self, method: Method, now: impl Fn() -> F + Send) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        match self.faults.next_call(P::PORT, method) {
            Some(fired) => self.answer(fired, now).await,
            None => now().await,
        }
    }

    /// The same faults as with a write, but whatever is lost is only `Transient`: nothing can have happened.
    async fn answer<T, F>(&self, fired: Fired, now: impl Fn() -> F + Send) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send,
        T: Send + 'static,
    {
        let lost = || Err(PortError::transient(format!("fault: {fired}")));
        if fired.fault != Fault::StaleRead {
            self.faults.record(fired);
        }
        match fired.fault {
            Fault::BeforeEffect => lost(),
            Fault::AfterEffect => {
                let _lost = now().await;
                lost()
            }
            Fault::Delay { by, late } => {
                tokio::time::sleep(by).await;
                match late {
                    Late::Never => lost(),
                    Late::Lands => now().await,
                }
            }
            Fault::Duplicate { answered } => twice(answered, now).await,
            Fault::StaleRead => now().await,
        }
    }

    fn recall<T: 'static>(&self, key: &Question, copy: fn(&T) -> T) -> Option<T> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key)?.downcast_ref().map(copy)
    }

    fn remember<T: Send + 'static>(&self, key: Question, answer: T) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(key, Box::new(answer));
    }
}

async fn twice<T, F>(answered: Answered, now: impl Fn() -> F + Send) -> Answer<T>
where
    F: Future<Output = Answer<T>> + Send,
    T: Send,
{
    let first = now().await;
    let second = now().await;
    match answered {
        Answered::First => first,
        Answered::Second => second,
    }
}

impl Faults {
    /// Counts a call, and says what should go wrong with it.
    fn next_call(&self, port: PortName, method: Method) -> Option<Fired> {
        let mut state = self.lock();
        let calls = state.calls.entry((port, method.name)).or_default();
        *calls += 1;
        let nth = *calls;
        if state.healed {
            return None;
        }
        let fault = self.0.plan.decide(port, method, nth)?;
        Some(Fired { port, method: method.name, nth, fault })
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

impl<T: Send + 'static> UnderWay<'_, T> {
    async fn arrive(mut self) -> Answer<T> {
        self.request.take().expect("it arrives once").await
    }
}

impl<T: Send + 'static> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let unheard = Box::pin(async move { drop(request.await) });
            self.faults.lock().adrift.push_back((self.fired, unheard));
        }
    }
}
