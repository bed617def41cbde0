//! The built binary: exit codes and one-line errors. CI would miss a failure with exit code 0.

use std::process::Command;

#[test]
fn failure_exits_with_1_and_bad_usage_with_2() {
    for (arguments, code, beginning) in [
        (["bench", "nosuch"], 1, "error: \"nosuch\" is not a benchmark"),
        (["test", "--teir"], 2, "error: unexpected argument '--teir'"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.starts_with(beginning), "{text}");
        assert!(code == 2 || text.lines().count() == 1, "{text}");
    }
}
