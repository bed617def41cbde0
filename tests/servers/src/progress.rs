//! Progress lines for a waiting user.

/// Prints a line to standard error, before a step that may take long.
pub fn report_progress(line: &str) {
    eprintln!("xtask: {line}");
}
