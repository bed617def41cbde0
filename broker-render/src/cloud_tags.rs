//! A Resource's labels as cloud tags, within the provider's limits; every skipped label is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use crate::provider_config::Provider;
use crate::text::quoted;

/// The tags to send, and a record for each skipped label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudTags {
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The skipped labels with their reasons. [`Xr::skipped_tags`](crate::Xr::skipped_tags) adds those that
    /// the XRD does not declare; a pass logs them after it applied the XR.
    pub skipped: Vec<SkippedTag>,
}

/// A label that is not sent as a tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SkippedTag {
    /// The label's key; for [`TagSkip::Undeclared`], the tag's key.
    pub key: String,
    /// The reason.
    pub reason: TagSkip,
}

/// The closed set of reasons to skip a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagSkip {
    /// The prefixed key exceeds the provider's limit.
    KeyTooLong,
    /// The key is empty or contains a character that the provider rejects.
    KeyInvalid,
    /// The provider considers the key equal to that of another label.
    KeyTaken,
    /// The value exceeds the provider's limit.
    ValueTooLong,
    /// The value contains a character that the provider rejects.
    ValueInvalid,
    /// The number of tags exceeds the provider's limit.
    TooMany,
    /// The XRD does not declare the tag.
    Undeclared,
}

impl TagSkip {
    /// The name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyTooLong => "key_too_long",
            Self::KeyInvalid => "key_invalid",
            Self::KeyTaken => "key_taken",
            Self::ValueTooLong => "value_too_long",
            Self::ValueInvalid => "value_invalid",
            Self::TooMany => "too_many",
            Self::Undeclared => "undeclared",
        }
    }
}

impl fmt::Display for TagSkip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl SkippedTag {
    pub(crate) fn new(key: impl Into<String>, reason: TagSkip) -> Self {
        Self { key: key.into(), reason }
    }
}

impl fmt::Display for SkippedTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "label {} is not a cloud tag: {}", quoted(&self.key), self.reason)
    }
}

struct Rules {
    prefix: &'static str,
    max_tags: usize,
    max_key_chars: usize,
    max_value_chars: usize,
    /// Accepts the label's key without the prefix; never called with an empty key.
    accepts_key: fn(&str) -> bool,
    accepts_value: fn(&str) -> bool,
    key_comparison: KeyComparison,
}

/// How a provider compares keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyComparison {
    AsWritten,
    IgnoringCase,
}

/// Converts labels to tags of a provider. The prefix keeps keys apart from foreign tags. Nothing is shortened
/// or rewritten. Beyond the provider's limit, the first labels by key are kept.
///
/// ```
/// use broker_render::{Provider, TagSkip, cloud_tags};
///
/// let labels = [("team".to_owned(), "Blue".to_owned())].into();
/// let on_aws = cloud_tags(&Provider::new("aws")?, &labels);
/// assert_eq!(on_aws.tags["plexsphere:team"], "Blue");
/// let on_gcp = cloud_tags(&Provider::new("gcp")?, &labels);
/// assert_eq!(on_gcp.skipped[0].reason, TagSkip::ValueInvalid, "GCP allows no capital letters");
/// # Ok::<(), broker_domain::Error>(())
/// ```
pub fn cloud_tags(provider: &Provider, labels: &BTreeMap<String, String>) -> CloudTags {
    let rules = rules_of(provider);
    let mut result = CloudTags::default();
    let mut taken = BTreeSet::new();
    for (label, value) in labels {
        let key = format!("{}{label}", rules.prefix);
        let identity = match rules.key_comparison {
            KeyComparison::AsWritten => key.clone(),
            KeyComparison::IgnoringCase => key.to_lowercase(),
        };
        let reason = if label.is_empty() || !(rules.accepts_key)(label) {
            TagSkip::KeyInvalid
        } else if key.chars().count() > rules.max_key_chars {
            TagSkip::KeyTooLong
        } else if value.chars().count() > rules.max_value_chars {
            TagSkip::ValueTooLong
        } else if !(rules.accepts_value)(value) {
            TagSkip::ValueInvalid
        } else if taken.contains(&identity) {
            TagSkip::KeyTaken
        } else if result.tags.len() >= rules.max_tags {
            TagSkip::TooMany
        } else {
            taken.insert(identity);
            result.tags.insert(key, value.clone());
            continue;
        };
        result.skipped.push(SkippedTag::new(label.as_str(), reason));
    }
    result
}

fn rules_of(provider: &Provider) -> Rules {
    match provider.as_str() {
        "aws" => Rules {
            prefix: "plexsphere:",
            max_tags: 50,
            max_key_chars: 128,
            max_value_chars: 256,
            accepts_key: is_aws_text,
            accepts_value: |value| is_aws_text(value) && value.trim() == value,
            key_comparison: KeyComparison::AsWritten,
        },
        "azure" => Rules {
            prefix: "plexsphere:",
            max_tags: 50,
            // Names may be longer elsewhere; a storage account accepts 128 characters.
            max_key_chars: 128,
            max_value_chars: 256,
            accepts_key: |key| !key.chars().any(|c| c.is_control() || "<>%&\\?/".contains(c)),
            accepts_value: |value| !value.chars().any(char::is_control),
            key_comparison: KeyComparison::IgnoringCase,
        },
        "hcloud" | "hetzner" => Rules {
            prefix: "plexsphere.io/",
            max_tags: 64,
            max_key_chars: "plexsphere.io/".len() + 63,
            max_value_chars: 63,
            accepts_key: is_label_text,
            accepts_value: |value| value.is_empty() || is_label_text(value),
            key_comparison: KeyComparison::AsWritten,
        },
        "openstack" => Rules {
            prefix: "plexsphere:",
            max_tags: 128,
            max_key_chars: 255,
            max_value_chars: 255,
            accepts_key: |key| {
                key.chars().all(|c| c.is_ascii_alphanumeric() || "-_:. ".contains(c))
            },
            accepts_value: |value| !value.chars().any(char::is_control),
            key_comparison: KeyComparison::AsWritten,
        },
        // Google's rules are the strictest, and so the fallback for unknown providers.
        "gcp" => Rules { max_tags: 64, ..STRICTEST },
        _ => STRICTEST,
    }
}

const STRICTEST: Rules = Rules {
    prefix: "plexsphere-",
    max_tags: 50,
    max_key_chars: 63,
    max_value_chars: 63,
    accepts_key: |key| key.chars().all(is_strictest_char),
    accepts_value: |value| value.chars().all(is_strictest_char),
    key_comparison: KeyComparison::AsWritten,
};

/// Letters, separators and numbers by Unicode category; combining marks are excluded.
static AWS_TEXT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$").ok());

fn is_aws_text(text: &str) -> bool {
    AWS_TEXT.as_ref().is_some_and(|allowed| allowed.is_match(text))
}

const fn is_strictest_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_')
}

fn is_label_text(value: &str) -> bool {
    let is_label_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_edge_char = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    value.chars().all(is_label_char)
        && is_edge_char(value.chars().next())
        && is_edge_char(value.chars().next_back())
}
