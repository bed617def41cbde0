//! The feature `serde`: the spelling of rows and wire, and no way around the constructors.

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::{Action, MeshRole, OnFailure, Phase, ProjectId, ProvisionedResourceId};

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(text)
}

#[test]
fn the_nil_uuid_is_refused_here_too() {
    let nil = "00000000-0000-0000-0000-000000000000";
    assert!(read::<ProjectId>(nil).is_err());
    assert!(read::<ProvisionedResourceId>(nil).is_err());
    assert!(read::<ProjectId>("00000000-0000-0000-0000-000000000007").is_ok());
}

#[test]
fn words_are_spelt_as_everywhere() {
    for phase in Phase::ALL {
        assert_eq!(read::<Phase>(phase.as_str()).unwrap(), phase);
    }
    for action in Action::ALL {
        assert_eq!(read::<Action>(action.as_str()).unwrap(), action);
    }
    for role in MeshRole::ALL {
        assert_eq!(read::<MeshRole>(role.as_str()).unwrap(), role);
    }
    for policy in OnFailure::ALL {
        assert_eq!(read::<OnFailure>(policy.as_str()).unwrap(), policy);
    }
    assert!(read::<Phase>("ready").is_err());
    assert!(Phase::deserialize(StrDeserializer::<Error>::new("Paused")).is_err());
}
