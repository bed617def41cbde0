//! What real Crossplane makes of a life is what the committed histories say, to which the simulated cluster is held.

use std::fs;
use std::time::Duration;

use broker_render::namespace;
use broker_tests::TestCluster;
use broker_tests::crossplane::{
    Blueprint, Lifetime, Recording, Requests, provider_configs, wait_until_collected,
};
use kube::ResourceExt;
use uuid::Uuid;

/// How often the recording is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// `BROKER_BLESS=1` writes what was seen instead of comparing it.
#[tokio::test(flavor = "multi_thread")]
async fn every_sample_lives_as_its_history_says() {
    // A busy Crossplane is late, and says so in states that a quiet one does not have.
    let crossplane = TestCluster::with_crossplane_alone().await;
    // The order of deletion is the collector's.
    wait_until_collected(&crossplane.admin, crossplane.namespace().await.name()).await;
    let port = crossplane.port();
    let lives = Blueprint::samples().into_iter().map(async |blueprint| {
        let project = Uuid::now_v7().try_into().unwrap();
        let home = crossplane.namespace_named(namespace(project).as_str()).await;
        let requests = Requests::new(&blueprint, project, blueprint.least_parameters());
        let admin = &crossplane.admin;
        let kinds = vec![
            blueprint.composites(admin, home.name()),
            blueprint.composed(admin, home.name()),
            provider_configs(admin, home.name()),
        ];
        let recording = Recording::of(kinds).await;
        let name = requests.xr().name().to_owned();
        let look = async || {
            tokio::time::sleep(LOOK).await;
            let heard = recording.heard(|object| object.name_any().starts_with(&name));
            let plain = |object| serde_json::to_value(object).unwrap();
            heard.into_iter().map(|change| (plain(change.object), change.gone)).collect()
        };
        let crossings = if blueprint.slug == "sample-spot" { 2 } else { 1 };
        let life = Lifetime::live(&port, &requests, crossings, look).await;
        (blueprint.slug, life)
    });
    let bless = std::env::var_os("BROKER_BLESS").is_some();
    for (slug, life) in futures::future::join_all(lives).await {
        let path = Lifetime::path(&slug);
        if bless {
            fs::write(&path, serde_json::to_string_pretty(&life).unwrap() + "\n").unwrap();
            continue;
        }
        let known: Lifetime = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if let Some(contradiction) = known.contradiction(&life) {
            panic!("{slug}: {contradiction}");
        }
    }
}
