//! A search for leaked secrets: the spellings of a secret, a search for many texts at once, and the values of
//! all tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};

use crate::failure::OrFail;

/// The minimum length of a secret: a shorter text would match by chance.
const MIN_LENGTH: usize = 9;

/// Captured output by place, and the secrets that it must not contain.
#[derive(Default)]
pub struct LeakDetector {
    /// The secrets.
    pub secrets: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl LeakDetector {
    /// Appends text to a place.
    pub fn record(&mut self, place: impl Into<String>, text: impl AsRef<str>) {
        let texts = self.texts.entry(place.into()).or_default();
        texts.push_str(text.as_ref());
        texts.push('\n');
    }

    /// Records every rendering of an error.
    pub fn record_error(&mut self, error: &dyn Error) {
        self.record("an error", all_renderings(error));
    }

    /// The text recorded for a place.
    #[must_use]
    pub fn text_of(&self, place: &str) -> &str {
        self.texts.get(place).map_or("", String::as_str)
    }

    /// The places without any text. Finding no secret there proves nothing.
    #[must_use]
    pub fn places_without_text(&self) -> Vec<&str> {
        let places_without_text = self.texts.iter().filter(|(_, text)| text.trim().is_empty());
        places_without_text.map(|(place, _)| place.as_str()).collect()
    }

    /// The places that hold a secret, in any of its [spellings].
    ///
    /// # Panics
    ///
    /// When a secret is so short that it would match by chance.
    #[must_use]
    pub fn leaking_places(&self) -> Vec<&str> {
        self.hits().into_iter().map(|(place, ..)| place).collect()
    }

    /// Like [`leaking_places`](Self::leaking_places), with the first line that holds a secret.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        let leak = |(place, text, at): (&str, &str, usize)| {
            let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
            format!("{place}: {}", text[line_start..].lines().next().unwrap_or_default())
        };
        self.hits().into_iter().map(leak).collect()
    }

    /// Each leaking place with its text and the offset of the first secret.
    fn hits(&self) -> Vec<(&str, &str, usize)> {
        let search = Search::new(self.secrets.iter().flat_map(|secret| spellings(secret)));
        let texts = self.texts.iter().map(|(place, text)| (place.as_str(), text.as_str()));
        texts.filter_map(|(place, text)| Some((place, text, search.find(text)?))).collect()
    }
}

/// Every rendering of an error: `Display`, `Debug`, and the chain of sources.
#[must_use]
pub fn all_renderings(error: &dyn Error) -> String {
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
    assert!(secret.len() >= MIN_LENGTH, "{secret:?} would match by chance");
    let escaped = in_json(secret);
    let mut spellings = BTreeSet::from([
        secret.to_owned(),
        in_json(&escaped),
        unquoted(&format!("{secret:?}")),
        in_hexadecimal(secret.as_bytes()),
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
pub fn in_hexadecimal(bytes: &[u8]) -> String {
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

/// The part of a text's base64 that is the same in any longer text, if the text begins at this offset
/// within a group of three bytes.
fn within_base64(text: &str, offset: usize) -> String {
    let aligned = &text.as_bytes()[(3 - offset) % 3..];
    base64(&aligned[..aligned.len() / 3 * 3])
}

/// A search for many texts at once that reads each byte once.
pub struct Search {
    /// By [`slot`]: whether a text may begin with these bytes. One lookup rejects most positions.
    possible: Vec<bool>,
    by_prefix: HashMap<[u8; PREFIX], Vec<String>>,
}

/// The length of a prefix that distinguishes a text from most others.
const PREFIX: usize = 8;

/// The size of the table of possible prefixes.
const SLOTS: usize = 1 << 16;

impl Search {
    /// A search for these texts.
    ///
    /// # Panics
    ///
    /// When one is so short that it would match by chance.
    #[must_use]
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut possible = vec![false; SLOTS];
        let mut by_prefix = HashMap::<_, Vec<_>>::new();
        for text in texts {
            let prefix = text.as_bytes().first_chunk::<PREFIX>().copied();
            let prefix = prefix.expect("a text that would match by chance");
            possible[slot(&prefix)] = true;
            by_prefix.entry(prefix).or_default().push(text);
        }
        Self { possible, by_prefix }
    }

    /// The offset of the first match.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        // A plain loop, because unoptimised builds search hundreds of megabytes too.
        let mut at = 0;
        while at + PREFIX <= bytes.len() {
            let rest = &bytes[at..];
            if self.possible[slot(rest)] && self.has_match_at(rest) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    fn has_match_at(&self, bytes: &[u8]) -> bool {
        let prefix = bytes.first_chunk::<PREFIX>();
        let texts = prefix.and_then(|prefix| self.by_prefix.get(prefix));
        texts.into_iter().flatten().any(|text| bytes.starts_with(text.as_bytes()))
    }
}

/// The table index of a prefix, from its first three bytes.
fn slot(bytes: &[u8]) -> usize {
    let (one, two) = (usize::from(bytes[0]) << 10, usize::from(bytes[1]) << 5);
    (one ^ two ^ usize::from(bytes[2])) % SLOTS
}

const TABLES: &str = "SELECT format('%I.%I', nspname, relname) FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

/// The values of every table except Postgres' own. Values are not escaped, as casting a whole row to text
/// would do.
pub async fn table_texts(pool: &PgPool) -> BTreeMap<String, String> {
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
