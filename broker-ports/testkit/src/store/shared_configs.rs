//! Cases for shared ProviderConfigs: users, the one credential, and the mark of the last user to leave.

use broker_domain::{ObjectReference, ProjectId};
use broker_ports::{DeletionMark, SharedConfig, SharedConfigRef};
use broker_render::namespace;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        only_the_last_user_to_leave_sets_the_mark,
        users_of_a_shared_config_have_one_credential,
        a_mark_is_cleared_by_its_own_number_only,
        an_abandoned_last_user_sets_no_mark,
        a_used_config_cannot_be_marked,
        names_are_unique_by_project_group_and_kind,
        a_refused_replacement_registers_no_user,
    ]
}

fn named_in(project: ProjectId, api_version: &str, name: &str) -> Checked<SharedConfigRef> {
    let home = namespace(project);
    let object = ObjectReference::new(api_version, "ProviderConfig", name, Some(home.as_str()))?;
    Ok(SharedConfigRef::new(project, object))
}

fn openstack() -> Checked<SharedConfigRef> {
    named_in(project(1), "openstack.crossplane.io/v1beta1", "openstack")
}

impl World {
    async fn try_use(
        &self,
        builder: &ResourceBuilder,
        name: &SharedConfigRef,
    ) -> Checked<Result<Created, PortError>> {
        self.register_references(&builder.declaration()).await?;
        Ok(self.repository().create(&builder.admitted().using(name.clone())).await)
    }

    /// Stores a new user of the ProviderConfig.
    async fn use_config(&self, builder: &ResourceBuilder, name: &SharedConfigRef) -> Outcome {
        let created = self.try_use(builder, name).await??;
        equal("the result of a creation", &created, &Created::Stored)
    }

    /// Stores the remaining history of a user.
    async fn finish(&self, builder: &ResourceBuilder) -> Outcome {
        for (kind, change) in &builder.history().later {
            self.commit(*kind, change).await?;
        }
        Ok(())
    }

    async fn config(&self, name: &SharedConfigRef) -> Checked<SharedConfig> {
        let found = self.repository().shared_configs(std::slice::from_ref(name)).await?;
        let found = found.into_iter().find(|config| config.name == *name);
        found.ok_or(Violation::new("a registered ProviderConfig is unknown"))
    }

    async fn mark_of(&self, name: &SharedConfigRef) -> Checked<DeletionMark> {
        let mark = self.config(name).await?.deleting;
        mark.ok_or(Violation::new("the last user left, and there is no mark"))
    }
}

/// Users leave at the same time. A new user keeps the ProviderConfig if it registers before the last one leaves.
async fn only_the_last_user_to_leave_sets_the_mark(world: &World) -> Outcome {
    let name = openstack()?;
    let users: Vec<_> = (1..=8)
        .map(|number| nth_resource(number).standalone().with_substrate().deleted())
        .collect();
    for user in &users {
        world.use_config(user, &name).await?;
    }
    let (staying, leaving) = users.split_last().ok_or(Violation::new("no users"))?;
    try_join_all(leaving.iter().map(|user| world.finish(user))).await?;
    let config = world.config(&name).await?;
    equal("in use, and marked", &(config.in_use, config.deleting), &(true, None))?;
    let used = world.repository().shared_config(staying.id()).await?;
    equal("the config of its user", &used.map(|config| config.name), &Some(name.clone()))?;
    for user in leaving {
        let used = world.repository().shared_config(user.id()).await?;
        require(used.is_none(), "a Deleted resource uses a ProviderConfig")?;
    }
    world.finish(staying).await?;
    let mark = world.mark_of(&name).await?;
    let config = world.config(&name).await?;
    require(!config.in_use, "a ProviderConfig without users is in use")?;
    equal("the last user", &config.last_user.0, &staying.id())?;
    equal("the cluster of its users", &config.cluster, &Some(cluster(1)))?;
    let marked = world.repository().shared_configs(&[]).await?;
    let marked: Vec<_> = marked.iter().map(|config| (&config.name, config.deleting)).collect();
    equal("the marked ones, without a name", &marked, &vec![(&name, Some(mark))])?;
    // A user that registers now does not clear the mark.
    let new = nth_resource(9);
    world.use_config(&new, &name).await?;
    let used = world.repository().shared_config(new.id()).await?;
    let marked = used.and_then(|config| config.deleting);
    equal("the mark that a new user sees", &marked, &Some(mark))
}

async fn users_of_a_shared_config_have_one_credential(world: &World) -> Outcome {
    let name = openstack()?;
    let with_credential =
        |number: u128| nth_resource(number).declared_as(declaration().with_credential(number));
    let builders: Vec<_> = (1..=8).map(with_credential).collect();
    for builder in &builders {
        world.register_references(&builder.declaration()).await?;
    }
    let admitted: Vec<_> =
        builders.iter().map(|builder| builder.admitted().using(name.clone())).collect();
    let results = futures_util::future::join_all(
        admitted.iter().map(|admitted| world.repository().create(admitted)),
    )
    .await;
    let mut stored = Vec::new();
    for (builder, result) in builders.iter().zip(&results) {
        if matches!(result, Ok(Created::Stored)) {
            stored.push(builder.id());
        }
    }
    let [holder] = stored[..] else {
        return Err(Violation::new(format!("{} of 8 credentials are stored", stored.len())));
    };
    for (builder, result) in builders.iter().zip(results) {
        if builder.id() != holder {
            require_refused(result, "shared_config_held", &holder.to_string())?;
            let found = world.repository().get_by_id(builder.id()).await?;
            require(found.is_none(), "a refused declaration is stored")?;
        }
    }
    let used = world.repository().shared_config(holder).await?;
    require(used.is_some(), "the stored declaration is no user")
}

async fn a_mark_is_cleared_by_its_own_number_only(world: &World) -> Outcome {
    let name = openstack()?;
    let mut marks = Vec::new();
    for number in 1..=2 {
        let user = nth_resource(number).standalone().deleted();
        world.use_config(&user, &name).await?;
        world.finish(&user).await?;
        let mark = world.mark_of(&name).await?;
        if let Some(earlier) = marks.last() {
            world.repository().clear_shared_config(&name, *earlier).await?;
            equal("the mark", &world.mark_of(&name).await?, &mark)?;
        }
        world.repository().clear_shared_config(&name, mark).await?;
        equal("a cleared mark", &world.config(&name).await?.deleting, &None)?;
        marks.push(mark);
    }
    // A late object: the sweep sets the mark again, and a removal renews it.
    let mut current = None;
    for _ in 0..3 {
        let repository = world.repository();
        let renewed = repository.mark_shared_config(&name, current).await?;
        equal("the returned mark", &renewed, &world.config(&name).await?.deleting)?;
        let renewed = renewed.ok_or(Violation::new("it cannot be marked"))?;
        if let Some(earlier) = current {
            repository.clear_shared_config(&name, earlier).await?;
            let stale = repository.mark_shared_config(&name, Some(earlier)).await?;
            equal("the renewal of an earlier mark", &stale, &None)?;
        }
        equal("the mark", &world.mark_of(&name).await?, &renewed)?;
        let unmarked = repository.mark_shared_config(&name, None).await?;
        equal("the first mark of a marked one", &unmarked, &None)?;
        marks.push(renewed);
        current = Some(renewed);
    }
    let distinct: BTreeSet<_> = marks.iter().collect();
    equal("the number of distinct marks", &distinct.len(), &5)?;
    // A removal renews the mark while a new user waits.
    world.use_config(&nth_resource(3), &name).await?;
    let renewed = world.repository().mark_shared_config(&name, current).await?;
    require(renewed.is_some(), "the mark cannot be renewed while a user waits")
}

async fn an_abandoned_last_user_sets_no_mark(world: &World) -> Outcome {
    let name = openstack()?;
    let user = resource().standalone().with_substrate().abandoned();
    world.use_config(&user, &name).await?;
    world.finish(&user).await?;
    let config = world.config(&name).await?;
    equal("mark and flag", &(config.deleting, config.abandoned), &(None, true))?;
    let marked = world.repository().mark_shared_config(&name, None).await?;
    equal("the mark of an abandoned one", &marked, &None)?;
    let next = nth_resource(2).standalone().deleted();
    world.use_config(&next, &name).await?;
    require(!world.config(&name).await?.abandoned, "a new user leaves the flag set")?;
    world.finish(&next).await?;
    world.mark_of(&name).await.map(drop)
}

async fn a_used_config_cannot_be_marked(world: &World) -> Outcome {
    let name = openstack()?;
    let unknown = world.repository().mark_shared_config(&name, None).await?;
    equal("the mark of an unknown one", &unknown, &None)?;
    world.use_config(&resource(), &name).await?;
    let used = world.repository().mark_shared_config(&name, None).await?;
    equal("the mark of a used one", &used, &None)?;
    equal("the mark", &world.config(&name).await?.deleting, &None)
}

/// Another version of the API names the same object; another group, name or Project does not.
async fn names_are_unique_by_project_group_and_kind(world: &World) -> Outcome {
    let first = openstack()?;
    world.use_config(&resource(), &first).await?;
    let other_credential =
        |number: u128| nth_resource(number).declared_as(declaration().with_credential(2));
    let same = named_in(project(1), "openstack.crossplane.io/v2", "openstack")?;
    let refused = world.try_use(&other_credential(2), &same).await?;
    require_refused(refused, "shared_config_held", &resource().id().to_string())?;
    let others = [
        named_in(project(1), "hcloud.crossplane.io/v1beta1", "openstack")?,
        named_in(project(1), "openstack.crossplane.io/v1beta1", "other")?,
        named_in(project(2), "openstack.crossplane.io/v1beta1", "openstack")?,
    ];
    for (number, other) in (3..).zip(others) {
        let declared = declaration().in_project(other.project).with_credential(2);
        world.use_config(&nth_resource(number).declared_as(declared), &other).await?;
    }
    Ok(())
}

async fn a_refused_replacement_registers_no_user(world: &World) -> Outcome {
    let name = openstack()?;
    let old = resource().ready();
    world.use_config(&old, &name).await?;
    world.finish(&old).await?;
    let stored = world.get(old.id()).await?;
    let replacement = |new: &ResourceBuilder| {
        let admitted = new.admitted().using(name.clone());
        Replacement::new(&stored, admitted, fresh_stamp(1))
    };
    let other = nth_resource(2).declared_as(declaration().with_credential(2));
    world.register_references(&other.declaration()).await?;
    let refused = world.repository().replace(&replacement(&other)?).await;
    require_refused(refused, "shared_config_held", &old.id().to_string())?;
    equal("the old resource", &world.get(old.id()).await?, &stored)?;
    let same = nth_resource(3);
    world.register_references(&same.declaration()).await?;
    let replaced = world.repository().replace(&replacement(&same)?).await?;
    let expected = broker_ports::Replaced::Created(Created::Stored);
    equal("the result of a replacement", &replaced, &expected)?;
    let used = world.repository().shared_config(same.id()).await?;
    require(used.is_some(), "the new resource is no user")
}
