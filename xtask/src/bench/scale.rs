//! What the counted figures mean for a platform: how busy its servers are with N resources, and which is the first that
//! cannot keep up. Pure.
//!
//! The broker's part is counted: how many requests and commits a life and a trouble take with all replicas at work, and
//! how much more a sweep is than a bare scan, all by `cargo xtask bench`. What the servers can do is assumed, because only a
//! platform knows its own.

use anyhow::{Context as _, Result};

use super::{figures, grouped};
use crate::page::rows;

/// Where the outcome stands.
pub(super) const PAGE: &str = "docs/scale.md";

/// How many resources.
const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// How often a resource has trouble in a day and is back: two changes each.
const TROUBLES_PER_DAY: f64 = 12.0;
/// How many of a hundred resources are made, and as many removed, in a day.
const LIVES_PER_DAY: f64 = 10.0;
/// Which share of all has trouble at the same moment, when a cloud has.
const STORM: f64 = 0.1;
/// One or three: as many as somebody has counted with.
const REPLICAS: u32 = 3;
const SWEEP_INTERVAL_SECONDS: f64 = 30.0;
/// What the API server takes of the broker, as its own fairness allows.
const REQUESTS_PER_SECOND: f64 = 200.0;
const COMMITS_PER_SECOND: f64 = 1_000.0;
/// Rows of a bare scan.
const ROWS_PER_SECOND: f64 = 200_000.0;

const SECONDS_PER_DAY: f64 = 24.0 * 60.0 * 60.0;
/// A storm comes after the sixth hour; what is not over with the day never is.
const SECONDS_AFTER_STORM: f64 = 18.0 * 60.0 * 60.0;

/// How often a replica lists everything anew although nobody told it to, and how much a page of such a list holds: the
/// defaults of the watch cache.
const RELIST_SECONDS: f64 = 60.0 * 60.0;
const OBJECTS_PER_PAGE: f64 = 500.0;

/// A composite resource and its ProviderConfig.
const OBJECTS_PER_RESOURCE: f64 = 2.0;

/// As many machines live in each case of `life`.
const MACHINES: u32 = 50;

/// The columns of a work's table.
const REQUESTS: usize = 3;
const COMMITS: usize = 4;

/// Where enough processor time was spent to be divided.
const MANY: &str = "100,000, cluster in memory";

/// What the broker takes, read from the page of the benchmarks.
struct Taken {
    /// Requests and commits from the declaration to Deleted, by all replicas together.
    life: [f64; 2],
    /// The same for a resource that is Ready, has trouble and is Ready again.
    trouble: [f64; 2],
    /// How long a sweep takes, in bare scans of the same rows.
    scans_per_sweep: f64,
    /// What the database has to do for a sweep, in bare scans of the same rows.
    work_per_sweep: f64,
    /// What a replica holds that follows nothing, and what each resource adds to it.
    bytes: f64,
    bytes_per_resource: f64,
}

impl Taken {
    /// The error names what is not there.
    fn from_page(page: &str) -> Result<Self> {
        let replicas = if REPLICAS == 1 { "replica" } else { "replicas" };
        let each = |what: &str, column| {
            let case = format!("{REPLICAS} {replicas}, {MACHINES} machines {what}");
            // Floor, ours and naive stand in one cell; the second is ours.
            let cell = cell(page, "life", &case, column).and_then(|cell| cell.split('/').nth(1));
            let ours = cell.and_then(number).with_context(missing("life", &case))?;
            Ok::<_, anyhow::Error>(ours / f64::from(MACHINES))
        };
        let life = |column| Ok::<_, anyhow::Error>(each("up", column)? + each("down", column)?);
        let first = |name: &str, case: &str| {
            let cell = cell(page, name, case, 1).and_then(|cell| cell.split(' ').next());
            cell.and_then(number).with_context(missing(name, case))
        };
        let (some, many) =
            (first("memory", "resident with 10,000")?, first("memory", "resident with 100,000")?);
        let bytes_per_resource = (many - some) / 90_000.0;
        Ok(Self {
            life: [life(REQUESTS)?, life(COMMITS)?],
            trouble: [
                each("in trouble and back", REQUESTS)?,
                each("in trouble and back", COMMITS)?,
            ],
            scans_per_sweep: first("sweep", "10,000")?,
            work_per_sweep: postgres(page, "ours")? / postgres(page, "floor")?,
            bytes: bytes_per_resource.mul_add(-10_000.0, some),
            bytes_per_resource,
        })
    }

    /// How busy each server is with so many resources, as a share of what it can do; and how many seconds a storm takes
    /// until all that it brought is served. Troubles and lives come evenly.
    fn busy(&self, resources: u32) -> ([(f64, &'static str); 3], Option<f64>) {
        let (many, replicas) = (f64::from(resources), f64::from(REPLICAS));
        let errors = many * TROUBLES_PER_DAY / SECONDS_PER_DAY;
        let lives = many * LIVES_PER_DAY / 100.0 / SECONDS_PER_DAY;
        let [requests, commits] =
            [0, 1].map(|place: usize| errors * self.trouble[place] + lives * self.life[place]);
        let pages = many * OBJECTS_PER_RESOURCE / OBJECTS_PER_PAGE;
        let requests = requests + replicas * pages / RELIST_SECONDS;
        // Every replica sweeps by itself, all of them in the same database.
        let scan = many / (ROWS_PER_SECOND / replicas) / SWEEP_INTERVAL_SECONDS;
        let scanning = scan * self.work_per_sweep;
        let spare = [
            REQUESTS_PER_SECOND - requests,
            COMMITS_PER_SECOND * (1.0 - scanning).max(0.0) - commits,
        ];
        // Both ways of a trouble at once: that the way back comes later is left out.
        let waits = self.trouble.map(|each| many * STORM * each);
        let wait = (waits[0] / spare[0]).max(waits[1] / spare[1]).ceil();
        let over = spare.iter().all(|spare| *spare > 0.0) && wait <= SECONDS_AFTER_STORM;
        let busy = [
            (requests / REQUESTS_PER_SECOND, "the API server"),
            (commits / COMMITS_PER_SECOND + scanning, "the database"),
            (scan * self.scans_per_sweep, "the sweep of a replica"),
        ];
        (busy, over.then_some(wait))
    }
}

/// The outcome, from what the page of the benchmarks says.
pub(super) fn text(page: &str) -> Result<String> {
    let taken = Taken::from_page(page)?;
    let row = |resources: u32| {
        let (busy, storm) = taken.busy(resources);
        let storm = storm.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        let megabytes = f64::from(resources).mul_add(taken.bytes_per_resource, taken.bytes) / 1e6;
        // Beyond all that it can do, the busiest is what saturates.
        let busiest =
            busy.iter().max_by(|one, other| one.0.total_cmp(&other.0)).map_or("", |it| it.1);
        let [api_server, database, sweep] = busy.map(|(share, _)| percent(share));
        format!(
            "| {} | {api_server} | {database} | {sweep} | {megabytes:.0} MB | {storm} | {busiest} |\n",
            grouped(resources)
        )
    };
    let rows: String = SIZES.into_iter().map(row).collect();
    // How busy each of them is grows in proportion, so that one size tells where it is at its end.
    let [.., most] = SIZES;
    let (busy, _) = taken.busy(most);
    let ends = busy
        .map(|(busy, name)| format!("- {name} is at its end with {} resources\n", end(busy, most)));
    Ok(format!(
        "| resources | API server busy | database busy | sweep, of its interval | memory of a replica | \
         a storm is over after | busiest |\n|---:|---:|---:|---:|---:|---:|---|\n{rows}\n{}",
        ends.concat()
    ))
}

/// With how many resources somebody is as busy as can be, who is so busy with these; in thousands, rounded down.
fn end(busy: f64, resources: u32) -> String {
    let thousands = (f64::from(resources) / busy / 1e3).floor();
    grouped(format!("{:.0}", thousands * 1e3))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

fn missing(name: &str, case: &str) -> impl FnOnce() -> String + use<> {
    let figure = format!("there is no figure for `{name}`, {case}");
    move || figure
}

/// `1,234` as a number.
fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}

/// A cell of the table of a benchmark, by the first cell of its row.
fn cell<'a>(page: &'a str, name: &str, case: &str, column: usize) -> Option<&'a str> {
    let row = rows(figures(page, name)).find(|row| row.first() == Some(&case))?;
    row.get(column).copied()
}

/// What Postgres spent in a sweep, from the line below the table that says so. Too little to be divided by is as good as
/// none.
fn postgres(page: &str, way: &str) -> Result<f64> {
    let case = format!("{MANY}, {way}");
    let lines = figures(page, "sweep").lines();
    let line =
        lines.filter_map(|line| line.strip_prefix("- ")).find(|line| line.starts_with(&case));
    let part = line.and_then(|line| line.split_once("Postgres ")).map(|(_, rest)| rest);
    let spent = part.and_then(|rest| number(rest.split([',', ')']).next()?));
    spent.filter(|spent| *spent > 0.0).with_context(missing("sweep", &case))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use std::path::Path;

    #[test]
    fn committed_page_follows_from_the_committed_figures() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let [benchmarks, scale] =
            [super::super::PAGE, PAGE].map(|path| page::read(&root, path).unwrap());
        assert_eq!(text(&benchmarks).unwrap(), figures(&scale, "scale"));
    }
}
