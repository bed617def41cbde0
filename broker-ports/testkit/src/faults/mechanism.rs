//! Fault injection for one call. The ports only delegate to it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::plan::{DuplicateResponse, Fault, LateArrival};
use super::{Faults, InjectedFault};
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
    /// The [`ResponseHistory`] of each call, for stale reads.
    histories: Mutex<BTreeMap<CallKey, Box<dyn Any + Send>>>,
}

/// The latest response, and the different response before it.
type ResponseHistory<T> = (T, Option<T>);

/// The response of a port call.
type Response<T> = Result<T, PortError>;

/// A method and its arguments.
type CallKey = (&'static str, String);

impl<P: FaultyPort + ?Sized> Faulty<P> {
    pub(super) fn new(inner: Arc<P>, faults: Faults) -> Self {
        Self { inner, faults, histories: Mutex::default() }
    }

    pub(super) const fn inner(&self) -> &Arc<P> {
        &self.inner
    }

    /// A call whose response cannot be replayed. `detached` builds a request that outlives the caller, if the method
    /// may change state.
    pub(super) async fn call<T, F>(
        &self,
        method: Method,
        about: Option<String>,
        send: impl Fn() -> F + Send,
        detached: impl FnOnce() -> Option<BoxFuture<'static, Response<T>>> + Send,
    ) -> Response<T>
    where
        F: Future<Output = Response<T>> + Send,
        T: Send + 'static,
    {
        let (_, fired) = self.faults.count(P::PORT, method, about);
        self.perform(fired, method, send, detached).await
    }

    /// A read-only call whose response can be replayed.
    pub(super) async fn read<T, F>(
        &self,
        method: Method,
        about: Option<String>,
        arguments: impl FnOnce() -> String + Send,
        copy: fn(&T) -> T,
        send: impl Fn() -> F + Send,
    ) -> Response<T>
    where
        F: Future<Output = Response<T>> + Send,
        T: Debug + Send + 'static,
    {
        let (nth, fired) = self.faults.count(P::PORT, method, about);
        if !self.faults.0.plan.has_stale_reads() {
            return self.perform(fired, method, send, || None).await;
        }
        let key = (method.name, arguments());
        let current = self.perform(fired, method, send, || None).await?;
        let Some(stale) = self.remember(key, &current, copy) else { return Ok(current) };
        self.faults.lock().stale.insert((P::PORT, method.name, nth));
        match fired {
            Some(fired) if fired.fault == Fault::StaleRead => {
                self.faults.record(fired);
                Ok(stale)
            }
            Some(_) | None => Ok(current),
        }
    }

    /// Performs a call, with a fault if one is planned. A lost response of a read-only call is `Transient`,
    /// because the call cannot have had an effect.
    async fn perform<T, F>(
        &self,
        fired: Option<InjectedFault>,
        method: Method,
        send: impl Fn() -> F + Send,
        detached: impl FnOnce() -> Option<BoxFuture<'static, Response<T>>> + Send,
    ) -> Response<T>
    where
        F: Future<Output = Response<T>> + Send,
        T: Send + 'static,
    {
        // A stale read is injected by `read`, not here.
        let Some(fired) = fired.filter(|fired| fired.fault != Fault::StaleRead) else {
            return send().await;
        };
        self.faults.record(fired);
        let message = format!("fault: {fired}");
        let lost_response =
            if method.may_change { PortError::unknown } else { PortError::transient };
        match fired.fault {
            Fault::BeforeEffect => Err(PortError::transient(message)),
            Fault::AfterEffect => {
                let _lost = send().await;
                Err(lost_response(message))
            }
            Fault::Delay { by, late: LateArrival::Never } => {
                tokio::time::sleep(by).await;
                Err(lost_response(message))
            }
            Fault::Delay { by, late: LateArrival::Completes } => {
                let mut in_flight =
                    InFlight { fault: fired, faults: &self.faults, request: detached() };
                tokio::time::sleep(by).await;
                match in_flight.request.take() {
                    Some(request) => request.await,
                    None => send().await,
                }
            }
            Fault::Duplicate { response } => {
                let (first, second) = (send().await, send().await);
                match response {
                    DuplicateResponse::First => first,
                    DuplicateResponse::Second => second,
                }
            }
            Fault::StaleRead => send().await,
        }
    }

    /// Records a response and returns the different response before it.
    fn remember<T: Debug + Send + 'static>(
        &self,
        key: CallKey,
        current: &T,
        copy: fn(&T) -> T,
    ) -> Option<T> {
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        let history = histories.entry(key).or_insert_with(|| Box::new((copy(current), None::<T>)));
        let (latest, before) = history.downcast_mut::<ResponseHistory<T>>()?;
        if format!("{latest:?}") != format!("{current:?}") {
            *before = Some(std::mem::replace(latest, copy(current)));
        }
        before.as_ref().map(copy)
    }
}

impl Faults {
    /// Counts a call and returns its number and its planned fault.
    fn count(
        &self,
        port: PortName,
        method: Method,
        about: Option<String>,
    ) -> (u64, Option<InjectedFault>) {
        let mut state = self.lock();
        let calls = state.calls.entry((port, method.name)).or_default();
        *calls += 1;
        let nth = *calls;
        if let Some(subject) = about.filter(|_| self.0.plan.records_responses()) {
            state.subjects.insert((port, method.name, nth), subject);
        }
        let fault = if state.healed { None } else { self.0.plan.decide(port, method, nth) };
        (nth, fault.map(|fault| InjectedFault { port, method: method.name, nth, fault }))
    }

    fn record(&self, fired: InjectedFault) {
        self.lock().log.push(fired);
    }
}

/// An in-flight request. If the caller drops the call, the request becomes pending.
struct InFlight<'a, T: Send + 'static> {
    fault: InjectedFault,
    faults: &'a Faults,
    request: Option<BoxFuture<'static, Response<T>>>,
}

impl<T: Send + 'static> Drop for InFlight<'_, T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let discarding = Box::pin(async move { drop(request.await) });
            self.faults.lock().pending.push_back((self.fault, discarding));
        }
    }
}
