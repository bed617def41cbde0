//! What the broker takes, read from the tables of the benchmarks. What is not there is named, and nothing is reckoned
//! without it.

use super::super::page::between_marks;

/// What the broker takes, by the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// From the declaration to Deleted, by all replicas together.
    pub(super) requests_per_life: f64,
    pub(super) commits_per_life: f64,
    /// A resource that is Ready has trouble and is Ready again, by all replicas together.
    pub(super) requests_per_trouble: f64,
    pub(super) commits_per_trouble: f64,
    /// How long a sweep takes, in bare scans of the same rows.
    pub(super) scans_per_sweep: f64,
    /// What the database has to do for a sweep, in bare scans of the same rows.
    pub(super) work_per_sweep: f64,
    /// What a replica holds that follows nothing, and what each resource adds to it.
    pub(super) bytes: f64,
    pub(super) bytes_per_resource: f64,
}

/// As many machines live in each case of `life`.
const MACHINES: u32 = 50;

/// The columns of a work's table.
const REQUESTS: usize = 3;
const COMMITS: usize = 4;

/// Where enough processor time was spent to be divided.
const MANY: &str = "100,000, cluster in memory";

impl Taken {
    /// With so many replicas, from the tables of the page; the error names what is not there.
    pub(super) fn from_page(page: &str, replicas: u32) -> Result<Self, String> {
        let replicas = match replicas {
            1 => "1 replica".to_owned(),
            more => format!("{more} replicas"),
        };
        let each = |what: &str, column| {
            let case = format!("{replicas}, {MACHINES} machines {what}");
            Ok::<_, String>(ours(page, "life", &case, column)? / f64::from(MACHINES))
        };
        let life = |column| Ok::<_, String>(each("up", column)? + each("down", column)?);
        let trouble = |column| each("in trouble and back", column);
        let postgres = |way| processor(page, "sweep", MANY, way, "Postgres");
        let (bytes, bytes_per_resource) = line(
            (10_000.0, first(page, "memory", "resident with 10,000")?),
            (100_000.0, first(page, "memory", "resident with 100,000")?),
        );
        Ok(Self {
            requests_per_life: life(REQUESTS)?,
            commits_per_life: life(COMMITS)?,
            requests_per_trouble: trouble(REQUESTS)?,
            commits_per_trouble: trouble(COMMITS)?,
            scans_per_sweep: first(page, "sweep", "10,000")?,
            work_per_sweep: postgres("ours")? / postgres("floor")?,
            bytes,
            bytes_per_resource,
        })
    }
}

/// Floor, ours and naive stand in one cell; the second is ours.
fn ours(page: &str, name: &str, case: &str, column: usize) -> Result<f64, String> {
    let cell = cell(page, name, case, column);
    let ours = cell.and_then(|cell| number(cell.split('/').nth(1)?));
    ours.ok_or_else(|| format!("`{name}`, {case}"))
}

/// The first figure of a row.
fn first(page: &str, name: &str, case: &str) -> Result<f64, String> {
    let cell = cell(page, name, case, 1);
    let first = cell.and_then(|cell| number(cell.split_whitespace().next()?));
    first.ok_or_else(|| format!("`{name}`, {case}"))
}

/// What one of them spent in a case, from the line below the table that says so.
fn processor(page: &str, name: &str, case: &str, way: &str, who: &str) -> Result<f64, String> {
    let begins = format!("- {case}, {way}: ");
    let told = lines(page, name).find_map(|line| line.strip_prefix(&begins));
    let parts = told.and_then(|told| told.split_once('(')).map(|(_, parts)| parts);
    let part = |part: &str| number(part.strip_prefix(who)?.strip_prefix(' ')?);
    let spent = parts.and_then(|parts| parts.trim_end_matches(')').split(", ").find_map(part));
    // Too little to be divided by is as good as none.
    let spent = spent.filter(|spent| *spent > 0.0);
    spent.ok_or_else(|| format!("`{name}`, {case}, {way}: processor time of {who}"))
}

/// A cell of the table of a benchmark, by the first cell of its row.
fn cell<'a>(page: &'a str, name: &str, case: &str, column: usize) -> Option<&'a str> {
    lines(page, name).find_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        (cells.next() == Some(case)).then(|| cells.nth(column.checked_sub(1)?))?
    })
}

fn lines<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let between = between_marks(page, name).map(|(start, stop)| &page[start..stop]);
    between.into_iter().flat_map(str::lines)
}

fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}

/// Where the line through two points begins, and how steep it is.
fn line((x, y): (f64, f64), (other_x, other_y): (f64, f64)) -> (f64, f64) {
    let slope = (other_y - y) / (other_x - x);
    (slope.mul_add(-x, y), slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
<!-- bench life -->
| case | a | b | requests | commits | rows written |
|---|---:|---:|---:|---:|---:|
| 1 replica, 50 machines up | – | – | – / 500 / – | – / 500 / – | – / 1 / – |
| 1 replica, 50 machines in trouble and back | – | – | – / 50 / – | – / 100 / – | – / 1 / – |
| 1 replica, 50 machines down | – | – | – / 100 / – | – / 50 / – | – / 1 / – |
| 3 replicas, 50 machines up | – | – | – / 1,000 / – | – / 1,500 / – | – / 1 / – |
| 3 replicas, 50 machines in trouble and back | – | – | – / 250 / – | – / 200 / – | – / 1 / – |
| 3 replicas, 50 machines down | – | – | – / 500 / – | – / 600 / – | – / 1 / – |
<!-- /bench life -->
<!-- bench sweep -->
| 10,000 | 2.00 (1.9–2.5) | 105 |
| 100,000, cluster in memory | 1.72 (1.67–1.95) | – |

- no request, and nothing written: met, 0 requests, 0 commits, 0 rows

Processor time, against all of the floor's:

- 10,000, floor: 1.00 (API server 0.03, Postgres 9.99, caller 0.38)
- 100,000, cluster in memory, floor: 1.00 (API server 0.02, Postgres 0.50, caller 0.38)
- 100,000, cluster in memory, ours: 2.07 (API server 0.03, Postgres 0.75)
<!-- /bench sweep -->
<!-- bench memory -->
| heap per resource, of 100,000 | 365 |
| resident with 10,000 | 25,000,000 |
| resident with 100,000 | 70,000,000 |

- at most 1,024 bytes per resource: met, 365
<!-- /bench memory -->
";

    #[test]
    fn what_the_broker_takes_is_read_from_the_page() {
        let expected = Taken {
            requests_per_life: 30.0,
            commits_per_life: 42.0,
            requests_per_trouble: 5.0,
            commits_per_trouble: 4.0,
            scans_per_sweep: 2.0,
            work_per_sweep: 1.5,
            bytes: 20e6,
            bytes_per_resource: 500.0,
        };
        assert_eq!(Taken::from_page(PAGE, 3).unwrap(), expected);
        let alone = Taken {
            requests_per_life: 12.0,
            commits_per_life: 11.0,
            requests_per_trouble: 1.0,
            commits_per_trouble: 2.0,
            ..expected
        };
        assert_eq!(Taken::from_page(PAGE, 1).unwrap(), alone);
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |is: &str, becomes: &str| {
            assert!(PAGE.contains(is), "{is}");
            Taken::from_page(&PAGE.replace(is, becomes), 3).unwrap_err()
        };
        let up = "3 replicas, 50 machines up";
        let floor = "100,000, cluster in memory, floor";
        for (is, becomes, named) in [
            ("<!-- bench life -->", "", format!("`life`, {up}")),
            (up, "3 replicas, 40 machines up", format!("`life`, {up}")),
            ("– / 1,500 / –", "– / – / –", format!("`life`, {up}")),
            ("s down", "s gone", "`life`, 3 replicas, 50 machines down".to_owned()),
            ("and back", "", "`life`, 3 replicas, 50 machines in trouble and back".to_owned()),
            ("| 10,000 | 2.00", "| 10,001 | 2.00", "`sweep`, 10,000".to_owned()),
            (
                "- 100,000, cluster in memory, floor",
                "-",
                format!("`sweep`, {floor}: processor time of Postgres"),
            ),
            ("Postgres 0.50, ", "", format!("`sweep`, {floor}: processor time of Postgres")),
            (
                "Postgres 0.50",
                "Postgres 0.00",
                format!("`sweep`, {floor}: processor time of Postgres"),
            ),
            ("resident with 10,000", "x", "`memory`, resident with 10,000".to_owned()),
            ("resident with 100,000", "x", "`memory`, resident with 100,000".to_owned()),
        ] {
            assert_eq!(missing(is, becomes), named);
        }
        let error = Taken::from_page(PAGE, 5).unwrap_err();
        assert_eq!(error, "`life`, 5 replicas, 50 machines up", "nobody counted with five");
    }
}
