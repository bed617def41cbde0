//! `explain`: why a resource is where it is, or what is the matter with any of them.

use broker_app::explain::Explanation;
use broker_ports::PageSize;

use super::Desk;
use crate::cli::ExplainArguments;
use crate::failure::Failure;

/// Explains one resource, or everything that is not at rest.
pub(crate) async fn explain(
    desk: &mut Desk<'_>,
    arguments: &ExplainArguments,
) -> Result<(), Failure> {
    if let Some(id) = arguments.id {
        let explained = desk.service.explain(&desk.context, id).await?;
        return Ok(desk.output.page(&explained.to_string(), &explained.to_json())?);
    }
    let mut after = None;
    loop {
        let page = desk.service.explain_all(&desk.context, after, PageSize::MAX).await?;
        for explained in &page.explanations {
            desk.output.page(&line(explained), &explained.to_json())?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// One resource in one line: what it is, who has to act, and what is said about it.
fn line(explained: &Explanation) -> String {
    let Explanation { resource, verdict, party, action, .. } = explained;
    let next = if verdict.is_blocked() { action.to_string() } else { String::new() };
    format!("{resource}  {verdict:<24} {party:<9} {next}").trim_end().to_owned()
}
