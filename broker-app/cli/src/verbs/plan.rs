//! `plan`: what the next pass over a resource would do, or how a declaration would be applied.

use std::io::Read;

use super::CommandContext;
use super::provision::declaration;
use crate::cli::PlanArguments;
use crate::failure::Failure;

/// Plans a resource or a declaration. Reads `stdin` for `--values -`.
pub(crate) async fn plan(
    context: &mut CommandContext<'_>,
    arguments: &PlanArguments,
    stdin: &mut dyn Read,
) -> Result<(), Failure> {
    let plan = match (arguments.id, &arguments.declaration) {
        (Some(id), _) => context.service.plan(&context.context, id).await?,
        (None, Some(given)) => {
            let declaration = declaration(given, stdin)?;
            context.service.plan_declaration(&context.context, &declaration).await?
        }
        (None, None) => {
            let allowed = "give the ID of a resource, or a declaration (--project, --resource, \
                           --blueprint-version, --credential)";
            return Err(Failure::Usage(allowed.to_owned()));
        }
    };
    Ok(context.output.page(&plan.to_string(), &plan.to_json())?)
}
