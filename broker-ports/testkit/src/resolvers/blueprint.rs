//! Cases for the lookup of blueprint versions.

use std::fmt::Debug;

use broker_domain::MeshRole;
use broker_ports::BlueprintVersionView;
use broker_render::InjectionStrategy;

use super::{BlueprintResolverUnderTest, RawBlueprint, unused_id};
use crate::prelude::*;

pub(super) fn cases<W: BlueprintResolverUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_published_version_is_found,
        an_unpublished_version_is_none,
        an_invalid_version_is_rejected,
        an_unreachable_catalog_never_reports_absence,
    ]
}

const READABLE: RawBlueprint = RawBlueprint {
    xrd: include_str!("machine.yaml"),
    composition: "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: contract-machine}
",
    parameter_schema: r#"{"parameters":[{"name":"size","type":"string","default":"small"}]}"#,
    injection_strategy: InjectionStrategy::CloudInitUserData,
    mesh_role: MeshRole::Node,
};

async fn a_published_version_is_found(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let standalone = RawBlueprint {
        injection_strategy: InjectionStrategy::HelmValues,
        mesh_role: MeshRole::Standalone,
        ..READABLE
    };
    for blueprint in [READABLE, standalone] {
        let id = world.publish(&blueprint).await?;
        let Some(view) = world.resolver().resolve(id).await? else {
            return Err(Violation::new("a published version is not found"));
        };
        let BlueprintVersionView { id: found, xrd, parameter_schema, .. } = &*view;
        require(*found == id, "the version that was found is another one")?;
        require(
            (xrd.group(), xrd.kind(), xrd.version())
                == ("contract.example.org", "Machine", "v1alpha1"),
            "the XRD is not the one that was published",
        )?;
        require(
            view.composition.as_str() == "contract-machine",
            "the Composition is not the one that was published",
        )?;
        let parameters = parameter_schema.validate("{}")?;
        require(
            parameters.as_json() == r#"{"size":"small"}"#,
            "the schema is not the one that was published",
        )?;
        require(
            view.injection_strategy == blueprint.injection_strategy
                && view.mesh_role == blueprint.mesh_role,
            "strategy or role are not those that were published",
        )?;
    }
    Ok(())
}

async fn an_unpublished_version_is_none(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let found = world.resolver().resolve(unused_id()?).await?;
    require(found.is_none(), "a version that was not published is found")
}

/// It exists, so it is not absent. A retry fails, so it is not transient. The source is the domain error, and other
/// versions are not affected.
async fn an_invalid_version_is_rejected(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let unreadable = [
        RawBlueprint {
            xrd: "apiVersion: apiextensions.crossplane.io/v2\nkind: CompositeResourceDefinition\n",
            ..READABLE
        },
        RawBlueprint {
            composition: "kind: Composition\nmetadata: {name: Not A Name}\n",
            ..READABLE
        },
        RawBlueprint { parameter_schema: r#"{"parameters":[{"name":"size"}]}"#, ..READABLE },
    ];
    let sound = world.publish(&READABLE).await?;
    for blueprint in unreadable {
        let id = world.publish(&blueprint).await?;
        for _ in 0..2 {
            rejected(world.resolver().resolve(id).await)?;
            let found = world.resolver().resolve(sound).await?;
            require(found.is_some(), "a valid version is not found next to an invalid one")?;
        }
    }
    Ok(())
}

async fn an_unreachable_catalog_never_reports_absence(
    world: &dyn BlueprintResolverUnderTest,
) -> Outcome {
    let id = world.publish(&READABLE).await?;
    world.cut_off().await?;
    // Not read before, because an adapter may cache an immutable version.
    require_outage(world.resolver().resolve(id).await, "a version that was not read before")
}

/// An invalid document is rejected with the domain error.
pub(super) fn rejected<T: Debug>(answer: Result<T, PortError>) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("an invalid document resolves to {answer:?}")));
    };
    let reason = error.domain().map(broker_domain::Error::reason);
    require(
        error.class() == FailureClass::Rejected && reason == Some("invalid_input"),
        &format!("an invalid document is {}, for {reason:?}", error.class()),
    )
}
