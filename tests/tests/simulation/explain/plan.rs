//! Plans: the actions of the next pass, the API server's dry-run result, and no writes.

use std::sync::Arc;

use broker_app::plan::{ApplyPurpose, Plan, PlannedStep};
use broker_domain::{Action, MeshRole, Phase};
use broker_memory::BlueprintDocuments;
use broker_ports::Repository;
use broker_render::{Agent, ApiUrl, ImageReference, InjectionStrategy, ProviderConfigUse, Xrd};
use broker_testkit::builders::id;
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration, operator, xrd_document};
use serde_json::json;

use super::text::schema;

async fn snapshot(world: &World) -> String {
    let objects: Vec<_> = world
        .cluster
        .objects()
        .into_iter()
        .map(|object| world.cluster.object(&object).unwrap().to_string())
        .collect();
    let rows = world.store.list(&broker_ports::ListQuery::new(broker_ports::PageSize::MAX)).await;
    let backlog = broker_ports::Outbox::backlog(&world.store).await.unwrap();
    let trail = world.store.audit_trail();
    format!("{objects:?} {:?} {backlog:?} {trail:?}", rows.unwrap().resources)
}

fn purposes(plan: &Plan) -> Vec<ApplyPurpose> {
    let apply = |step: &PlannedStep| {
        let PlannedStep::Apply(apply) = step else { return None };
        Some(apply.purpose)
    };
    plan.steps.iter().filter_map(apply).collect()
}

#[tokio::test]
async fn plan_of_a_declaration_has_all_manifests_and_no_write() {
    let world = World::new();
    let before = snapshot(&world).await;
    let declared = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let plan = world.service.plan_declaration(&operator(), &declared).await.unwrap();
    assert_eq!((plan.from, plan.to, plan.action), (Phase::Pending, Phase::Pending, Action::Apply));
    let all = [ApplyPurpose::ProviderConfig, ApplyPurpose::Shell, ApplyPurpose::Arm];
    assert_eq!(purposes(&plan), all);
    assert_eq!(plan.refusal(), None);
    let json = plan.to_json();
    let errors: Vec<_> = schema(1).iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let steps = json["steps"].as_array().unwrap();
    let arm = steps.iter().find(|step| step["purpose"] == "arm").unwrap();
    assert_eq!(arm["manifest"]["spec"]["userData"], "█");
    assert_eq!(arm["manifest"]["spec"]["parameters"], json!({"size": "small", "count": 1}));
    assert!(!plan.to_string().contains("#cloud-config"), "{plan}");
    assert_eq!(snapshot(&world).await, before);
    assert_eq!(world.store.audit_trail().len(), 0);
}

#[tokio::test]
async fn plan_equals_the_next_pass() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    let plan = world.service.plan(&operator(), declared.id()).await.unwrap();
    world.reconciler.reconcile(declared.id()).await.unwrap();
    for step in &plan.steps {
        let PlannedStep::Apply(apply) = step else { continue };
        let live = world.cluster.object(&apply.object).unwrap();
        if apply.purpose == ApplyPurpose::ProviderConfig {
            assert_eq!(live["spec"], apply.manifest["spec"]);
        } else {
            assert_eq!(live["spec"]["parameters"], apply.manifest["spec"]["parameters"]);
            assert_eq!(live["metadata"]["labels"], apply.manifest["metadata"]["labels"]);
        }
    }
}

#[tokio::test]
async fn plan_of_a_converged_resource_is_empty() {
    for blueprint in [NODE, STANDALONE] {
        let world = World::new();
        let ready = world.declare_until(Phase::Ready, &declaration(blueprint)).await;
        let (before, writes) = (snapshot(&world).await, world.cluster.writes());
        let plan = world.service.plan(&operator(), ready.id()).await.unwrap();
        assert!(plan.is_nothing(), "{plan}");
        assert_eq!(plan.to_string(), format!("{}: Ready, nothing to do\n", ready.id()));
        assert_eq!(world.cluster.writes(), writes);
        assert_eq!(snapshot(&world).await, before);
    }
}

#[tokio::test]
async fn plan_of_a_refused_declaration_names_the_field() {
    let world = World::new();
    let narrow = super::problems::narrow_xrd().to_string();
    let narrow = Xrd::parse(narrow.as_bytes()).unwrap();
    world.cluster.install_xrd(&Arc::new(narrow));
    let declared = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let plan = world.service.plan_declaration(&operator(), &declared).await.unwrap();
    let (object, message) = plan.refusal().unwrap();
    assert_eq!(object.kind(), "Cluster");
    assert!(message.contains("spec.parameters.size"), "{message}");
    assert!(plan.to_string().contains("refused: "), "{plan}");
    assert_eq!(world.existing_objects(), Vec::new(), "nothing was written");

    let invalid = declaration(SIZED).with_parameters("{}");
    let error = world.service.plan_declaration(&operator(), &invalid).await.unwrap_err();
    assert_eq!(error.reason(), "parameter_values_invalid");
    assert_eq!(world.store.audit_trail().len(), 0, "a plan audits nothing, not even a refusal");
}

/// An XRD that accepts one control plane URL, one agent image, one Project and one handle.
fn xrd_accepting(api_url: &str, image: &str, project: &str, handle: &str) -> String {
    let only = |value: &str| json!({"type": "string", "enum": [value]});
    let values = json!({
        "bootstrapToken": {"type": "string"}, "apiUrl": only(api_url), "plexdImage": only(image),
        "projectId": only(project), "resourceHandle": only(handle),
    });
    let mut xrd = xrd_document("example.org", "Machine", "machines");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    *xrd.pointer_mut(spec).unwrap() = json!({"parameters": {"type": "object", "properties": {
        "helmValues": {"type": "object", "properties": values},
    }}});
    xrd.to_string()
}

#[tokio::test]
async fn plan_of_an_arm_has_the_agent_and_the_resource() {
    const URL: &str = "https://elsewhere.example.org";
    const IMAGE: &str = "registry.example.org/plexd:9";
    let world = World::new();
    let project = declaration(NODE).project_id.to_string();
    let xrd = xrd_accepting(URL, IMAGE, &project, "web-1");
    world.cluster.install_xrd(&Arc::new(Xrd::parse(xrd.as_bytes()).unwrap()));
    let documents = BlueprintDocuments {
        xrd: xrd.into_bytes(),
        composition: BlueprintDocuments::composition_named("machines"),
        parameter_schema: br#"{"parameters":[]}"#.to_vec(),
        injection_strategy: InjectionStrategy::HelmValues,
        mesh_role: MeshRole::Node,
        composed_kinds: Vec::new(),
        provider_config: ProviderConfigUse::PerResource,
    };
    world.platform.publish(id(NODE), documents);
    let service = world.service_rewired(
        |_| {},
        |config| {
            config.api_url = Some(ApiUrl::new(URL).unwrap());
            config.agent = Agent::default().with_image(ImageReference::new(IMAGE).unwrap());
        },
    );
    let plan = service.plan_declaration(&operator(), &declaration(NODE)).await.unwrap();
    assert_eq!((plan.refusal(), purposes(&plan).last()), (None, Some(&ApplyPurpose::Arm)));

    let unset = world.service_rewired(|_| {}, |config| config.api_url = None);
    let error = unset.plan_declaration(&operator(), &declaration(NODE)).await.unwrap_err();
    assert_eq!(error.to_string(), "api_url is missing from the configuration");
    assert_eq!(error.kind(), broker_app::ErrorKind::Internal);
}

#[tokio::test]
async fn plan_of_a_teardown_has_each_step_and_its_blockers() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let before = snapshot(&world).await;
    let plan = world.service.plan(&operator(), ready.id()).await.unwrap();
    let steps: Vec<_> = plan.steps.iter().map(ToString::to_string).collect();
    let token = ready.bootstrap_token_id().unwrap();
    assert_eq!(
        steps,
        [
            "close its tokens at the issuer".to_owned(),
            "record that its tokens are closed".to_owned(),
            format!("drain the Node of token {token}"),
        ]
    );
    assert_eq!(snapshot(&world).await, before);

    world.service.pause(&operator(), ready.id()).await.unwrap();
    let plan = world.service.plan(&operator(), ready.id()).await.unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("paused")), "{plan}");
}
