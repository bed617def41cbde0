//! How commands answer: tables for people, JSON for programs. No colour, so that a pipe gets what one sees.

mod resource;

use std::io::{self, Write};

use broker_app::ToJson;
use broker_domain::ProvisionedResource;
use broker_ports::{Watermark, wire};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

pub(crate) use resource::line;

use crate::cli::Format;

/// Where answers go, and in which form.
pub(crate) struct Output<'a> {
    format: Format,
    out: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    /// Answers in a form.
    pub(crate) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { format, out }
    }

    /// One resource, with everything that is known of it.
    pub(crate) fn resource(&mut self, resource: &ProvisionedResource) -> io::Result<()> {
        match self.format {
            Format::Human => self.table(&resource::details(resource)),
            Format::Json => self.json(&resource.to_json()),
        }
    }

    /// Resources, and the moment to ask for changes since.
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

    /// One resource in one line, among others that come over time. `elapsed` leads it for people.
    pub(crate) fn change(&mut self, lead: &str, resource: &ProvisionedResource) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(&format!("{lead}{}", line(resource))),
            Format::Json => self.json(&resource.to_json()),
        }
    }

    /// What was done: a sentence, or an object.
    pub(crate) fn done(&mut self, sentence: &str, object: &Value) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(sentence),
            Format::Json => self.json(object),
        }
    }

    /// A text of several lines that ends by itself, or an object.
    pub(crate) fn page(&mut self, text: &str, object: &Value) -> io::Result<()> {
        match self.format {
            Format::Human => self.text(text.trim_end()),
            Format::Json => self.json(object),
        }
    }

    /// Rows under headings, or an object.
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

    /// Whether people read this.
    pub(crate) fn is_human(&self) -> bool {
        self.format == Format::Human
    }

    /// A line of text.
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

/// A table without lines or padding on its left.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
