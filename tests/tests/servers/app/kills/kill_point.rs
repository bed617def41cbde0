//! When a replica is killed: at which request to which server, before or after its execution.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use broker_domain::XrName;
use broker_tests::proxy::{Request, Script};

use crate::servers::app::host::Host;
use crate::servers::app::server_proxies::ServerProxies;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Postgres,
    Kubernetes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    BeforeForward,
    BeforeResponse,
}

#[derive(Debug, Clone)]
pub(super) struct KillPoint {
    server: Server,
    moment: Moment,
    kind: Arc<str>,
    /// Counted from 1 among requests of its kind.
    nth: usize,
}

impl fmt::Display for KillPoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, moment, kind, nth } = self;
        let kind: String = kind.chars().take(120).collect();
        write!(formatter, "{server:?} {moment:?}, {nth} of {kind}")
    }
}

impl KillPoint {
    /// Starts a replica that is killed once it makes this request.
    pub(super) fn start_host(&self, proxies: &ServerProxies) -> Host {
        let host = proxies.start_host();
        match self.server {
            Server::Postgres => self.add_kill_rule(proxies.postgres.script(), host.id()),
            Server::Kubernetes => self.add_kill_rule(proxies.kubernetes.script(), host.id()),
        }
        host
    }

    fn add_kill_rule<A: Clone + Send>(&self, script: &Script<A>, process: u32) {
        let kind = Arc::clone(&self.kind);
        let request = script.nth(self.nth, move |request| kind_of(request) == *kind);
        match self.moment {
            Moment::BeforeForward => request.before_forward().kill(process),
            Moment::BeforeResponse => request.before_response().kill(process),
        }
    }
}

/// The kills that a run tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    /// At every request, and at both moments of a change.
    Everything,
    /// At the first and the last change of each kind, after it.
    Changes,
}

pub(super) struct RecordedRequests {
    pub(super) postgres: Vec<Request>,
    pub(super) kubernetes: Vec<Request>,
}

impl RecordedRequests {
    pub(super) fn recorded(proxies: &ServerProxies) -> Self {
        let (postgres, kubernetes) =
            (proxies.postgres.script().requests(), proxies.kubernetes.script().requests());
        Self { postgres, kubernetes }
    }

    /// Every kill with a distinct result. A prepared statement is not executed yet. A read changes nothing,
    /// with or without a response. A kill just before a change equals one after the previous change.
    pub(super) fn kill_points(&self, coverage: Coverage) -> VecDeque<KillPoint> {
        let mut kill_points = VecDeque::new();
        let servers = [(Server::Postgres, &self.postgres), (Server::Kubernetes, &self.kubernetes)];
        for (server, requests) in servers {
            let mut kinds: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            for request in requests.iter().filter(|request| request.verb != "PREPARE") {
                *kinds.entry(kind_of(request).into()).or_default() += 1;
            }
            for (kind, count) in kinds {
                let changes = is_change(&kind);
                let numbers: BTreeSet<_> = match coverage {
                    Coverage::Everything => (1..=count).collect(),
                    Coverage::Changes if changes => [1, count].into(),
                    Coverage::Changes => BTreeSet::new(),
                };
                let moments: &[Moment] = match (coverage, server) {
                    (Coverage::Everything, _) if !changes => &[Moment::BeforeForward],
                    (Coverage::Changes, Server::Postgres) => &[Moment::BeforeResponse],
                    (Coverage::Everything | Coverage::Changes, _) => {
                        &[Moment::BeforeForward, Moment::BeforeResponse]
                    }
                };
                for nth in numbers {
                    let kill_point = |moment: &Moment| KillPoint {
                        server,
                        moment: *moment,
                        kind: Arc::clone(&kind),
                        nth,
                    };
                    kill_points.extend(moments.iter().map(kill_point));
                }
            }
        }
        kill_points
    }
}

/// The kind of a request: its text without the ids of resource and Project.
fn kind_of(request: &Request) -> String {
    let words = request.target.split_whitespace().collect::<Vec<_>>().join(" ");
    let Request { verb, .. } = request;
    let Some(path) = words.strip_prefix("/api") else { return format!("{verb} {words}") };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let general = |part| match (XrName::id_of(part), part) {
        (Some(_), _) => "NAME",
        (None, part) if part.starts_with("plexsphere-project-") => "NAMESPACE",
        (None, part) => part,
    };
    let path: Vec<_> = path.split('/').map(general).collect();
    let watch = if query.contains("watch=") { "?watch" } else { "" };
    format!("{verb} /api{}{watch}", path.join("/"))
}

fn is_change(kind: &str) -> bool {
    let changes = ["PATCH ", "DELETE ", "UPDATE ", "INSERT ", "COMMIT"];
    changes.iter().any(|change| kind.contains(change))
}
