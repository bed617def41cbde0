//! `explain`: why a resource is in its phase, for one resource or for all unsettled ones.

use broker_app::explain::Explanation;
use broker_ports::PageSize;

use super::CommandContext;
use crate::cli::ExplainArguments;
use crate::failure::Failure;

/// Explains one resource, or every unsettled one.
pub(crate) async fn explain(
    context: &mut CommandContext<'_>,
    arguments: &ExplainArguments,
) -> Result<(), Failure> {
    if let Some(id) = arguments.id {
        let explained = context.service.explain(&context.context, id).await?;
        return Ok(context.output.page(&explained.to_string(), &explained.to_json())?);
    }
    let mut after = None;
    loop {
        let page = context.service.explain_all(&context.context, after, PageSize::MAX).await?;
        for explained in &page.explanations {
            context.output.page(&line(explained), &explained.to_json())?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// One line per resource: id, verdict, who has to act and, if it is blocked, the remedy.
fn line(explained: &Explanation) -> String {
    let Explanation { resource, verdict, party, action, .. } = explained;
    let next_step = if verdict.is_blocked() { action.to_string() } else { String::new() };
    format!("{resource}  {verdict:<24} {party:<9} {next_step}").trim_end().to_owned()
}
