//! Many resources at once, from declaration to Ready to Deleted, and the broker's share of that
//! time.

use std::fmt::{self, Write as _};
use std::fs;

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::collector::wait_until_collected;
use broker_tests::crossplane::{Change, Installation, Life, Recording};
use kube::ResourceExt;
use time::{Duration, OffsetDateTime};

use super::is_ready;

const MOMENTS: &str = "SELECT action, coalesce(new_phase, ''), at
    FROM plexsphere.provisioned_resource_audit
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_become_ready_and_are_deleted() {
    let nightly = broker_tests::is_nightly();
    let many = if nightly { 200 } else { 20 };
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    // Otherwise, the collector's discovery of new kinds would be part of the measurement.
    wait_until_collected(&installation.crossplane.admin, installation.namespace()).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let mut lives = Vec::new();
    let mut recording = None;
    for number in 0..many {
        let (slug, given): (_, &[&str]) = if number % 2 == 0 {
            ("sample-bucket", &[])
        } else {
            ("sample-machine", &["size=small"])
        };
        let life = installation.provision(slug, given).await;
        if recording.is_none() {
            recording = Some(Recording::of(vec![installation.composites(&life)]).await);
        }
        lives.push(life);
    }
    for life in &lives {
        installation.until(life, Phase::Ready).await;
    }
    installation.take_down(&lives).await;

    // The first resource was declared before the recording began.
    let recording = recording.unwrap();
    let mut shares = Vec::new();
    for life in lives.iter().skip(1).filter(|life| !life.blueprint.is_node()) {
        shares.push(Shares::of(&installation, &recording, life).await);
    }
    tell(&figures(&shares, lost_arms(&installation, &lives).await));
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
const MARKS: [&str; 2] = ["<!-- crossplane -->\n", "<!-- /crossplane -->\n"];

/// Prints the figures. `BROKER_BLESS=1` also writes them onto the page; without it, the page must
/// have the same cases.
fn tell(figures: &[(&str, Figure)]) {
    let mut table = "| case | figure |\n|---|---:|\n".to_owned();
    for (case, figure) in figures {
        println!("{case}: {figure}");
        writeln!(table, "| {case} | {figure} |").unwrap();
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (told, after) = rest.split_once(MARKS[1]).unwrap();
    if std::env::var_os("BROKER_BLESS").is_some() {
        let page = [before, MARKS[0], &table, MARKS[1], after].concat();
        fs::write(PAGE, page).unwrap();
        return;
    }
    let cases = |table: &str| -> Vec<String> {
        table.lines().filter_map(|row| row.split(" | ").next().map(str::to_owned)).collect()
    };
    assert_eq!(cases(told), cases(&table), "the page has other cases");
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

/// How long a bucket's composed object takes until it is ready, as set in its Composition.
const OWN: Duration = Duration::seconds(1);

struct Shares {
    up: Share,
    noticing: Share,
    down: Share,
    composing: Duration,
    going: Duration,
}

struct Share {
    ours: Duration,
    whole: Duration,
}

impl Shares {
    async fn of(installation: &Installation, recording: &Recording, life: &Life) -> Self {
        let moments: Vec<(String, String, OffsetDateTime)> = sqlx::query_as(MOMENTS)
            .bind(life.id.as_uuid())
            .fetch_all(installation.pool())
            .await
            .unwrap();
        let entered = |phase: &str| {
            let changed = |(action, new, _): &&(String, String, OffsetDateTime)| {
                new == phase && action != "substrate_recorded"
            };
            moments.iter().find(changed).unwrap().2
        };
        let name = life.xr_name();
        let heard = recording.heard(|object| object.name_any() == name);
        let first =
            |wanted: &dyn Fn(&Change) -> bool| heard.iter().find(|one| wanted(one)).unwrap().at;
        let armed = first(&|one| one.object.annotations().contains_key("plexsphere.io/armed"));
        let ready = first(&|one| is_ready(&one.object));
        let leaving = first(&|one| one.object.metadata.deletion_timestamp.is_some());
        let gone = first(&|one| one.gone);
        let (declared, arrived) = (moments[0].2, entered("Ready"));
        let (asked, deleted) = (entered("Deregistering"), entered("Deleted"));
        let noticing = arrived - ready;
        Self {
            up: Share { ours: (armed - declared) + noticing, whole: arrived - declared },
            noticing: Share { ours: noticing, whole: arrived - declared },
            down: Share { ours: (leaving - asked) + (deleted - gone), whole: deleted - asked },
            composing: ready - armed,
            going: gone - leaving,
        }
    }
}

/// Resources whose first arm conflicted with the status that Crossplane writes onto a shell.
async fn lost_arms(installation: &Installation, lives: &[Life]) -> f64 {
    let mut lost = 0;
    for life in lives {
        let audit = installation.audit(life).await;
        let ready = audit.iter().position(|line| line.starts_with("phase_changed Pending"));
        let applies =
            audit[..ready.unwrap()].iter().filter(|line| line.starts_with("substrate_apply"));
        // ProviderConfig, shell and arm.
        lost += u32::from(applies.count() > 3);
    }
    f64::from(lost) * 100.0 / f64::from(u32::try_from(lives.len()).unwrap())
}

fn figures(shares: &[Shares], lost_arms: f64) -> [(&'static str, Figure); 6] {
    let percent = |pick: fn(&Shares) -> &Share| {
        let sum = |part: fn(&Share) -> Duration| -> Duration {
            shares.iter().map(|shares| part(pick(shares))).sum()
        };
        Figure::Percent(sum(|share| share.ours) / sum(|share| share.whole) * 100.0)
    };
    let times = |pick: fn(&Shares) -> Duration| {
        let sum: Duration = shares.iter().map(pick).sum();
        Figure::Times(sum / u32::try_from(shares.len()).unwrap() / OWN)
    };
    [
        ("from the declaration to Ready, the broker's share", percent(|shares| &shares.up)),
        (
            "of which from the composite resource's Ready to the phase",
            percent(|shares| &shares.noticing),
        ),
        (
            "from the armed composite resource to its Ready, against its object's own second",
            times(|shares| shares.composing),
        ),
        (
            "from the request to delete to Deleted, the broker's share",
            percent(|shares| &shares.down),
        ),
        (
            "from the composite resource's deletion to its end, against that second",
            times(|shares| shares.going),
        ),
        ("resources whose first arm lost its race (decision 6)", Figure::Percent(lost_arms)),
    ]
}
