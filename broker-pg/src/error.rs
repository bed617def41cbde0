//! How a failure of the database becomes one of the three classes: by SQLSTATE and by how far the statement
//! had come, never by the text of a message.

use std::fmt;

use broker_domain::Error;
use broker_ports::{FailureClass, PortError};

/// What the server said, without the values that it said it about.
///
/// A server adds the offending row or key to some of its errors. That belongs into no log, so only what
/// names the rule is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseError {
    sqlstate: String,
    constraint: Option<String>,
    table: Option<String>,
}

impl DatabaseError {
    /// The five characters that say what kind of error it is.
    pub fn sqlstate(&self) -> &str {
        &self.sqlstate
    }

    /// The constraint that refused, if one did.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The table that it stands on.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    fn of(error: &dyn sqlx::error::DatabaseError) -> Self {
        Self {
            sqlstate: error.code().unwrap_or_default().into_owned(),
            constraint: error.constraint().map(str::to_owned),
            table: error.table().map(str::to_owned),
        }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLSTATE {}", self.sqlstate)?;
        if let Some(constraint) = &self.constraint {
            write!(f, ", constraint {constraint}")?;
        }
        if let Some(table) = &self.table {
            write!(f, ", table {table}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DatabaseError {}

/// What is known of a statement whose answer never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was never sent, or it changes nothing, or a transaction around it was not committed.
    Harmless,
    /// It may have been committed.
    MayHaveHappened,
}

/// Classifies what the driver reports.
pub(crate) trait Classified<T> {
    /// Of something that cannot have changed anything: a connection that could not be had, a read, or a
    /// statement inside of a transaction whose end is still to come.
    fn harmless(self) -> Result<T, PortError>;

    /// Of a statement that commits by itself, and of a commit.
    fn committing(self) -> Result<T, PortError>;
}

impl<T> Classified<T> for Result<T, sqlx::Error> {
    fn harmless(self) -> Result<T, PortError> {
        self.map_err(|error| classify(error, Lost::Harmless))
    }

    fn committing(self) -> Result<T, PortError> {
        self.map_err(|error| classify(error, Lost::MayHaveHappened))
    }
}

/// The name of the constraint that refused a statement.
pub(crate) fn constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error()?.constraint()
}

/// A stored row that breaks the domain's rules. The domain's fields are named like the columns, but for one.
pub(crate) fn drifted(table: &str, id: impl fmt::Display, error: Error) -> PortError {
    let column = if let Error::InvalidInput { field, .. } = &error {
        format!(".{}", if field == "phase" { "status" } else { field })
    } else {
        String::new()
    };
    PortError::rejected(format!("plexsphere.{table}{column} of {id} breaks the domain's rules"))
        .with_source(error)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors are an open set; what is not told apart here is a lost answer"
)]
pub(crate) fn classify(error: sqlx::Error, lost: Lost) -> PortError {
    let unanswered = || match lost {
        Lost::Harmless => PortError::transient("the database did not answer"),
        Lost::MayHaveHappened => {
            PortError::unknown("the database did not answer whether it committed")
        }
    };
    match error {
        sqlx::Error::Database(said) => {
            let said = DatabaseError::of(&*said);
            let error = match class_of(said.sqlstate()) {
                FailureClass::Rejected => PortError::rejected(refusal(said.sqlstate())),
                FailureClass::Transient => PortError::transient("the database could not do it now"),
                FailureClass::Unknown => unanswered(),
            };
            error.with_source(said)
        }
        sqlx::Error::PoolTimedOut => {
            PortError::transient("no connection to the database was to be had in time")
        }
        sqlx::Error::PoolClosed => PortError::transient("the pool of connections was closed"),
        sqlx::Error::Configuration(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::TypeNotFound { .. } => {
            PortError::rejected("the database cannot be asked that").with_source(error)
        }
        sqlx::Error::RowNotFound
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_) => {
            PortError::rejected("the database answered in another form than expected")
                .with_source(error)
        }
        // Broken connections: nobody knows what became of the statement.
        other => unanswered().with_source(other),
    }
}

/// What a SQLSTATE says of the statement. The server rolled it back in every case but those of a server that
/// goes down, which may do so between the commit and its answer.
fn class_of(sqlstate: &str) -> FailureClass {
    match sqlstate {
        // Gone, or going: admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout; connection
        // exceptions; statement_completion_unknown.
        "57P01" | "57P02" | "57P04" | "57P05" | "40003" => FailureClass::Unknown,
        code if code.starts_with("08") => FailureClass::Unknown,
        // A standby that will be promoted, or a transaction that its host let lie for too long.
        "25006" | "25P03" | "25P04" => FailureClass::Transient,
        code => match code.get(..2) {
            // Feature, transaction state, data, constraint, authorisation, catalog and schema names, syntax
            // and access: the same statement meets the same answer.
            Some("0A" | "21" | "22" | "23" | "25" | "28" | "3D" | "3F" | "42") => {
                FailureClass::Rejected
            }
            // Serialization failure, deadlock, resources, cancelled, locks, the system: another time.
            _ => FailureClass::Transient,
        },
    }
}

fn refusal(sqlstate: &str) -> &'static str {
    match sqlstate {
        "42P01" | "42703" | "42883" | "3F000" => {
            "the database has no such table, column or function; bring its schema up to date"
        }
        "42501" => "the database role may not do that; grant it the schema plexsphere",
        "3D000" => "there is no such database",
        code if code.starts_with("28") => "the database refused user or password",
        code if code.starts_with("23") => "a rule of the schema refused it",
        _ => "the database refused it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlstate_decides_the_class() {
        use FailureClass::{Rejected, Transient, Unknown};
        for (sqlstate, why, class) in [
            ("23503", "a foreign key has no parent", Rejected),
            ("23505", "a key is taken", Rejected),
            ("23514", "a CHECK refused", Rejected),
            ("22P02", "not the text of its type", Rejected),
            ("42P01", "the schema was never migrated", Rejected),
            ("42501", "no right", Rejected),
            ("28P01", "a wrong password", Rejected),
            ("25P01", "no transaction is open", Rejected),
            ("25006", "a standby", Transient),
            ("40001", "a serialization failure", Transient),
            ("40P01", "a deadlock", Transient),
            ("53100", "the disk is full", Transient),
            ("53300", "too many connections", Transient),
            ("55P03", "a lock timeout", Transient),
            ("57014", "a statement timeout", Transient),
            ("57P03", "the server starts up", Transient),
            ("P0001", "somebody's trigger", Transient),
            ("57P01", "the server shuts down, perhaps after the commit", Unknown),
            ("57P02", "another session crashed", Unknown),
            ("08006", "the connection broke", Unknown),
            ("40003", "it says so itself", Unknown),
        ] {
            assert_eq!(class_of(sqlstate), class, "{sqlstate}: {why}");
        }
    }

    #[test]
    fn a_lost_answer_is_unknown_only_if_something_may_have_been_committed() {
        let broken = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify(broken(), Lost::Harmless).class(), FailureClass::Transient);
        assert_eq!(classify(broken(), Lost::MayHaveHappened).class(), FailureClass::Unknown);
        for lost in [Lost::Harmless, Lost::MayHaveHappened] {
            let error = classify(sqlx::Error::PoolTimedOut, lost);
            assert_eq!(error.class(), FailureClass::Transient, "nothing was sent: {error}");
        }
    }

    #[test]
    fn a_drifted_row_is_named_by_table_column_and_id() {
        let error = drifted("provisioned_resources", "7", Error::invalid("phase", "is odd"));
        assert_eq!(
            error.to_string(),
            "plexsphere.provisioned_resources.status of 7 breaks the domain's rules"
        );
        assert_eq!(error.class(), FailureClass::Rejected);
        assert_eq!(error.domain().map(ToString::to_string).as_deref(), Some("phase: is odd"));
    }
}
