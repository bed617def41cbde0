//! Catalog import: atomic, and a published version never changes its bytes.

use broker_pg::catalog::{self, ImportError, Source};
use broker_ports::BlueprintResolver;
use broker_render::InjectionStrategy;
use broker_render::catalog::{BlueprintResult, Files, ImportReport};
use futures::future::join_all;
use sqlx::{Executor, PgPool};

use super::world::World;

/// The three files of a blueprint, before a test changes one.
#[derive(Clone)]
struct Draft {
    slug: String,
    metadata: String,
    xrd: String,
    composition: String,
}

impl Draft {
    fn of(slug: &str) -> Self {
        Self::version(slug, "v1")
    }

    fn version(slug: &str, version: &str) -> Self {
        let filled = |text: &str| text.replace("SLUG", slug).replace("VERSION", version);
        Self {
            slug: slug.to_owned(),
            metadata: filled(include_str!("catalog/metadata.json")),
            xrd: filled(include_str!("catalog/xrd.yaml")),
            composition: filled(include_str!("catalog/composition.yaml")),
        }
    }

    fn source(&self) -> Source<'_> {
        let Self { slug, metadata, xrd, composition } = self;
        let [metadata, xrd, composition] = [metadata, xrd, composition].map(String::as_bytes);
        Source::new(slug, Files { metadata, xrd, composition })
    }

    /// A draft whose XRD has one field more.
    fn widened(slug: &str) -> Self {
        let draft = Self::of(slug);
        let xrd = draft.xrd.replace("userData:", "note: {type: string}\n                userData:");
        Self { xrd, ..draft }
    }
}

async fn import_only(pool: &PgPool, drafts: &[Draft]) -> Result<ImportReport, ImportError> {
    let sources: Vec<_> = drafts.iter().map(Draft::source).collect();
    catalog::import(pool, &sources).await
}

/// Imports, after a diff that predicts the same.
async fn import(pool: &PgPool, drafts: &[Draft]) -> Result<ImportReport, ImportError> {
    let sources: Vec<_> = drafts.iter().map(Draft::source).collect();
    let before = published(pool).await;
    let predicted = catalog::diff(pool, &sources).await.unwrap();
    assert_eq!(published(pool).await, before, "a diff writes nothing");
    let imported = import_only(pool, drafts).await;
    if let Ok(report) | Err(ImportError::Refused(report)) = &imported {
        assert_eq!(results(report), results(&predicted));
    }
    imported
}

fn results(report: &ImportReport) -> Vec<(&str, &str)> {
    report.blueprints.iter().map(|it| (it.slug.as_str(), it.result.as_str())).collect()
}

async fn published(pool: &PgPool) -> Vec<String> {
    let select = "SELECT slug || ' ' || version FROM plexsphere.blueprint_versions ORDER BY 1";
    sqlx::query_scalar(select).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn imported_blueprint_is_resolved() {
    let world = World::fresh().await;
    let pool = world.pool();
    let first = import(pool, &[Draft::of("vm"), Draft::of("database")]).await.unwrap();
    assert_eq!(results(&first), [("vm", "imported"), ("database", "imported")]);
    for version in &first.blueprints {
        assert_eq!(version.version(), Some("v1"));
        let view = BlueprintResolver::resolve(&world.platform, version.id.unwrap()).await;
        let view = view.unwrap().unwrap();
        assert_eq!(view.xrd.kind(), "Machine");
        assert_eq!(view.composition.as_str(), version.slug);
        assert_eq!(view.injection_strategy, InjectionStrategy::CloudInitUserData);
        let parameters = view.parameter_schema.validate("{}").unwrap();
        assert_eq!(parameters.as_json(), r#"{"size":"small"}"#);
        let composed = view.composed_kinds.iter().map(|it| (&*it.api_version, &*it.kind));
        assert_eq!(composed.collect::<Vec<_>>(), [("hetzner.crossplane.io/v1", "Server")]);
        assert_eq!(view.provider_config.to_string(), "per-resource");
    }

    let again = import(pool, &[Draft::of("vm"), Draft::of("database")]).await.unwrap();
    assert_eq!(results(&again), [("vm", "unchanged"), ("database", "unchanged")]);
    let ids =
        |report: &ImportReport| -> Vec<_> { report.blueprints.iter().map(|it| it.id).collect() };
    assert_eq!(ids(&again), ids(&first));
    let mixed = import(pool, &[Draft::of("database"), Draft::version("vm", "v2")]).await.unwrap();
    assert_eq!(results(&mixed), [("database", "unchanged"), ("vm", "imported")]);
    assert_eq!(published(pool).await, ["database v1", "vm v1", "vm v2"]);
}

#[tokio::test]
async fn refused_import_publishes_nothing() {
    let world = World::fresh().await;
    let pool = world.pool();
    import(pool, &[Draft::of("vm")]).await.unwrap();
    let trigger = "CREATE FUNCTION plexsphere.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.slug = 'refused' THEN RAISE EXCEPTION 'full'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON plexsphere.blueprint_versions
        FOR EACH ROW EXECUTE FUNCTION plexsphere.refuse()";
    pool.execute(trigger).await.unwrap();
    let differs =
        |file| format!("error: vm/{file}: differs from the published v1; use a new version name");
    let vm = || Draft::of("vm");
    let other_version =
        Draft { metadata: Draft::version("unfit", "v2").metadata, ..Draft::of("unfit") };
    let unreadable = Draft { xrd: "{}".to_owned(), ..Draft::of("unreadable") };
    // An equal document with other bytes counts as another document.
    for (result, drafts, refusal) in [
        ("drift", vec![Draft { metadata: vm().metadata + "\n", ..vm() }], differs("metadata.json")),
        ("drift", vec![Draft { xrd: vm().xrd + "\n", ..vm() }], differs("xrd.yaml")),
        (
            "drift",
            vec![Draft { composition: vm().composition + "\n", ..vm() }],
            differs("composition.yaml"),
        ),
        (
            "error",
            vec![other_version.clone()],
            "error: unfit/metadata.json: version: is ".to_owned(),
        ),
        ("error", vec![other_version, unreadable], "\nerror: unreadable/xrd.yaml: ".to_owned()),
        (
            "unchanged",
            vec![vm(), Draft::version("vm", "v2")],
            "vm/metadata.json: occurs twice".to_owned(),
        ),
        ("", vec![Draft::of("refused")], "the catalog cannot be published".to_owned()),
    ] {
        // Valid drafts that sort before and after the refused one.
        let all_drafts = [vec![Draft::of("zone")], drafts, vec![Draft::of("archive")]].concat();
        let refused = import(pool, &all_drafts).await.unwrap_err();
        assert!(refused.to_string().contains(&refusal), "{refused}");
        assert_eq!(published(pool).await, ["vm v1"], "{refused}");
        if let ImportError::Refused(report) = &refused {
            let [first, second, .., last] = &*results(report) else { panic!("{refused}") };
            assert_eq!([first.1, second.1, last.1], ["withheld", result, "withheld"], "{refused}");
        }
    }
}

#[tokio::test]
async fn import_of_another_schema_for_a_published_kind_is_refused() {
    let world = World::fresh().await;
    let pool = world.pool();
    let refusal = "error: vm/xrd.yaml: spec.versions: blueprint \"archive\" has another schema for \
                   v1 of Machine of example.org; use the same, or a new version name";
    let together = import(pool, &[Draft::of("archive"), Draft::widened("vm")]).await.unwrap_err();
    assert_eq!(together.to_string(), refusal, "in one catalog");
    assert_eq!(published(pool).await, [""; 0]);

    import(pool, &[Draft::of("archive")]).await.unwrap();
    let later = import(pool, &[Draft::widened("vm")]).await.unwrap_err();
    assert_eq!(later.to_string(), refusal, "in a later import");

    let composition = Draft::of("archive").composition.replace("step: compose", "step: another");
    let conflict = import(pool, &[Draft { composition, ..Draft::of("vm") }]).await.unwrap_err();
    let refusal = "error: vm/composition.yaml: metadata.name: blueprint \"archive\" has another \
                   Composition of this name; use a name of its own";
    assert_eq!(conflict.to_string(), refusal, "another Composition of its name");
    assert_eq!(published(pool).await, ["archive v1"]);
}

#[tokio::test]
async fn ten_concurrent_imports_publish_each_version_once() {
    const IMPORTS: usize = 10;
    let world = World::fresh().await;
    let drafts = ["a", "b", "c", "d"].map(Draft::of);
    // Each list begins with another blueprint, so that imports without a common order would deadlock.
    let rotated: Vec<Vec<Draft>> = (0..IMPORTS)
        .map(|first| drafts.iter().cycle().skip(first).take(drafts.len()).cloned().collect())
        .collect();
    let imports = join_all(rotated.iter().map(|drafts| import_only(world.pool(), drafts))).await;
    let reports: Vec<_> = imports.into_iter().map(Result::unwrap).collect();
    let blueprints = reports.iter().flat_map(|report| &report.blueprints);
    let imported = blueprints.filter(|it| it.result == BlueprintResult::Imported);
    assert_eq!(imported.count(), drafts.len());
    assert_eq!(published(world.pool()).await, ["a v1", "b v1", "c v1", "d v1"]);

    let world = World::fresh().await;
    let slugs: Vec<_> = (0..8).map(|number| format!("vm-{number}")).collect();
    let drafts = slugs.iter().zip([Draft::of, Draft::widened].iter().cycle());
    let drafts: Vec<_> = drafts.map(|(slug, draft)| [draft(slug)]).collect();
    let imports = join_all(drafts.iter().map(|draft| import_only(world.pool(), draft))).await;
    let agreeing = imports.iter().filter(|imported| imported.is_ok()).count();
    assert_eq!(
        agreeing,
        drafts.len() / 2,
        "only drafts with the first import's schema are published"
    );
}
