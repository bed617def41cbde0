//! Isolation between Projects: what a caller sees of other Projects, and which references it may use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use broker_app::explain::Verdict;
use broker_app::{Error, PassResult, Service, one_line};
use broker_domain::{ClusterId, Declaration, Phase, ProjectId, ProvisionedResourceId, RequestId};
use broker_ports::{
    AuditAction, Brake, ListQuery, NamespaceObservation, NamespacePhase, PageSize, Redrive,
    RequestContext, Schedule,
};
use broker_render::namespace;
use broker_testkit::builders::{handle, id};
use broker_tests::world::{NODE, STANDALONE, World, caller_of, declaration, operator, project};
use time::OffsetDateTime;

/// The ids of another Project and of its Resource, and an id that no entity has.
const OTHER: u128 = 0x0b;
const OTHERS_RESOURCE: u128 = 0x0b2;
const NOWHERE: u128 = 0xdead;

/// The world's Project with a labelled Resource, and another one with its own Resource and the same
/// credential.
fn two_projects() -> World {
    let world = World::new();
    world.platform.label(id(2), "team", "payments");
    world.add_project(id(OTHER), id(OTHERS_RESOURCE));
    world
}

async fn snapshot(world: &World, ids: &[ProvisionedResourceId]) -> String {
    let mut seen = vec![format!("{:?}", world.store.audit_trail())];
    for id in ids {
        let entry = world.store.entry(*id).await.unwrap();
        seen.push(format!("{:?} {entry:?}", world.get(*id).await));
    }
    let backlog = broker_ports::Outbox::backlog(&world.store).await.unwrap();
    format!("{seen:?} {backlog:?} {:?} {:?}", world.existing_objects(), world.cluster.writes())
}

/// Calls every public method about a resource and a Project. Returns the results without their ids.
pub(crate) async fn responses(
    service: &Service,
    context: &RequestContext,
    resource: ProvisionedResourceId,
    project_id: ProjectId,
) -> BTreeMap<&'static str, String> {
    let as_text = |result: Result<Box<dyn Debug>, Error>| {
        let text = match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{}: {}", error.reason(), one_line(&error)),
        };
        text.replace(&resource.to_string(), "RESOURCE").replace(&project_id.to_string(), "PROJECT")
    };
    macro_rules! rows {
        ($($method:ident($($argument:expr),*),)+) => {
            BTreeMap::from([$({
                let result = service.$method(context, $($argument),*).await;
                (stringify!($method), as_text(result.map(|value| Box::new(value) as Box<dyn Debug>)))
            }),+])
        };
    }
    let request = RequestId::new("order-1").unwrap();
    let declared = Declaration::new(project_id, id(2), id(NODE), id(4)).with_request_id(request);
    let everything = ListQuery::new(PageSize::MAX);
    let in_project = everything.clone().in_project(project_id);
    let second = Duration::from_secs(1);
    let cluster = ClusterId::new("kube-system-uid").unwrap();
    let mut responses = rows! {
        get(resource),
        list(&in_project),
        wait_for(resource, Phase::Ready, second),
        status(resource),
        history(resource),
        explain(resource),
        explain_all(None, PageSize::new(1).unwrap()),
        plan(resource),
        plan_declaration(&declared),
        admit(&declared),
        provision(&declared),
        pause(resource),
        resume(resource),
        reconcile_now(resource),
        redrive_events(resource, Redrive::Skip),
        redrive_all_events(Some(project_id), Redrive::Skip),
        deprovision(resource),
        abandon(resource, "why not"),
        scrub_audit(resource),
        retry(resource),
        replace(resource, None),
        // Has no resource id. `explain::refusal` reports the token of another Project.
        report_enrolment_refusal(id(0xdead), "403 token_revoked"),
        brake_status(),
        set_brake(Some(project_id)),
        release_brake(&cluster, Some(project_id)),
    };
    let listed = service.list(context, &everything).await.unwrap();
    responses.insert("list of everything", format!("{:?} {:?}", listed.resources, listed.next));
    responses
}

/// The path and the text of every source file below a directory of the workspace.
fn sources(directory: &Path) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            sources.push((file, fs::read_to_string(&path).unwrap()));
        }
    }
    sources
}

/// The names of the service's public methods, from its source.
pub(crate) fn public_methods() -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    for (_, source) in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker-app/src")) {
        for part in source.split("impl Service {").skip(1) {
            let body = part.split("\n}\n").next().unwrap();
            let signatures = body.lines().filter_map(|line| line.strip_prefix("    pub async fn "));
            let named = signatures.filter_map(|it| it.split(['(', '<']).next());
            methods.extend(named.map(str::to_owned));
        }
    }
    methods
}

/// A new method of the service fails this test until `responses` contains it.
#[tokio::test(start_paused = true)]
async fn every_method_returns_not_found_to_a_foreign_caller() {
    let world = two_projects();
    let leaving = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    world.service.deprovision(&operator(), leaving.id()).await.unwrap();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let request = RequestId::new("order-1").unwrap();
    let requested = declaration(NODE).with_request_id(request);
    let requested = world.declare(&requested).await.unwrap();
    let all = [leaving.id(), ready.id(), requested.id()];

    let foreign_caller = caller_of(id(OTHER));
    let before = snapshot(&world, &all).await;
    let absent = responses(&world.service, &foreign_caller, id(NOWHERE), id(NOWHERE + 1)).await;
    for resource in all {
        let found = responses(&world.service, &foreign_caller, resource, project()).await;
        assert_eq!(found, absent, "{resource}");
    }
    assert_eq!(snapshot(&world, &all).await, before, "nothing was changed, scheduled or recorded");
    for (method, reason) in [
        ("get", "provisioned_resource_not_found"),
        ("deprovision", "provisioned_resource_not_found"),
        ("list", "assignment_not_found"),
        ("provision", "assignment_not_found"),
        ("list of everything", "[] None"),
        // For operators only.
        ("abandon", "invalid_input"),
        ("scrub_audit", "invalid_input"),
        ("report_enrolment_refusal", "invalid_input"),
        ("brake_status", "invalid_input"),
        ("set_brake", "invalid_input"),
        ("release_brake", "invalid_input"),
    ] {
        assert!(absent[method].starts_with(reason), "{method}: {}", absent[method]);
    }

    let covered: BTreeSet<_> = absent.keys().map(|method| (*method).to_owned()).collect();
    let missing: Vec<_> = public_methods().into_iter().filter(|it| !covered.contains(it)).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    assert!(public_methods().contains("plan_declaration"), "the source is read");
}

/// A Resource of another Project is refused exactly like an absent one.
#[tokio::test]
async fn resource_of_another_project_is_refused_as_absent() {
    let world = two_projects();
    let caller = caller_of(id(OTHER));
    let declaration_of =
        |resource: u128| Declaration::new(id(OTHER), id(resource), id(NODE), id(4));
    let mut found = Vec::new();
    for resource in [2, NOWHERE] {
        let declared = declaration_of(resource);
        let service = &world.service;
        for refused in [
            service.provision(&caller, &declared).await.map(drop),
            service.admit(&caller, &declared).await.map(drop),
            service.plan_declaration(&caller, &declared).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.reason(), "resource_not_found");
            found.push(one_line(&error).replace(&declared.resource_id.to_string(), "RESOURCE"));
        }
    }
    assert!(found.iter().all(|line| *line == found[0]), "{found:?}");
    let lines = world.store.audit_trail();
    let refusals = lines.iter().filter(|it| it.entry.action == AuditAction::DeclarationRefused);
    assert_eq!(refusals.count(), 4, "provision and admit are audited, twice each");
    assert!(world.service.provision(&caller, &declaration_of(OTHERS_RESOURCE)).await.is_ok());
}

/// A row whose Resource moved to another Project is not rendered with that Project's labels.
#[tokio::test]
async fn pass_over_a_moved_resource_fails_with_the_reason() {
    let world = two_projects();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.platform.add_resource(id(OTHER), id(2), handle("web-1"));
    let error = world.round(declared.id()).await.unwrap_err();
    assert_eq!(error.reason(), "resource_not_found");
    assert!(world.existing_objects().is_empty());
    let (_, report) = world.sweep().await;
    assert_eq!(report.looked_at, 1);
}

#[tokio::test]
async fn explanations_of_a_project_are_paged_by_its_own_ids() {
    let world = two_projects();
    let mut own = Vec::new();
    for turn in 0..6 {
        if turn % 3 == 1 {
            let declared = Declaration::new(id(OTHER), id(OTHERS_RESOURCE), id(NODE), id(4));
            own.push(world.declare(&declared).await.unwrap().id());
        } else {
            world.declare(&declaration(NODE)).await.unwrap();
        }
    }
    let caller = caller_of(id(OTHER));
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = world.service.explain_all(&caller, after, PageSize::new(1).unwrap()).await;
        let page = page.unwrap();
        pages += 1;
        seen.extend(page.explanations.iter().map(|explained| explained.resource));
        assert!(page.next.is_none_or(|next| own.contains(&next)), "a foreign id is named");
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!((seen, pages), (own, 2), "no page for foreign rows");
}

/// The error of a refused declaration, and its number of audit lines.
#[tokio::test]
async fn refusal_is_audited_unless_the_project_is_foreign() {
    let world = two_projects();
    let order = || RequestId::new("order-1").unwrap();
    world.declare(&declaration(NODE).with_request_id(order())).await.unwrap();
    let conflict = declaration(STANDALONE).with_request_id(order());
    let rows = [
        ("another declaration under a used request id", project(), conflict.clone(), 1),
        ("a Resource that does not exist", project(), declaration_for(NOWHERE), 1),
        ("another Project, without a request id", id(OTHER), declaration(NODE), 0),
        ("another Project, with a request id", id(OTHER), conflict, 0),
    ];
    for (why, caller, declared, expected) in rows {
        let before = world.store.audit_trail().len();
        world.service.provision(&caller_of(caller), &declared).await.unwrap_err();
        let lines = world.store.audit_trail().split_off(before);
        assert_eq!(lines.len(), expected, "{why}");
        for line in lines {
            assert_eq!(line.entry.action, AuditAction::DeclarationRefused, "{why}");
            assert_eq!(line.entry.project, Some(project()), "{why}");
        }
    }
}

fn declaration_for(resource: u128) -> Declaration {
    Declaration::new(project(), id(resource), id(NODE), id(4))
}

/// A reference is deleted after admission: the store refuses the declaration.
#[tokio::test]
async fn refusal_by_the_store_is_audited() {
    let world = two_projects();
    let _ = world.store.clone().checking_references();
    world.store.register_references(&declaration(STANDALONE));
    let refused = world.declare(&declaration(NODE)).await.unwrap_err();
    assert_eq!(refused.reason(), "blueprint_not_found");
    let actions: Vec<_> = world.store.audit_trail().iter().map(|it| it.entry.action).collect();
    assert_eq!(actions, [AuditAction::DeclarationRefused]);
}

fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

/// The cluster that the world's replicas serve.
const HERE: &str = "kube-system-uid";

fn assign_to_cluster(world: &World, name: &str) {
    let namespace_name = namespace(project()).as_str().to_owned();
    let assignment =
        NamespaceObservation::new(namespace_name, NamespacePhase::Ready).on_cluster(cluster(name));
    world.platform.place(project(), assignment);
}

/// The Project's namespace determines the cluster of its objects, at the declaration and at every
/// pass.
#[tokio::test]
async fn project_on_another_cluster_gets_nothing_applied_here() {
    let world = World::new();
    let unbound = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(unbound.substrate().cluster(), None, "the platform named no cluster");
    assign_to_cluster(&world, "elsewhere");
    for refused in [
        world.round(unbound.id()).await.map(drop),
        world.declare(&declaration(NODE)).await.map(drop),
        world.service.plan_declaration(&operator(), &declaration(NODE)).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().reason(), "cluster_mismatch");
    }
    // A service without a cluster (the command line) accepts; only the named cluster's replicas
    // claim the resource.
    world.cluster.take_down();
    let accepted = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.bring_back();
    assert_eq!(accepted.substrate().cluster(), Some(&cluster("elsewhere")));
    let passed = world.reconciler.reconcile(accepted.id()).await.unwrap();
    assert_eq!(passed, PassResult::NotClaimed);
    assert!(world.existing_objects().is_empty());

    assign_to_cluster(&world, HERE);
    let bound = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(bound.substrate().cluster(), Some(&cluster(HERE)), "bound when declared");
    assert_eq!(world.get(bound.id()).await.substrate().cluster(), Some(&cluster(HERE)));
    world.until(unbound.id(), Phase::Ready).await;
}

/// Objects on another cluster are neither counted as missing here nor claimed.
#[tokio::test]
async fn rows_of_another_cluster_are_left_to_its_replicas() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.cluster.swap_identity(cluster("elsewhere"));
    world.cluster.lose_everything();
    let passed = world.replica("elsewhere").reconcile(ready.id()).await.unwrap();
    assert_eq!(passed, PassResult::NotClaimed);
    let (work, report) = world.sweep().await;
    assert_eq!((work, report.missing, report.brakes), (Vec::new(), 0, Vec::new()));
    assert_eq!(world.get(ready.id()).await, ready);
}

/// A replica claims nothing until it knows its cluster. A replica that knows its cluster continues.
#[tokio::test]
async fn replica_without_a_known_cluster_claims_nothing() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    let (fresh, known) = (world.replica("fresh"), world.replica("known"));
    known.reconcile(declared.id()).await.unwrap();
    world.cluster.take_down();
    let epoch = async || world.store.entry(declared.id()).await.unwrap().unwrap().epoch;
    let before = epoch().await;
    let error = fresh.reconcile(declared.id()).await.unwrap_err();
    assert_eq!((error.reason(), epoch().await), ("cluster_transient", before));
    let error = known.reconcile(declared.id()).await.unwrap_err();
    assert_eq!((error.reason(), epoch().await), ("cluster_transient", before.next()));
}

/// Every caller of `Repository::create` and `Repository::replace`, or of the function that creates
/// in a host's transaction.
#[test]
fn only_admission_creates_resources() {
    let mut callers = Vec::new();
    for product in ["../broker-app/src", "../broker-app/cli/src", "../broker-app/embed/src"] {
        for (file, source) in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(product)) {
            let calls = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            let creates = [".create(", "create_in(", "it.replace("];
            let calls = calls.filter(|line| creates.iter().any(|call| line.contains(call)));
            callers.extend(calls.map(|line| format!("{file}: {}", line.trim())));
        }
    }
    callers.sort_unstable();
    let admission = [
        "declare.rs: let created = self.ports().repository.write(|it| it.create(&admitted)).await?;",
        "pg_ports.rs: let created = broker_pg::create_in(connection, &admitted).await;",
        "replace.rs: match self.ports.repository.write(|it| it.replace(&replacement)).await? {",
    ];
    assert_eq!(callers, admission);
}

/// The service compares the Project before it reads the rest of the row.
#[tokio::test(start_paused = true)]
async fn unreadable_row_of_another_project_looks_absent() {
    let world = two_projects();
    let foreign = world.declare(&declaration(NODE)).await.unwrap();
    assert!(world.store.corrupt(foreign.id()));
    let foreign_caller = caller_of(id(OTHER));
    let absent = responses(&world.service, &foreign_caller, id(NOWHERE), id(NOWHERE + 1)).await;
    let found = responses(&world.service, &foreign_caller, foreign.id(), project()).await;
    for (method, response) in &absent {
        assert_eq!(found.get(method), Some(response), "{method}");
    }
    let own = world.service.get(&caller_of(project()), foreign.id()).await.unwrap_err();
    let line = one_line(&own);
    assert!(line.starts_with("the repository failed") && line.contains(&foreign.id().to_string()));
}

/// The counts of the cluster's brake cover all Projects.
#[tokio::test]
async fn explanation_hides_the_counts_of_the_clusters_brake() {
    let world = two_projects();
    let lost = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.cluster.delete_in_background(&world.xr(&lost));
    world.cluster.settle(5);
    let brake = Brake::new(71, 97, OffsetDateTime::UNIX_EPOCH);
    let rows = [(brake.clone().of_project(project()), true), (brake, false)];
    for (brake, visible) in rows {
        world.store.set_brake(&cluster(HERE), &brake, operator().attribution()).await.unwrap();
        let explained = world.service.explain(&caller_of(project()), lost.id()).await.unwrap();
        assert_eq!(explained.verdict, Verdict::Brake);
        let (blocker, facts) = (format!("{:?}", explained.blocker), explained.facts);
        for found in [blocker, format!("{facts:?}")] {
            assert_eq!(found.contains("71") || found.contains("97"), visible, "{found}");
        }
    }
}

/// Without an explanation, a caller would take the resource for deleted.
#[tokio::test(start_paused = true)]
async fn explain_all_names_an_unreadable_row() {
    let world = two_projects();
    let unreadable = world.declare(&declaration(NODE)).await.unwrap();
    assert!(world.store.corrupt(unreadable.id()));
    let page = world.service.explain_all(&operator(), None, PageSize::MAX).await.unwrap();
    let named: Vec<_> = page.explanations.iter().map(|explained| explained.resource).collect();
    assert_eq!(named, [unreadable.id()]);
    assert_eq!(page.explanations[0].verdict, Verdict::StoreUnreachable);
    for (caller, expected) in [(project(), 1), (id(OTHER), 0)] {
        let page = world.service.explain_all(&caller_of(caller), None, PageSize::MAX).await;
        assert_eq!(page.unwrap().explanations.len(), expected);
    }
}
