//! Error contexts for failed calls: the verb, and the file or program.

use std::path::Path;
use std::process::Command;

/// For `with_context` on a file operation.
pub fn cannot<'a>(
    operation: &'a str,
    path: &'a (impl AsRef<Path> + ?Sized),
) -> impl FnOnce() -> String + 'a {
    move || format!("cannot {operation} {}", path.as_ref().display())
}

/// For `with_context` on the start of a program.
pub fn cannot_run(command: &Command) -> impl FnOnce() -> String + use<> {
    let program = command.get_program().to_string_lossy().into_owned();
    move || format!("cannot run {program}")
}
