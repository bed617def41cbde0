//! Removal of a marked shared ProviderConfig: which request is next. Pure, like the rest of decide.
//!
//! Invariant: no user needs an object that was read under the mark and whose mark was then renewed. A new user waits for the end
//! of the mark, and only an absence that was read after the last renewal ends it. So a removal reads the object, renews the mark,
//! and deletes by uid: the deletion may then arrive at any time. Comparing the mark is not enough: another removal that read
//! an absence earlier could clear it before the deletion arrives.

use broker_ports::DeletionMark;

/// The progress of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Removal {
    mark: DeletionMark,
    known: Known,
    deletion_sent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Known {
    OnlyMark,
    Absent,
    Object(String),
    /// The mark was renewed after the object was read.
    Unneeded(String),
    /// Nothing is left to do now.
    Enough,
}

/// The next request of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RemovalStep {
    /// Read the object directly.
    ReadObject,
    /// Replace this mark by a new one, if it still holds.
    RenewMark(DeletionMark),
    /// Delete the object with this uid.
    Delete(String),
    /// Clear this mark: the object is absent.
    Clear(DeletionMark),
    /// End: it is being deleted, or the mark changed.
    End,
}

impl Removal {
    /// Starts with a mark that was just read from the store.
    pub const fn new(mark: DeletionMark) -> Self {
        Self { mark, known: Known::OnlyMark, deletion_sent: false }
    }

    /// The next request.
    pub fn next(&self) -> RemovalStep {
        match &self.known {
            Known::OnlyMark => RemovalStep::ReadObject,
            Known::Absent => RemovalStep::Clear(self.mark),
            Known::Object(_) => RemovalStep::RenewMark(self.mark),
            Known::Unneeded(uid) => RemovalStep::Delete(uid.clone()),
            Known::Enough => RemovalStep::End,
        }
    }

    /// Records a reading of the object: its uid if it exists, and whether it is being deleted.
    #[must_use]
    pub fn with_object(mut self, object: Option<(&str, Deleting)>) -> Self {
        self.known = match object {
            None => Known::Absent,
            Some((uid, Deleting::No)) if !self.deletion_sent => Known::Object(uid.to_owned()),
            Some(_) => Known::Enough,
        };
        self
    }

    /// Records the new mark; `None` if the earlier one no longer held.
    #[must_use]
    pub fn with_mark(mut self, renewed: Option<DeletionMark>) -> Self {
        self.known = match (self.known, renewed) {
            (Known::Object(uid), Some(mark)) => {
                self.mark = mark;
                Known::Unneeded(uid)
            }
            _ => Known::Enough,
        };
        self
    }

    /// Records that the deletion was accepted or had nothing to delete: the object is read once more.
    #[must_use]
    pub fn with_deletion(mut self) -> Self {
        (self.known, self.deletion_sent) = (Known::OnlyMark, true);
        self
    }
}

/// Whether an object is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deleting {
    /// It is.
    Yes,
    /// It is not.
    No,
}
