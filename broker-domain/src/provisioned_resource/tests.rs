//! Tests of the aggregate: rejected rows, legal changes, and random histories.

mod changes;
mod histories;
mod invariants;
