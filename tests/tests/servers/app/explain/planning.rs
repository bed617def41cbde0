//! Plans against a real API server: dry runs, refusals with their field, and no write on either server.

use broker_app::explain::Verdict;
use broker_domain::Phase;
use broker_ports::PageSize;
use broker_render::namespace;
use broker_tests::TestCluster;
use broker_tests::cluster::AuditedRequest;
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, SIZED, STANDALONE, operator};
use serde_json::json;

/// What stands in each table: how many rows, and the transactions that wrote them. Whatever is inserted, changed or
/// removed shows here at once, as the server's own statistics do not.
async fn written(world: &RealWorld) -> Vec<(String, i64, i64)> {
    let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname = 'plexsphere' ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(world.pool()).await.unwrap();
    let mut found = Vec::new();
    for table in tables {
        let count =
            format!("SELECT count(*), coalesce(sum(xmin::text::bigint), 0)::bigint FROM {table}");
        let count = sqlx::query_as(sqlx::AssertSqlSafe(count));
        let (rows, writers): (i64, i64) = count.fetch_one(world.pool()).await.unwrap();
        found.push((table, rows, writers));
    }
    assert!(found.len() > 5, "these are not all tables: {found:?}");
    found
}

fn is_write(request: &AuditedRequest) -> bool {
    let changes = ["create", "update", "patch", "delete", "deletecollection"];
    changes.contains(&request.verb.as_str()) && !request.uri.contains("dryRun=All")
}

#[tokio::test]
async fn a_converged_resource_is_planned_without_a_write_on_either_server() {
    let world = RealWorld::alone(&TestCluster::shared().await).await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    let audit = world.cluster.audit_log();
    let (mark, rows) = (audit.mark(), written(&world).await);
    let plan = world.service.plan(&operator(), ready.id()).await.unwrap();
    assert!(plan.is_nothing(), "{plan}");
    assert_eq!(plan.to_string(), format!("{}: Ready, nothing to do\n", ready.id()));
    let explained = world.explain(ready.id()).await;
    assert_eq!(explained.verdict, Verdict::Ready);
    let requests = audit.since(mark, &world.user).await;
    assert!(!requests.is_empty(), "what nobody asked for proves nothing");
    let writes: Vec<_> = requests.iter().filter(|request| is_write(request)).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(written(&world).await, rows);
}

#[tokio::test]
async fn a_declaration_is_planned_by_dry_runs_alone() {
    let world = RealWorld::alone(&TestCluster::shared().await).await;
    let declared = world.declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let audit = world.cluster.audit_log();
    let (mark, rows) = (audit.mark(), written(&world).await);
    let plan = world.service.plan_declaration(&operator(), &declared).await.unwrap();
    assert_eq!(plan.refusal(), None, "{plan}");
    let applies: Vec<_> = plan.to_json()["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["step"] == "apply")
        .map(|step| (step["purpose"].clone(), step["answer"]["state"].clone()))
        .collect();
    let accepted = |purpose: &str| (json!(purpose), json!("accepted"));
    assert_eq!(applies, [accepted("provider_config"), accepted("shell"), accepted("arm")]);
    assert!(!plan.to_json().to_string().contains("cloud-config"), "{plan}");
    let requests = audit.since(mark, &world.user).await;
    assert!(requests.iter().any(|request| request.uri.contains("dryRun=All")));
    let writes: Vec<_> = requests.iter().filter(|request| is_write(request)).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(written(&world).await, rows);
    assert_eq!(world.crossplane.standing().await, Vec::<String>::new());
}

#[tokio::test]
async fn drift_is_planned_field_by_field() {
    let world = RealWorld::new().await;
    let declared = world.declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let declared = world.declare(&declared).await.unwrap();
    world.crossplane.behave_for(declared.id(), Behaviour::NeverReady);
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    world.change(&world.xr(&resource), &json!({"spec": {"parameters": {"size": "huge"}}})).await;
    let plan = world.service.plan(&operator(), resource.id()).await.unwrap().to_string();
    assert!(plan.contains("~ spec.parameters.size: \"huge\" to \"small\""), "{plan}");
    assert!(!plan.contains("userData"), "{plan}");
}

/// Few on an ordinary day; the count makes no difference to what is asked for.
const CROWD: usize = 20;

/// Each of them is stuck, and nothing of Crossplane is cached: what they have in common is asked for by the page.
#[tokio::test]
async fn explaining_many_that_are_stuck_asks_one_by_one_only_for_what_was_composed() {
    let world = RealWorld::alone(&TestCluster::shared().await).await;
    let mut ids = Vec::new();
    for _ in 0..CROWD {
        ids.push(world.declare(&world.declaration(STANDALONE)).await.unwrap().id());
    }
    for id in &ids {
        world.reconciler.reconcile(*id).await.unwrap();
    }
    // Where the kinds of what is composed are served is asked once, and not by a pass on the way up.
    world.service.explain(&operator(), ids[0]).await.unwrap();
    let audit = world.cluster.audit_log();
    let mark = audit.mark();
    world.sweep().await;
    let swept = audit.since(mark, &world.user).await.len();
    let mark = audit.mark();
    let page = world.service.explain_all(&operator(), None, PageSize::MAX).await.unwrap();
    let asked = audit.since(mark, &world.user).await;
    assert_eq!(page.explanations.len(), CROWD);
    assert!(page.explanations.iter().all(|explained| explained.verdict != Verdict::Ready));
    let of_each = |request: &&AuditedRequest| ["events", "parts"].contains(&&*request.resource);
    let (own, common): (Vec<_>, Vec<_>) = asked.iter().partition(of_each);
    assert!(own.len() >= CROWD, "events are asked for by each: {own:?}");
    // The namespace, which no sweep asks for, may itself be what blocks: one read for all of a Project.
    let home = namespace(world.project);
    let is_home = |request: &&AuditedRequest| request.name.as_deref() == Some(home.as_str());
    let (homes, common): (Vec<_>, Vec<_>) = common.into_iter().partition(is_home);
    assert_eq!(homes.len(), 1, "{homes:?}");
    assert!(common.len() <= swept, "{} requests, a sweep makes {swept}: {common:?}", common.len());
    // As each would be explained by itself, but for the moment.
    for explained in &page.explanations {
        let alone = world.service.explain(&operator(), explained.resource).await.unwrap();
        assert_eq!((alone.verdict, &alone.blocker), (explained.verdict, &explained.blocker));
    }
}
