//! Statements as named constants with typed parameters and columns, so that a test can compare both with the schema.
//!
//! No query macros: they read the host's environment at build time.

use std::marker::PhantomData;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow, PgTypeInfo};
use sqlx::query::QueryAs;
use sqlx::{FromRow, PgConnection, Postgres, TypeInfo};

/// The parameters of a statement: `$1` is the first field, and so on.
pub(crate) trait Params {
    /// The same type with a `'static` lifetime, which a constant can name.
    type Kind;

    fn types() -> Vec<PgTypeInfo>;
    fn arguments(self) -> Result<PgArguments, BoxDynError>;
}

/// The columns of a statement's rows.
pub(crate) trait Columns: for<'r> FromRow<'r, PgRow> + Send + Unpin {
    fn columns() -> Vec<(&'static str, PgTypeInfo)>;
}

/// A statement with parameters `P` and rows `R`.
pub(crate) struct Statement<P, R> {
    name: &'static str,
    sql: &'static str,
    marker: PhantomData<fn(P) -> R>,
}

/// A statement for review and tests: its name, its text, and the database types of its parameters and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatementDescription {
    /// Port and method.
    pub name: &'static str,
    /// The SQL text.
    pub sql: &'static str,
    /// The types of `$1`, `$2` and so on.
    pub parameters: Vec<String>,
    /// The names and types of its columns.
    pub columns: Vec<(String, String)>,
}

impl<P: Params<Kind = P>, R: Columns> Statement<P, R> {
    pub(crate) const fn new(name: &'static str, sql: &'static str) -> Self {
        Self { name, sql, marker: PhantomData }
    }

    pub(crate) async fn optional(
        &self,
        connection: &mut PgConnection,
        values: impl Params<Kind = P>,
    ) -> Result<Option<R>, sqlx::Error> {
        self.query(values)?.fetch_optional(connection).await
    }

    pub(crate) async fn all(
        &self,
        connection: &mut PgConnection,
        values: impl Params<Kind = P>,
    ) -> Result<Vec<R>, sqlx::Error> {
        self.query(values)?.fetch_all(connection).await
    }

    pub(crate) async fn one(
        &self,
        connection: &mut PgConnection,
        values: impl Params<Kind = P>,
    ) -> Result<R, sqlx::Error> {
        self.query(values)?.fetch_one(connection).await
    }

    fn query(
        &self,
        values: impl Params<Kind = P>,
    ) -> Result<QueryAs<'static, Postgres, R, PgArguments>, sqlx::Error> {
        let arguments = values.arguments().map_err(sqlx::Error::Encode)?;
        Ok(sqlx::query_as_with(self.sql, arguments))
    }

    pub(crate) fn describe(&self) -> StatementDescription {
        StatementDescription {
            name: self.name,
            sql: self.sql,
            parameters: P::types().iter().map(|parameter| parameter.name().to_owned()).collect(),
            columns: R::columns()
                .iter()
                .map(|(name, column)| ((*name).to_owned(), column.name().to_owned()))
                .collect(),
        }
    }
}

/// A statement without parameters.
impl Params for () {
    type Kind = ();

    fn types() -> Vec<PgTypeInfo> {
        Vec::new()
    }

    fn arguments(self) -> Result<PgArguments, BoxDynError> {
        Ok(PgArguments::default())
    }
}

/// A statement without columns.
impl Columns for () {
    fn columns() -> Vec<(&'static str, PgTypeInfo)> {
        Vec::new()
    }
}

/// Declares a struct with a statement's parameters, in the order of their numbers.
macro_rules! params {
    (@kind $name:ident) => { $name };
    (@kind $name:ident $life:lifetime) => { $name<'static> };
    ($(#[$docs:meta])* struct $name:ident$(<$life:lifetime>)? { $($field:ident: $type:ty,)* }) => {
        $(#[$docs])*
        pub(crate) struct $name$(<$life>)? {
            $(pub(crate) $field: $type,)*
        }

        impl$(<$life>)? $crate::sql::Params for $name$(<$life>)? {
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

/// Declares a struct with a statement's columns, under their names.
macro_rules! columns {
    ($(#[$docs:meta])* struct $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$docs])*
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }

        impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for $name {
            fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                // By position, which needs no search. The schema test compares the order with [`Columns::columns`].
                let mut positions = 0..;
                Ok(Self { $($field: row.try_get(positions.next().unwrap_or(usize::MAX))?,)* })
            }
        }

        impl $crate::sql::Columns for $name {
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
