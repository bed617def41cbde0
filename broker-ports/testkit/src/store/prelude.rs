//! What the cases of a store are written with.

pub(super) use std::collections::BTreeSet;
pub(super) use std::time::Duration;

pub(super) use broker_domain::{
    Change, EventType, Phase, ProvisionedResource, ProvisionedResourceId, RequestId, Stamp, Version,
};
pub(super) use broker_ports::{
    Acknowledged, Allowance, AuditAction, AuditEntry, Brake, BrakeRelease, ClaimEvents,
    ClaimRequest, ClaimTarget, ClaimedEvent, Created, DeliveryFailure, Due, EventsOf, Lane, Lease,
    LeaseEpoch, ListQuery, Lost, PageSize, PassOutcome, PermitRequest, PurgeRequest, Released,
    Replacement, Resume, SweepQuery, Watermark, Write, WriteKind, Written, wire,
};
pub(super) use futures_util::future::try_join_all;

pub(super) use super::StoreUnderTest;
pub(super) use super::bench::{
    HOUR, LONG, asked_to_wait, deletion, fresh_stamp, is_due, require_refused, same, same_resource,
    to, wait, went_well, went_wrong,
};
pub(super) use crate::builders::{
    ResourceBuilder, admitted_as, attribution, cluster, declaration, id, project, resource, rows,
    second, worker, xr_uid,
};
pub(super) use crate::prelude::*;
