//! A systemd unit with its drop-ins: the few settings that decide how an agent starts.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

#[derive(Debug)]
pub(super) struct Unit {
    pub(super) start_pre: Vec<Vec<String>>,
    pub(super) start: Vec<String>,
    pub(super) user: String,
    /// The bound, if the unit has one.
    pub(super) capabilities: Option<String>,
}

impl Unit {
    /// The administrator's unit hides the package's; drop-ins apply to either.
    pub(super) fn read(root: &Path, name: &str) -> Result<Self> {
        let own = root.join("etc/systemd/system").join(name);
        let of_package = root.join("lib/systemd/system").join(name);
        let mut text = fs::read_to_string(&own)
            .or_else(|_| fs::read_to_string(&of_package))
            .with_context(|| format!("{name} does not exist"))?;
        let drop_ins = fs::read_dir(own.with_added_extension("d")).into_iter().flatten();
        let mut drop_ins: Vec<_> = drop_ins.filter_map(|entry| Some(entry.ok()?.path())).collect();
        drop_ins.sort();
        for path in drop_ins {
            text.push('\n');
            text.push_str(&fs::read_to_string(path)?);
        }
        let mut unit = Self {
            start_pre: Vec::new(),
            start: Vec::new(),
            user: "root".to_owned(),
            capabilities: None,
        };
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            match key {
                "ExecStartPre" => unit.start_pre.push(words(value)?),
                // An empty assignment resets the list; a service has one start command.
                "ExecStart" if value.is_empty() => unit.start.clear(),
                "ExecStart" => {
                    anyhow::ensure!(unit.start.is_empty(), "{name} has two start commands");
                    unit.start = words(value)?;
                }
                "User" => value.clone_into(&mut unit.user),
                "CapabilityBoundingSet" => unit.capabilities = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(unit)
    }
}

/// Splits a command line as systemd does, without specifiers and variables: only their escapes are allowed.
fn words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            '\\' | '%' | '$' => {
                let next = rest.next().context("an escape without a character")?;
                let is_escape = next == c || (c == '\\' && next == '"');
                anyhow::ensure!(is_escape, "{c}{next} would be expanded");
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    anyhow::ensure!(!quoted, "a quote is open");
    words.extend(word);
    Ok(words)
}
