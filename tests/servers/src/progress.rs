//! Progress lines for a waiting user.

/// Prints a line to standard error, before a step that may take long.
pub fn say(line: &str) {
    eprintln!("xtask: {line}");
}
