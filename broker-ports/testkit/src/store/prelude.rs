//! Imports of the store cases.

pub(super) use std::collections::BTreeSet;
pub(super) use std::time::Duration;

pub(super) use broker_domain::{
    Change, EventType, Phase, ProvisionedResource, ProvisionedResourceId, RequestId, Stamp, Version,
};
pub(super) use broker_ports::{
    Acknowledged, Allowance, AuditAction, AuditEntry, AuditRecord, Brake, BrakeRelease,
    ClaimEvents, ClaimRequest, ClaimTarget, ClaimedEvent, Created, DeadLetter, DeliveryFailure,
    Due, EventsOf, Lane, Lease, LeaseEpoch, ListQuery, Lost, PageSize, PassOutcome, PermitRequest,
    PurgeRequest, Redrive, Released, Replacement, ScheduleEntry, SweepQuery, Watermark, Write,
    WriteKind, Written, wire,
};
pub(super) use futures_util::future::try_join_all;

pub(super) use super::bench::{
    AFTER_AN_HOUR, Facts, HOUR, LONG, deletion, due_in, failed_pass, failed_with_retry_after,
    fresh_stamp, ids, in_order, is_due, numbered, require_refused, require_taken, same, same_line,
    same_resource, sequences, succeeded, to, wait,
};
pub(super) use super::{StoreUnderTest, World};
pub(super) use crate::builders::{
    ResourceBuilder, admitted_as, attribution, cluster, declaration, id, project, resource, rows,
    second, worker, xr_uid,
};
pub(super) use crate::prelude::*;
