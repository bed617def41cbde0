//! Persist on Postgres: the row of a resource. A row that violates a domain rule is refused with table, column and
//! id.

use std::collections::BTreeSet;

use broker_domain::{
    ClusterId, Error, ObjectReference, Parameters, ProvisionedResource, ReferencesDigest, Snapshot,
    Substrate, XrUid,
};
use broker_ports::{PortError, RequestHash};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::invalid_row;
use crate::sql::columns;
use crate::values::{digest_bytes, to_u32, to_u64};

macro_rules! resource_columns {
    () => {
        "id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
    bootstrap_token_id, created_at, updated_at, parameters::text AS parameters, mesh_role, on_failure,
    failure_step, failure_reason, token_ordinal, token_closed, substrate, references_digest, cluster_id,
    xr_uid, request_hash, deletion_requested_at, phase_entered_at, first_ready_at, abandoned, event_sequence, version"
    };
}
pub(crate) use resource_columns;

columns! {
    struct ResourceRow {
        id: Uuid,
        resource_id: Uuid,
        project_id: Uuid,
        blueprint_version_id: Uuid,
        cloud_credential_id: Uuid,
        status: String,
        xr_name: String,
        bootstrap_token_id: Option<Uuid>,
        created_at: OffsetDateTime,
        updated_at: OffsetDateTime,
        parameters: String,
        mesh_role: String,
        on_failure: String,
        failure_step: Option<String>,
        failure_reason: Option<String>,
        token_ordinal: i32,
        token_closed: bool,
        substrate: Json<Value>,
        references_digest: Option<Vec<u8>>,
        cluster_id: Option<String>,
        xr_uid: Option<String>,
        request_hash: Option<Vec<u8>>,
        deletion_requested_at: Option<OffsetDateTime>,
        phase_entered_at: OffsetDateTime,
        first_ready_at: Option<OffsetDateTime>,
        abandoned: bool,
        event_sequence: i64,
        version: i64,
    }
}

impl ResourceRow {
    pub(crate) fn into_resource(self) -> Result<ProvisionedResource, PortError> {
        self.into_parts().map(|(resource, _)| resource)
    }

    /// The resource, and the digest of its request.
    pub(crate) fn into_parts(
        self,
    ) -> Result<(ProvisionedResource, Option<RequestHash>), PortError> {
        let id = self.id;
        self.parse().map_err(|error| invalid_row("provisioned_resources", id, error))
    }

    fn parse(self) -> Result<(ProvisionedResource, Option<RequestHash>), Error> {
        let Self {
            id,
            resource_id,
            project_id,
            blueprint_version_id,
            cloud_credential_id,
            status,
            xr_name,
            bootstrap_token_id,
            created_at,
            updated_at,
            parameters,
            mesh_role,
            on_failure,
            failure_step,
            failure_reason,
            token_ordinal,
            token_closed,
            substrate: Json(substrate),
            references_digest,
            cluster_id,
            xr_uid,
            request_hash,
            deletion_requested_at,
            phase_entered_at,
            first_ready_at,
            abandoned,
            event_sequence,
            version,
        } = self;
        let request_hash =
            request_hash.map(|bytes| digest_bytes("request_hash", &bytes)).transpose()?;
        let resource = ProvisionedResource::hydrate(Snapshot {
            id,
            resource_id,
            project_id,
            blueprint_version_id,
            cloud_credential_id,
            phase: status,
            xr_name,
            bootstrap_token_id,
            created_at,
            updated_at,
            parameters: Parameters::from_canonical_json(parameters)?,
            mesh_role,
            on_failure,
            failure_step,
            failure_reason,
            token_ordinal: to_u32("token_ordinal", token_ordinal)?,
            token_closed,
            substrate: parse_substrate(substrate, cluster_id, references_digest, xr_uid)?,
            deletion_requested_at,
            phase_entered_at,
            first_ready_at,
            abandoned,
            event_sequence: to_u64("event_sequence", event_sequence)?,
            version: to_u64("version", version)?,
        })?;
        Ok((resource, request_hash.map(RequestHash::new)))
    }
}

/// The JSON of column `substrate`. Empty fields are omitted.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SubstrateDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_config: Option<ReferenceDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    composed: Vec<ReferenceDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReferenceDocument {
    api_version: String,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

pub(crate) fn substrate_document(substrate: &Substrate) -> Json<Value> {
    let document = SubstrateDocument {
        provider_config: substrate.provider_config().map(ReferenceDocument::from_reference),
        composed: substrate.composed().iter().map(ReferenceDocument::from_reference).collect(),
    };
    // Strings and lists of strings always serialize.
    Json(serde_json::to_value(document).unwrap_or_default())
}

pub(crate) fn parse_cluster_id(cluster_id: Option<String>) -> Result<Option<ClusterId>, Error> {
    cluster_id.map(ClusterId::new).transpose()
}

pub(crate) fn parse_references_digest(
    bytes: Option<Vec<u8>>,
) -> Result<Option<ReferencesDigest>, Error> {
    let bytes = bytes.map(|bytes| digest_bytes("references_digest", &bytes)).transpose()?;
    Ok(bytes.map(ReferencesDigest::new))
}

pub(crate) fn parse_xr_uid(xr_uid: Option<String>) -> Result<Option<XrUid>, Error> {
    xr_uid.map(XrUid::new).transpose()
}

fn parse_substrate(
    document: Value,
    cluster_id: Option<String>,
    references_digest: Option<Vec<u8>>,
    xr_uid: Option<String>,
) -> Result<Substrate, Error> {
    let invalid = |error: serde_json::Error| {
        Error::invalid("substrate", format!("cannot be parsed: {error}"))
    };
    // Decodes an object first: serde would decode an empty list as a struct without fields.
    let fields: Map<String, Value> = serde_json::from_value(document).map_err(invalid)?;
    let SubstrateDocument { provider_config, composed } =
        serde_json::from_value(Value::Object(fields)).map_err(invalid)?;
    let provider_config = provider_config.map(ReferenceDocument::into_reference).transpose()?;
    let composed = composed
        .into_iter()
        .map(ReferenceDocument::into_reference)
        .collect::<Result<BTreeSet<_>, _>>()?;
    Substrate::hydrate(
        parse_cluster_id(cluster_id)?,
        provider_config,
        composed,
        parse_references_digest(references_digest)?,
        parse_xr_uid(xr_uid)?,
    )
}

impl ReferenceDocument {
    fn from_reference(reference: &ObjectReference) -> Self {
        Self {
            api_version: reference.api_version().to_owned(),
            kind: reference.kind().to_owned(),
            name: reference.name().to_owned(),
            namespace: reference.namespace().map(str::to_owned),
        }
    }

    fn into_reference(self) -> Result<ObjectReference, Error> {
        let Self { api_version, kind, name, namespace } = self;
        ObjectReference::new(api_version, kind, name, namespace.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substrate() -> Substrate {
        let object = |kind: &str, namespace| {
            ObjectReference::new("example.org/v1", kind, "a", namespace).unwrap()
        };
        Substrate::default()
            .about_to_apply(ClusterId::new("uid").unwrap(), object("ProviderConfig", Some("ns")))
            .observed([object("Server", None)], ReferencesDigest::new([7; 32]))
            .armed(XrUid::new("uid-1").unwrap())
    }

    #[test]
    fn substrate_document_format_is_pinned() {
        let Json(document) = substrate_document(&substrate());
        assert_eq!(
            document.to_string(),
            r#"{"composed":[{"apiVersion":"example.org/v1","kind":"Server","name":"a"}],"providerConfig":{"apiVersion":"example.org/v1","kind":"ProviderConfig","name":"a","namespace":"ns"}}"#
        );
        assert_eq!(substrate_document(&Substrate::default()).0.to_string(), "{}");
    }

    #[test]
    fn malformed_substrate_is_refused_with_its_column() {
        for document in ["[]", r#"{"composed":[{}]}"#, r#"{"more":1}"#] {
            let error = parse_substrate(document.parse().unwrap(), None, None, None).unwrap_err();
            assert!(error.to_string().starts_with("substrate: cannot be parsed"), "{error}");
        }
    }
}
