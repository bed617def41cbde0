//! Ids: one newtype per entity, so that the compiler rejects a Project id where a Resource id belongs.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::{Error, NotFound};

/// Declares a newtype over [`Uuid`] that rejects the nil UUID, which would mean "not assigned".
macro_rules! id {
    ($(#[$docs:meta])* $name:ident, $field:literal, $entity:literal) => {
        $(#[$docs])*
        ///
        /// ```
        #[doc = concat!("use broker_domain::", stringify!($name), ";")]
        /// use uuid::Uuid;
        ///
        #[doc = concat!("let id = ", stringify!($name), "::new(Uuid::from_u128(7))?;")]
        /// assert_eq!(id.to_string(), "00000000-0000-0000-0000-000000000007");
        #[doc = concat!("assert!(", stringify!($name), "::new(Uuid::nil()).is_err());")]
        /// # Ok::<(), broker_domain::Error>(())
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(try_from = "Uuid", into = "Uuid")
        )]
        pub struct $name(Uuid);

        impl $name {
            /// Accepts any UUID except the nil one.
            ///
            /// # Errors
            ///
            /// [`Error::InvalidInput`] that names the field, for the nil UUID.
            pub fn new(id: Uuid) -> Result<Self, Error> {
                if id.is_nil() {
                    return Err(Error::invalid(
                        $field,
                        concat!("is the nil UUID; give the id of a ", $entity),
                    ));
                }
                Ok(Self(id))
            }

            /// The underlying UUID.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl TryFrom<Uuid> for $name {
            type Error = Error;

            fn try_from(id: Uuid) -> Result<Self, Error> {
                Self::new(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let id = Uuid::try_parse(text)
                    .map_err(|_| Error::invalid($field, format!("{text:?} is not a UUID")))?;
                Self::new(id)
            }
        }
    };
}

id! {
    /// A provisioned resource. Admission creates it as a version 7 UUID; every object name on the cluster
    /// derives from it (see [`XrName`]).
    ///
    /// ```
    /// use broker_domain::ProvisionedResourceId;
    ///
    /// let id: ProvisionedResourceId = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57".parse()?;
    /// assert_eq!(id.xr_name().as_str(), "pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57");
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    ProvisionedResourceId, "id", "provisioned resource"
}
id! {
    /// The Project that owns the substrate. It has one namespace on the management cluster.
    ProjectId, "project_id", "project"
}
id! {
    /// The tenancy Resource that the substrate backs; the broker knows only its id.
    ResourceId, "resource_id", "resource"
}
id! {
    /// A published version of a blueprint in the catalog.
    BlueprintVersionId, "blueprint_version_id", "blueprint version"
}
id! {
    /// A cloud credential. It determines the cloud; the aggregate stores no cloud.
    CloudCredentialId, "cloud_credential_id", "cloud credential"
}
id! {
    /// A cloud of the inventory, resolved through a credential.
    CloudId, "cloud_id", "cloud"
}
id! {
    /// A bootstrap token. The broker keeps this id and never the token itself.
    BootstrapTokenId, "bootstrap_token_id", "bootstrap token"
}
id! {
    /// A lifecycle event. Consumers deduplicate deliveries by it.
    EventId, "event_id", "lifecycle event"
}

impl ProvisionedResourceId {
    /// The name of the resource's objects on the cluster.
    pub fn xr_name(&self) -> XrName {
        XrName::of(*self)
    }
}

impl NotFound for ProvisionedResourceId {
    fn not_found(self) -> Error {
        Error::ProvisionedResourceNotFound(self)
    }
}

impl NotFound for BlueprintVersionId {
    fn not_found(self) -> Error {
        Error::BlueprintNotFound(self)
    }
}

impl NotFound for CloudCredentialId {
    fn not_found(self) -> Error {
        Error::CredentialNotFound(self)
    }
}

impl NotFound for CloudId {
    fn not_found(self) -> Error {
        Error::CloudNotFound(self)
    }
}

impl NotFound for ResourceId {
    fn not_found(self) -> Error {
        Error::ResourceNotFound(self)
    }
}

/// The lookup is the Project's assignment to a management cluster.
impl NotFound for ProjectId {
    fn not_found(self) -> Error {
        Error::AssignmentNotFound(self)
    }
}

/// The name by which the platform addresses a Resource inside its Project. An agent registers with it.
///
/// The broker writes it into a YAML document and a JSON request, and an agent may put it into a URL, a unit file or a
/// shell variable. So it has no character that one of them escapes or expands: 1 to 253 ASCII letters, digits and
/// `-._:/@+=~`, of which the first is a letter or a digit. Quote it in YAML: `7` and `true` are valid handles.
///
/// ```
/// use broker_domain::ResourceHandle;
///
/// let handle = ResourceHandle::new("web/node-1.eu")?;
/// assert_eq!(handle.as_str(), "web/node-1.eu");
/// assert!(ResourceHandle::new("web 1").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceHandle(String);

impl ResourceHandle {
    /// The longest handle, in bytes.
    pub const MAX_LENGTH: usize = 253;

    const PUNCTUATION: &str = "-._:/@+=~";

    /// Accepts a handle as the platform spells it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for any other text; the message does not repeat it.
    pub fn new(handle: impl Into<String>) -> Result<Self, Error> {
        let handle = handle.into();
        let allowed = |c: char| c.is_ascii_alphanumeric() || Self::PUNCTUATION.contains(c);
        let starts_well = handle.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts_well || handle.len() > Self::MAX_LENGTH || !handle.chars().all(allowed) {
            return Err(Error::invalid(
                "handle",
                "is not a Resource handle; use 1 to 253 ASCII letters, digits and -._:/@+=~, and start with a \
                 letter or a digit",
            ));
        }
        Ok(Self(handle))
    }

    /// The handle.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a resource's composite resource and ProviderConfig: `pr-` and the id.
///
/// The name is derived, so rendering, observing and every re-apply agree on it without a collision check. It
/// is a valid DNS-1123 label.
///
/// ```
/// use broker_domain::{ProvisionedResourceId, XrName};
///
/// let id: ProvisionedResourceId = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57".parse()?;
/// assert_eq!(XrName::of(id).to_string(), "pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XrName(String);

impl XrName {
    const PREFIX: &str = "pr-";

    /// Derives the name from an id.
    pub fn of(id: ProvisionedResourceId) -> Self {
        Self(format!("{}{id}", Self::PREFIX))
    }

    /// Parses a name found on the cluster; `None` if the broker did not derive it.
    ///
    /// ```
    /// use broker_domain::XrName;
    ///
    /// let id = XrName::id_of("pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57").unwrap();
    /// assert_eq!(id.xr_name().as_str(), "pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57");
    /// assert_eq!(XrName::id_of("foreign-object"), None);
    /// ```
    pub fn id_of(name: &str) -> Option<ProvisionedResourceId> {
        let id = name.strip_prefix(Self::PREFIX)?.parse().ok()?;
        // A UUID has several spellings; accept only the canonical one.
        (Self::of(id).as_str() == name).then_some(id)
    }

    /// The name as Kubernetes knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for XrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_uuid_is_rejected_with_field_name() {
        let nil_errors = [
            ("id", ProvisionedResourceId::new(Uuid::nil()).unwrap_err()),
            ("project_id", ProjectId::new(Uuid::nil()).unwrap_err()),
            ("resource_id", ResourceId::new(Uuid::nil()).unwrap_err()),
            ("blueprint_version_id", BlueprintVersionId::new(Uuid::nil()).unwrap_err()),
            ("cloud_credential_id", CloudCredentialId::new(Uuid::nil()).unwrap_err()),
            ("cloud_id", CloudId::new(Uuid::nil()).unwrap_err()),
            ("bootstrap_token_id", BootstrapTokenId::new(Uuid::nil()).unwrap_err()),
            ("event_id", EventId::new(Uuid::nil()).unwrap_err()),
        ];
        for (field, error) in nil_errors {
            assert_eq!(error.reason(), "invalid_input");
            assert!(error.to_string().starts_with(&format!("{field}: ")), "{error}");
        }
    }

    #[test]
    fn missing_entity_has_its_own_error() {
        let uuid = Uuid::from_u128(7);
        let missing = [
            (ProvisionedResourceId(uuid).not_found(), "provisioned_resource_not_found"),
            (BlueprintVersionId(uuid).not_found(), "blueprint_not_found"),
            (CloudCredentialId(uuid).not_found(), "credential_not_found"),
            (ResourceId(uuid).not_found(), "resource_not_found"),
            (CloudId(uuid).not_found(), "cloud_not_found"),
            (ProjectId(uuid).not_found(), "assignment_not_found"),
        ];
        for (error, reason) in missing {
            assert_eq!(error.reason(), reason);
            assert!(error.to_string().contains(&uuid.to_string()), "{error}");
        }
    }

    #[test]
    fn invalid_uuid_text_is_rejected_with_the_text() {
        let error = "web-1".parse::<ProjectId>().unwrap_err();
        assert_eq!(error.to_string(), "project_id: \"web-1\" is not a UUID");
    }

    #[test]
    fn resource_handle_has_no_character_that_a_document_escapes() {
        let longest = "a".repeat(ResourceHandle::MAX_LENGTH);
        for valid in ["a", "7", "true", "Web-1", "a/b:c@d", "a-._:/@+=~", longest.as_str()] {
            assert_eq!(ResourceHandle::new(valid).unwrap().as_str(), valid);
        }
        let too_long = format!("{longest}a");
        let invalid = [
            "", "-a", "/a", "~", "a b", "a\n", "a\"", "a'", "a`", "a\\", "a$", "a%", "a#", "a{",
            "ä", "a\0",
        ];
        for handle in invalid.into_iter().chain([too_long.as_str()]) {
            let error = ResourceHandle::new(handle).unwrap_err();
            assert_eq!(error.reason(), "invalid_input", "{handle:?}");
            assert!(error.to_string().starts_with("handle: is not a Resource handle"), "{error}");
        }
    }

    #[test]
    fn xr_name_parses_only_in_canonical_spelling() {
        let id = ProvisionedResourceId::new(Uuid::from_u128(0xabc)).unwrap();
        let name = id.xr_name();
        assert_eq!(XrName::id_of(name.as_str()), Some(id));
        for foreign in [
            "",
            "pr-",
            "pr-00000000-0000-0000-0000-000000000000",
            "00000000-0000-0000-0000-000000000abc",
            "pr-00000000000000000000000000000abc",
            "pr-00000000-0000-0000-0000-000000000ABC",
            "pr-00000000-0000-0000-0000-000000000abc-2",
        ] {
            assert_eq!(XrName::id_of(foreign), None, "{foreign}");
        }
    }
}
