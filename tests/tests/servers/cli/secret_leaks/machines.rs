//! Machines that the binary brings up, and the misuse of secrets by operators and providers
//! meanwhile.

use broker_domain::{Declaration, Phase, ProvisionedResourceId};
use broker_tests::cluster::create_warning_event;
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::secret_search::base64;
use broker_tests::until;
use broker_tests::world::NODE;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::fixture::{Fixture, SECRET_BLUEPRINT};

/// Declares machines with the binary, each after rejected literals. Returns when all are Ready.
pub(super) async fn bring_up(fixture: &mut Fixture, machines: usize) -> Vec<ProvisionedResourceId> {
    let mut ids = Vec::new();
    for number in 0..machines {
        send_literals(fixture, number).await;
        let mut words = words("provision", &fixture.world.declaration(NODE));
        words.push("--output=json".to_owned());
        let output = fixture.command(&words).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        let declared: Value = serde_json::from_str(&output.out).unwrap();
        let id = Uuid::parse_str(declared["id"].as_str().unwrap()).unwrap();
        ids.push(ProvisionedResourceId::new(id).unwrap());
    }
    for id in &ids {
        wait_for_phase(&fixture.world, *id, Phase::Ready).await;
    }
    assert!(fixture.world.plaintexts().len() >= machines, "each machine found a different token");
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
async fn send_literals(fixture: &mut Fixture, number: usize) {
    let (on_command_line, in_file) =
        (fixture.secrets.special_characters(), fixture.secrets.special_characters());
    let shapes: [Value; 5] = [
        json!({"hush": in_file}),
        json!({"hush": {"value": in_file}}),
        json!({"hush": [in_file]}),
        json!({"hush": {"secretRef": {"name": "a", "key": in_file, "more": in_file}}}),
        json!({"hush": {"secretRef": in_file}, "size": 3}),
    ];
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), shapes[number % shapes.len()].to_string()).unwrap();
    let declaration = fixture.world.declaration(SECRET_BLUEPRINT);
    for verb in ["provision", "plan"] {
        for last in
            [format!("--set=hush={on_command_line}"), format!("--values={}", file.path().display())]
        {
            let mut words = words(verb, &declaration);
            words.push(last);
            let output = fixture.command(&words).await;
            assert_eq!(output.code, Some(1), "{verb} accepts a literal: {}", output.err);
            assert!(output.err.contains("hush"), "{verb}: {}", output.err);
        }
    }
}

/// Lets every second machine fail; providers and controllers repeat its token in their messages.
pub(super) async fn repeat_tokens(fixture: &mut Fixture, ids: &[ProvisionedResourceId]) {
    let failing: Vec<_> = ids.iter().copied().skip(1).step_by(2).collect();
    for (number, id) in failing.iter().enumerate() {
        let token = fixture.world.crossplane.token_of(*id).await.unwrap();
        let token = token.expose_secret();
        // The plain token, and the token within encoded user data.
        let spelling =
            if number.is_multiple_of(2) { token.to_owned() } else { base64(format!("a{token}")) };
        let why = format!("cannot boot with {spelling}");
        let composite = fixture.world.xr(&fixture.world.get(*id).await);
        create_warning_event(&fixture.world.admin, &composite, &why).await;
        fixture.world.crossplane.behave_for(*id, Behaviour::Failing(why));
    }
    for id in failing {
        wait_for_phase(&fixture.world, id, Phase::Failed).await;
        for verb in ["get", "explain", "plan"] {
            for format in ["--output=human", "--output=json"] {
                fixture.command(&[verb.to_owned(), id.to_string(), format.to_owned()]).await;
            }
        }
    }
}

async fn wait_for_phase(world: &RealWorld, id: ProvisionedResourceId, phase: Phase) {
    until(format_args!("{id} to be {phase}"), || async {
        (world.get(id).await.phase() == phase).then_some(())
    })
    .await;
}
