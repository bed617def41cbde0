//! Tests of the cloud-config document, parsed as a machine would parse it.

use broker_domain::ResourceHandle;
use broker_render::{
    Agent, AgentFile, AgentProfile, AgentSource, AgentVariable, ApiUrl, DebianPackage, Download,
    ImageReference, InjectionStrategy, MAX_USER_DATA_BYTES, inject_bootstrap, injected, token_in,
    xr,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::support::{InjectionFixture, RenderFixture, cases, identity, read_yaml, text, value};

const URL: &str = "https://api.example/x?y='z'&w=\u{24}(reboot)%25;";
const BINARY_URL: &str = "https://host:8443/a/plexd?x='$(reboot)'&y=%22;!*";

fn object(injected: &InjectionFixture) -> Value {
    let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&fixture.input()).unwrap();
    value(&inject_bootstrap(&rendered, &injected.bootstrap()).unwrap().expose_for_apply())
}

fn document(injected: &InjectionFixture) -> String {
    text(&object(injected)["spec"]["userData"]).to_owned()
}

fn sources() -> Vec<AgentSource> {
    let package = DebianPackage::new("plexd").unwrap();
    let image = ImageReference::new("plexsphere/plexd@sha256:00ff").unwrap();
    let download = Download::new(ApiUrl::new(BINARY_URL).unwrap(), "AB".repeat(32)).unwrap();
    vec![
        AgentSource::Package(package.clone()),
        AgentSource::Package(package.in_version("1:1.4.2~rc1-1+b2").unwrap()),
        AgentSource::Image(image),
        AgentSource::Download(download),
    ]
}

/// An agent of an embedder: the token is a field, and the start command has a value of each kind.
fn custom() -> AgentProfile {
    let settings = AgentFile::yaml([
        ("server.url", AgentVariable::ApiUrl.into()),
        ("server.auth.token", AgentVariable::Token.into()),
        ("yes", "$(reboot)\n\"é".into()),
    ]);
    let files = [
        ("/opt/meshd/etc/agent.yaml", settings.unwrap()),
        ("/etc/meshd/project", AgentFile::text(AgentVariable::Project)),
    ];
    let url = AgentVariable::ApiUrl.into();
    AgentProfile::new("meshd", files)
        .and_then(|profile| profile.with_arguments(["run \"%n\" \\ ; $HOME".into(), url]))
        .and_then(|profile| profile.with_state_directory("/opt/meshd/state"))
        .unwrap()
}

fn profiles() -> [AgentProfile; 3] {
    [AgentProfile::plexd(), AgentProfile::plexd_early_2026(), custom()]
}

fn longest_handle() -> ResourceHandle {
    ResourceHandle::new("h".repeat(ResourceHandle::MAX_LENGTH)).unwrap()
}

/// Every profile with every source and every token.
fn all_documents() -> impl Iterator<Item = (AgentProfile, AgentSource, String, Value)> {
    let long = [json!("x".repeat(512)), json!("\\\"".repeat(256))];
    let tokens: Vec<_> =
        cases("tokens").iter().chain(&long).map(|token| text(token).to_owned()).collect();
    let agents = profiles()
        .into_iter()
        .flat_map(|profile| sources().into_iter().map(move |source| (profile.clone(), source)));
    agents.flat_map(move |(profile, source)| {
        let of_token = |token: &String| {
            let agent = Agent::default().with_source(source.clone()).with_profile(profile.clone());
            let api_url = ApiUrl::new(URL).unwrap();
            let token = InjectionFixture::token(token);
            let live =
                object(&InjectionFixture { api_url, agent, handle: longest_handle(), ..token });
            (profile.clone(), source.clone(), live)
        };
        let rendered = tokens.iter().map(|token| (token.clone(), of_token(token)));
        let rendered =
            rendered.map(|(token, (profile, source, live))| (profile, source, token, live));
        rendered.collect::<Vec<_>>()
    })
}

/// The content of a file, by its path; `None` if the document does not write it.
fn content<'a>(document: &'a Value, path: &str) -> Option<&'a str> {
    let files = document["write_files"].as_array().unwrap();
    files.iter().find(|file| file["path"] == path).map(|file| text(&file["content"]))
}

/// Invariant: the document contains exactly the intended files and commands, whatever the input.
#[test]
fn input_cannot_break_out_of_the_document() {
    for (profile, source, token, live) in all_documents() {
        let document = text(&live["spec"]["userData"]);
        assert!(document.len() <= MAX_USER_DATA_BYTES, "{} bytes", document.len());
        assert!(document.starts_with("#cloud-config\n"));
        let read = read_yaml(document);
        let keys: Vec<_> = read.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["runcmd", "write_files"]);
        let service = profile.service();
        let (project, url) = (identity().project.to_string(), URL.to_owned());
        let mut files = if profile == custom() {
            let settings = content(&read, "/opt/meshd/etc/agent.yaml").unwrap();
            let server = json!({"url": url, "auth": {"token": token}});
            assert_eq!(read_yaml(settings), json!({"server": server, "yes": "$(reboot)\n\"é"}));
            assert_eq!(content(&read, "/etc/meshd/project"), Some(project.as_str()));
            vec![("/opt/meshd/etc/agent.yaml", "0600"), ("/etc/meshd/project", "0600")]
        } else {
            assert_eq!(content(&read, "/etc/plexd/bootstrap-token"), Some(token.as_str()));
            let registration =
                json!({"project_id": project, "resource_handle": longest_handle().as_str()});
            let current = json!({"api": {"base_url": url}, "data_dir": "/var/lib/plexd",
                                 "registration": registration});
            let is_current = profile == AgentProfile::plexd();
            let expected = if is_current { current } else { json!({"api_url": url}) };
            assert_eq!(read_yaml(content(&read, "/etc/plexd/config.yaml").unwrap()), expected);
            vec![("/etc/plexd/bootstrap-token", "0600"), ("/etc/plexd/config.yaml", "0600")]
        };
        let install = format!("/etc/{service}/install");
        let drop_in = if matches!(source, AgentSource::Package(_)) { ".d/broker.conf" } else { "" };
        let unit = format!("/etc/systemd/system/{service}.service{drop_in}");
        files.extend([(install.as_str(), "0700"), (unit.as_str(), "0644")]);
        let written = read["write_files"].as_array().unwrap();
        let written: Vec<_> =
            written.iter().map(|file| (text(&file["path"]), text(&file["permissions"]))).collect();
        assert_eq!(written, files);
        let service = format!("{service}.service");
        let arguments = match &source {
            AgentSource::Package(package) if *package == DebianPackage::new("plexd").unwrap() => {
                vec!["plexd".to_owned(), service]
            }
            AgentSource::Package(_) => vec!["plexd=1:1.4.2~rc1-1+b2".to_owned(), service],
            AgentSource::Image(_) => vec![service],
            AgentSource::Download(_) => {
                let binary = format!("/usr/local/bin/{}", profile.service());
                vec![BINARY_URL.to_owned(), "ab".repeat(32), binary, service]
            }
            other => panic!("{other:?} is not tested"),
        };
        let command = [vec!["/bin/sh".to_owned(), install], arguments].concat();
        assert_eq!(read["runcmd"], json!([command]));
    }
}

/// Invariant: the scrubber finds the token of a live object, for any profile.
#[test]
fn token_is_found_in_every_document() {
    for (_, _, token, live) in all_documents() {
        let document = text(&live["spec"]["userData"]);
        assert_eq!(token_in(document).unwrap().expose_secret(), token);
        assert_eq!(injected(&live)[0].expose_secret(), token);
    }
    let without_comment = document(&InjectionFixture::token("earlier"))
        .lines()
        .filter(|line| !line.starts_with("# "))
        .fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(
        token_in(&without_comment).unwrap().expose_secret(),
        "earlier",
        "an earlier release"
    );
    for foreign in ["", "#cloud-config\n", "#cloud-config\n# bootstrap-token: /a/b/c\n{}", "{"] {
        assert!(token_in(foreign).is_none(), "{foreign}");
    }
}

/// Invariant: scripts contain no value of the input, and no unit contains the token.
#[test]
fn scripts_are_constant_and_units_hold_no_token() {
    for profile in profiles() {
        for source in sources() {
            let executed = |token: &str| {
                let agent =
                    Agent::default().with_source(source.clone()).with_profile(profile.clone());
                let document =
                    document(&InjectionFixture { agent, ..InjectionFixture::token(token) });
                let files = read_yaml(&document)["write_files"].as_array().unwrap().clone();
                let executed = |file: &&Value| {
                    let path = text(&file["path"]);
                    path.ends_with("/install") || path.starts_with("/etc/systemd/")
                };
                files.iter().filter(executed).cloned().collect::<Vec<_>>()
            };
            let plain = executed("plain");
            assert_eq!(plain, executed("'; reboot; '"));
            let install = text(&plain[0]["content"]);
            assert!(install.starts_with("#!/bin/sh\nset -eu\n"), "{install}");
            let last = install.lines().last().unwrap();
            assert!(last.starts_with("systemctl enable --now \"$"), "{install}");
            for value in ["plexd", "meshd", "ab".repeat(32).as_str(), "https://host"] {
                assert!(!install.contains(value), "{value}: {install}");
            }
        }
    }
}

/// Invariant: systemd passes each argument on verbatim. `$$` and `%%` are its escapes, and `\` quotes.
#[test]
fn unit_quotes_the_arguments_of_the_start_command() {
    let custom_arguments =
        r#""run \"%%n\" \\ ; $$HOME" "https://api.example/x?y='z'&w=$$(reboot)%%25;""#;
    let start_of = |profile: &AgentProfile, source: AgentSource| {
        let agent = Agent::default().with_source(source).with_profile(profile.clone());
        let api_url = ApiUrl::new(URL).unwrap();
        let document =
            document(&InjectionFixture { api_url, agent, ..InjectionFixture::token("t") });
        let read = read_yaml(&document);
        let unit = text(&read["write_files"].as_array().unwrap().last().unwrap()["content"]);
        unit.lines().rev().find_map(|line| line.strip_prefix("ExecStart=")).unwrap().to_owned()
    };
    let [package, _, image, download] = <[AgentSource; 4]>::try_from(sources()).unwrap();
    let podman = "/usr/bin/podman run --rm --replace";
    let rights = "--network=host --user=0:0 --cap-drop=all";
    let reference = "plexsphere/plexd@sha256:00ff";
    for (profile, arguments, volumes) in [
        (
            AgentProfile::plexd(),
            " up --config /etc/plexd/config.yaml".to_owned(),
            "--cap-add=CAP_NET_ADMIN --cap-add=CAP_NET_RAW --volume=/etc/plexd:/etc/plexd \
             --volume=/var/lib/plexd:/var/lib/plexd",
        ),
        (
            custom(),
            format!(" {custom_arguments}"),
            "--volume=/etc/meshd:/etc/meshd --volume=/opt/meshd/etc:/opt/meshd/etc \
             --volume=/opt/meshd/state:/opt/meshd/state",
        ),
    ] {
        let service = profile.service();
        assert_eq!(start_of(&profile, package.clone()), format!("{service}{arguments}"));
        assert_eq!(
            start_of(&profile, image.clone()),
            format!("{podman} --name={service} {rights} {volumes} {reference}{arguments}")
        );
        assert_eq!(
            start_of(&profile, download.clone()),
            format!("/usr/local/bin/{service}{arguments}")
        );
    }
    assert_eq!(start_of(&AgentProfile::plexd_early_2026(), package), "plexd");
}

#[test]
fn profile_needs_the_token_once_and_in_a_file() {
    let token = || AgentFile::text(AgentVariable::Token);
    for (files, times) in [
        (vec![("/etc/a/b", AgentFile::text(AgentVariable::Project))], 0),
        (vec![("/etc/a/b", token()), ("/etc/a/c", token())], 2),
    ] {
        let error = AgentProfile::new("a", files).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("agent.profile.files: contain the token {times} times; write it once")
        );
    }
    let error = AgentProfile::plexd().with_arguments([AgentVariable::Token.into()]).unwrap_err();
    let problem = "contain the token, which every user would see; use a file";
    assert_eq!(error.to_string(), format!("agent.profile.arguments: {problem}"));
}

/// A replica refuses the agent at its start, and not its first machine.
#[test]
fn agent_with_too_large_a_document_is_refused() {
    let url = ApiUrl::new(format!("https://host/{}", "x".repeat(2035))).unwrap();
    let files = |filler: usize| {
        let filler = AgentFile::text("x".repeat(filler).as_str());
        [("/etc/a/b", AgentFile::text(AgentVariable::Token)), ("/etc/a/c", filler)]
    };
    for source in sources() {
        let agent = |filler| {
            let profile = AgentProfile::new("a", files(filler)).unwrap();
            Agent::default().with_source(source.clone()).with_profile(profile)
        };
        for profile in profiles() {
            agent(0).with_profile(profile).check(&url).unwrap();
        }
        let error = agent(MAX_USER_DATA_BYTES).check(&url).unwrap_err().to_string();
        assert!(error.starts_with("spec.userData: would be "), "{error}");
    }
}
