//! Every variable: the accepted values, and the exact error line for the others.

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::read(&environment)
}

#[test]
fn empty_environment_means_inert_with_defaults() {
    // An empty value counts as unset.
    let empty: Vec<_> = VARIABLES.iter().map(|name| (*name, "")).collect();
    let settings = read(&empty).unwrap();
    assert!(settings.replica().unwrap().is_none());
    assert_eq!(settings.reconcile_interval, Duration::from_secs(30));
    assert_eq!(settings.token_ttl, Duration::from_hours(1));
    assert_eq!(settings.mode, Mode::Live);
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8090");
    assert_eq!(settings.agent_profile, AgentProfile::plexd());
    assert!(settings.event_url.is_none() && settings.kubeconfig.is_empty());
}

#[test]
fn valid_values_are_read() {
    let settings = read(&[
        (DSN, "postgresql://broker:hush@db/broker"),
        (RECONCILE_INTERVAL, "1m30s"),
        (TOKEN_TTL, "90m"),
        (ENABLED, "false"),
        (API_URL, "https://mesh.example.org:8443/v1"),
        (AGENT_PROFILE, "plexd-early-2026"),
        (LISTEN, "[::]:9000"),
        (EVENT_URL, "https://events.example.org/hook?key=hush"),
        (KUBECONFIG, "/a::/b"),
    ])
    .unwrap();
    let replica = settings.replica().unwrap().unwrap();
    assert_eq!(replica.api_url.as_str(), "https://mesh.example.org:8443/v1");
    assert_eq!(settings.agent_profile, AgentProfile::plexd_early_2026());
    assert_eq!(settings.reconcile_interval, Duration::from_secs(90));
    assert_eq!(settings.token_ttl, Duration::from_mins(90));
    assert_eq!(settings.mode, Mode::DryRun);
    assert_eq!(settings.listen.to_string(), "[::]:9000");
    assert_eq!(settings.kubeconfig, [PathBuf::from("/a"), PathBuf::from("/b")]);
    let url = settings.event_url.as_ref().unwrap();
    assert_eq!(url.uri().path(), "/hook");
    assert_eq!(url.to_string(), "https://events.example.org");
    assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
}

#[test]
fn bad_value_names_what_is_allowed() {
    const INTERVAL: &str = "use a duration from 100ms to 1h, such as 30s";
    const TTL: &str = "use a duration of more than zero, such as 1h";
    const ADDRESS: &str = "use an IP address and a port, such as 127.0.0.1:8090";
    const URL: &str =
        "use an http or https URL without credentials, such as https://events.example.org/broker";
    const API: &str = "use the URL that agents enrol at: https://HOST[:PORT][/PATH], or http on the \
                       loopback interface";
    const STORE: &str = "use a connection string such as postgres://USER@HOST:5432/DATABASE";
    let rows = [
        (DSN, "hush", format!("does not begin with postgres:// or postgresql://; {STORE}")),
        (RECONCILE_INTERVAL, "30", format!("is \"30\"; {INTERVAL}")),
        (RECONCILE_INTERVAL, "99ms", format!("is \"99ms\"; {INTERVAL}")),
        (RECONCILE_INTERVAL, "61m", format!("is \"61m\"; {INTERVAL}")),
        (RECONCILE_INTERVAL, "30s\nx", format!("is \"30s\\nx\"; {INTERVAL}")),
        (TOKEN_TTL, "0s", format!("is \"0s\"; {TTL}")),
        (ENABLED, "yes", "is \"yes\"; use true or false".to_owned()),
        (API_URL, "http://mesh.example.org", format!("is \"http://mesh.example.org\"; {API}")),
        (API_URL, "https://a:hush@mesh", format!("holds credentials; {API}")),
        (AGENT_PROFILE, "plexd\n", "is \"plexd\\n\"; use plexd or plexd-early-2026".to_owned()),
        (LISTEN, "localhost:8090", format!("is \"localhost:8090\"; {ADDRESS}")),
        (LISTEN, "127.0.0.1:70000", format!("is \"127.0.0.1:70000\"; {ADDRESS}")),
        (EVENT_URL, "https://a:hush@b/", format!("holds credentials; {URL}")),
        (EVENT_URL, "ftp://b/?key=hush", format!("is neither http nor https; {URL}")),
        (EVENT_URL, "https:// b/hush", format!("is not a URL; {URL}")),
    ];
    for (variable, value, problem) in rows {
        let error = read(&[(variable, value)]).unwrap_err().to_string();
        assert_eq!(error, format!("{variable} {problem}"), "{value:?}");
        assert!(!error.contains("hush") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn long_value_is_truncated_in_the_message() {
    let error = read(&[(ENABLED, &"é".repeat(1000))]).unwrap_err().to_string();
    let shown = "é".repeat(64);
    assert_eq!(error, format!("{ENABLED} is \"{shown}…\"; use true or false"));
}

#[test]
fn missing_required_variable_is_named() {
    let without_store = read(&[]).unwrap();
    assert_eq!(
        without_store.store().unwrap_err().to_string(),
        "PLEXSPHERE_DSN is empty; use a connection string such as postgres://USER@HOST:5432/DATABASE"
    );
    let without_url = read(&[(DSN, "postgres://db/broker")]).unwrap();
    assert!(without_url.store().is_ok());
    assert_eq!(
        without_url.replica().unwrap_err().to_string(),
        "PLEXSPHERE_PROVISIONING_BROKER_API_URL is empty; use the URL that agents enrol at: \
         https://HOST[:PORT][/PATH], or http on the loopback interface"
    );
}
