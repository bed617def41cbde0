//! The binary as a person meets it: exit codes, and the one line of an error. A failure with exit code 0 would go
//! unnoticed in CI.

use std::process::Command;

#[test]
fn failure_is_exit_code_1_and_one_line_and_bad_usage_is_2() {
    for (arguments, code, beginning) in [
        (["bench", "nosuch"], 1, "error: \"nosuch\" is none of the benchmarks"),
        (["test", "--teir"], 2, "error: unexpected argument '--teir'"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.starts_with(beginning), "{text}");
        assert!(code == 2 || text.lines().count() == 1, "{text}");
    }
}
