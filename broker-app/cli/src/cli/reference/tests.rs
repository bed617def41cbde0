//! Every JSON example of docs/cli.md has the keys that the program prints.

use std::collections::BTreeSet;

use broker_memory::Behaviour;
use serde_json::Value;

use super::*;
use crate::testing::World;

/// The JSON blocks below a heading.
fn examples(page: &str, heading: &str) -> Vec<Value> {
    let section = page.split_once(&format!("\n#### {heading}\n")).expect(heading).1;
    let section = section.split("\n#").next().unwrap();
    let blocks = section.split("```json\n").skip(1);
    blocks.map(|block| serde_json::from_str(block.split("```").next().unwrap()).unwrap()).collect()
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn json_examples_have_the_keys_of_real_output() {
    let page = reference();
    let world = World::new(Behaviour::failing_after(1, "quota exceeded"));
    let id = world.declare();
    world.settle(id);
    let id = id.to_string();

    let documented = &examples(&page, "A resource")[0];
    let got = world.json(&["get", &id]);
    assert_eq!(keys(documented), keys(&got));
    assert_eq!(keys(&documented["failure"]), keys(&got["failure"]));
    assert_eq!(keys(&documented["composed"][0]), keys(&got["composed"][0]));
    assert_eq!(keys(&documented["provider_config"]), keys(&got["provider_config"]));

    let listed = world.json(&["list"]);
    assert_eq!(keys(&examples(&page, "`list`")[0]), keys(&listed));

    let history = world.json(&["history", &id]);
    let documented = &examples(&page, "`history`")[0];
    assert_eq!(keys(documented), keys(&history));
    assert_eq!(keys(&documented["history"][0]), keys(&history["history"][0]));

    let migrations = world.json(&["migrate", "status"]);
    let documented = &examples(&page, "`migrate`")[0];
    assert_eq!(keys(documented), keys(&migrations));
    assert_eq!(keys(&documented["migrations"][0]), keys(&migrations["migrations"][0]));

    let results = examples(&page, "Operator commands");
    let verbs: [&[&str]; 4] =
        [&["pause", &id], &["brake", "set"], &["redrive-events", &id], &["scrub-audit", &id]];
    assert_eq!(results.len(), verbs.len());
    for (documented, verb) in results.iter().zip(verbs) {
        let printed = world.json(verb);
        assert_eq!(keys(documented), keys(&printed), "{verb:?}");
    }
}
