//! What a waiting person sees.

/// Writes a line where `cargo` writes its own: what may take long says so before it begins.
pub fn say(line: &str) {
    eprintln!("xtask: {line}");
}
