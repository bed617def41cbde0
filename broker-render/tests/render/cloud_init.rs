//! The cloud-config document, read back as a machine would read it.

use broker_render::{
    Agent, AgentSource, ApiUrl, DebianPackage, Download, ImageReference, InjectionStrategy,
    MAX_USER_DATA_BYTES, inject_bootstrap, xr,
};
use serde_json::{Value, json};

use crate::support::{Given, Injected, read_yaml};

fn document(injected: &Injected) -> String {
    let given = Given::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&given.input()).unwrap();
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    let object: Value = serde_json::from_slice(&sealed.expose_for_apply()).unwrap();
    object["spec"]["userData"].as_str().unwrap().to_owned()
}

fn sources() -> Vec<(AgentSource, Vec<String>)> {
    let package = DebianPackage::new("plexd").unwrap();
    let pinned = package.clone().in_version("1:1.4.2~rc1-1+b2").unwrap();
    let image = ImageReference::new("plexsphere/plexd@sha256:00ff").unwrap();
    let url = "https://host:8443/a/plexd?x='$(reboot)'&y=%22;!*";
    let download = Download::new(ApiUrl::new(url).unwrap(), "AB".repeat(32)).unwrap();
    vec![
        (AgentSource::Package(package), vec!["plexd".to_owned()]),
        (AgentSource::Package(pinned), vec!["plexd=1:1.4.2~rc1-1+b2".to_owned()]),
        (AgentSource::Image(image), vec!["plexsphere/plexd@sha256:00ff".to_owned()]),
        (AgentSource::Download(download), vec![url.to_owned(), "ab".repeat(32)]),
    ]
}

/// Tokens that would mean something to YAML, to a shell or to JSON.
fn hostile_tokens() -> Vec<String> {
    let all: String = (' '..='~').collect();
    let mut tokens: Vec<String> = [
        "\"",
        "'",
        "\\",
        "\\n",
        "#cloud-config",
        ": ",
        "- x",
        "{{ v1 }}",
        "%YAML",
        "$(reboot)",
        "`reboot`",
        "; reboot #",
        "\" , content: \"",
        "*anchor",
        "&anchor",
        "!tag",
        "|",
        ">",
        "@",
        "null",
        "true",
        "0600",
        "  leading and trailing  ",
        "## template: jinja",
        "<&>",
    ]
    .map(str::to_owned)
    .to_vec();
    tokens.extend([all, "x".repeat(512), "\\\"".repeat(256)]);
    tokens
}

/// Invariant: the document is exactly the files and commands that were meant, whatever goes into it.
#[test]
fn nothing_breaks_out_of_its_place() {
    for token in hostile_tokens() {
        for (source, arguments) in sources() {
            let agent = Agent::default().with_source(source);
            let api_url = ApiUrl::new("https://api.example/x?y='z'&w=\u{24}(reboot)").unwrap();
            let text = document(&Injected { api_url, agent, ..Injected::token(&token) });
            assert!(text.len() <= MAX_USER_DATA_BYTES, "{} bytes", text.len());
            assert!(text.starts_with("#cloud-config\n"));
            let read = read_yaml(&text);
            let keys: Vec<_> = read.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["runcmd", "write_files"]);
            let files = read["write_files"].as_array().unwrap();
            let by_path = |path: &str| {
                let file = files.iter().find(|file| file["path"] == path).unwrap();
                (file["permissions"].as_str().unwrap(), file["content"].as_str().unwrap())
            };
            assert_eq!(by_path("/etc/plexd/bootstrap-token"), ("0600", token.as_str()));
            let (permissions, config) = by_path("/etc/plexd/config.yaml");
            assert_eq!(permissions, "0600");
            assert_eq!(
                read_yaml(config),
                json!({"api_url": "https://api.example/x?y='z'&w=$(reboot)"})
            );
            let mut command = vec!["/bin/sh".to_owned(), "/etc/plexd/install".to_owned()];
            command.extend(arguments);
            assert_eq!(read["runcmd"], json!([command]));
        }
    }
}

/// What varies stands in no script: each is the same text for every input.
#[test]
fn scripts_and_units_are_constant() {
    for (source, _) in sources() {
        let scripts = |token: &str| {
            let agent = Agent::default().with_source(source.clone());
            let text = document(&Injected { agent, ..Injected::token(token) });
            let files = read_yaml(&text)["write_files"].as_array().unwrap().clone();
            let script = |file: &&Value| {
                let path = file["path"].as_str().unwrap();
                path == "/etc/plexd/install" || path.starts_with("/etc/systemd/")
            };
            files.iter().filter(script).cloned().collect::<Vec<_>>()
        };
        let plain = scripts("plain");
        assert_eq!(plain, scripts("'; reboot; '"));
        let install = plain[0]["content"].as_str().unwrap();
        assert!(install.starts_with("#!/bin/sh\nset -eu\n"), "{install}");
        assert!(install.ends_with("systemctl enable --now plexd.service\n"), "{install}");
    }
}
