//! Imports of the store cases.

pub(super) use std::collections::BTreeSet;
pub(super) use std::time::Duration;

pub(super) use broker_domain::{
    Change, EventType, Phase, ProvisionedResource, ProvisionedResourceId, RequestId, Stamp, Version,
};
pub(super) use broker_ports::{
    Acknowledged, Allowance, AuditAction, AuditEntry, AuditRecord, Brake, BrakeRelease,
    ClaimEvents, ClaimRequest, ClaimTarget, ClaimedEvent, Created, DeadLetter, DeliveryFailure,
    Due, EventsOf, Lane, Lease, LeaseEpoch, ListQuery, LostObject, PageSize, PassOutcome,
    PermitRequest, PurgeRequest, Redrive, Released, Replacement, ScheduleEntry, SweepQuery,
    Watermark, Write, WriteKind, Written, wire,
};
pub(super) use futures_util::future::try_join_all;

pub(super) use super::helpers::{
    AFTER_AN_HOUR, HOUR, LONG, StoredState, deletion_request, equal, failed_pass,
    failed_pass_with_retry_after, fresh_stamp, ids, is_due, nth_resource, phase_change,
    remaining_wait, require_due_in, require_id_conflict, require_line_of, require_ordered,
    require_refused, require_same_resource, sequences, successful_pass,
};
pub(super) use super::{StoreUnderTest, World};
pub(super) use crate::builders::{
    ResourceBuilder, admitted_as, attribution, cluster, declaration, id, project, resource, rows,
    second, worker, xr_uid,
};
pub(super) use crate::prelude::*;
