//! The aggregate's rules: what is refused at birth and at the boundary, and what each change does.

mod changes;
mod histories;
mod invariants;
