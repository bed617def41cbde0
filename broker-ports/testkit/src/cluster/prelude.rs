//! Imports of the cluster cases.

pub(super) use broker_domain::{ObjectReference, ProjectId};
pub(super) use broker_ports::{
    Applied, ApplyRequest, Arming, CachedXr, Cluster, ConditionStatus, DeleteRequest, Deleted,
    ObjectVersion, OwnedKinds, OwnedQuery, SpecState, XrReading,
};
pub(super) use broker_render::{
    Armed, MANAGED_BY_LABEL, PAUSED_ANNOTATION, Precondition, is_applied, namespace,
};
pub(super) use serde_json::{Value, json};

pub(super) use super::ClusterUnderTest;
pub(super) use super::fixture::{CANARY, FINALIZER, Fixture, applied_version, field_at};
pub(super) use super::kinds::{Blueprint, namespace_kind, provider_config_kind};
pub(super) use super::subject::Subject;
pub(super) use crate::prelude::*;
