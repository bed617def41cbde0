//! Secret-leak search: the spellings of a secret, a search for many secrets at once, and every row of a
//! database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};

use crate::failure::OrFail;

/// A shorter text would match by chance.
const SHORTEST: usize = 9;

/// Captured output by place, and the secrets that it must not contain.
#[derive(Default)]
pub struct LeakDetector {
    /// The secrets.
    pub secrets: BTreeSet<String>,
    heard: BTreeMap<String, String>,
}

impl LeakDetector {
    /// Records text of a place.
    pub fn record(&mut self, place: impl Into<String>, text: impl AsRef<str>) {
        let heard = self.heard.entry(place.into()).or_default();
        heard.push_str(text.as_ref());
        heard.push('\n');
    }

    /// Records every rendering of an error.
    pub fn record_error(&mut self, error: &dyn Error) {
        self.record("an error", everything(error));
    }

    /// The text recorded for a place.
    #[must_use]
    pub fn at(&self, place: &str) -> &str {
        self.heard.get(place).map_or("", String::as_str)
    }

    /// The places without any text: their search proves nothing.
    #[must_use]
    pub fn silent(&self) -> Vec<&str> {
        let silent = self.heard.iter().filter(|(_, text)| text.trim().is_empty());
        silent.map(|(place, _)| place.as_str()).collect()
    }

    /// The places that hold a secret, in any of its [spellings].
    ///
    /// # Panics
    ///
    /// When a secret is so short that it would match by chance.
    #[must_use]
    pub fn found(&self) -> Vec<&str> {
        self.hits().into_iter().map(|(place, ..)| place).collect()
    }

    /// The same, each with the first line that holds a secret.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        let leak = |(place, text, at): (&str, &str, usize)| {
            let begins = text[..at].rfind('\n').map_or(0, |end| end + 1);
            format!("{place}: {}", text[begins..].lines().next().unwrap_or_default())
        };
        self.hits().into_iter().map(leak).collect()
    }

    /// Places, their text, and the offset of the first secret.
    fn hits(&self) -> Vec<(&str, &str, usize)> {
        let search = Search::of(self.secrets.iter().flat_map(|secret| spellings(secret)));
        let heard = self.heard.iter().map(|(place, text)| (place.as_str(), text.as_str()));
        heard.filter_map(|(place, text)| Some((place, text, search.find(text)?))).collect()
    }
}

/// Every rendering of an error: `Display`, `Debug`, and the chain of sources.
#[must_use]
pub fn everything(error: &dyn Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, " {cause} {cause:?}");
        source = cause.source();
    }
    text
}

/// The spellings of a secret: plain, JSON, JSON within JSON, Rust `Debug`, hexadecimal and base64.
///
/// # Panics
///
/// When it is so short that it would match by chance.
#[must_use]
pub fn spellings(secret: &str) -> BTreeSet<String> {
    assert!(secret.len() >= SHORTEST, "{secret:?} would match by chance");
    let escaped = in_json(secret);
    let mut spellings = BTreeSet::from([
        secret.to_owned(),
        in_json(&escaped),
        unquoted(&format!("{secret:?}")),
        in_digits(secret.as_bytes()),
        escaped,
    ]);
    for offset in 0..3 {
        let encoded = within_base64(secret, offset);
        spellings.insert(encoded.replace('+', "-").replace('/', "_"));
        spellings.insert(encoded);
    }
    spellings
}

fn in_json(text: &str) -> String {
    unquoted(&Value::from(text).to_string())
}

/// The text between the quotation marks.
fn unquoted(text: &str) -> String {
    text[1..text.len() - 1].to_owned()
}

/// Hexadecimal, as Postgres prints a `bytea` column.
#[must_use]
pub fn in_digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Base64, as a Kubernetes Secret holds it.
#[must_use]
pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    let encoded = serde_json::to_value(ByteString(bytes.as_ref().to_vec()));
    encoded.or_fail("bytes cannot be encoded").as_str().unwrap_or_default().to_owned()
}

/// The part of a text's base64 that does not depend on its surroundings, when the text begins at this
/// offset within a group of three bytes.
fn within_base64(text: &str, offset: usize) -> String {
    let own = &text.as_bytes()[(3 - offset) % 3..];
    base64(&own[..own.len() / 3 * 3])
}

/// A search for many texts at once that reads each byte once.
pub struct Search {
    /// Whether a text may begin with these bytes: rejects most positions with one lookup.
    likely: Vec<bool>,
    by_beginning: HashMap<[u8; BEGINNING], Vec<String>>,
}

/// A prefix long enough to tell one text from most others.
const BEGINNING: usize = 8;

/// The size of the first lookup table.
const SLOTS: usize = 1 << 16;

impl Search {
    /// A search for these texts.
    ///
    /// # Panics
    ///
    /// When one is so short that it would match by chance.
    #[must_use]
    pub fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let mut likely = vec![false; SLOTS];
        let mut by_beginning = HashMap::<_, Vec<_>>::new();
        for text in texts {
            let beginning = text.as_bytes().first_chunk::<BEGINNING>().copied();
            let beginning = beginning.expect("a text that would match by chance");
            likely[slot(&beginning)] = true;
            by_beginning.entry(beginning).or_default().push(text);
        }
        Self { likely, by_beginning }
    }

    /// The offset of the first match.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        // A plain loop: it also runs unoptimised, over hundreds of megabytes.
        let mut at = 0;
        while at + BEGINNING <= bytes.len() {
            let rest = &bytes[at..];
            if self.likely[slot(rest)] && self.is_beginning_of(rest) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    fn is_beginning_of(&self, bytes: &[u8]) -> bool {
        let beginning = bytes.first_chunk::<BEGINNING>();
        let texts = beginning.and_then(|beginning| self.by_beginning.get(beginning));
        texts.into_iter().flatten().any(|text| bytes.starts_with(text.as_bytes()))
    }
}

/// Needs at least three bytes.
fn slot(bytes: &[u8]) -> usize {
    let (one, two) = (usize::from(bytes[0]) << 10, usize::from(bytes[1]) << 5);
    (one ^ two ^ usize::from(bytes[2])) % SLOTS
}

const TABLES: &str = "SELECT format('%I.%I', nspname, relname) FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

/// Every table except Postgres' own, with each value as it is: casting a whole row to text would escape the
/// values.
pub async fn rows(pool: &PgPool) -> BTreeMap<String, String> {
    let names = sqlx::query_scalar::<_, String>(TABLES).fetch_all(pool).await;
    let mut tables = BTreeMap::new();
    for name in names.or_fail("the tables cannot be listed") {
        let select = format!(
            "SELECT coalesce(string_agg(cell.content, E'\\n'), '')
            FROM {name} AS r, json_each_text(row_to_json(r)) AS cell (name, content)"
        );
        let text = sqlx::query_scalar::<_, String>(AssertSqlSafe(select)).fetch_one(pool).await;
        tables.insert(name, text.or_fail("a table cannot be read"));
    }
    tables
}

#[cfg(test)]
mod tests;
