//! The complete name of one object on a cluster.

use std::fmt;

use crate::error::Error;

/// The complete name of a Kubernetes object: API version, kind, name and namespace.
///
/// ```
/// use broker_domain::ObjectReference;
///
/// let server = ObjectReference::new("hcloud.crossplane.io/v1", "Server", "web-x7f", Some("team-a"))?;
/// assert_eq!(server.to_string(), "Server web-x7f in team-a (hcloud.crossplane.io/v1)");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectReference {
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
}

/// Kinds (API version, kind) that the broker composes but never reads. They hold secrets or settings, and no
/// external resource depends on them.
pub const PLAIN_DATA: [(&str, &str); 2] = [("v1", "Secret"), ("v1", "ConfigMap")];

impl ObjectReference {
    /// A reference. Without a namespace, the object is cluster-scoped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when a part is empty.
    pub fn new(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
        namespace: Option<&str>,
    ) -> Result<Self, Error> {
        let reference = Self {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(str::to_owned),
        };
        let parts = [
            ("apiVersion", Some(&reference.api_version)),
            ("kind", Some(&reference.kind)),
            ("name", Some(&reference.name)),
            ("namespace", reference.namespace.as_ref()),
        ];
        for (part, text) in parts {
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(Error::invalid(
                    format!("substrate.{part}"),
                    "is empty; an object is named completely",
                ));
            }
        }
        Ok(reference)
    }

    /// Group and version, as manifests spell them.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the broker never reads this kind; see [`PLAIN_DATA`].
    ///
    /// ```
    /// use broker_domain::ObjectReference;
    ///
    /// let secret = ObjectReference::new("v1", "Secret", "connection", Some("team-a"))?;
    /// assert!(secret.is_plain_data());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    pub fn is_plain_data(&self) -> bool {
        PLAIN_DATA.contains(&(self.api_version.as_str(), self.kind.as_str()))
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        write!(f, " ({})", self.api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_reference_requires_every_part() {
        for (api_version, kind, name, namespace, part) in [
            ("", "Server", "a", None, "apiVersion"),
            ("v1", " ", "a", None, "kind"),
            ("v1", "Server", "", None, "name"),
            ("v1", "Server", "a", Some(""), "namespace"),
        ] {
            let error = ObjectReference::new(api_version, kind, name, namespace).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("substrate.{part}: is empty; an object is named completely")
            );
        }
    }
}
