//! `list`: reads every page. `--watch` then polls for changes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use broker_app::Error;
use broker_domain::{ProvisionedResource, ProvisionedResourceId, Version};
use broker_ports::{ListQuery, PageSize, PortName, UnreadableRow, Watermark};

use super::CommandContext;
use crate::cli::ListArguments;
use crate::failure::Failure;

/// Lists resources; with `--watch`, continues until `stop` resolves.
pub(crate) async fn list(
    context: &mut CommandContext<'_>,
    arguments: &ListArguments,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let query = query(arguments);
    let CompleteList { resources, unreadable, mut watermark } =
        list_all(context, query.clone()).await?;
    if !arguments.watch {
        context.output.resources(&resources, watermark)?;
        // The list is incomplete; the exit code must report it.
        return unreadable.map_or(Ok(()), |row| {
            Err(Error::Port { port: PortName::Repository, source: row.error }.into())
        });
    }
    let mut stop = pin!(stop);
    let mut printed = PrintedVersions::default();
    printed.print_changes(context, resources)?;
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(arguments.interval) => {}
        }
        let changed = query.clone().updated_since(watermark);
        let changed = list_all(context, changed).await?;
        watermark = changed.watermark;
        printed.print_changes(context, changed.resources)?;
    }
}

fn query(arguments: &ListArguments) -> ListQuery {
    let mut query = ListQuery::new(PageSize::MAX);
    if let Some(project) = arguments.project {
        query = query.in_project(project);
    }
    if let Some(phase) = arguments.phase {
        query = query.in_phase(phase);
    }
    if let Some(credential) = arguments.credential {
        query = query.with_credential(credential);
    }
    if let Some(watermark) = arguments.updated_since {
        query = query.updated_since(watermark);
    }
    query
}

/// All pages. The watermark of the first page also covers changes during the other reads.
struct CompleteList {
    resources: Vec<ProvisionedResource>,
    unreadable: Option<UnreadableRow>,
    watermark: Watermark,
}

async fn list_all(
    context: &CommandContext<'_>,
    mut query: ListQuery,
) -> Result<CompleteList, Failure> {
    let first = context.service.list(&context.context, &query).await?;
    let mut all = CompleteList {
        resources: first.resources,
        unreadable: first.unreadable.into_iter().next(),
        watermark: first.watermark,
    };
    let mut next = first.next;
    while let Some(after) = next {
        query = query.after(after);
        let page = context.service.list(&context.context, &query).await?;
        all.resources.extend(page.resources);
        all.unreadable = all.unreadable.or_else(|| page.unreadable.into_iter().next());
        next = page.next;
    }
    Ok(all)
}

/// The printed versions. A watermark is inclusive, so the latest changes are read twice.
#[derive(Default)]
struct PrintedVersions(BTreeMap<ProvisionedResourceId, Version>);

impl PrintedVersions {
    fn print_changes(
        &mut self,
        context: &mut CommandContext<'_>,
        resources: Vec<ProvisionedResource>,
    ) -> std::io::Result<()> {
        for resource in resources {
            if self.0.insert(resource.id(), resource.version()) != Some(resource.version()) {
                context.output.change("", &resource)?;
            }
        }
        Ok(())
    }
}
