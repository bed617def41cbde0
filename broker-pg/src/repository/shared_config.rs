//! Persist on Postgres: shared ProviderConfigs. A trigger removes a user when its resource becomes Deleted.

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, Error, ObjectReference, ProjectId,
    ProvisionedResourceId,
};
use broker_ports::{Admitted, DeletionMark, PortError, SharedConfig, SharedConfigRef};
use broker_render::namespace;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{ClassifyError, LostResponse, classify, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;

params! {
    struct RegisterConfigValues<'a> {
        project_id: Uuid,
        api_group: &'a str,
        kind: &'a str,
        name: &'a str,
        api_version: &'a str,
        cloud_credential_id: Uuid,
        last_resource_id: Uuid,
        blueprint_version_id: Uuid,
    }
}

/// Locks the shared row until the transaction ends.
pub(crate) const REGISTER_CONFIG: Statement<RegisterConfigValues<'_>, ()> = Statement::new(
    "repository.register_shared_config",
    "INSERT INTO plexsphere.provisioning_shared_configs AS c
        (project_id, api_group, kind, name, api_version, cloud_credential_id, last_resource_id, blueprint_version_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT ON CONSTRAINT provisioning_shared_configs_pkey
    DO UPDATE SET api_version = excluded.api_version, last_resource_id = excluded.last_resource_id,
        blueprint_version_id = excluded.blueprint_version_id, abandoned = false",
);

params! {
    struct UseConfigValues<'a> {
        project_id: Uuid,
        api_group: &'a str,
        kind: &'a str,
        name: &'a str,
        cloud_credential_id: Uuid,
        provisioned_resource_id: Uuid,
    }
}

columns! {
    struct HolderRow {
        holder: Option<Uuid>,
    }
}

/// Runs under the lock of [`REGISTER_CONFIG`], as a statement of its own, so that it sees every user that registered before.
/// Without users, the ProviderConfig takes the new credential. Returns a user with another credential, and then changes
/// nothing.
pub(crate) const USE_CONFIG: Statement<UseConfigValues<'_>, HolderRow> = Statement::new(
    "repository.use_shared_config",
    "WITH holder AS MATERIALIZED (
    SELECT min(u.provisioned_resource_id::text)::uuid AS id
    FROM plexsphere.provisioning_shared_config_users AS u
        JOIN plexsphere.provisioning_shared_configs AS c USING (project_id, api_group, kind, name)
    WHERE (project_id, api_group, kind, name) = ($1, $2, $3, $4) AND c.cloud_credential_id <> $5
), taken AS (
    UPDATE plexsphere.provisioning_shared_configs SET cloud_credential_id = $5
    WHERE (project_id, api_group, kind, name) = ($1, $2, $3, $4) AND (SELECT id FROM holder) IS NULL
), registered AS (
    INSERT INTO plexsphere.provisioning_shared_config_users
        (provisioned_resource_id, project_id, api_group, kind, name)
    SELECT $6, $1, $2, $3, $4 WHERE (SELECT id FROM holder) IS NULL
)
SELECT id AS holder FROM holder",
);

params! {
    struct UserValues {
        user: Uuid,
    }
}

columns! {
    struct SharedConfigRow {
        project_id: Uuid,
        kind: String,
        name: String,
        api_version: String,
        cloud_credential_id: Uuid,
        last_resource_id: Uuid,
        blueprint_version_id: Uuid,
        cluster_id: Option<String>,
        in_use: bool,
        deleting: Option<i64>,
        abandoned: bool,
    }
}

pub(crate) const READ_SHARED_CONFIG: Statement<UserValues, SharedConfigRow> = Statement::new(
    "repository.shared_config",
    "SELECT c.project_id, c.kind, c.name, c.api_version, c.cloud_credential_id, c.last_resource_id,
        c.blueprint_version_id, c.cluster_id, true AS in_use, c.deleting, c.abandoned
    FROM plexsphere.provisioning_shared_config_users AS u
        JOIN plexsphere.provisioning_shared_configs AS c USING (project_id, api_group, kind, name)
    WHERE u.provisioned_resource_id = $1",
);

params! {
    struct SharedConfigsValues<'a> {
        project_ids: Vec<Uuid>,
        api_groups: Vec<&'a str>,
        kinds: Vec<&'a str>,
        names: Vec<&'a str>,
    }
}

pub(crate) const READ_SHARED_CONFIGS: Statement<SharedConfigsValues<'_>, SharedConfigRow> =
    Statement::new(
        "repository.shared_configs",
        "SELECT c.project_id, c.kind, c.name, c.api_version, c.cloud_credential_id, c.last_resource_id,
        c.blueprint_version_id, c.cluster_id, EXISTS (
            SELECT FROM plexsphere.provisioning_shared_config_users AS u
            WHERE (u.project_id, u.api_group, u.kind, u.name) = (c.project_id, c.api_group, c.kind, c.name)
        ) AS in_use, c.deleting, c.abandoned
    FROM plexsphere.provisioning_shared_configs AS c
    WHERE c.deleting IS NOT NULL OR (c.project_id, c.api_group, c.kind, c.name) IN (
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[])
    )",
    );

params! {
    struct ConfigNameValues<'a> {
        project_id: Uuid,
        api_group: &'a str,
        kind: &'a str,
        name: &'a str,
    }
}

pub(crate) const LOCK_SHARED_CONFIG: Statement<ConfigNameValues<'_>, ()> = Statement::new(
    "repository.lock_shared_config",
    "SELECT FROM plexsphere.provisioning_shared_configs
    WHERE (project_id, api_group, kind, name) = ($1, $2, $3, $4)
    FOR UPDATE",
);

params! {
    struct MarkConfigValues<'a> {
        project_id: Uuid,
        api_group: &'a str,
        kind: &'a str,
        name: &'a str,
        current: Option<i64>,
    }
}

columns! {
    struct MarkedRow {
        deleting: Option<i64>,
    }
}

/// Runs under [`LOCK_SHARED_CONFIG`], so that it sees every registered user.
pub(crate) const MARK_SHARED_CONFIG: Statement<MarkConfigValues<'_>, MarkedRow> = Statement::new(
    "repository.mark_shared_config",
    "UPDATE plexsphere.provisioning_shared_configs AS c
    SET deleting = nextval('plexsphere.provisioning_shared_config_marks')
    WHERE (c.project_id, c.api_group, c.kind, c.name) = ($1, $2, $3, $4)
        AND c.deleting IS NOT DISTINCT FROM $5
        AND (c.deleting IS NOT NULL OR NOT c.abandoned AND NOT EXISTS (
            SELECT FROM plexsphere.provisioning_shared_config_users AS u
            WHERE (u.project_id, u.api_group, u.kind, u.name) = ($1, $2, $3, $4)
        ))
    RETURNING deleting",
);

params! {
    struct ClearConfigValues<'a> {
        project_id: Uuid,
        api_group: &'a str,
        kind: &'a str,
        name: &'a str,
        deleting: i64,
    }
}

pub(crate) const CLEAR_SHARED_CONFIG: Statement<ClearConfigValues<'_>, ()> = Statement::new(
    "repository.clear_shared_config",
    "UPDATE plexsphere.provisioning_shared_configs SET deleting = NULL, cluster_id = NULL
    WHERE (project_id, api_group, kind, name) = ($1, $2, $3, $4) AND deleting = $5",
);

/// Registers the user of an admitted resource. The caller ends the transaction, and rolls it back after an error.
pub(super) async fn register(
    connection: &mut PgConnection,
    admitted: &Admitted,
    lost_response: LostResponse,
) -> Result<(), PortError> {
    let Some(config) = admitted.shared_config() else { return Ok(()) };
    let resource = admitted.change().resource();
    let SharedConfigRef { project, object, .. } = config;
    let values = RegisterConfigValues {
        project_id: project.as_uuid(),
        api_group: config.group(),
        kind: object.kind(),
        name: object.name(),
        api_version: object.api_version(),
        cloud_credential_id: resource.cloud_credential_id().as_uuid(),
        last_resource_id: resource.id().as_uuid(),
        blueprint_version_id: resource.blueprint_version_id().as_uuid(),
    };
    let error = |error| classify(error, lost_response);
    REGISTER_CONFIG.optional(connection, values).await.map_err(error)?;
    let values = UseConfigValues {
        project_id: project.as_uuid(),
        api_group: config.group(),
        kind: object.kind(),
        name: object.name(),
        cloud_credential_id: resource.cloud_credential_id().as_uuid(),
        provisioned_resource_id: resource.id().as_uuid(),
    };
    let HolderRow { holder } = USE_CONFIG.one(connection, values).await.map_err(error)?;
    let Some(holder) = holder else { return Ok(()) };
    let holder = ProvisionedResourceId::new(holder)
        .map_err(|error| invalid_row("provisioning_shared_config_users", holder, error))?;
    Err(Error::SharedConfigHeld { name: object.name().to_owned(), holder }.into())
}

impl PgStore {
    pub(super) async fn select_shared_config(
        &self,
        user: ProvisionedResourceId,
    ) -> Result<Option<SharedConfig>, PortError> {
        let mut connection = self.connection().await?;
        let values = UserValues { user: user.as_uuid() };
        let row =
            READ_SHARED_CONFIG.optional(&mut connection, values).await.map_uncommitted_error()?;
        row.map(SharedConfigRow::into_config).transpose()
    }

    pub(super) async fn select_shared_configs(
        &self,
        names: &[SharedConfigRef],
    ) -> Result<Vec<SharedConfig>, PortError> {
        let mut connection = self.connection().await?;
        let values = SharedConfigsValues {
            project_ids: names.iter().map(|it| it.project.as_uuid()).collect(),
            api_groups: names.iter().map(SharedConfigRef::group).collect(),
            kinds: names.iter().map(|it| it.object.kind()).collect(),
            names: names.iter().map(|it| it.object.name()).collect(),
        };
        let rows =
            READ_SHARED_CONFIGS.all(&mut connection, values).await.map_uncommitted_error()?;
        rows.into_iter().map(SharedConfigRow::into_config).collect()
    }

    pub(super) async fn set_config_mark(
        &self,
        name: &SharedConfigRef,
        current: Option<DeletionMark>,
    ) -> Result<Option<DeletionMark>, PortError> {
        let mut transaction =
            crate::transaction::begin(&self.pool).await.map_uncommitted_error()?;
        let (project_id, api_group) = (name.project.as_uuid(), name.group());
        let (kind, object) = (name.object.kind(), name.object.name());
        let values = ConfigNameValues { project_id, api_group, kind, name: object };
        LOCK_SHARED_CONFIG.optional(&mut transaction, values).await.map_uncommitted_error()?;
        let current = current.map(DeletionMark::get);
        let values = MarkConfigValues { project_id, api_group, kind, name: object, current };
        let marked = MARK_SHARED_CONFIG.optional(&mut transaction, values).await;
        let marked = marked.map_uncommitted_error()?;
        transaction.commit().await.map_commit_error()?;
        Ok(marked.and_then(|MarkedRow { deleting }| deleting).map(DeletionMark::new))
    }

    pub(super) async fn clear_config_mark(
        &self,
        name: &SharedConfigRef,
        mark: DeletionMark,
    ) -> Result<(), PortError> {
        let mut connection = self.connection().await?;
        let values = ClearConfigValues {
            project_id: name.project.as_uuid(),
            api_group: name.group(),
            kind: name.object.kind(),
            name: name.object.name(),
            deleting: mark.get(),
        };
        CLEAR_SHARED_CONFIG.optional(&mut connection, values).await.map_commit_error().map(drop)
    }
}

impl SharedConfigRow {
    fn into_config(self) -> Result<SharedConfig, PortError> {
        let name = self.name.clone();
        self.parse().map_err(|error| invalid_row("provisioning_shared_configs", name, error))
    }

    fn parse(self) -> Result<SharedConfig, Error> {
        let project = ProjectId::new(self.project_id)?;
        let home = namespace(project);
        let home = Some(home.as_str());
        let object = ObjectReference::new(self.api_version, self.kind, self.name, home)?;
        let last_user = (
            ProvisionedResourceId::new(self.last_resource_id)?,
            BlueprintVersionId::new(self.blueprint_version_id)?,
        );
        let credential = CloudCredentialId::new(self.cloud_credential_id)?;
        let mut config =
            SharedConfig::new(SharedConfigRef::new(project, object), credential, last_user);
        config.cluster = self.cluster_id.map(ClusterId::new).transpose()?;
        config.in_use = self.in_use;
        config.deleting = self.deleting.map(DeletionMark::new);
        config.abandoned = self.abandoned;
        Ok(config)
    }
}
