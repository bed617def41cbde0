//! The plaintext of a token exists only in the result of its issue: not in a table, a replicated change, the
//! write-ahead log, the logs of server and broker, or an error.

mod places;

use std::fmt::Write as _;

use broker_domain::{ProvisionedResourceId, TokenOrdinal};
use broker_pg::{PgMesh, PgStore, PgTokenIssuer};
use broker_ports::{
    AuditAction, AuditEntry, AuditSink, Issue, IssueRequest, IssuedToken, LeaseEpoch, PortError,
    TokenIssuer,
};
use broker_testkit::builders::{attribution, id};
use broker_tests::is_nightly;
use broker_tests::secret_search::all_renderings;
use secrecy::ExposeSecret;
use sqlx::{Executor, PgPool};

use broker_tests::log::Log;
use places::{Places, characters, found};
use tracing_subscriber::fmt::format::FmtSpan;

/// Tokens in addition to one per state.
const NORMAL: u128 = 4;
const NIGHTLY: u128 = 200;

async fn issue(
    tokens: &PgTokenIssuer,
    resource: ProvisionedResourceId,
    epoch: u64,
) -> Result<IssuedToken, PortError> {
    let ttl = tokens.ttl_window().await?.max;
    let request = IssueRequest::new(resource, TokenOrdinal::FIRST, LeaseEpoch::new(epoch), ttl);
    match tokens.issue(&request).await? {
        Issue::Issued(token) => Ok(token),
        Issue::Consumed { id } => panic!("{id} was consumed before it was issued"),
    }
}

/// Issues tokens in every state. Returns them and the text of all errors.
async fn exercise_tokens(pool: &PgPool) -> (Vec<IssuedToken>, String) {
    let (tokens, mesh) = (PgTokenIssuer::new(pool.clone()), PgMesh::new(pool.clone()));
    let mut errors = String::new();
    let [one, two, three] = [1, 2, 3].map(id);

    let replaced = issue(&tokens, one, 2).await.unwrap();
    let consumed = issue(&tokens, one, 2).await.unwrap();
    errors += &all_renderings(&issue(&tokens, one, 1).await.unwrap_err());
    let node = mesh.enrol(consumed.plaintext.secret()).await.unwrap();
    mesh.join(node).await.unwrap();
    errors += &all_renderings(&mesh.enrol(consumed.plaintext.secret()).await.unwrap_err());
    errors += &all_renderings(&mesh.enrol(replaced.plaintext.secret()).await.unwrap_err());
    mesh.leave(node).await.unwrap();

    let closed = issue(&tokens, two, 1).await.unwrap();
    tokens.close(two).await.unwrap();
    errors += &all_renderings(&issue(&tokens, two, 1).await.unwrap_err());
    errors += &all_renderings(&mesh.enrol(closed.plaintext.secret()).await.unwrap_err());

    let open = issue(&tokens, three, 1).await.unwrap();
    let mut all = vec![replaced, consumed, closed, open];
    let more = if is_nightly() { NIGHTLY } else { NORMAL };
    for number in 0..more {
        let token = issue(&tokens, id(100 + number), 1).await.unwrap();
        mesh.enrol(token.plaintext.secret()).await.unwrap();
        errors += &all_renderings(&mesh.enrol(token.plaintext.secret()).await.unwrap_err());
        all.push(token);
    }
    // In the first round the server refuses the row and repeats it in its error. In the second the pool is closed.
    let never =
        "ALTER TABLE plexsphere.bootstrap_tokens ADD CONSTRAINT never CHECK (false) NOT VALID";
    pool.execute(never).await.unwrap();
    for _ in 0..2 {
        errors += &all_renderings(&issue(&tokens, three, 1).await.unwrap_err());
        errors +=
            &all_renderings(&mesh.enrol(all[LIVE_TOKEN].plaintext.secret()).await.unwrap_err());
        pool.close().await;
    }
    write!(errors, "{tokens:?} {mesh:?} {all:?} {all:#?}").unwrap();
    (all, errors)
}

/// The index of the token that is still live.
const LIVE_TOKEN: usize = 3;

#[tokio::test]
async fn token_plaintext_is_in_no_stored_place() {
    let (log, _logging) = Log::start(tracing::Level::TRACE, FmtSpan::NEW);
    let places = Places::prepare().await;
    let (tokens, errors) = exercise_tokens(&places.adapters()).await;

    let mut contents = places.read().await;
    contents.insert("errors".to_owned(), errors);
    contents.insert("our log".to_owned(), log.text());
    let plaintexts: Vec<_> =
        tokens.iter().map(|token| token.plaintext.secret().expose_secret()).collect();
    assert_eq!(found(&contents, &plaintexts), [""; 0]);
    // Negative control: each place contains an id. The rows of all tables are searched elsewhere,
    // with the binary.
    let (open, in_bytes) =
        (tokens[LIVE_TOKEN].id.to_string(), tokens[LIVE_TOKEN].id.as_uuid().into_bytes());
    for (place, trace) in [
        ("plexsphere.bootstrap_tokens", open.as_str()),
        ("decoded changes", open.as_str()),
        ("write-ahead log", characters(&in_bytes).as_str()),
        ("server log", "INSERT INTO plexsphere.bootstrap_tokens"),
        ("our log", "db.bootstrap_token.issue"),
    ] {
        assert!(contents[place].contains(trace), "{place} lacks {trace}");
    }
    println!("proof: {} secrets in Postgres", plaintexts.len());
}

/// The server's error repeats a refused row; ours does not.
#[tokio::test]
async fn refused_row_is_in_no_error_and_no_log() {
    const SECRET: &str = "canary-9f1c2a7e";
    let (log, _logging) = Log::start(tracing::Level::TRACE, FmtSpan::NEW);
    let database = super::fresh_database().await;
    database
        .pool()
        .execute(
            "ALTER TABLE plexsphere.provisioned_resource_audit ADD CONSTRAINT never CHECK (false)",
        )
        .await
        .unwrap();
    let entry = AuditEntry::new(AuditAction::Abandoned, attribution()).with_event_data(SECRET);
    let store = PgStore::new(database.pool().clone());
    let error = store.record(&entry).await.unwrap_err();
    let errors = all_renderings(&error);
    assert!(errors.contains("constraint never"), "{errors}");
    assert!(!errors.contains(SECRET), "{errors}");
    let logged = log.text();
    assert!(logged.contains("provisioned_resource_audit"), "{logged}");
    assert!(!logged.contains(SECRET), "{logged}");
}
