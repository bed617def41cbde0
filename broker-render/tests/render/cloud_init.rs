//! Tests of the cloud-config document, parsed as a machine would parse it.

use broker_render::{
    Agent, AgentSource, ApiUrl, DebianPackage, Download, ImageReference, InjectionStrategy,
    MAX_USER_DATA_BYTES, inject_bootstrap, xr,
};
use serde_json::{Value, json};

use crate::support::{InjectionFixture, RenderFixture, cases, read_yaml, text, value};

fn document(injected: &InjectionFixture) -> String {
    let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&fixture.input()).unwrap();
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    text(&value(&sealed.expose_for_apply())["spec"]["userData"]).to_owned()
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

/// Invariant: the document contains exactly the intended files and commands, whatever the input.
#[test]
fn input_cannot_break_out_of_the_document() {
    let long = [json!("x".repeat(512)), json!("\\\"".repeat(256))];
    for token in cases("tokens").iter().chain(&long).map(text) {
        for (source, arguments) in sources() {
            let agent = Agent::default().with_source(source);
            let api_url = ApiUrl::new("https://api.example/x?y='z'&w=\u{24}(reboot)").unwrap();
            let document =
                document(&InjectionFixture { api_url, agent, ..InjectionFixture::token(token) });
            assert!(document.len() <= MAX_USER_DATA_BYTES, "{} bytes", document.len());
            assert!(document.starts_with("#cloud-config\n"));
            let read = read_yaml(&document);
            let keys: Vec<_> = read.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["runcmd", "write_files"]);
            let files = read["write_files"].as_array().unwrap();
            let by_path = |path: &str| {
                let file = files.iter().find(|file| file["path"] == path).unwrap();
                (text(&file["permissions"]), text(&file["content"]))
            };
            assert_eq!(by_path("/etc/plexd/bootstrap-token"), ("0600", token));
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

/// Invariant: scripts contain no value of the input.
#[test]
fn scripts_and_units_are_constant() {
    for (source, _) in sources() {
        let scripts = |token: &str| {
            let agent = Agent::default().with_source(source.clone());
            let document = document(&InjectionFixture { agent, ..InjectionFixture::token(token) });
            let files = read_yaml(&document)["write_files"].as_array().unwrap().clone();
            let script = |file: &&Value| {
                let path = text(&file["path"]);
                path == "/etc/plexd/install" || path.starts_with("/etc/systemd/")
            };
            files.iter().filter(script).cloned().collect::<Vec<_>>()
        };
        let plain = scripts("plain");
        assert_eq!(plain, scripts("'; reboot; '"));
        let install = text(&plain[0]["content"]);
        assert!(install.starts_with("#!/bin/sh\nset -eu\n"), "{install}");
        assert!(install.ends_with("systemctl enable --now plexd.service\n"), "{install}");
    }
}
