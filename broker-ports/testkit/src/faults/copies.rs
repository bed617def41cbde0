//! Copies of responses that are replayed, and of arguments that outlive their call, for types without `Clone`.

use broker_domain::{Change, ObjectReference, ProjectId};

use broker_ports::{
    Attribution, DeleteRequest, FailureClass, LeaseEpoch, ListPage, LiveObject, LiveXr,
    ObjectOwner, PortError, Reading, SweepPage, UnreadableRow, Write, XrReading,
};

/// [`Write`], owned.
pub(super) struct OwnedWrite {
    change: Change,
    epoch: Option<LeaseEpoch>,
    by: Attribution,
    event_data: Option<String>,
}

impl OwnedWrite {
    pub(super) fn of(write: &Write<'_>) -> Self {
        let Write { change, epoch, by, event_data, .. } = *write;
        let event_data = event_data.map(str::to_owned);
        Self { change: change.clone(), epoch, by: by.clone(), event_data }
    }

    pub(super) fn as_borrowed(&self) -> Write<'_> {
        let Self { change, epoch, by, event_data } = self;
        let mut write = Write::by_caller(change, by);
        write.epoch = *epoch;
        write.event_data = event_data.as_deref();
        write
    }
}

/// [`DeleteRequest`], owned.
pub(super) struct OwnedDelete {
    project: ProjectId,
    target: ObjectReference,
    uid: String,
    owner: ObjectOwner,
}

impl OwnedDelete {
    pub(super) fn of(request: &DeleteRequest<'_>) -> Self {
        let DeleteRequest { project, target, uid, owner, .. } = *request;
        Self { project, target: target.clone(), uid: uid.to_owned(), owner }
    }

    pub(super) fn as_borrowed(&self) -> DeleteRequest<'_> {
        let Self { project, target, uid, owner } = self;
        DeleteRequest::new(*project, target, uid).owned_by(*owner)
    }
}

/// The results of a batch.
#[expect(
    clippy::ptr_arg,
    reason = "the macro passes the return type of the method, which is a vector"
)]
pub(super) fn batch<T: Clone>(results: &Vec<Result<T, PortError>>) -> Vec<Result<T, PortError>> {
    results.iter().map(|result| result.as_ref().map_err(copy_error).cloned()).collect()
}

/// A page of resources.
pub(super) fn list_page(page: &ListPage) -> ListPage {
    let ListPage { resources, unreadable: unreadable_rows, next, watermark, .. } = page;
    ListPage::new(resources.clone(), *next, *watermark)
        .with_unreadable(copy_unreadable(unreadable_rows))
}

/// A page of compact rows.
pub(super) fn sweep_page(page: &SweepPage) -> SweepPage {
    let SweepPage { rows, unreadable: unreadable_rows, next, now, .. } = page;
    SweepPage::new(rows.clone(), *next, *now).with_unreadable(copy_unreadable(unreadable_rows))
}

fn copy_unreadable(rows: &[UnreadableRow]) -> Vec<UnreadableRow> {
    rows.iter().map(|row| UnreadableRow::new(row.id, copy_error(&row.error))).collect()
}

/// `LiveObject` is not `Clone`, because it may hold a token. Only a stale read needs a copy.
pub(super) fn reading(reading: &Reading) -> Reading {
    let Reading { cluster, xr, provider_config, recorded, labelled, .. } = reading;
    let xr = match xr {
        XrReading::Present(live) => XrReading::Present(Box::new(live_xr(live))),
        XrReading::Absent => XrReading::Absent,
        XrReading::NamespaceAbsent => XrReading::NamespaceAbsent,
        XrReading::KindAbsent => XrReading::KindAbsent,
    };
    let config = provider_config.as_ref().map(live_object);
    Reading::new(cluster.clone(), xr, config, recorded.clone(), labelled.clone())
}

fn live_xr(live: &LiveXr) -> LiveXr {
    let LiveXr { object, status, armed, references, .. } = live;
    LiveXr::new(live_object(object), status.clone(), *armed, references.clone())
}

fn live_object(object: &LiveObject) -> LiveObject {
    LiveObject::new(object.version().clone(), object.expose().clone())
}

fn copy_error(error: &PortError) -> PortError {
    let message = error.to_string();
    let copy = match error.class() {
        FailureClass::Rejected => PortError::rejected(message),
        FailureClass::Transient => PortError::transient(message),
        FailureClass::Unknown => PortError::unknown(message),
    };
    match error.retry_after() {
        Some(wait) => copy.with_retry_after(wait),
        None => copy,
    }
}
