//! `list`: a page after the other; with `--watch`, then whatever changes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use broker_domain::{ProvisionedResource, ProvisionedResourceId, Version};
use broker_ports::{ListQuery, PageSize, Watermark};

use super::Desk;
use crate::cli::ListArguments;
use crate::failure::Failure;

/// Lists resources; with `--watch`, goes on until `stop` is ready.
pub(crate) async fn list(
    desk: &mut Desk<'_>,
    arguments: &ListArguments,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let query = query(arguments);
    let (resources, mut watermark) = everything(desk, query.clone()).await?;
    if !arguments.watch {
        return Ok(desk.output.resources(&resources, watermark)?);
    }
    let mut stop = pin!(stop);
    let mut shown = Shown::default();
    shown.show(desk, resources)?;
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(arguments.interval) => {}
        }
        let changed = query.clone().updated_since(watermark);
        let (resources, next) = everything(desk, changed).await?;
        watermark = next;
        shown.show(desk, resources)?;
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
    if let Some(moment) = arguments.updated_since {
        query = query.updated_since(moment);
    }
    query
}

/// Every page, and the watermark of the first: what changes while the others are read is asked for again.
async fn everything(
    desk: &Desk<'_>,
    mut query: ListQuery,
) -> Result<(Vec<ProvisionedResource>, Watermark), Failure> {
    let first = desk.service.list(&desk.context, &query).await?;
    let (mut resources, watermark, mut next) = (first.resources, first.watermark, first.next);
    while let Some(after) = next {
        query = query.after(after);
        let page = desk.service.list(&desk.context, &query).await?;
        resources.extend(page.resources);
        next = page.next;
    }
    Ok((resources, watermark))
}

/// What was shown already: a watermark is inclusive, so the last changes before it come again.
#[derive(Default)]
struct Shown(BTreeMap<ProvisionedResourceId, Version>);

impl Shown {
    fn show(
        &mut self,
        desk: &mut Desk<'_>,
        resources: Vec<ProvisionedResource>,
    ) -> std::io::Result<()> {
        for resource in resources {
            if self.0.insert(resource.id(), resource.version()) != Some(resource.version()) {
                desk.output.change("", &resource)?;
            }
        }
        Ok(())
    }
}
