//! Generates docs/cli.md: reference.md followed by every help text.

use std::mem;

use super::definition;

/// A fixed width, so that the page does not depend on the terminal.
const HELP_WIDTH: usize = 100;

/// The options of most commands; reference.md describes them.
const COMMON_OPTIONS: [&str; 4] = ["actor", "correlation_id", "help", "output"];

pub(crate) fn reference() -> String {
    let mut page = include_str!("reference.md").to_owned();
    let mut program = definition().term_width(HELP_WIDTH).disable_help_subcommand(true);
    program.build();
    push_help(&mut page, &mut program, "provisioning-broker");
    page
}

/// Appends the help of a command and of its visible subcommands, without the options that reference.md describes once.
fn push_help(page: &mut String, command: &mut clap::Command, name: &str) {
    *command = mem::take(command).mut_args(|option| {
        let is_common = COMMON_OPTIONS.contains(&option.get_id().as_str());
        option.hide(is_common)
    });
    for part in ["\n### `", name, "`\n\n```text\n"] {
        page.push_str(part);
    }
    for line in command.render_long_help().to_string().trim_end().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
    for subcommand in command.get_subcommands_mut().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("{name} {}", subcommand.get_name());
        push_help(page, subcommand, &name);
    }
}

#[cfg(test)]
mod tests;
