//! Cases for the lookup of blueprint versions.

use std::fmt::Debug;

use broker_domain::MeshRole;
use broker_ports::{BlueprintState, BlueprintVersionView};
use broker_render::InjectionStrategy;

use super::{BlueprintResolverUnderTest, RawBlueprint, unused_id};
use crate::prelude::*;

pub(super) fn cases<W: BlueprintResolverUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_published_version_is_found,
        an_unpublished_version_is_none,
        the_state_of_a_version_is_read_without_a_cache,
        an_invalid_version_is_rejected,
        an_unreachable_catalog_never_reports_absence,
    ]
}

const VALID: RawBlueprint = RawBlueprint {
    xrd: include_str!("machine.yaml"),
    composition: "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: contract-machine}
",
    parameter_schema: r#"{"parameters":[{"name":"size","type":"string","default":"small"}]}"#,
    injection_strategy: InjectionStrategy::CloudInitUserData,
    mesh_role: MeshRole::Node,
    provider_config: "per-resource",
};

/// Also after the version was resolved, which may cache its documents.
async fn the_state_of_a_version_is_read_without_a_cache(
    world: &dyn BlueprintResolverUnderTest,
) -> Outcome {
    let id = world.publish(&VALID).await?;
    world.resolver().resolve(id).await?;
    let state = world.resolver().state(id).await?;
    require(state == Some(BlueprintState::Active), &format!("a new version is {state:?}"))?;
    for expected in [BlueprintState::Retired, BlueprintState::Active] {
        world.set_state(id, expected).await?;
        let state = world.resolver().state(id).await?;
        require(state == Some(expected), &format!("instead of {expected}, {state:?} is found"))?;
        let found = world.resolver().resolve(id).await?;
        require(
            found.is_some(),
            &format!("the documents of a version that is {expected} are gone"),
        )?;
    }
    let state = world.resolver().state(unused_id()?).await?;
    require(state.is_none(), "a version that does not exist has a state")
}

async fn a_published_version_is_found(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let standalone = RawBlueprint {
        injection_strategy: InjectionStrategy::HelmValues,
        mesh_role: MeshRole::Standalone,
        provider_config: "shared:openstack",
        ..VALID
    };
    let platform = RawBlueprint { provider_config: "platform", ..VALID };
    for blueprint in [VALID, standalone, platform] {
        let id = world.publish(&blueprint).await?;
        let Some(view) = world.resolver().resolve(id).await? else {
            return Err(Violation::new("a published version is not found"));
        };
        let BlueprintVersionView { id: found, xrd, parameter_schema, .. } = &*view;
        require(*found == id, "another version was found")?;
        require(
            (xrd.group(), xrd.kind(), xrd.version())
                == ("contract.example.org", "Machine", "v1alpha1"),
            "another XRD was found",
        )?;
        require(view.composition.as_str() == "contract-machine", "another Composition was found")?;
        let parameters = parameter_schema.validate("{}")?;
        require(parameters.as_json() == r#"{"size":"small"}"#, "another schema was found")?;
        require(
            view.injection_strategy == blueprint.injection_strategy
                && view.mesh_role == blueprint.mesh_role,
            "another injection strategy or mesh role was found",
        )?;
        require(
            view.provider_config.to_string() == blueprint.provider_config,
            "another use of ProviderConfigs was found",
        )?;
    }
    Ok(())
}

async fn an_unpublished_version_is_none(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let found = world.resolver().resolve(unused_id()?).await?;
    require(found.is_none(), "a version that was not published is found")
}

/// The rejection has the domain error as its source. Other versions are not affected.
async fn an_invalid_version_is_rejected(world: &dyn BlueprintResolverUnderTest) -> Outcome {
    let invalid = [
        RawBlueprint {
            xrd: "apiVersion: apiextensions.crossplane.io/v2\nkind: CompositeResourceDefinition\n",
            ..VALID
        },
        RawBlueprint { composition: "kind: Composition\nmetadata: {name: Not A Name}\n", ..VALID },
        RawBlueprint { parameter_schema: r#"{"parameters":[{"name":"size"}]}"#, ..VALID },
    ];
    let valid = world.publish(&VALID).await?;
    for blueprint in invalid {
        let id = world.publish(&blueprint).await?;
        for _ in 0..2 {
            require_invalid(world.resolver().resolve(id).await)?;
            let found = world.resolver().resolve(valid).await?;
            require(found.is_some(), "a valid version is not found next to an invalid one")?;
        }
    }
    Ok(())
}

async fn an_unreachable_catalog_never_reports_absence(
    world: &dyn BlueprintResolverUnderTest,
) -> Outcome {
    let id = world.publish(&VALID).await?;
    world.cut_off().await?;
    // The version was not read before, because an adapter may cache it.
    require_outage(world.resolver().resolve(id).await, "a version that was not read before")
}

/// Checks that an invalid document is rejected with the domain error.
pub(super) fn require_invalid<T: Debug>(result: Result<T, PortError>) -> Outcome {
    let Err(error) = result else {
        return Err(Violation::new(format!("an invalid document resolves to {result:?}")));
    };
    let reason = error.domain().map(broker_domain::Error::reason);
    require(
        error.class() == FailureClass::Rejected && reason == Some("invalid_input"),
        &format!("an invalid document is {}, for {reason:?}", error.class()),
    )
}
