//! Catalog import: all or nothing, and never other bytes under a published version.

use broker_pg::catalog::{self, ImportError, Imported, Source};
use broker_ports::BlueprintResolver;
use broker_render::InjectionStrategy;
use broker_render::catalog::{ComposedKind, Files};
use broker_tests::documents;
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::{Executor, PgPool};

use super::world::World;

/// The three files of a blueprint, before somebody changes one.
#[derive(Clone)]
pub(super) struct Draft {
    slug: String,
    metadata: String,
    xrd: String,
    composition: String,
}

impl Draft {
    pub(super) fn of(slug: &str) -> Self {
        Self::version(slug, "v1")
    }

    fn version(slug: &str, version: &str) -> Self {
        Self {
            slug: slug.to_owned(),
            metadata: metadata(slug, version).to_string(),
            xrd: xrd(version).to_string(),
            composition: composition(slug, version).to_string(),
        }
    }

    fn source(&self) -> Source<'_> {
        let Self { slug, metadata, xrd, composition } = self;
        let files = Files {
            metadata: metadata.as_bytes(),
            xrd: xrd.as_bytes(),
            composition: composition.as_bytes(),
        };
        Source::new(slug, files)
    }

    pub(super) async fn import(&self, pool: &PgPool) -> Result<Imported, ImportError> {
        catalog::import(pool, &[self.source()]).await
    }
}

fn metadata(slug: &str, version: &str) -> Value {
    json!({
        "slug": slug,
        "displayName": "Machine",
        "description": "A machine that enrols",
        "version": version,
        "providerKinds": ["hetzner"],
        "injectionStrategy": "cloud-init-user-data",
        "parameterSchema": {"parameters": [{"name": "size", "type": "string", "default": "small"}]},
    })
}

fn xrd(version: &str) -> Value {
    let string = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {
        "userData": string,
        "cloudTags": {"type": "object", "additionalProperties": string},
        "parameters": {"type": "object", "properties": {"size": string}},
    }});
    documents::xrd("example.org", ("Machine", "machines"), &[version], &spec)
}

fn composition(slug: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": slug},
        "spec": {
            "compositeTypeRef": {"apiVersion": format!("example.org/{version}"), "kind": "Machine"},
            "mode": "Pipeline",
            "pipeline": [{
                "step": "compose",
                "functionRef": {"name": "function-patch-and-transform"},
                "input": {
                    "apiVersion": "pt.fn.crossplane.io/v1beta1",
                    "kind": "Resources",
                    "resources": [{
                        "name": "server",
                        "base": {"apiVersion": "hetzner.crossplane.io/v1", "kind": "Server"},
                        "patches": [{"fromFieldPath": "spec.userData", "toFieldPath": "spec.x"}],
                    }],
                },
            }],
        },
    })
}

async fn import(pool: &PgPool, drafts: &[Draft]) -> Result<Imported, ImportError> {
    let sources: Vec<_> = drafts.iter().map(Draft::source).collect();
    catalog::import(pool, &sources).await
}

/// What is published, in order.
async fn published(pool: &PgPool) -> Vec<String> {
    let select = "SELECT slug || ' ' || version FROM plexsphere.blueprint_versions ORDER BY 1";
    sqlx::query_scalar(select).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn what_was_imported_is_resolved() {
    let world = World::fresh().await;
    let imported = import(world.pool(), &[Draft::of("vm"), Draft::of("database")]).await.unwrap();
    let slugs: Vec<_> = imported.published.iter().map(|version| version.slug.as_str()).collect();
    assert_eq!(slugs, ["database", "vm"]);
    assert_eq!(imported.unchanged, []);

    for version in &imported.published {
        assert_eq!(version.version, "v1");
        let view =
            BlueprintResolver::resolve(&world.neighbours, version.id).await.unwrap().unwrap();
        assert_eq!(view.xrd.kind(), "Machine");
        assert_eq!(view.composition.as_str(), version.slug);
        assert_eq!(view.injection_strategy, InjectionStrategy::CloudInitUserData);
        let parameters = view.parameter_schema.validate("{}").unwrap();
        assert_eq!(parameters.as_json(), r#"{"size":"small"}"#);
        let server = ComposedKind {
            api_version: "hetzner.crossplane.io/v1".to_owned(),
            kind: "Server".to_owned(),
        };
        assert_eq!(*view.composed_kinds, [server]);
    }
}

#[tokio::test]
async fn the_same_bytes_again_change_nothing() {
    let world = World::fresh().await;
    let first = Draft::of("vm").import(world.pool()).await.unwrap();
    let again = import(world.pool(), &[Draft::of("vm"), Draft::of("database")]).await.unwrap();
    assert_eq!(again.unchanged, first.published, "with the id that it had");
    assert_eq!(again.published.len(), 1);
    assert_eq!(published(world.pool()).await, ["database v1", "vm v1"]);
}

#[tokio::test]
async fn another_version_is_published_beside_the_first() {
    let world = World::fresh().await;
    Draft::of("vm").import(world.pool()).await.unwrap();
    Draft::version("vm", "v2").import(world.pool()).await.unwrap();
    assert_eq!(published(world.pool()).await, ["vm v1", "vm v2"]);
}

#[tokio::test]
async fn other_bytes_are_refused_by_name_and_nothing_else_is_published() {
    type Change = fn(&mut Draft) -> &mut String;
    let changes: [(Change, &str); 3] = [
        (|draft| &mut draft.metadata, "metadata.json"),
        (|draft| &mut draft.xrd, "xrd.yaml"),
        (|draft| &mut draft.composition, "composition.yaml"),
    ];
    let world = World::fresh().await;
    Draft::of("vm").import(world.pool()).await.unwrap();
    for (file, name) in changes {
        let mut drifted = Draft::of("vm");
        // The same document, in other bytes.
        file(&mut drifted).push('\n');
        // One that sorts before it, and one after.
        let drafts = [Draft::of("zone"), drifted, Draft::of("archive")];
        let refused = import(world.pool(), &drafts).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("vm v1: was published with another {name}; publish a new version")
        );
        assert_eq!(published(world.pool()).await, ["vm v1"]);
    }
}

#[tokio::test]
async fn one_unfit_blueprint_publishes_nothing() {
    let world = World::fresh().await;
    let mut broken = Draft::of("vm");
    broken.metadata = metadata("vm", "v2").to_string();
    let mut unreadable = Draft::of("zone");
    unreadable.xrd = "{}".to_owned();
    let drafts = [Draft::of("archive"), broken, unreadable];
    let refused = import(world.pool(), &drafts).await.unwrap_err();
    let ImportError::Unfit(problems) = &refused else { panic!("{refused}") };
    assert_eq!(problems.len(), 2, "of both: {refused}");
    let lines: Vec<String> = refused.to_string().lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("error: vm/metadata.json: version: is "), "{refused}");
    assert!(lines[1].starts_with("error: zone/xrd.yaml: "), "{refused}");
    assert_eq!(published(world.pool()).await, [""; 0]);
}

/// A blueprint for the same kind, whose XRD has one field more.
fn widened(slug: &str) -> Draft {
    let mut draft = Draft::of(slug);
    let mut xrd = xrd("v1");
    let schema = &mut xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["note"] = json!({"type": "string"});
    draft.xrd = xrd.to_string();
    draft
}

#[tokio::test]
async fn import_of_another_schema_for_a_published_kind_is_refused() {
    let world = World::fresh().await;
    let refusal = "error: vm/xrd.yaml: spec.versions: blueprint \"archive\" has another schema for \
                   v1 of Machine of example.org; use the same, or a new version name";
    let together = import(world.pool(), &[Draft::of("archive"), widened("vm")]).await.unwrap_err();
    assert_eq!(together.to_string(), refusal, "in one catalog");
    assert_eq!(published(world.pool()).await, [""; 0]);

    Draft::of("archive").import(world.pool()).await.unwrap();
    let later = widened("vm").import(world.pool()).await.unwrap_err();
    assert_eq!(later.to_string(), refusal, "in a later one");
    assert_eq!(published(world.pool()).await, ["archive v1"]);
}

#[tokio::test]
async fn import_of_another_composition_of_a_published_name_is_refused() {
    let world = World::fresh().await;
    Draft::of("archive").import(world.pool()).await.unwrap();
    let mut taken = Draft::of("vm");
    let mut document = composition("archive", "v1");
    document["spec"]["pipeline"][0]["step"] = json!("another");
    taken.composition = document.to_string();
    let refused = taken.import(world.pool()).await.unwrap_err();
    let refusal = "error: vm/composition.yaml: metadata.name: blueprint \"archive\" has another \
                   Composition of this name; use a name of its own";
    assert_eq!(refused.to_string(), refusal);
}

#[tokio::test]
async fn imports_at_once_never_publish_two_schemas_of_a_kind() {
    let world = World::fresh().await;
    let drafts: Vec<_> =
        (0..8).map(|n| if n % 2 == 0 { Draft::of } else { widened }(&format!("vm-{n}"))).collect();
    let imports = join_all(drafts.iter().map(|draft| draft.import(world.pool()))).await;
    let published = imports.iter().filter(|imported| imported.is_ok()).count();
    assert_eq!(published, drafts.len() / 2, "those that agree with the first");
}

#[tokio::test]
async fn a_name_that_is_given_twice_publishes_nothing() {
    let world = World::fresh().await;
    let drafts = [Draft::of("vm"), Draft::of("archive"), Draft::version("vm", "v2")];
    let refused = import(world.pool(), &drafts).await.unwrap_err();
    assert_eq!(refused.to_string(), "vm: is given twice; a catalog has one directory of a name");
    assert_eq!(published(world.pool()).await, [""; 0]);
}

#[tokio::test]
async fn a_database_that_fails_half_way_publishes_nothing() {
    let world = World::fresh().await;
    let trigger = "CREATE FUNCTION plexsphere.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.slug = 'vm' THEN RAISE EXCEPTION 'full'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON plexsphere.blueprint_versions
        FOR EACH ROW EXECUTE FUNCTION plexsphere.refuse()";
    world.pool().execute(trigger).await.unwrap();
    let drafts = [Draft::of("archive"), Draft::of("vm"), Draft::of("zone")];
    let failed = import(world.pool(), &drafts).await.unwrap_err();
    assert!(matches!(failed, ImportError::Store(_)), "{failed}");
    assert_eq!(published(world.pool()).await, [""; 0]);
}

#[tokio::test]
async fn ten_at_once_publish_each_version_once() {
    const AT_ONCE: usize = 10;
    let world = World::fresh().await;
    let drafts: Vec<_> = ["a", "b", "c", "d"].map(Draft::of).into();
    // Each begins with another one, so that they would wait in a circle if nobody sorted.
    let rotated: Vec<Vec<Draft>> = (0..AT_ONCE)
        .map(|first| drafts.iter().cycle().skip(first).take(drafts.len()).cloned().collect())
        .collect();
    let imports = rotated.iter().map(|drafts| import(world.pool(), drafts));
    let imported: Vec<Imported> = join_all(imports).await.into_iter().map(Result::unwrap).collect();
    let news: usize = imported.iter().map(|imported| imported.published.len()).sum();
    let known: usize = imported.iter().map(|imported| imported.unchanged.len()).sum();
    assert_eq!((news, known), (drafts.len(), (AT_ONCE - 1) * drafts.len()));
    assert_eq!(published(world.pool()).await, ["a v1", "b v1", "c v1", "d v1"]);
}
