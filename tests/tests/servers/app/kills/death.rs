//! How a replica dies: at which request to which server, and at which moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use broker_domain::XrName;
use broker_tests::proxy::{Request, Script};

use crate::servers::app::between::Between;
use crate::servers::app::host::Host;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Postgres,
    Kubernetes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    BeforeForward,
    BeforeAnswer,
}

#[derive(Debug, Clone)]
pub(super) struct Death {
    server: Server,
    moment: Moment,
    kind: Arc<str>,
    /// Counted from 1 among requests of its kind.
    nth: usize,
}

impl fmt::Display for Death {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, moment, kind, nth } = self;
        let kind: String = kind.chars().take(120).collect();
        write!(formatter, "{server:?} {moment:?}, {nth} of {kind}")
    }
}

impl Death {
    /// Starts a replica that is killed once it makes this request.
    pub(super) fn of_a_host(&self, between: &Between) -> Host {
        let host = between.host();
        match self.server {
            Server::Postgres => self.doom(between.postgres.script(), host.id()),
            Server::Kubernetes => self.doom(between.kubernetes.script(), host.id()),
        }
        host
    }

    fn doom<A: Clone + Send>(&self, script: &Script<A>, process: u32) {
        let kind = Arc::clone(&self.kind);
        let request = script.nth(self.nth, move |request| kind_of(request) == *kind);
        match self.moment {
            Moment::BeforeForward => request.before_forward().kill(process),
            Moment::BeforeAnswer => request.before_answer().kill(process),
        }
    }
}

/// How many deaths of a workflow are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// At every request, and at both moments of a change.
    Everything,
    /// At the first and the last change of each kind, after it.
    Changes,
}

pub(super) struct Asked {
    pub(super) postgres: Vec<Request>,
    pub(super) kubernetes: Vec<Request>,
}

impl Asked {
    pub(super) fn of(between: &Between) -> Self {
        let (postgres, kubernetes) =
            (between.postgres.script().seen(), between.kubernetes.script().seen());
        Self { postgres, kubernetes }
    }

    /// Every death with a distinct result. A prepared statement is not executed yet; a read leaves
    /// the same world whether it was answered or not; a death just before a change equals one after
    /// the previous change.
    pub(super) fn deaths(&self, extent: Extent) -> VecDeque<Death> {
        let mut deaths = VecDeque::new();
        let servers = [(Server::Postgres, &self.postgres), (Server::Kubernetes, &self.kubernetes)];
        for (server, requests) in servers {
            let mut kinds: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            for request in requests.iter().filter(|request| request.verb != "PREPARE") {
                *kinds.entry(kind_of(request).into()).or_default() += 1;
            }
            for (kind, count) in kinds {
                let changes = is_change(&kind);
                let numbers: BTreeSet<_> = match extent {
                    Extent::Everything => (1..=count).collect(),
                    Extent::Changes if changes => [1, count].into(),
                    Extent::Changes => BTreeSet::new(),
                };
                let moments: &[Moment] = match (extent, server) {
                    (Extent::Everything, _) if !changes => &[Moment::BeforeForward],
                    (Extent::Changes, Server::Postgres) => &[Moment::BeforeAnswer],
                    (Extent::Everything | Extent::Changes, _) => {
                        &[Moment::BeforeForward, Moment::BeforeAnswer]
                    }
                };
                for nth in numbers {
                    let dies = |moment: &Moment| Death {
                        server,
                        moment: *moment,
                        kind: Arc::clone(&kind),
                        nth,
                    };
                    deaths.extend(moments.iter().map(dies));
                }
            }
        }
        deaths
    }
}

/// A request without the ids of resource and Project.
fn kind_of(request: &Request) -> String {
    let words = request.target.split_whitespace().collect::<Vec<_>>().join(" ");
    let Request { verb, .. } = request;
    let Some(path) = words.strip_prefix("/api") else { return format!("{verb} {words}") };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let general = |part| match (XrName::id_of(part), part) {
        (Some(_), _) => "NAME",
        (None, part) if part.starts_with("plexsphere-project-") => "HOME",
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
