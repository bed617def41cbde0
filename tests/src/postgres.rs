//! Postgres for tests: one shared server, a database per test.

mod database;
mod template;

use std::{
    ops::Deref,
    sync::{Arc, Mutex},
};

use broker_test_servers::servers::{Durability, Postgres, PostgresAccess, Run};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

pub use database::TestDatabase;
pub use template::Template;

use crate::{control::Control, failure::OrFail, shared};

/// A Postgres that tests may fill with databases, but not disturb.
#[derive(Debug, Clone)]
pub struct TestPostgres {
    access: PostgresAccess,
}

impl TestPostgres {
    /// The shared server.
    pub async fn shared() -> Self {
        Self { access: shared::servers().await.postgres.clone() }
    }

    /// A dedicated server, for a test that kills, stops or floods it. Committed data survives a restart.
    pub async fn dedicated() -> DedicatedPostgres {
        let start = || {
            let run = Arc::new(Run::start()?);
            Postgres::start(&shared::tools(), &run, Durability::On)
        };
        let server = tokio::task::spawn_blocking(start)
            .await
            .or_fail("a dedicated Postgres cannot start")
            .or_fail("a dedicated Postgres cannot start");
        let postgres = Self { access: server.access() };
        let server = Control::new("postgres", &Arc::new(Mutex::new(server)), Postgres::server);
        DedicatedPostgres { postgres, server }
    }

    /// A new, empty database.
    pub async fn database(&self) -> TestDatabase {
        self.database_from(&Template::empty()).await
    }

    /// A new database with the template's content. The first caller fills the template, once per server.
    pub async fn database_from(&self, template: &Template) -> TestDatabase {
        let template = template.ensure_filled(self).await;
        TestDatabase::create(self, &template).await
    }

    /// The connection options of a database, as superuser.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        let PostgresAccess { host, port, user, password } = &self.access;
        PgConnectOptions::new_without_pgpass()
            .host(host)
            .port(*port)
            .username(user)
            .password(password)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    pub(crate) fn access(&self) -> &PostgresAccess {
        &self.access
    }
}

/// The Postgres server of one test. Dropping it stops the server.
#[derive(Debug)]
pub struct DedicatedPostgres {
    postgres: TestPostgres,
    server: Control,
}

impl DedicatedPostgres {
    /// The control of the server.
    pub fn server(&self) -> &Control {
        &self.server
    }
}

impl Deref for DedicatedPostgres {
    type Target = TestPostgres;

    fn deref(&self) -> &TestPostgres {
        &self.postgres
    }
}
