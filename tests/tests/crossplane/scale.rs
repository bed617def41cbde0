//! Many concurrent resources, from declaration to Deleted, and the broker's share of the time.

use std::fmt::{self, Write as _};
use std::fs;

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::{Change, DeclaredResource, Installation, Recording};
use kube::ResourceExt;
use time::{Duration, OffsetDateTime};

use super::is_ready;

const AUDIT: &str = "SELECT action, coalesce(new_phase, ''), at
    FROM plexsphere.provisioned_resource_audit
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_become_ready_and_are_deleted() {
    let nightly = broker_tests::is_nightly();
    let many = if nightly { 200 } else { 20 };
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    // Otherwise, the collector's discovery of new kinds would be part of the measurement.
    wait_until_collector_knows_kinds(&installation.crossplane.admin, installation.namespace())
        .await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let mut resources = Vec::new();
    let mut recording = None;
    for number in 0..many {
        let (slug, given): (_, &[&str]) = if number % 2 == 0 {
            ("sample-bucket", &[])
        } else {
            ("sample-machine", &["size=small"])
        };
        let resource = installation.provision(slug, given).await;
        if recording.is_none() {
            recording = Some(Recording::start(vec![installation.composites(&resource)]).await);
        }
        resources.push(resource);
    }
    for resource in &resources {
        installation.wait_for_phase(resource, Phase::Ready).await;
    }
    installation.deprovision_all(&resources).await;

    // The first resource was declared before the recording began.
    let recording = recording.unwrap();
    let mut all_shares = Vec::new();
    for resource in resources.iter().skip(1).filter(|resource| !resource.blueprint.is_node()) {
        all_shares.push(Shares::of(&installation, &recording, resource).await);
    }
    publish(&figures(&all_shares, conflicted_arms(&installation, &resources).await));
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
const MARKS: [&str; 2] = ["<!-- crossplane -->\n", "<!-- /crossplane -->\n"];

/// Prints the figures. `BROKER_BLESS=1` also writes them onto the page; without it, the page must
/// have the same cases.
fn publish(figures: &[(&str, Figure)]) {
    let mut table = "| case | figure |\n|---|---:|\n".to_owned();
    for (case, figure) in figures {
        println!("{case}: {figure}");
        writeln!(table, "| {case} | {figure} |").unwrap();
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (committed, after) = rest.split_once(MARKS[1]).unwrap();
    if std::env::var_os("BROKER_BLESS").is_some() {
        let page = [before, MARKS[0], &table, MARKS[1], after].concat();
        fs::write(PAGE, page).unwrap();
        return;
    }
    let cases = |table: &str| -> Vec<String> {
        table.lines().filter_map(|row| row.split(" | ").next().map(str::to_owned)).collect()
    };
    assert_eq!(cases(committed), cases(&table), "the page has other cases");
}

/// A published figure: only ratios, no times.
enum Figure {
    Percent(f64),
    Times(f64),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent:.0} %"),
            Self::Times(times) => write!(f, "{times:.1} times"),
        }
    }
}

/// The time after which a bucket's composed object is ready, from its Composition.
const READY_DELAY: Duration = Duration::seconds(1);

struct Shares {
    converge: Share,
    notice_ready: Share,
    teardown: Share,
    compose_time: Duration,
    delete_time: Duration,
}

struct Share {
    broker: Duration,
    total: Duration,
}

impl Shares {
    async fn of(
        installation: &Installation,
        recording: &Recording,
        resource: &DeclaredResource,
    ) -> Self {
        let audit_lines: Vec<(String, String, OffsetDateTime)> = sqlx::query_as(AUDIT)
            .bind(resource.id.as_uuid())
            .fetch_all(installation.pool())
            .await
            .unwrap();
        let entered = |phase: &str| {
            let changed = |(action, new, _): &&(String, String, OffsetDateTime)| {
                new == phase && action != "substrate_recorded"
            };
            audit_lines.iter().find(changed).unwrap().2
        };
        let name = resource.xr_name();
        let changes = recording.changes(|object| object.name_any() == name);
        let first = |select: &dyn Fn(&Change) -> bool| {
            changes.iter().find(|change| select(change)).unwrap().at
        };
        let armed = first(&|one| one.object.annotations().contains_key("plexsphere.io/armed"));
        let ready = first(&|one| is_ready(&one.object));
        let deleting = first(&|one| one.object.metadata.deletion_timestamp.is_some());
        let last = first(&|one| one.deleted);
        let (declared, arrived) = (audit_lines[0].2, entered("Ready"));
        let (requested, deleted) = (entered("Deregistering"), entered("Deleted"));
        let notice_ready = arrived - ready;
        Self {
            converge: Share {
                broker: (armed - declared) + notice_ready,
                total: arrived - declared,
            },
            notice_ready: Share { broker: notice_ready, total: arrived - declared },
            teardown: Share {
                broker: (deleting - requested) + (deleted - last),
                total: deleted - requested,
            },
            compose_time: ready - armed,
            delete_time: last - deleting,
        }
    }
}

/// The percentage of resources whose first arm conflicted with a status update of the shell by Crossplane.
async fn conflicted_arms(installation: &Installation, resources: &[DeclaredResource]) -> f64 {
    let mut conflicted = 0;
    for resource in resources {
        let audit = installation.audit(resource).await;
        let ready = audit.iter().position(|line| line.starts_with("phase_changed Pending"));
        let applies =
            audit[..ready.unwrap()].iter().filter(|line| line.starts_with("substrate_apply"));
        // ProviderConfig, shell and arm.
        conflicted += u32::from(applies.count() > 3);
    }
    f64::from(conflicted) * 100.0 / f64::from(u32::try_from(resources.len()).unwrap())
}

fn figures(all_shares: &[Shares], conflicted_arms: f64) -> [(&'static str, Figure); 6] {
    let percent = |pick: fn(&Shares) -> &Share| {
        let sum = |part: fn(&Share) -> Duration| -> Duration {
            all_shares.iter().map(|all_shares| part(pick(all_shares))).sum()
        };
        Figure::Percent(sum(|share| share.broker) / sum(|share| share.total) * 100.0)
    };
    let times = |pick: fn(&Shares) -> Duration| {
        let sum: Duration = all_shares.iter().map(pick).sum();
        Figure::Times(sum / u32::try_from(all_shares.len()).unwrap() / READY_DELAY)
    };
    [
        (
            "from the declaration to Ready, the broker's share",
            percent(|all_shares| &all_shares.converge),
        ),
        (
            "of which from the composite resource's Ready to the phase",
            percent(|all_shares| &all_shares.notice_ready),
        ),
        (
            "from the armed composite resource to its Ready, against its object's own second",
            times(|all_shares| all_shares.compose_time),
        ),
        (
            "from the request to delete to Deleted, the broker's share",
            percent(|all_shares| &all_shares.teardown),
        ),
        (
            "from the composite resource's deletion to its end, against that second",
            times(|all_shares| all_shares.delete_time),
        ),
        ("resources whose first arm lost its race (decision 6)", Figure::Percent(conflicted_arms)),
    ]
}
