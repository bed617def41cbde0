//! Tests of the feature `serde`: names equal those in rows, and deserialization runs the constructors' checks.

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::{Action, MeshRole, OnFailure, Phase, ProjectId, ProvisionedResourceId};

fn deserialize<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(text)
}

#[test]
fn nil_uuid_is_rejected_by_serde() {
    let nil = "00000000-0000-0000-0000-000000000000";
    assert!(deserialize::<ProjectId>(nil).is_err());
    assert!(deserialize::<ProvisionedResourceId>(nil).is_err());
    assert!(deserialize::<ProjectId>("00000000-0000-0000-0000-000000000007").is_ok());
}

#[test]
fn serde_names_equal_row_names() {
    for phase in Phase::ALL {
        assert_eq!(deserialize::<Phase>(phase.as_str()).unwrap(), phase);
    }
    for action in Action::ALL {
        assert_eq!(deserialize::<Action>(action.as_str()).unwrap(), action);
    }
    for role in MeshRole::ALL {
        assert_eq!(deserialize::<MeshRole>(role.as_str()).unwrap(), role);
    }
    for policy in OnFailure::ALL {
        assert_eq!(deserialize::<OnFailure>(policy.as_str()).unwrap(), policy);
    }
    assert!(deserialize::<Phase>("ready").is_err());
    assert!(Phase::deserialize(StrDeserializer::<Error>::new("Paused")).is_err());
}
