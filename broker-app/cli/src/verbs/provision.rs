//! `provision`, `replace`, `deprovision` and `get`.

use std::io::Read;

use broker_domain::{Declaration, Phase};
use broker_render::MAX_DOCUMENT_BYTES;

use super::CommandContext;
use super::wait::follow;
use crate::cli::{
    DeclarationArguments, DeprovisionArguments, ProvisionArguments, ReplaceArguments,
    ResourceArguments,
};
use crate::failure::Failure;
use crate::parameters;

/// Declares a resource. Reads `stdin` for `--values -`.
pub(crate) async fn provision(
    context: &mut CommandContext<'_>,
    arguments: &ProvisionArguments,
    stdin: &mut dyn Read,
) -> Result<(), Failure> {
    let declaration = declaration(&arguments.declaration, stdin)?;
    let declared = context.service.provision(&context.context, &declaration).await?;
    if arguments.wait.wait {
        return follow(context, declared.id(), arguments.wait_for, arguments.wait.timeout).await;
    }
    Ok(context.output.resource(&declared)?)
}

pub(crate) async fn replace(
    context: &mut CommandContext<'_>,
    arguments: &ReplaceArguments,
) -> Result<(), Failure> {
    let ReplaceArguments { id, request_id, wait, .. } = arguments;
    let declared = context.service.replace(&context.context, *id, request_id.clone()).await?;
    if wait.wait {
        return follow(context, declared.id(), Phase::Ready, wait.timeout).await;
    }
    Ok(context.output.resource(&declared)?)
}

pub(crate) async fn deprovision(
    context: &mut CommandContext<'_>,
    arguments: &DeprovisionArguments,
) -> Result<(), Failure> {
    let resource = context.service.deprovision(&context.context, arguments.id).await?;
    if arguments.wait.wait {
        return follow(context, resource.id(), Phase::Deleted, arguments.wait.timeout).await;
    }
    Ok(context.output.resource(&resource)?)
}

pub(crate) async fn get(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let resource = context.service.get(&context.context, arguments.id).await?;
    Ok(context.output.resource(&resource)?)
}

pub(super) fn declaration(
    arguments: &DeclarationArguments,
    stdin: &mut dyn Read,
) -> Result<Declaration, Failure> {
    let DeclarationArguments {
        project,
        resource,
        blueprint_version,
        credential,
        assignments,
        values,
        on_failure,
        request_id,
    } = arguments;
    let document = match values {
        None => None,
        Some(file) => {
            let unreadable = |source| Failure::File { path: file.clone(), source };
            Some(if file.as_os_str() == "-" {
                read_limited(stdin).map_err(unreadable)?
            } else {
                read_limited(&mut std::fs::File::open(file).map_err(unreadable)?)
                    .map_err(unreadable)?
            })
        }
    };
    let parameters = parameters::assemble(document.as_deref(), assignments)?;
    let declaration = Declaration::new(*project, *resource, *blueprint_version, *credential)
        .with_parameters(parameters)
        .on_failure(*on_failure);
    Ok(match request_id {
        Some(request_id) => declaration.with_request_id(request_id.clone()),
        None => declaration,
    })
}

/// Reads one byte more than the limit, so that the parser can report the size.
fn read_limited(source: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
