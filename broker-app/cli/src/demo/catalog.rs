//! The three blueprints of the demo.

use broker_domain::MeshRole;
use broker_memory::BlueprintDocuments;
use broker_render::catalog::ComposedKind;
use broker_render::{InjectionStrategy, ProviderConfigUse};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blueprint {
    /// A machine that boots with cloud-init.
    Machine,
    /// A resource without a machine.
    Bucket,
    /// A machine with a required parameter and one that has a default.
    Database,
}

/// API version and kind of the object that every Composition composes.
pub(super) const COMPOSED: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");

impl Blueprint {
    pub(super) const ALL: [Self; 3] = [Self::Machine, Self::Bucket, Self::Database];

    /// Parameter values as a caller writes them.
    pub(super) const fn values(self) -> &'static str {
        match self {
            Self::Machine | Self::Bucket => "{}",
            Self::Database => r#"{"size": "large"}"#,
        }
    }

    /// The documents that a catalog stores.
    pub(super) fn documents(self) -> BlueprintDocuments {
        let (api_version, kind) = COMPOSED;
        BlueprintDocuments {
            xrd: self.xrd().into_bytes(),
            composition: BlueprintDocuments::composition_named(self.slug()),
            parameter_schema: self.parameter_schema().as_bytes().to_vec(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: self.mesh_role(),
            composed_kinds: vec![ComposedKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            }],
            provider_config: ProviderConfigUse::PerResource,
        }
    }

    const fn slug(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Bucket => "bucket",
            Self::Database => "database",
        }
    }

    const fn mesh_role(self) -> MeshRole {
        match self {
            Self::Machine | Self::Database => MeshRole::Node,
            Self::Bucket => MeshRole::Standalone,
        }
    }

    const fn parameter_schema(self) -> &'static str {
        match self {
            Self::Machine | Self::Bucket => r#"{"parameters": []}"#,
            Self::Database => {
                r#"{"parameters": [
                    {"name": "size", "type": "string", "required": true, "enum": ["small", "large"]},
                    {"name": "replicas", "type": "integer", "default": 1}
                ]}"#
            }
        }
    }

    fn xrd(self) -> String {
        let (kind, plural) = match self {
            Self::Machine => ("Machine", "machines"),
            Self::Bucket => ("Bucket", "buckets"),
            Self::Database => ("Database", "databases"),
        };
        format!(
            "apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {{name: {plural}.demo.example.org}}
spec:
  group: demo.example.org
  names: {{kind: {kind}, plural: {plural}}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              userData: {{type: string}}
              cloudTags: {{type: object, additionalProperties: {{type: string}}}}
              parameters:
                type: object
                properties:
                  size: {{type: string}}
                  replicas: {{type: integer}}
"
        )
    }
}
