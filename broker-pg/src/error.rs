//! Maps a database failure to an error class: by SQLSTATE and by the progress of the statement, never by message
//! text.

use std::fmt;

use broker_domain::Error;
use broker_ports::{FailureClass, PortError};

/// A server error without the values that caused it.
///
/// A server adds the offending row or key to some errors. Those values must not reach a log, so this error keeps only
/// the names of constraint and table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseError {
    sqlstate: String,
    constraint: Option<String>,
    table: Option<String>,
}

impl DatabaseError {
    /// The five-character SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        &self.sqlstate
    }

    /// The violated constraint, if any.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The table of the constraint.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    fn new(error: &dyn sqlx::error::DatabaseError) -> Self {
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

/// What a lost response means for its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostResponse {
    /// Nothing was committed: the statement was not sent, only reads, or runs in an open transaction.
    Harmless,
    /// The statement may have been committed.
    MayHaveHappened,
}

pub(crate) trait ClassifyError<T> {
    /// For an operation that cannot have committed: acquiring a connection, a read, or a statement in an open
    /// transaction.
    fn map_uncommitted_error(self) -> Result<T, PortError>;

    /// For a statement that commits by itself, and for a commit.
    fn map_commit_error(self) -> Result<T, PortError>;
}

impl<T> ClassifyError<T> for Result<T, sqlx::Error> {
    fn map_uncommitted_error(self) -> Result<T, PortError> {
        self.map_err(|error| classify(error, LostResponse::Harmless))
    }

    fn map_commit_error(self) -> Result<T, PortError> {
        self.map_err(|error| classify(error, LostResponse::MayHaveHappened))
    }
}

pub(crate) fn violated_constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error()?.constraint()
}

/// A stored row that violates a domain rule. Domain fields have the column names, except `phase`.
pub(crate) fn invalid_row(table: &str, id: impl fmt::Display, error: Error) -> PortError {
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
    reason = "the driver's errors are an open set; every other error is a lost response"
)]
pub(crate) fn classify(error: sqlx::Error, lost_response: LostResponse) -> PortError {
    let response_lost = || match lost_response {
        LostResponse::Harmless => PortError::transient("the database did not respond"),
        LostResponse::MayHaveHappened => {
            PortError::unknown("the database did not confirm the commit")
        }
    };
    match error {
        sqlx::Error::Database(error) => {
            let source = DatabaseError::new(&*error);
            let error = match class_of(source.sqlstate()) {
                FailureClass::Rejected => PortError::rejected(rejection_message(source.sqlstate())),
                FailureClass::Transient => {
                    PortError::transient("the database cannot execute the statement now")
                }
                FailureClass::Unknown => response_lost(),
            };
            error.with_source(source)
        }
        sqlx::Error::PoolTimedOut => {
            PortError::transient("no database connection became available before the timeout")
        }
        sqlx::Error::PoolClosed => PortError::transient("the connection pool was closed"),
        sqlx::Error::Configuration(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::TypeNotFound { .. } => {
            PortError::rejected("the statement cannot be sent to the database").with_source(error)
        }
        sqlx::Error::RowNotFound
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_) => {
            PortError::rejected("the database response has an unexpected form").with_source(error)
        }
        // The connection broke, so the outcome of the statement is unknown.
        other => response_lost().with_source(other),
    }
}

/// The error class of a SQLSTATE. The server rolled the statement back, except when it shuts down: that may happen
/// between the commit and its response.
fn class_of(sqlstate: &str) -> FailureClass {
    match sqlstate {
        // admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout; connection exceptions;
        // statement_completion_unknown.
        "57P01" | "57P02" | "57P04" | "57P05" | "40003" => FailureClass::Unknown,
        code if code.starts_with("08") => FailureClass::Unknown,
        // A standby before its promotion, or a transaction that the host left idle for too long.
        "25006" | "25P03" | "25P04" => FailureClass::Transient,
        code => match code.get(..2) {
            // Feature, transaction state, data, constraint, authorisation, catalog and schema names, syntax and
            // access: a retry gets the same error.
            Some("0A" | "21" | "22" | "23" | "25" | "28" | "3D" | "3F" | "42") => {
                FailureClass::Rejected
            }
            // Serialization failure, deadlock, resources, cancellation, locks, system errors: a retry may succeed.
            _ => FailureClass::Transient,
        },
    }
}

fn rejection_message(sqlstate: &str) -> &'static str {
    match sqlstate {
        "42P01" | "42703" | "42883" | "3F000" => {
            "the database has no such table, column or function; bring its schema up to date"
        }
        "42501" => "the database role lacks a permission; grant it the schema plexsphere",
        "3D000" => "there is no such database",
        code if code.starts_with("28") => "the database refused the user or the password",
        code if code.starts_with("23") => "a constraint refused the statement",
        _ => "the database refused the statement",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstate_decides_the_error_class() {
        use FailureClass::{Rejected, Transient, Unknown};
        for (sqlstate, why, class) in [
            ("23503", "a foreign key has no parent", Rejected),
            ("23505", "a key is taken", Rejected),
            ("23514", "a violated CHECK", Rejected),
            ("22P02", "malformed text for its type", Rejected),
            ("42P01", "the schema was never migrated", Rejected),
            ("42501", "a missing permission", Rejected),
            ("28P01", "a wrong password", Rejected),
            ("25P01", "no open transaction", Rejected),
            ("25006", "a standby", Transient),
            ("40001", "a serialization failure", Transient),
            ("40P01", "a deadlock", Transient),
            ("53100", "the disk is full", Transient),
            ("53300", "too many connections", Transient),
            ("55P03", "a lock timeout", Transient),
            ("57014", "a statement timeout", Transient),
            ("57P03", "the server starts up", Transient),
            ("P0001", "a host's trigger", Transient),
            ("57P01", "the server shuts down, perhaps after the commit", Unknown),
            ("57P02", "another session crashed", Unknown),
            ("08006", "the connection broke", Unknown),
            ("40003", "the server reports an unknown outcome", Unknown),
        ] {
            assert_eq!(class_of(sqlstate), class, "{sqlstate}: {why}");
        }
    }

    #[test]
    fn lost_response_is_unknown_only_for_commits() {
        let broken = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify(broken(), LostResponse::Harmless).class(), FailureClass::Transient);
        assert_eq!(
            classify(broken(), LostResponse::MayHaveHappened).class(),
            FailureClass::Unknown
        );
        for lost_response in [LostResponse::Harmless, LostResponse::MayHaveHappened] {
            let error = classify(sqlx::Error::PoolTimedOut, lost_response);
            assert_eq!(error.class(), FailureClass::Transient, "nothing was sent: {error}");
        }
    }

    #[test]
    fn invalid_row_names_table_column_and_id() {
        let error =
            invalid_row("provisioned_resources", "7", Error::invalid("phase", "is unknown"));
        assert_eq!(
            error.to_string(),
            "plexsphere.provisioned_resources.status of 7 breaks the domain's rules"
        );
        assert_eq!(error.class(), FailureClass::Rejected);
        assert_eq!(error.domain().map(ToString::to_string).as_deref(), Some("phase: is unknown"));
    }
}
