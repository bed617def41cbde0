//! Installs a `CustomResourceDefinition` and waits until its objects are served.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};

use crate::{failure::OrFail, wait::until};

const FIELD_MANAGER: &str = "broker-tests";

pub(super) async fn install(client: &Client, definition: serde_json::Value) {
    let definition: CustomResourceDefinition =
        serde_json::from_value(definition).or_fail("not a CustomResourceDefinition");
    let name = definition.metadata.name.clone().unwrap_or_default();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions
        .patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&definition))
        .await
        .or_fail(format_args!("the CustomResourceDefinition {name} was refused"));
    until(format!("{name} to be established"), || async {
        let live = definitions.get(&name).await.or_fail(&name);
        is_established(&live).then_some(())
    })
    .await;
    // The condition is set shortly before the objects are served.
    for version in definition.spec.versions.iter().filter(|version| version.served) {
        let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
        let path = format!("/apis/{group}/{}/{plural}?limit=1", version.name);
        until(format!("{path} to be served"), || async {
            is_served(client, &path).await.then_some(())
        })
        .await;
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

async fn is_served(client: &Client, path: &str) -> bool {
    let request = http::Request::get(path).body(Vec::new()).or_fail(path);
    client.request::<serde_json::Value>(request).await.is_ok()
}
