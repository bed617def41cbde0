//! The rules of a proxy for requests.
//!
//! ```
//! # use broker_tests::proxy::Script;
//! # let script = Script::<()>::default();
//! // The third request never reaches the server.
//! script.request(3).before_forward().cut();
//! // The first commit happens, but the client gets no response.
//! script.first(|request| request.verb == "COMMIT").before_response().cut();
//! ```

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::wait::until;

/// One request that a proxy has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Counted from 1 over all connections of the proxy.
    pub number: usize,
    /// The HTTP method, or the first word of the SQL statement in capitals; `PREPARE` for a
    /// statement that is prepared but not executed.
    pub verb: String,
    /// Path and query, or the SQL.
    pub target: String,
}

/// The rules of one proxy, and a record of its requests. Clones share both. `A` is the type of a canned
/// response.
pub struct Script<A> {
    state: Arc<Mutex<State<A>>>,
}

struct State<A> {
    rules: Vec<Rule<A>>,
    requests: Vec<Request>,
}

struct Rule<A> {
    moment: InterceptPoint,
    matches: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
    uses: Uses,
    action: Action<A>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    Once,
    Always,
    Spent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InterceptPoint {
    /// The server has not received the request.
    BeforeForward,
    /// The server has executed the request; the client has no response.
    BeforeResponse,
}

#[derive(Clone)]
enum Action<A> {
    Cut,
    Hold { reached: watch::Sender<usize>, released: watch::Receiver<bool> },
    Kill(Pid),
    Run(Arc<dyn Fn() + Send + Sync>),
    Respond(A),
}

/// How the proxy continues.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision<A> {
    Continue,
    Cut,
    Respond(A),
}

impl<A: Clone + Send> Script<A> {
    /// A rule for the request of this number.
    pub fn request(&self, number: usize) -> RuleBuilder<'_, A> {
        self.when(Uses::Once, move |request| request.number == number)
    }

    /// A rule for the first request from now on that matches.
    pub fn first(
        &self,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> RuleBuilder<'_, A> {
        self.when(Uses::Once, matches)
    }

    /// A rule for one request from now on, counting those that match from 1.
    pub fn nth(
        &self,
        nth: usize,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> RuleBuilder<'_, A> {
        let numbers = Mutex::new(BTreeSet::new());
        // A request is evaluated more than once, so distinct numbers are counted.
        self.when(Uses::Once, move |request| {
            let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches(request) {
                return false;
            }
            numbers.insert(request.number);
            numbers.iter().nth(nth.saturating_sub(1)) == Some(&request.number)
        })
    }

    /// A rule for all requests that match.
    pub fn each(
        &self,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> RuleBuilder<'_, A> {
        self.when(Uses::Always, matches)
    }

    /// Removes all rules and keeps the recorded requests.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// All requests so far, including those that were cut.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    fn when(
        &self,
        uses: Uses,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> RuleBuilder<'_, A> {
        RuleBuilder { script: self, uses, matches: Arc::new(matches) }
    }

    /// Numbers and records a request.
    pub(super) fn receive(&self, verb: String, target: String) -> Request {
        let mut state = self.lock();
        let request = Request { number: state.requests.len() + 1, verb, target };
        state.requests.push(request.clone());
        request
    }

    /// Whether any rule applies to the request at that moment.
    pub(super) fn has_rule_for(&self, moment: InterceptPoint, request: &Request) -> bool {
        self.lock().rules.iter().any(|rule| rule.applies(moment, request))
    }

    /// Applies the matching rules in order until one of them ends the request.
    pub(super) async fn perform(&self, moment: InterceptPoint, request: &Request) -> Decision<A> {
        for action in self.take_actions(moment, request) {
            match action {
                Action::Cut => return Decision::Cut,
                Action::Hold { reached, mut released } => {
                    reached.send_modify(|count| *count += 1);
                    // An error means that the test dropped `HeldRequests`, which also releases.
                    let _ = released.wait_for(|released| *released).await;
                }
                Action::Kill(process) => {
                    kill(process).await;
                    return Decision::Cut;
                }
                Action::Run(run) => run(),
                Action::Respond(response) => return Decision::Respond(response),
            }
        }
        Decision::Continue
    }

    fn take_actions(&self, moment: InterceptPoint, request: &Request) -> Vec<Action<A>> {
        let mut state = self.lock();
        let rules = state.rules.iter_mut().filter(|rule| rule.applies(moment, request));
        rules
            .map(|rule| {
                if rule.uses == Uses::Once {
                    rule.uses = Uses::Spent;
                }
                rule.action.clone()
            })
            .collect()
    }
}

impl<A> Script<A> {
    fn lock(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Rule<A> {
    fn applies(&self, moment: InterceptPoint, request: &Request) -> bool {
        self.moment == moment && self.uses != Uses::Spent && (self.matches)(request)
    }
}

/// A rule whose requests are selected.
pub struct RuleBuilder<'a, A> {
    script: &'a Script<A>,
    uses: Uses,
    matches: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
}

impl<'a, A> RuleBuilder<'a, A> {
    /// Before the server receives the request.
    pub fn before_forward(self) -> TimedRuleBuilder<'a, A> {
        TimedRuleBuilder { when: self, moment: InterceptPoint::BeforeForward }
    }

    /// After the server has executed the request, before the client gets the response.
    pub fn before_response(self) -> TimedRuleBuilder<'a, A> {
        TimedRuleBuilder { when: self, moment: InterceptPoint::BeforeResponse }
    }
}

/// A rule whose requests and moment are selected.
pub struct TimedRuleBuilder<'a, A> {
    when: RuleBuilder<'a, A>,
    moment: InterceptPoint,
}

impl<A> TimedRuleBuilder<'_, A> {
    /// Closes the connection on both sides.
    pub fn cut(self) {
        self.add(Action::Cut);
    }

    /// Holds the request until the test releases it.
    pub fn hold(self) -> HeldRequests {
        let (reached, is_reached) = watch::channel(0);
        let (release, released) = watch::channel(false);
        self.add(Action::Hold { reached, released });
        HeldRequests { reached: is_reached, release }
    }

    /// Kills a process, usually the client, waits until it is dead, and closes the connection.
    ///
    /// # Panics
    ///
    /// When the number is not a process id.
    pub fn kill(self, process: u32) {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        self.add(Action::Kill(pid.expect("a process id is positive and fits 31 bits")));
    }

    /// Calls a function, which must not block, and continues.
    pub fn run(self, run: impl Fn() + Send + Sync + 'static) {
        self.add(Action::Run(Arc::new(run)));
    }

    /// Responds instead of the server. Before the forward, the server does not receive the request.
    pub fn respond(self, response: A) {
        self.add(Action::Respond(response));
    }

    fn add(self, action: Action<A>) {
        let Self { when: RuleBuilder { script, uses, matches }, moment } = self;
        script.lock().rules.push(Rule { moment, matches, uses, action });
    }
}

/// Held requests. Dropping it releases them.
#[derive(Debug)]
pub struct HeldRequests {
    reached: watch::Receiver<usize>,
    release: watch::Sender<bool>,
}

impl HeldRequests {
    /// Waits until a request is held.
    ///
    /// # Panics
    ///
    /// When the rule is removed first.
    pub async fn wait_until_held(&mut self) {
        let reached = self.reached.wait_for(|count| *count > 0).await;
        reached.expect("the rule that holds was removed");
    }

    /// Releases all held requests, and later ones too.
    pub fn release(self) {
        self.release.send_replace(true);
    }
}

async fn kill(process: Pid) {
    // It may have exited already.
    let _ = kill_process(process, Signal::KILL);
    let stat = format!("/proc/{}/stat", process.as_raw_pid());
    until("a killed process to be dead", || async {
        let alive = std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        (!alive).then_some(())
    })
    .await;
}

impl<A> Default for Script<A> {
    fn default() -> Self {
        let state = State { rules: Vec::new(), requests: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }
}

impl<A> Clone for Script<A> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<A> fmt::Debug for Script<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("Script")
            .field("rules", &state.rules.len())
            .field("seen", &state.requests)
            .finish()
    }
}

#[cfg(test)]
mod tests;
