//! What the counted figures mean for a platform: how busy its servers are with N resources, and which is the first that
//! cannot keep up. Pure, but for the two pages that it reads from and writes to.
//!
//! The broker's part is counted: how many requests and commits a life and a trouble take with all replicas at work, and
//! how much more a sweep is than a bare scan, all by `cargo xtask bench`. What the servers can do is assumed, because only a
//! platform knows its own.

mod taken;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use taken::Taken;

use super::page::{self, grouped, with_text};
use crate::error::TaskError;

/// Where the outcome stands.
const PAGE: &str = "docs/scale.md";

/// How many resources.
const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// What a platform does, and what its servers can do.
#[derive(Debug, Clone, Copy)]
struct Platform {
    /// How often a resource has trouble in a day and is back: two changes each.
    troubles_per_day: f64,
    /// How many of a hundred resources are made, and as many removed, in a day.
    lives_per_day: f64,
    /// Which share of all has trouble at the same moment, when a cloud has.
    storm: f64,
    /// As many as somebody has counted with.
    replicas: u32,
    sweep_interval_seconds: f64,
    /// What the API server takes of the broker, as its own fairness allows.
    requests_per_second: f64,
    commits_per_second: f64,
    /// Rows of a bare scan.
    rows_per_second: f64,
}

const ASSUMED: Platform = Platform {
    troubles_per_day: 12.0,
    lives_per_day: 10.0,
    storm: 0.1,
    replicas: 3,
    sweep_interval_seconds: 30.0,
    requests_per_second: 200.0,
    commits_per_second: 1_000.0,
    rows_per_second: 200_000.0,
};

const SECONDS_PER_DAY: u32 = 24 * 60 * 60;

/// How often a replica lists everything anew although nobody told it to, and how much a page of such a list holds: the
/// defaults of the watch cache.
const RELIST_SECONDS: f64 = 60.0 * 60.0;
const OBJECTS_PER_PAGE: f64 = 500.0;

/// A composite resource and its ProviderConfig.
const OBJECTS_PER_RESOURCE: f64 = 2.0;

/// How a platform of some size fares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fare {
    /// Shares of what each can do, over a day.
    api_server: f64,
    database: f64,
    /// The share of its interval that a sweep takes in a replica.
    sweep: f64,
    megabytes: f64,
    /// Until everything is as it should be again after a storm; `None` if that is never.
    storm_seconds: Option<u32>,
}

/// Writes the outcome, from what the page of the benchmarks says.
pub(super) fn write(root: &Path) -> Result<(), TaskError> {
    let missing = |what: String| TaskError::Command {
        what: format!("reading what the broker takes from {}", page::PAGE),
        how: format!("there is no figure for {what}"),
    };
    let taken = Taken::from_page(&page::read(root)?, ASSUMED.replicas).map_err(missing)?;
    let table = table(taken, ASSUMED);
    println!("\nscale\n\n{table}");
    let path = root.join(PAGE);
    let file = |doing| {
        let path = path.clone();
        move |source| TaskError::File { doing, path, source }
    };
    let text = fs::read_to_string(&path).map_err(file("read"))?;
    let text = with_text(&text, "scale", &table).ok_or_else(|| TaskError::Command {
        what: format!("writing into {PAGE}"),
        how: "its marks are missing".to_owned(),
    })?;
    fs::write(&path, text).map_err(file("write"))
}

/// Lives through a day, second by second. Troubles and lives come evenly, but for one storm after the sixth hour; what
/// cannot be served waits.
fn fare(taken: Taken, platform: Platform, resources: u32) -> Fare {
    let many = f64::from(resources);
    let seconds = f64::from(SECONDS_PER_DAY);
    let replicas = f64::from(platform.replicas);
    let troubles = many * platform.troubles_per_day / seconds;
    let lives = many * platform.lives_per_day / 100.0 / seconds;
    let pages = many * OBJECTS_PER_RESOURCE / OBJECTS_PER_PAGE;
    let relists = replicas * pages / RELIST_SECONDS;
    let requests =
        troubles * taken.requests_per_trouble + lives * taken.requests_per_life + relists;
    let commits = troubles * taken.commits_per_trouble + lives * taken.commits_per_life;
    // Every replica sweeps by itself, all of them in the same database.
    let scan = many / (platform.rows_per_second / replicas) / platform.sweep_interval_seconds;
    let scanning = scan * taken.work_per_sweep;
    let at_once = many * platform.storm;
    let mut waiting = (0.0, 0.0);
    let (storm, mut calm) = (6 * 60 * 60, None);
    for second in 0..SECONDS_PER_DAY {
        if second == storm {
            // Both ways at once: that the way back comes later is left out.
            waiting.0 += at_once * taken.requests_per_trouble;
            waiting.1 += at_once * taken.commits_per_trouble;
        }
        waiting.0 = (waiting.0 + requests - platform.requests_per_second).max(0.0);
        let spare = platform.commits_per_second * (1.0 - scanning).max(0.0);
        waiting.1 = (waiting.1 + commits - spare).max(0.0);
        if second >= storm && calm.is_none() && waiting == (0.0, 0.0) {
            calm = Some(second - storm + 1);
        }
    }
    Fare {
        api_server: requests / platform.requests_per_second,
        database: commits / platform.commits_per_second + scanning,
        sweep: scan * taken.scans_per_sweep,
        megabytes: many.mul_add(taken.bytes_per_resource, taken.bytes) / 1e6,
        storm_seconds: calm,
    }
}

impl Fare {
    fn busy(self) -> [(f64, &'static str); 3] {
        [
            (self.api_server, "the API server"),
            (self.database, "the database"),
            (self.sweep, "the sweep of a replica"),
        ]
    }

    /// Who is busiest. Beyond all that it can do, it is what saturates.
    fn first(self) -> &'static str {
        let busiest = self.busy().into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
        busiest.map_or("", |(_, name)| name)
    }
}

fn table(taken: Taken, platform: Platform) -> String {
    let mut table = "| resources | API server busy | database busy | sweep, of its interval | memory of a replica | \
                     a storm is over after | busiest |\n|---:|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for resources in SIZES {
        let fare = fare(taken, platform, resources);
        let storm = match fare.storm_seconds {
            Some(seconds) => format!("{} s", grouped(u64::from(seconds))),
            None => "never".to_owned(),
        };
        // Writing into a text cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.0} MB | {storm} | {} |",
            grouped(u64::from(resources)),
            percent(fare.api_server),
            percent(fare.database),
            percent(fare.sweep),
            fare.megabytes,
            fare.first(),
        );
    }
    table.push('\n');
    // How busy each of them is grows in proportion, so that one size tells where it is at its end.
    let [.., most] = SIZES;
    for (busy, name) in fare(taken, platform, most).busy() {
        let _ =
            writeln!(table, "- {name} is at its end with {} resources", grouped(end(busy, most)));
    }
    table
}

/// With how many resources somebody is as busy as can be, who is so busy with these; in thousands, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of resources is neither negative nor that great"
)]
fn end(busy: f64, resources: u32) -> u64 {
    (f64::from(resources) / busy / 1e3).floor() as u64 * 1_000
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEN: Taken = Taken {
        requests_per_life: 30.0,
        commits_per_life: 40.0,
        requests_per_trouble: 5.0,
        commits_per_trouble: 4.0,
        scans_per_sweep: 2.0,
        work_per_sweep: 1.5,
        bytes: 20e6,
        bytes_per_resource: 300.0,
    };

    #[test]
    fn twice_as_many_resources_are_twice_the_work() {
        let (some, twice) = (fare(TAKEN, ASSUMED, 10_000), fare(TAKEN, ASSUMED, 20_000));
        for (one, other) in [
            (some.api_server, twice.api_server),
            (some.database, twice.database),
            (some.sweep, twice.sweep),
        ] {
            assert!((other / one - 2.0).abs() < 1e-9, "{one} and {other}");
        }
    }

    #[test]
    fn a_replica_holds_something_before_it_follows_anything() {
        for (resources, megabytes) in [(0, 20.0), (10_000, 23.0), (20_000, 26.0)] {
            let found = fare(TAKEN, ASSUMED, resources).megabytes;
            assert!((found - megabytes).abs() < 1e-9, "{resources}: {found}");
        }
    }

    #[test]
    fn replicas_scan_the_same_database() {
        // For one replica, 60,000 rows are 0.6 of its 30 seconds, and 0.45 of the database's.
        let quiet = Platform { troubles_per_day: 0.0, lives_per_day: 0.0, ..ASSUMED };
        for (replicas, sweep, database) in [(1, 0.02, 0.015), (3, 0.06, 0.045)] {
            let found = fare(TAKEN, Platform { replicas, ..quiet }, 60_000);
            assert!((found.sweep - sweep).abs() < 1e-9, "{replicas}: {}", found.sweep);
            assert!((found.database - database).abs() < 1e-9, "{replicas}: {}", found.database);
        }
    }

    #[test]
    fn a_storm_is_over_when_what_it_brought_was_served() {
        // 1,000 troubles of 5 requests each at once, and 200 requests a second beside next to nothing but a few lists.
        let quiet = Platform { troubles_per_day: 0.0, lives_per_day: 0.0, ..ASSUMED };
        assert_eq!(fare(TAKEN, quiet, 10_000).storm_seconds, Some(26));
        let busy = Platform { troubles_per_day: 10_000.0, ..ASSUMED };
        assert_eq!(fare(TAKEN, busy, 10_000).storm_seconds, None, "there is no time left for it");
    }

    #[test]
    fn somebody_is_at_his_end_where_he_is_as_busy_as_can_be() {
        let [.., most] = SIZES;
        let end = end(fare(TAKEN, ASSUMED, most).api_server, most);
        let at_its_end = fare(TAKEN, ASSUMED, u32::try_from(end).unwrap()).api_server;
        assert!((0.99..=1.0).contains(&at_its_end), "{at_its_end}");
        let told = format!("- the API server is at its end with {} resources", grouped(end));
        assert!(table(TAKEN, ASSUMED).contains(&told), "{told}");
    }

    #[test]
    fn the_busiest_is_named() {
        let with = |platform: Platform| fare(TAKEN, platform, 10_000).first();
        assert_eq!(with(Platform { requests_per_second: 1.0, ..ASSUMED }), "the API server");
        assert_eq!(with(Platform { commits_per_second: 1.0, ..ASSUMED }), "the database");
        let hasty = Platform { sweep_interval_seconds: 0.01, ..ASSUMED };
        assert_eq!(with(hasty), "the sweep of a replica");
    }
}
