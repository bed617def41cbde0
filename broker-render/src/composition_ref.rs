//! The Composition of an XR, in `compositionRef`. If it is absent, Crossplane picks one at random.
//!
//! The broker pins it on every XR that is not armed and never changes it on an armed XR: Crossplane would
//! delete the objects of the old Composition.

use std::fmt;
use std::sync::Arc;

use broker_domain::Error;
use serde_json::{Map, Value, json};

use crate::text::quoted;
use crate::xrd::{XrdScope, is_subdomain};

/// The name of a Composition: a DNS-1123 subdomain.
///
/// ```
/// use broker_render::CompositionName;
///
/// assert_eq!(CompositionName::new("sample-machine")?.as_str(), "sample-machine");
/// assert!(CompositionName::new("Sample Machine").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompositionName(Arc<str>);

impl CompositionName {
    /// Validates a name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the API server would reject it as an object name.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, Error> {
        let name = name.into();
        if is_subdomain(&name) {
            return Ok(Self(name));
        }
        Err(Error::invalid("composition", format!("is {}; use a DNS subdomain", quoted(&name))))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CompositionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The Composition that a live XR names, if any.
///
/// ```
/// use broker_render::{XrdScope, composition_ref};
/// use serde_json::json;
///
/// let live = json!({"spec": {"crossplane": {"compositionRef": {"name": "sample-machine"}}}});
/// assert_eq!(composition_ref(&live, XrdScope::Namespaced), Some("sample-machine"));
/// assert_eq!(composition_ref(&live, XrdScope::LegacyCluster), None);
/// ```
pub fn composition_ref(live: &Value, scope: XrdScope) -> Option<&str> {
    let spec = live.get("spec")?;
    let holder = match scope {
        XrdScope::Namespaced | XrdScope::Cluster => spec.get("crossplane")?,
        XrdScope::LegacyCluster => spec,
    };
    holder.get("compositionRef")?.get("name")?.as_str()
}

pub(crate) fn pin(spec: &mut Map<String, Value>, scope: XrdScope, name: &str) {
    let (key, value) = match scope {
        XrdScope::Namespaced | XrdScope::Cluster => {
            ("crossplane", json!({"compositionRef": {"name": name}}))
        }
        XrdScope::LegacyCluster => ("compositionRef", json!({"name": name})),
    };
    spec.insert(key.to_owned(), value);
}

/// Removes the reference in any scope, before a comparison with a live XR.
pub(crate) fn remove(spec: &mut Map<String, Value>) {
    spec.remove("crossplane");
    spec.remove("compositionRef");
}
