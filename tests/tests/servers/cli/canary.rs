//! No secret in the output of any command, in any line of the log at its most talkative, or in any metric.
//!
//! Secrets that can be recognised are put wherever one belongs: the password of the store, a bearer token of the
//! cluster, a key in the URL that events are posted to. The tokens of machines are read where the machines find them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, SIZED};
use broker_tests::{HttpProxy, until};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::process::{DSN, EVENT_URL, Said, Surroundings};

const BEARER: &str = "canary-bearer-5ba7";
const EVENT_KEY: &str = "canary-event-key-90c1";
const PASSWORD: &str = "canary-password-7d3e";
const PARAMETER: &str = "canary-literal-22f8";

/// Everything that was said by anybody, and what must not be in it.
struct Canary {
    secrets: Vec<String>,
    said: Vec<(String, String)>,
}

impl Canary {
    fn hear(&mut self, who: impl Into<String>, text: impl Into<String>) {
        self.said.push((who.into(), text.into()));
    }

    fn hear_command(&mut self, arguments: &[&str], said: &Said) {
        self.hear(format!("the output of {arguments:?}"), said.out.as_str());
        self.hear(format!("the errors of {arguments:?}"), said.err.as_str());
    }

    fn assert_silent(&self) {
        for secret in &self.secrets {
            assert!(secret.len() > 8, "{secret:?} would be found anywhere");
            for (who, text) in &self.said {
                let line = text.lines().find(|line| line.contains(secret.as_str()));
                assert_eq!(line, None, "{who} holds a secret");
            }
        }
    }
}

/// A receiver that refuses each event once, so that both ways are gone.
async fn receiver() -> (String, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook/{EVENT_KEY}?key={EVENT_KEY}", listener.local_addr().unwrap());
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let take = move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        async move {
            if number.is_multiple_of(2) {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::NO_CONTENT
            }
        }
    };
    let router = Router::new().fallback(post(take));
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, taken, serving)
}

/// The kubeconfig of a proxy for somebody who shows a token, which the proxy hands on.
fn with_bearer(kubeconfig: &str) -> String {
    let mut kubeconfig: Value = serde_json::from_str(kubeconfig).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": BEARER});
    kubeconfig.to_string()
}

/// The verbs that the binary has, by its own account.
async fn verbs(surroundings: &Surroundings) -> BTreeSet<String> {
    let help = surroundings.run(&["--help"]).await.out;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn nothing_that_is_said_holds_a_secret() {
    let world = Arc::new(RealWorld::new().await);
    let cluster = HttpProxy::to(world.admin.clone()).await;
    let (event_url, posted, _serving) = receiver().await;
    let surroundings =
        Surroundings::new(&world.database().url(), &with_bearer(&cluster.kubeconfig()))
            .with(EVENT_URL, &event_url);
    let password = password_of(&world.database().url());
    let secrets = [password.as_str(), BEARER, EVENT_KEY, PASSWORD, PARAMETER];
    let mut canary = Canary { secrets: secrets.map(str::to_owned).into(), said: Vec::new() };

    let turning = world.keep_turning();
    let replica = surroundings.start_with(&["run", "--log=trace"]);
    replica.ready().await;
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    until("a node", || async { (world.get(id).await.phase() == Phase::Ready).then_some(()) }).await;
    canary.secrets.extend(world.plaintexts());
    assert_eq!(canary.secrets.len(), secrets.len() + 1, "one machine, one token");

    let id = id.to_string();
    let mut heard = BTreeSet::new();
    for arguments in commands(&world, &id) {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        canary.hear_command(&arguments, &surroundings.run(&arguments).await);
        heard.insert(arguments[0].to_owned());
        for broken in broken(&surroundings) {
            canary.hear_command(&arguments, &broken.run(&arguments).await);
        }
    }
    until("events to be taken and refused", || async {
        (posted.load(Ordering::Relaxed) >= 4).then_some(())
    })
    .await;
    let (_, metrics) = replica.get("/metrics").await;
    canary.hear("a scrape", metrics);
    canary.hear("/readyz", replica.get("/readyz").await.1);
    cluster.script().each(|_| true).before_forward().cut();
    cluster.hang_up();
    canary.hear("/readyz", replica.unready().await);
    cluster.script().clear();
    let ended = replica.stop().await;
    drop(turning);
    assert!(ended.log.iter().any(|line| line.contains(r#""level":"TRACE""#)), "nothing is traced");
    canary.hear("the log", ended.log.join("\n"));
    canary.hear("the errors of a replica", ended.errors.join("\n"));
    for broken in broken(&surroundings) {
        canary.hear_command(&["run"], &broken.run(&["run"]).await);
    }

    heard.insert("run".to_owned());
    // Whoever adds a verb adds it here; these two have no surroundings to give away.
    let silent = ["demo", "completions", "help"].map(str::to_owned);
    let missing: Vec<_> = verbs(&surroundings)
        .await
        .into_iter()
        .filter(|it| !silent.contains(it) && !heard.contains(it))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "verbs that nobody listened to");
    canary.assert_silent();
}

/// The store refuses the password, and knows no such string.
fn broken(good: &Surroundings) -> [Surroundings; 3] {
    [
        good.clone().with(DSN, &format!("postgres://postgres:{PASSWORD}@127.0.0.1:1/x")),
        good.clone().with(DSN, &format!("postgres://postgres:{PASSWORD}@127.0.0.1:{PASSWORD}/x")),
        good.clone().with(EVENT_URL, &format!("https://a:{EVENT_KEY}@127.0.0.1/{EVENT_KEY}")),
    ]
}

/// Every verb, in both forms of output, and some that are refused. Deletion comes last.
fn commands(world: &RealWorld, id: &str) -> Vec<Vec<String>> {
    let declaration = world.declaration(SIZED);
    let declared = [
        format!("--project={}", declaration.project_id),
        format!("--resource={}", declaration.resource_id),
        format!("--blueprint-version={}", declaration.blueprint_version_id),
        format!("--credential={}", declaration.cloud_credential_id),
    ];
    let catalog = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/catalog");
    let literal = format!("--set=hush={PARAMETER}");
    let mut commands: Vec<Vec<String>> = [
        vec!["migrate", "status"],
        vec!["migrate", "up"],
        vec!["catalog", "check", catalog],
        vec!["catalog", "import", catalog],
        vec!["get", id],
        vec!["list"],
        vec!["explain", id],
        vec!["pause", id],
        vec!["resume", id],
        vec!["reconcile-now", id],
        vec!["release-brake", "some-cluster"],
        vec!["resume-events", id],
        vec!["scrub-audit", id],
        vec!["deprovision", id],
        vec!["abandon", id, "--reason=the canary sings"],
    ]
    .into_iter()
    .flat_map(|words| ["human", "json"].map(|format| [&words[..], &["--output", format]].concat()))
    .map(|words| words.into_iter().map(str::to_owned).collect())
    .collect();
    commands.push(vec!["rbac".into(), "--catalog".into(), catalog.into()]);
    for verb in ["plan", "provision"] {
        let words = |last: &str| {
            let head = [verb.to_owned(), "--set=size=small".to_owned()];
            [&head[..], &declared[..], &[last.to_owned()]].concat()
        };
        commands.push(words("--output=json"));
        commands.push(words(&literal));
    }
    commands
}

fn password_of(url: &str) -> String {
    let (user, _) = url.trim_start_matches("postgres://").split_once('@').unwrap();
    user.split_once(':').unwrap().1.to_owned()
}
