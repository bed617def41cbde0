//! How statements are written down: named constants that know which values they take and which rows they
//! give, so that a test can compare both with the schema.
//!
//! No query macros: they would read the host's environment when the host is built.

use std::marker::PhantomData;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow, PgTypeInfo};
use sqlx::query::QueryAs;
use sqlx::{FromRow, PgConnection, Postgres, TypeInfo};

/// The values of a statement: `$1` is the first field, and so on.
pub(crate) trait Takes {
    /// The same type for whatever lifetime its fields have: what a constant can name.
    type Kind;

    fn types() -> Vec<PgTypeInfo>;
    fn arguments(self) -> Result<PgArguments, BoxDynError>;
}

/// The rows of a statement, column by column.
pub(crate) trait Gives: for<'r> FromRow<'r, PgRow> + Send + Unpin {
    fn columns() -> Vec<(&'static str, PgTypeInfo)>;
}

/// A statement that takes `T` and gives rows `G`.
pub(crate) struct Statement<T, G> {
    name: &'static str,
    sql: &'static str,
    marker: PhantomData<fn(T) -> G>,
}

/// A statement as a reviewer, or a test, looks at it: what it is called, what it says, and the types of its
/// values and columns by their names in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatementDescription {
    /// What it is called, by port and method.
    pub name: &'static str,
    /// What it says.
    pub sql: &'static str,
    /// The types of `$1`, `$2` and so on.
    pub takes: Vec<String>,
    /// The names and types of its columns.
    pub gives: Vec<(String, String)>,
}

impl<T: Takes<Kind = T>, G: Gives> Statement<T, G> {
    pub(crate) const fn new(name: &'static str, sql: &'static str) -> Self {
        Self { name, sql, marker: PhantomData }
    }

    /// At most one row.
    pub(crate) async fn optional(
        &self,
        connection: &mut PgConnection,
        values: impl Takes<Kind = T>,
    ) -> Result<Option<G>, sqlx::Error> {
        self.query(values)?.fetch_optional(connection).await
    }

    /// All rows.
    pub(crate) async fn all(
        &self,
        connection: &mut PgConnection,
        values: impl Takes<Kind = T>,
    ) -> Result<Vec<G>, sqlx::Error> {
        self.query(values)?.fetch_all(connection).await
    }

    /// The one row.
    pub(crate) async fn one(
        &self,
        connection: &mut PgConnection,
        values: impl Takes<Kind = T>,
    ) -> Result<G, sqlx::Error> {
        self.query(values)?.fetch_one(connection).await
    }

    fn query(
        &self,
        values: impl Takes<Kind = T>,
    ) -> Result<QueryAs<'static, Postgres, G, PgArguments>, sqlx::Error> {
        let arguments = values.arguments().map_err(sqlx::Error::Encode)?;
        Ok(sqlx::query_as_with(self.sql, arguments))
    }

    pub(crate) fn describe(&self) -> StatementDescription {
        StatementDescription {
            name: self.name,
            sql: self.sql,
            takes: T::types().iter().map(|taken| taken.name().to_owned()).collect(),
            gives: G::columns()
                .iter()
                .map(|(name, given)| ((*name).to_owned(), given.name().to_owned()))
                .collect(),
        }
    }
}

/// A statement without values.
impl Takes for () {
    type Kind = ();

    fn types() -> Vec<PgTypeInfo> {
        Vec::new()
    }

    fn arguments(self) -> Result<PgArguments, BoxDynError> {
        Ok(PgArguments::default())
    }
}

/// A statement without rows.
impl Gives for () {
    fn columns() -> Vec<(&'static str, PgTypeInfo)> {
        Vec::new()
    }
}

/// A struct whose fields are a statement's values, in the order of their numbers.
macro_rules! params {
    (@kind $name:ident) => { $name };
    (@kind $name:ident $life:lifetime) => { $name<'static> };
    ($(#[$docs:meta])* struct $name:ident$(<$life:lifetime>)? { $($field:ident: $type:ty,)* }) => {
        $(#[$docs])*
        pub(crate) struct $name$(<$life>)? {
            $(pub(crate) $field: $type,)*
        }

        impl$(<$life>)? $crate::sql::Takes for $name$(<$life>)? {
            type Kind = $crate::sql::params!(@kind $name $($life)?);

            fn types() -> Vec<sqlx::postgres::PgTypeInfo> {
                vec![$(<$type as sqlx::Type<sqlx::Postgres>>::type_info(),)*]
            }

            fn arguments(self) -> Result<sqlx::postgres::PgArguments, sqlx::error::BoxDynError> {
                use sqlx::Arguments as _;
                let Self { $($field,)* } = self;
                let mut arguments = sqlx::postgres::PgArguments::default();
                $(arguments.add($field)?;)*
                Ok(arguments)
            }
        }
    };
}
pub(crate) use params;

/// A struct whose fields are a statement's columns, named like them.
macro_rules! columns {
    ($(#[$docs:meta])* struct $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$docs])*
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }

        impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for $name {
            fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                // By its place, which costs no search; that the columns stand in this order is what
                // [`Gives::columns`] is compared with the database for.
                let mut places = 0..;
                Ok(Self { $($field: row.try_get(places.next().unwrap_or(usize::MAX))?,)* })
            }
        }

        impl $crate::sql::Gives for $name {
            fn columns() -> Vec<(&'static str, sqlx::postgres::PgTypeInfo)> {
                vec![$((
                    stringify!($field),
                    <$type as sqlx::Type<sqlx::Postgres>>::type_info(),
                ),)*]
            }
        }
    };
}
pub(crate) use columns;
