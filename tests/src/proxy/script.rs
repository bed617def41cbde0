//! The rules of a proxy: what happens to which request.
//!
//! ```
//! # use broker_tests::proxy::Script;
//! # let script = Script::<()>::default();
//! // The third request never reaches the server.
//! script.request(3).before_forward().cut();
//! // The first commit happens, but the client gets no answer.
//! script.first(|request| request.verb == "COMMIT").before_answer().cut();
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
/// answer.
pub struct Script<A> {
    state: Arc<Mutex<State<A>>>,
}

struct State<A> {
    rules: Vec<Rule<A>>,
    seen: Vec<Request>,
}

struct Rule<A> {
    moment: Moment,
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
pub(super) enum Moment {
    /// The server has not received the request.
    BeforeForward,
    /// The server has executed the request; the client has no answer.
    BeforeAnswer,
}

#[derive(Clone)]
enum Action<A> {
    Cut,
    Hold { reached: watch::Sender<usize>, released: watch::Receiver<bool> },
    Kill(Pid),
    Run(Arc<dyn Fn() + Send + Sync>),
    Answer(A),
}

/// What the proxy does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<A> {
    Continue,
    Cut,
    Answer(A),
}

impl<A: Clone + Send> Script<A> {
    /// A rule for the request of this number.
    pub fn request(&self, number: usize) -> When<'_, A> {
        self.when(Uses::Once, move |request| request.number == number)
    }

    /// A rule for the first request from now on that matches.
    pub fn first(&self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> When<'_, A> {
        self.when(Uses::Once, matches)
    }

    /// A rule for one request from now on, counting those that match from 1.
    pub fn nth(
        &self,
        nth: usize,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> When<'_, A> {
        let met = Mutex::new(BTreeSet::new());
        // A request is evaluated more than once, so its number counts.
        self.when(Uses::Once, move |request| {
            let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches(request) {
                return false;
            }
            met.insert(request.number);
            met.iter().nth(nth.saturating_sub(1)) == Some(&request.number)
        })
    }

    /// A rule for all requests that match.
    pub fn each(&self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> When<'_, A> {
        self.when(Uses::Always, matches)
    }

    /// Forgets all rules, but not what was seen.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// All requests so far, including those that were cut.
    pub fn seen(&self) -> Vec<Request> {
        self.lock().seen.clone()
    }

    fn when(
        &self,
        uses: Uses,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> When<'_, A> {
        When { script: self, uses, matches: Arc::new(matches) }
    }

    /// Numbers and records a request.
    pub(super) fn receive(&self, verb: String, target: String) -> Request {
        let mut state = self.lock();
        let request = Request { number: state.seen.len() + 1, verb, target };
        state.seen.push(request.clone());
        request
    }

    /// Whether any rule applies to the request at that moment.
    pub(super) fn concerns(&self, moment: Moment, request: &Request) -> bool {
        self.lock().rules.iter().any(|rule| rule.applies(moment, request))
    }

    /// Applies the matching rules in order until one of them ends the request.
    pub(super) async fn perform(&self, moment: Moment, request: &Request) -> Verdict<A> {
        for action in self.take_actions(moment, request) {
            match action {
                Action::Cut => return Verdict::Cut,
                Action::Hold { reached, mut released } => {
                    reached.send_modify(|count| *count += 1);
                    // An error means that the test dropped its end, which also releases.
                    let _ = released.wait_for(|released| *released).await;
                }
                Action::Kill(process) => {
                    kill(process).await;
                    return Verdict::Cut;
                }
                Action::Run(run) => run(),
                Action::Answer(answer) => return Verdict::Answer(answer),
            }
        }
        Verdict::Continue
    }

    fn take_actions(&self, moment: Moment, request: &Request) -> Vec<Action<A>> {
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
    fn applies(&self, moment: Moment, request: &Request) -> bool {
        self.moment == moment && self.uses != Uses::Spent && (self.matches)(request)
    }
}

/// A rule with its requests, without a moment.
pub struct When<'a, A> {
    script: &'a Script<A>,
    uses: Uses,
    matches: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
}

impl<'a, A> When<'a, A> {
    /// Before the server receives the request.
    pub fn before_forward(self) -> At<'a, A> {
        At { when: self, moment: Moment::BeforeForward }
    }

    /// After the server has executed the request, before the client gets the answer.
    pub fn before_answer(self) -> At<'a, A> {
        At { when: self, moment: Moment::BeforeAnswer }
    }
}

/// A rule with its requests and the moment, without an action.
pub struct At<'a, A> {
    when: When<'a, A>,
    moment: Moment,
}

impl<A> At<'_, A> {
    /// Closes the connection on both sides.
    pub fn cut(self) {
        self.add(Action::Cut);
    }

    /// Holds the request until the test releases it.
    pub fn hold(self) -> Held {
        let (reached, is_reached) = watch::channel(0);
        let (release, released) = watch::channel(false);
        self.add(Action::Hold { reached, released });
        Held { reached: is_reached, release }
    }

    /// Kills a process, waits until it is dead, and closes the connection. Meant for the client: killed
    /// before the forward, it has changed nothing; killed before the answer, it never learns the result.
    ///
    /// # Panics
    ///
    /// When this cannot be a process id.
    pub fn kill(self, process: u32) {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        self.add(Action::Kill(pid.expect("a process id is positive and fits 31 bits")));
    }

    /// Calls a function, which must not block, and goes on.
    pub fn run(self, run: impl Fn() + Send + Sync + 'static) {
        self.add(Action::Run(Arc::new(run)));
    }

    /// Answers in the server's stead. Before the forward, the server does not receive the request.
    pub fn answer(self, answer: A) {
        self.add(Action::Answer(answer));
    }

    fn add(self, action: Action<A>) {
        let Self { when: When { script, uses, matches }, moment } = self;
        script.lock().rules.push(Rule { moment, matches, uses, action });
    }
}

/// Held requests. Dropping it releases them.
#[derive(Debug)]
pub struct Held {
    reached: watch::Receiver<usize>,
    release: watch::Sender<bool>,
}

impl Held {
    /// Waits until a request is held.
    ///
    /// # Panics
    ///
    /// When the rule was removed before.
    pub async fn reached(&mut self) {
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
        let state = State { rules: Vec::new(), seen: Vec::new() };
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
            .field("seen", &state.seen)
            .finish()
    }
}

#[cfg(test)]
mod tests;
