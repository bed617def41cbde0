//! Projects the counted figures to a platform: the load of each server with N resources, and the first one to saturate.
//! Pure.
//!
//! `cargo xtask bench` counts the broker's part: requests and commits of a lifecycle and of a failure with all replicas
//! running, and the cost of a sweep relative to a bare scan. The capacity of the servers is an assumption, because it
//! depends on the platform.

use anyhow::{Context as _, Result};

use super::{figures, grouped};
use crate::page::rows;

/// The generated page.
pub(super) const PAGE: &str = "docs/scale.md";

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// How often a resource fails and recovers per day.
const FAILURES_PER_DAY: f64 = 12.0;
/// The percentage of resources that is created per day; as many are deleted.
const LIFECYCLES_PERCENT_PER_DAY: f64 = 10.0;
/// The share of all resources that fails at the same moment in an outage of a cloud.
const STORM: f64 = 0.1;
/// One or three: the figures exist for these.
const REPLICAS: u32 = 3;
const SWEEP_INTERVAL_SECONDS: f64 = 30.0;
/// The request rate that the API server grants to the broker.
const REQUESTS_PER_SECOND: f64 = 200.0;
const COMMITS_PER_SECOND: f64 = 1_000.0;
/// Rows per second of a bare scan.
const ROWS_PER_SECOND: f64 = 200_000.0;

const SECONDS_PER_DAY: f64 = 24.0 * 60.0 * 60.0;
/// A storm comes after the sixth hour; a backlog that outlives the day counts as unbounded.
const SECONDS_AFTER_STORM: f64 = 18.0 * 60.0 * 60.0;

/// The interval at which a replica lists everything again, and the page size of that list: the defaults of the watch
/// cache.
const RELIST_SECONDS: f64 = 60.0 * 60.0;
const OBJECTS_PER_PAGE: f64 = 500.0;

/// A composite resource and its ProviderConfig.
const OBJECTS_PER_RESOURCE: f64 = 2.0;

/// The number of machines in each case of `lifecycle`.
const MACHINES: u32 = 50;

/// The columns of a workload's table.
const REQUESTS: usize = 3;
const COMMITS: usize = 4;

/// The case with enough processor time for a division.
const LARGEST_CASE: &str = "100,000, cluster in memory";

/// The broker's costs, read from the benchmark page.
struct Costs {
    /// Requests and commits from the declaration to Deleted, over all replicas.
    lifecycle: [f64; 2],
    /// Requests and commits of a Ready resource that fails and becomes Ready again.
    failure: [f64; 2],
    /// The duration of a sweep, in bare scans of the same rows.
    scans_per_sweep: f64,
    /// The database load of a sweep, in bare scans of the same rows.
    database_work_per_sweep: f64,
    /// The memory of a replica without resources, and per resource.
    bytes: f64,
    bytes_per_resource: f64,
}

impl Costs {
    /// The error names the missing figure.
    fn from_page(page: &str) -> Result<Self> {
        let replicas = if REPLICAS == 1 { "replica" } else { "replicas" };
        let per_machine = |step: &str, column| {
            let case = format!("{REPLICAS} {replicas}, {MACHINES} machines {step}");
            // One cell holds baseline, ours and naive.
            let cell =
                cell(page, "lifecycle", &case, column).and_then(|cell| cell.split('/').nth(1));
            let ours = cell.and_then(number).with_context(missing("lifecycle", &case))?;
            Ok::<_, anyhow::Error>(ours / f64::from(MACHINES))
        };
        let lifecycle = |column| {
            let creation = per_machine("become Ready", column)?;
            Ok::<_, anyhow::Error>(creation + per_machine("are torn down", column)?)
        };
        let first = |name: &str, case: &str| {
            let cell = cell(page, name, case, 1).and_then(|cell| cell.split(' ').next());
            cell.and_then(number).with_context(missing(name, case))
        };
        let small = first("memory", "resident set, 10,000 resources")?;
        let large = first("memory", "resident set, 100,000 resources")?;
        let bytes_per_resource = (large - small) / 90_000.0;
        Ok(Self {
            lifecycle: [lifecycle(REQUESTS)?, lifecycle(COMMITS)?],
            failure: [
                per_machine("fail and recover", REQUESTS)?,
                per_machine("fail and recover", COMMITS)?,
            ],
            scans_per_sweep: first("sweep", "10,000")?,
            database_work_per_sweep: postgres(page, "ours")? / postgres(page, "baseline")?,
            bytes: bytes_per_resource.mul_add(-10_000.0, small),
            bytes_per_resource,
        })
    }

    /// The load of each server with this many resources, as a share of its capacity, and the seconds until a storm is
    /// served. Failures and lifecycles are spread evenly.
    fn load(&self, resources: u32) -> ([(f64, &'static str); 3], Option<f64>) {
        let (many, replicas) = (f64::from(resources), f64::from(REPLICAS));
        let failures = many * FAILURES_PER_DAY / SECONDS_PER_DAY;
        let lifecycles = many * LIFECYCLES_PERCENT_PER_DAY / 100.0 / SECONDS_PER_DAY;
        let [requests, commits] = [0, 1].map(|place: usize| {
            failures * self.failure[place] + lifecycles * self.lifecycle[place]
        });
        let pages = many * OBJECTS_PER_RESOURCE / OBJECTS_PER_PAGE;
        let requests = requests + replicas * pages / RELIST_SECONDS;
        // Every replica sweeps by itself, all of them in the same database.
        let scan = many / (ROWS_PER_SECOND / replicas) / SWEEP_INTERVAL_SECONDS;
        let scanning = scan * self.database_work_per_sweep;
        let spare = [
            REQUESTS_PER_SECOND - requests,
            COMMITS_PER_SECOND * (1.0 - scanning).max(0.0) - commits,
        ];
        // Failure and recovery count at once; the delay between them is ignored.
        let backlog = self.failure.map(|each| many * STORM * each);
        let wait = (backlog[0] / spare[0]).max(backlog[1] / spare[1]).ceil();
        let is_served = spare.iter().all(|spare| *spare > 0.0) && wait <= SECONDS_AFTER_STORM;
        let load = [
            (requests / REQUESTS_PER_SECOND, "the API server"),
            (commits / COMMITS_PER_SECOND + scanning, "the database"),
            (scan * self.scans_per_sweep, "the sweep of a replica"),
        ];
        (load, is_served.then_some(wait))
    }
}

/// The page, from the benchmark page.
pub(super) fn text(page: &str) -> Result<String> {
    let costs = Costs::from_page(page)?;
    let row = |resources: u32| {
        let (load, storm) = costs.load(resources);
        let storm = storm.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        let megabytes = f64::from(resources).mul_add(costs.bytes_per_resource, costs.bytes) / 1e6;
        // Beyond its capacity, the busiest server saturates.
        let busiest =
            load.iter().max_by(|one, other| one.0.total_cmp(&other.0)).map_or("", |it| it.1);
        let [api_server, database, sweep] = load.map(|(share, _)| percent(share));
        format!(
            "| {} | {api_server} | {database} | {sweep} | {megabytes:.0} MB | {storm} | {busiest} |\n",
            grouped(resources)
        )
    };
    let rows: String = SIZES.into_iter().map(row).collect();
    // Load is proportional to the number of resources, so one size yields the limit.
    let [.., most] = SIZES;
    let (load, _) = costs.load(most);
    let limits = load.map(|(load, name)| {
        format!("- {name} is saturated at {} resources\n", capacity(load, most))
    });
    Ok(format!(
        "| resources | API server busy | database busy | sweep, of its interval | memory of a replica | \
         a storm is over after | busiest |\n|---:|---:|---:|---:|---:|---:|---|\n{rows}\n{}",
        limits.concat()
    ))
}

/// The number of resources at full load, given the load of this many; in thousands, rounded down.
fn capacity(load: f64, resources: u32) -> String {
    let thousands = (f64::from(resources) / load / 1e3).floor();
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

/// A cell in the table of a benchmark, by the first cell of its row.
fn cell<'a>(page: &'a str, name: &str, case: &str, column: usize) -> Option<&'a str> {
    let row = rows(figures(page, name)).find(|row| row.first() == Some(&case))?;
    row.get(column).copied()
}

/// Postgres time of a sweep, from the line below the table. A value too small for a division counts as missing.
fn postgres(page: &str, way: &str) -> Result<f64> {
    let case = format!("{LARGEST_CASE}, {way}");
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
    fn committed_scale_page_matches_the_committed_figures() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let [benchmarks, scale] =
            [super::super::PAGE, PAGE].map(|path| page::read(&root, path).unwrap());
        assert_eq!(text(&benchmarks).unwrap(), figures(&scale, "scale"));
    }
}
