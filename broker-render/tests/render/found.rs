//! What a review found, each with the input that showed it.

use broker_domain::Error;
use broker_render::{
    AgentSource, ApiUrl, Armed, CloudTags, DebianPackage, Download, ImageReference,
    InjectionStrategy, Provider, TagSkip, Xrd, cloud_tags, inject_bootstrap, preserve_injection,
    scrub, xr,
};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

use crate::support::{Given, Injected, labels, token_id, xrd_document};

fn outcomes<T>(texts: &[&str], parse: impl Fn(String) -> Result<T, Error>) -> Vec<bool> {
    texts.iter().map(|text| parse((*text).to_owned()).is_ok()).collect()
}

/// `apt-get install systemd-` removes systemd.
#[test]
fn a_package_is_no_order_to_apt() {
    let refused = ["systemd-", "plexd+", "a-", "a.-"];
    assert_eq!(outcomes(&refused, DebianPackage::new), [false; 4]);
    let good = ["g++", "libstdc++", "plexd", "0ad", "lib-a.b"];
    assert_eq!(outcomes(&good, DebianPackage::new), [true; 5]);
    let version = |version: String| DebianPackage::new("plexd")?.in_version(version);
    assert_eq!(outcomes(&["1-", "1.0+", "1:", "1~"], version), [false; 4]);
    assert_eq!(outcomes(&["1", "1:1.4.2~rc1-1+b2", "1.0+git"], version), [true; 3]);
}

#[test]
fn a_url_has_a_host_and_a_port_in_digits() {
    let refused = [
        "https://host:+80",
        "https://host:",
        "https://host:65536",
        "https://.",
        "https://a..b",
        "https://-a.b",
        "https://a.-b",
        "https://:80",
    ];
    assert_eq!(outcomes(&refused, ApiUrl::new), [false; 8]);
    let good = ["https://host:65535", "https://a.b-c", "http://[::1]:1/x", "https://10.0.0.1"];
    assert_eq!(outcomes(&good, ApiUrl::new), [true; 4]);
}

#[test]
fn an_image_is_written_as_registries_write_it() {
    let refused =
        ["a:::@@", "a//b", "/a", "a/", "a:", "a@", "a@sha256:", "A/b:c:d", "a:b/c:d:e", "Upper"];
    assert_eq!(outcomes(&refused, ImageReference::new), [false; 10]);
    let good = [
        "plexd",
        "plexsphere/plexd:1.4",
        "registry.example:5000/a/b__c-d.e:v1_2-x",
        "localhost:5000/plexd@sha256:00ff",
        "Registry.Example/plexd:Tag@sha256:00ff",
    ];
    assert_eq!(outcomes(&good, ImageReference::new), [true; 5]);
}

/// curl expands brackets and braces on its own, and follows redirects to any protocol.
#[test]
fn a_download_fetches_one_url_over_http_and_stays_on_tls() {
    let given = Given::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&given.input()).unwrap();
    let url = ApiUrl::new("https://host/plexd[1-3]").unwrap();
    let mut injected = Injected::token("token");
    let download = Download::new(url, "ab".repeat(32)).unwrap();
    injected.agent = injected.agent.with_source(AgentSource::Download(download));
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    let object: Value = serde_json::from_slice(&sealed.expose_for_apply()).unwrap();
    let document = object["spec"]["userData"].as_str().unwrap();
    let curl = document.lines().find(|line| line.trim_start().starts_with("curl ")).unwrap();
    for option in [" --globoff ", " --proto '=https,http' ", " --proto-redir '=https' "] {
        assert!(curl.contains(option), "{option} in {curl}");
    }
}

#[test]
fn labels_that_only_look_like_tags_are_skipped() {
    for (provider, key, value, reason) in [
        ("hcloud", "-foo", "v", TagSkip::KeyInvalid),
        ("hcloud", "foo.", "v", TagSkip::KeyInvalid),
        ("hcloud", "_", "v", TagSkip::KeyInvalid),
        ("hcloud", "k", "-", TagSkip::ValueInvalid),
        ("hcloud", "k", "foo_", TagSkip::ValueInvalid),
        // A vowel sign is alphabetic and no letter, a circled letter is a symbol, and so is a tab.
        ("aws", "\u{93e}", "v", TagSkip::KeyInvalid),
        ("aws", "k", "\u{24b6}", TagSkip::ValueInvalid),
        ("aws", "k", "a\tb", TagSkip::ValueInvalid),
    ] {
        let tags = cloud_tags(&Provider::new(provider).unwrap(), &labels(&[(key, value)]));
        let reasons: Vec<_> = tags.skipped.iter().map(|skipped| skipped.reason).collect();
        assert_eq!(reasons, [reason], "{provider} {key:?} {value:?}");
    }
    let good = labels(&[("a.b-c_d", "x"), ("k", ""), ("é", "a\u{3000}b½")]);
    assert_eq!(cloud_tags(&Provider::new("aws").unwrap(), &good).skipped, []);
}

/// The rules as the providers publish them, for the whole key: what it is made of, and how long it is.
fn published(provider: &str) -> [(&'static str, usize); 2] {
    match provider {
        "aws" => {
            let text = r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$";
            [(text, 128), (text, 256)]
        }
        "hcloud" => [
            (r"^[a-z0-9.-]+/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", 253 + 1 + 63),
            (r"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$", 63),
        ],
        _ => [(r"^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]*$", 63), (r"^[\p{Ll}\p{Lo}\p{N}_-]*$", 63)],
    }
}

fn keeps((rule, longest): (&str, usize), text: &str) -> bool {
    text.chars().count() <= longest && Regex::new(rule).unwrap().is_match(text)
}

proptest! {
    #[test]
    fn every_tag_keeps_the_published_rules(
        key in "[a-zA-Z0-9._-]{1,66}|[-_.]|\\PC{1,6}|[a-z]{60,130}",
        value in "[a-zA-Z0-9._-]{0,66}|[-_.]|.{0,6}|[a-zé]{250,260}",
        provider in prop::sample::select(&["aws", "hcloud", "gcp"][..]),
    ) {
        let given = [(key.clone(), value.clone())].into();
        let CloudTags { tags, skipped, .. } = cloud_tags(&Provider::new(provider).unwrap(), &given);
        prop_assert_eq!(tags.len() + skipped.len(), 1);
        let [key_rule, value_rule] = published(provider);
        for (key, value) in &tags {
            prop_assert!(keeps(key_rule, key) && keeps(value_rule, value), "{key:?} {value:?}");
        }
        // Hetzner's rules are exactly these: what keeps them is sent.
        if provider == "hcloud" {
            let full = format!("plexsphere.io/{key}");
            let good = keeps(key_rule, &full) && keeps(value_rule, &value);
            prop_assert_eq!(good, skipped.is_empty(), "{:?} {:?}", key, value);
        }
    }

    #[test]
    fn a_token_is_found_below_three_layers_of_json(
        token in "[ -~]{8,64}",
        layers in 0_usize..=3,
        by_go in any::<[bool; 3]>(),
        cut in 8_usize..200,
    ) {
        let written = (0..layers).fold(token.clone(), |text, layer| {
            let escaped = escaped(&text);
            if by_go[layer] { as_go(&escaped) } else { escaped }
        });
        let whole = scrub(&format!("before{written}after"), &[&token]);
        prop_assert_eq!(&whole, "before█after");
        let cut = cut.min(written.len());
        let scrubbed = scrub(&format!("before{}\u{2026}\": too long", &written[..cut]), &[&token]);
        // Behind a token that ends in a backslash, the escapes of that backslash may stay.
        prop_assert_eq!(scrubbed.replace('\\', ""), "before█\u{2026}\": too long");
    }
}

fn escaped(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn as_go(escaped: &str) -> String {
    escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[test]
fn a_token_of_quotes_and_backslashes_leaves_no_trace() {
    let token = r#"t"\Zx81"a\\b<&>"end"#;
    let message = |text: &str| json!({"message": text}).to_string();
    let document = format!("content: {}", json!(token));
    let body = json!({"spec": {"userData": document}}).to_string();
    for text in [body.clone(), message(&body), as_go(&message(&body)), message(&as_go(&body))] {
        let scrubbed = scrub(&text, &[token]);
        assert!(scrubbed.contains('█') && !scrubbed.contains("Zx81"), "{scrubbed}");
    }
    let cut = r#"spec.userData: Invalid value: "t\"\\Zx81\"a…": too long"#;
    let scrubbed = scrub(cut, &[token]);
    assert_eq!(scrubbed, "spec.userData: Invalid value: \"█…\": too long");
}

#[test]
fn a_factor_that_nothing_is_a_multiple_of_is_refused() {
    for factor in [json!(0), json!(-1), json!(-0.5)] {
        let schema = json!({"properties": {"n": {"type": "number", "multipleOf": factor}}});
        let error = Xrd::parse(xrd_document(&schema).to_string().as_bytes()).unwrap_err();
        assert!(
            error.to_string().ends_with("multipleOf: is not positive; nothing is a multiple of it"),
            "{error}"
        );
    }
}

/// Invariant: what says that a token was injected holds one.
#[test]
fn a_re_apply_keeps_an_injection_or_nothing() {
    for strategy in InjectionStrategy::ALL {
        let given = Given::node(strategy);
        let rendered = xr(&given.input()).unwrap();
        let injected = Injected::token("token");
        let armed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
        let live: Value = serde_json::from_slice(&armed.expose_for_apply()).unwrap();
        assert!(preserve_injection(&live, &rendered, token_id()).is_ok(), "{strategy}");
        let leaf = match strategy {
            InjectionStrategy::CloudInitUserData => "/spec/userData",
            InjectionStrategy::HelmValues => "/spec/parameters/helmValues/plexdImage",
            InjectionStrategy::ProviderSecret => "/spec/parameters/providerSecret/bootstrapToken",
        };
        for emptied in [json!(""), json!(null), json!(["token"])] {
            let mut live = live.clone();
            *live.pointer_mut(leaf).unwrap() = emptied;
            assert!(preserve_injection(&live, &rendered, token_id()).is_err(), "{strategy}");
        }
        let mut shell: Value = serde_json::from_slice(&rendered.shell(1).to_bytes()).unwrap();
        shell["spec"] = live["spec"].clone();
        assert!(preserve_injection(&shell, &rendered, token_id()).is_err(), "{strategy}: a shell");
        let mut other = live.clone();
        let standalone = rendered.armed(&Armed::Standalone).to_bytes();
        let standalone: Value = serde_json::from_slice(&standalone).unwrap();
        other["metadata"] = standalone["metadata"].clone();
        assert!(preserve_injection(&other, &rendered, token_id()).is_err(), "{strategy}: no token");
    }
}
