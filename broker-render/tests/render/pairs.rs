//! The pairs of schema and spec, on our own check. The same file is tried on a real API server.

use serde_json::Value;

use crate::support::{data, read_yaml, xrd_for};

#[test]
fn our_check_says_what_the_table_says() {
    let text = std::fs::read_to_string(data("schema_pairs.yaml")).unwrap();
    let pairs = read_yaml(&text);
    let pairs = pairs.as_array().unwrap();
    assert!(pairs.len() >= 40, "{}", pairs.len());
    for pair in pairs {
        let name = pair["name"].as_str().unwrap();
        let problems = xrd_for(&pair["schema"]).check(&pair["spec"]);
        let refused = pair.get("refused").and_then(Value::as_str);
        let named: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(named, refused.into_iter().collect::<Vec<_>>(), "{name}: {problems:?}");
    }
}
