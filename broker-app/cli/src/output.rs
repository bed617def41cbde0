//! Prints command output: tables for people, JSON for programs. No colour, so a pipe gets the same text as a terminal.

mod resource;

use std::io::{self, Write};

use broker_app::ToJson;
use broker_domain::ProvisionedResource;
use broker_ports::{Watermark, wire};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

pub(crate) use resource::line;

use crate::cli::Format;

/// The output stream and its format.
pub(crate) struct Output<'a> {
    format: Format,
    out: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    pub(crate) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { format, out }
    }

    pub(crate) fn resource(&mut self, resource: &ProvisionedResource) -> io::Result<()> {
        match self.format {
            Format::Human => self.table(&resource::details(resource)),
            Format::Json => self.json(&resource.to_json()),
        }
    }

    /// A list of resources, with the watermark for the next one.
    pub(crate) fn resources(
        &mut self,
        resources: &[ProvisionedResource],
        watermark: Watermark,
    ) -> io::Result<()> {
        match self.format {
            Format::Human if resources.is_empty() => self.text("no resources"),
            Format::Human => self.table(&resource::overview(resources)),
            Format::Json => self.json(&json!({
                "resources": resources.iter().map(ToJson::to_json).collect::<Vec<_>>(),
                "watermark": wire::rfc3339(watermark.at()),
            })),
        }
    }

    /// One resource per line, for `--watch` and `--wait`. `lead` precedes the line in human format.
    pub(crate) fn change(&mut self, lead: &str, resource: &ProvisionedResource) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(&format!("{lead}{}", line(resource))),
            Format::Json => self.json(&resource.to_json()),
        }
    }

    /// The result of a command: a sentence, or an object.
    pub(crate) fn done(&mut self, sentence: &str, object: &Value) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(sentence),
            Format::Json => self.json(object),
        }
    }

    /// A text that ends with its own newline, or an object.
    pub(crate) fn page(&mut self, text: &str, object: &Value) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(text.trim_end()),
            Format::Json => self.json(object),
        }
    }

    /// A table, or an object.
    pub(crate) fn rows(
        &mut self,
        headings: &[&str],
        rows: &[Vec<String>],
        object: &Value,
    ) -> io::Result<()> {
        match self.format {
            Format::Human => {
                let mut table = plain_table();
                table.set_header(headings.iter().copied());
                table.add_rows(rows.iter().cloned());
                self.table(&table)
            }
            Format::Json => self.json(object),
        }
    }

    pub(crate) fn is_human(&self) -> bool {
        self.format == Format::Human
    }

    pub(crate) fn text(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    fn json(&mut self, object: &Value) -> io::Result<()> {
        writeln!(self.out, "{object}")?;
        self.out.flush()
    }

    fn table(&mut self, table: &Table) -> io::Result<()> {
        for line in table.lines() {
            writeln!(self.out, "{}", line.trim_end())?;
        }
        self.out.flush()
    }
}

/// A table without borders and without padding on the left.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
