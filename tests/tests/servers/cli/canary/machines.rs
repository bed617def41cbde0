//! Machines that the binary brings up, and the misuse of secrets by operators and providers
//! meanwhile.

use broker_domain::{Declaration, Phase, ProvisionedResourceId};
use broker_tests::canary::base64;
use broker_tests::cluster::say;
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::until;
use broker_tests::world::NODE;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::scene::{HUSHED, Scene};

/// Declares machines with the binary, each after rejected literals. Returns when all are Ready.
pub(super) async fn bring_up(scene: &mut Scene, machines: usize) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::new();
    for number in 0..machines {
        send_literals(scene, number).await;
        let mut words = words("provision", &scene.world.declaration(NODE));
        words.push("--output=json".to_owned());
        let said = scene.command(&words).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        let declared: Value = serde_json::from_str(&said.out).unwrap();
        let id = Uuid::parse_str(declared["id"].as_str().unwrap()).unwrap();
        ids.push(ProvisionedResourceId::new(id).unwrap());
    }
    for id in &ids {
        arrives(&scene.world, *id, Phase::Ready).await;
    }
    assert!(scene.world.plaintexts().len() >= machines, "each machine found a different token");
    ids
}

pub(super) fn words(verb: &str, declaration: &Declaration) -> Vec<String> {
    vec![
        verb.to_owned(),
        format!("--project={}", declaration.project_id),
        format!("--resource={}", declaration.resource_id),
        format!("--blueprint-version={}", declaration.blueprint_version_id),
        format!("--credential={}", declaration.cloud_credential_id),
    ]
}

/// A secret where only a reference is accepted: on the command line, and in a file in one of the
/// shapes that callers try.
async fn send_literals(scene: &mut Scene, number: usize) {
    let (typed, filed) = (scene.secrets.odd(), scene.secrets.odd());
    let shapes: [Value; 5] = [
        json!({"hush": filed}),
        json!({"hush": {"value": filed}}),
        json!({"hush": [filed]}),
        json!({"hush": {"secretRef": {"name": "a", "key": filed, "more": filed}}}),
        json!({"hush": {"secretRef": filed}, "size": 3}),
    ];
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), shapes[number % shapes.len()].to_string()).unwrap();
    let declaration = scene.world.declaration(HUSHED);
    for verb in ["provision", "plan"] {
        for last in [format!("--set=hush={typed}"), format!("--values={}", file.path().display())] {
            let mut words = words(verb, &declaration);
            words.push(last);
            let said = scene.command(&words).await;
            assert_eq!(said.code, Some(1), "{verb} accepts a literal: {}", said.err);
            assert!(said.err.contains("hush"), "{verb}: {}", said.err);
        }
    }
}

/// Every second machine fails after all; providers and controllers repeat its token in their
/// messages.
pub(super) async fn repeat_tokens(scene: &mut Scene, ids: &[ProvisionedResourceId]) {
    let failing: Vec<_> = ids.iter().copied().skip(1).step_by(2).collect();
    for (number, id) in failing.iter().enumerate() {
        let token = scene.world.crossplane.token_of(*id).await.unwrap();
        let token = token.expose_secret();
        // As it is, and within encoded user data.
        let given =
            if number.is_multiple_of(2) { token.to_owned() } else { base64(format!("a{token}")) };
        let why = format!("cannot boot with {given}");
        let composite = scene.world.xr(&scene.world.get(*id).await);
        say(&scene.world.admin, &composite, &why).await;
        scene.world.crossplane.behave_for(*id, Behaviour::Failing(why));
    }
    for id in failing {
        arrives(&scene.world, id, Phase::Failed).await;
        for verb in ["get", "explain", "plan"] {
            for format in ["--output=human", "--output=json"] {
                scene.command(&[verb.to_owned(), id.to_string(), format.to_owned()]).await;
            }
        }
    }
}

async fn arrives(world: &RealWorld, id: ProvisionedResourceId, phase: Phase) {
    until(format_args!("{id} to be {phase}"), || async {
        (world.get(id).await.phase() == phase).then_some(())
    })
    .await;
}
