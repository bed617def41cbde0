//! The effects of each stage, in order, for every rule.

mod permits;

use std::collections::BTreeSet;

use broker_domain::{
    Action, BootstrapTokenId, ClusterId, FailureReason, NodeObservation, ObjectReference,
    ObservedXr, Phase, ProvisionedResource, ReferencesDigest, Stamp, TokenOrdinal, XrUid,
};
use broker_ports::{Brake, LostObject, NamespacePhase, ObjectVersion};
use broker_render::{Armed, Precondition};
use broker_testkit::builders::{self, id, second};

use super::{EarlyExit, Effect, EffectResult, Mode, NextStep, PassState, step};
use crate::observe::{ConfigObservation, Gate, Observation, XrObservation};

fn stamp(at: i64) -> Stamp {
    builders::stamp(99, at)
}

fn node() -> ProvisionedResource {
    builders::resource().build()
}

fn rolling_back() -> ProvisionedResource {
    builders::resource().rolling_back().build()
}

const TOKEN: u128 = 60;

fn with_token(resource: &ProvisionedResource) -> ProvisionedResource {
    let change = resource.record_token(id(TOKEN), TokenOrdinal::FIRST, second(1)).unwrap();
    change.into_resource()
}

fn ready_node() -> ProvisionedResource {
    with_token(&node()).advance(Phase::Ready, stamp(2)).unwrap().unwrap().into_resource()
}

fn failed(resource: &ProvisionedResource) -> ProvisionedResource {
    let failed = resource.fail(FailureReason::from_message("quota"), stamp(3));
    failed.unwrap().unwrap().into_resource()
}

/// In teardown, with closed tokens and a recorded ProviderConfig of its own.
fn deleting_node() -> ProvisionedResource {
    deleting_node_with(config_reference())
}

fn deleting_node_with(config: ObjectReference) -> ProvisionedResource {
    let applied = ready_node();
    let substrate = applied.substrate().clone().about_to_apply(cluster(), config);
    let applied = applied.record_substrate(substrate, second(3)).unwrap().unwrap();
    let leaving = applied.resource().request_deletion(stamp(4)).unwrap();
    leaving.resource().record_closed(second(5)).unwrap().unwrap().into_resource()
}

fn cluster() -> ClusterId {
    ClusterId::new("here").unwrap()
}

fn config_reference() -> ObjectReference {
    config_named(node().xr_name().as_str())
}

fn config_named(name: &str) -> ObjectReference {
    ObjectReference::new("x.crossplane.io/v1beta1", "ProviderConfig", name, Some("home")).unwrap()
}

fn version(number: u32) -> ObjectVersion {
    ObjectVersion::new("uid", number.to_string())
}

fn shell(number: u32) -> XrObservation {
    XrObservation::Shell { at: version(number), deleting: false }
}

fn armed(with: Armed, applied: bool) -> XrObservation {
    XrObservation::Armed { at: version(7), with: Some(with), deleting: false, applied }
}

fn existing_config() -> ConfigObservation {
    ConfigObservation::Exists { at: version(3), deleting: false, applied: true }
}

fn brake() -> Brake {
    Brake::new(8, 8, second(1))
}

/// No object exists, and the namespace is ready.
fn observed_nothing(resource: &ProvisionedResource) -> Observation {
    Observation {
        facts: ObservedXr {
            xr_exists: false,
            crossplane_ready: false,
            terminal_failure: false,
            node: NodeObservation::Unregistered,
            residue: false,
        },
        cluster: cluster(),
        xr: XrObservation::Absent,
        config: ConfigObservation::Absent,
        config_reference: Some(config_reference()),
        misses_config: false,
        composed_left: false,
        plain_data: BTreeSet::new(),
        substrate: resource.substrate().clone(),
        gate: Gate::Open,
        brakes: Vec::new(),
        failure: None,
    }
}

/// The ProviderConfig and this composite resource exist.
fn existing(resource: &ProvisionedResource, xr: XrObservation) -> Observation {
    let nothing = observed_nothing(resource);
    let facts = ObservedXr { xr_exists: true, residue: true, ..nothing.facts };
    Observation { facts, xr, config: existing_config(), ..nothing }
}

/// Every effect succeeds.
struct FakeExecutor {
    version: u32,
    /// Consumed tokens by ordinal.
    consumed: Vec<(TokenOrdinal, BootstrapTokenId)>,
}

impl FakeExecutor {
    fn execute(&mut self, resource: &ProvisionedResource, effect: &Effect) -> EffectResult {
        let committed = |change: broker_domain::Change| {
            assert_eq!(change.expected_version(), resource.version());
            EffectResult::Committed(Box::new(change.into_resource()))
        };
        let now = stamp(10);
        match effect {
            Effect::RequestDeletion => committed(resource.request_deletion(now).unwrap()),
            Effect::RecordClosed => committed(resource.record_closed(now.at).unwrap().unwrap()),
            Effect::RecordSubstrate(substrate) => {
                committed(resource.record_substrate(substrate.clone(), now.at).unwrap().unwrap())
            }
            Effect::RecordToken(token, ordinal, xr) => {
                let xr = xr.clone().unwrap();
                committed(resource.record_token_for(xr, *token, *ordinal, now.at).unwrap())
            }
            Effect::UpdatePhase(to) => committed(resource.advance(*to, now).unwrap().unwrap()),
            Effect::Fail(reason) => committed(resource.fail(reason.clone(), now).unwrap().unwrap()),
            Effect::CheckBrake | Effect::TakePermit(_) => EffectResult::Permitted,
            Effect::CloseTokens
            | Effect::DeregisterNode(_)
            | Effect::DeleteXr(_)
            | Effect::DeleteProviderConfig(_) => EffectResult::Done,
            Effect::ApplyProviderConfig(_)
            | Effect::ApplyShell(_)
            | Effect::Arm(..)
            | Effect::Reapply(..) => {
                self.version += 1;
                EffectResult::Applied(version(100 + self.version))
            }
            Effect::IssueToken(ordinal) => {
                let spent = self.consumed.iter().find(|(spent, _)| spent == ordinal);
                let issued = || EffectResult::Issued(id(TOKEN + u128::from(ordinal.get())));
                spent.map_or_else(issued, |(_, token)| EffectResult::Consumed(*token))
            }
        }
    }
}

fn drive(state: &PassState, executor: &mut FakeExecutor) -> (Vec<Effect>, PassState, NextStep) {
    let mut effects = Vec::new();
    let (mut state, mut next_step) = step(state, EffectResult::Begin);
    while let NextStep::Perform(effect) = &next_step {
        assert!(effects.len() < 12, "a stage ends after few effects: {effects:?}");
        let result = executor.execute(state.resource(), effect);
        effects.push(effect.clone());
        (state, next_step) = step(&state, result);
    }
    (effects, state, next_step)
}

fn fake_executor() -> FakeExecutor {
    FakeExecutor { version: 0, consumed: Vec::new() }
}

fn act(
    resource: &ProvisionedResource,
    observation: &Observation,
    action: Action,
) -> (Vec<Effect>, NextStep) {
    let state = PassState::act(resource.clone(), Mode::Live, observation.clone(), action);
    let (effects, _, next_step) = drive(&state, &mut fake_executor());
    (effects, next_step)
}

fn record_substrate(resource: &ProvisionedResource) -> Effect {
    let substrate = resource.substrate().clone();
    Effect::RecordSubstrate(substrate.about_to_apply(cluster(), config_reference()))
}

fn uid() -> XrUid {
    XrUid::new("uid").unwrap()
}

#[test]
fn node_is_applied_as_shell_then_armed_with_its_token() {
    let resource = node();
    let (effects, next_step) = act(&resource, &observed_nothing(&resource), Action::Apply);
    let token: BootstrapTokenId = id(TOKEN + 1);
    assert_eq!(
        effects,
        [
            record_substrate(&resource),
            Effect::ApplyProviderConfig(Precondition::Absent),
            Effect::ApplyShell(Precondition::Absent),
            Effect::IssueToken(TokenOrdinal::FIRST),
            Effect::RecordToken(token, TokenOrdinal::FIRST, Some(uid())),
            Effect::Arm(Armed::Token(token), version(102)),
        ]
    );
    assert_eq!(next_step, NextStep::Continue);
}

#[test]
fn consumed_token_is_replaced_after_its_node_has_left() {
    let resource = ready_node();
    let mut executor =
        FakeExecutor { version: 0, consumed: vec![(TokenOrdinal::FIRST, id(TOKEN))] };
    let state =
        PassState::act(resource.clone(), Mode::Live, observed_nothing(&resource), Action::Apply);
    let (effects, state, next_step) = drive(&state, &mut executor);
    let next = TokenOrdinal::FIRST.next();
    let token: BootstrapTokenId = id(TOKEN + 2);
    assert_eq!(
        effects[3..],
        [
            Effect::IssueToken(TokenOrdinal::FIRST),
            Effect::TakePermit(LostObject::Node(id(TOKEN))),
            Effect::DeregisterNode(id(TOKEN)),
            Effect::IssueToken(next),
            Effect::RecordToken(token, next, Some(uid())),
            Effect::Arm(Armed::Token(token), version(102)),
        ]
    );
    assert_eq!(next_step, NextStep::Continue);
    assert_eq!(state.resource().token_ordinal(), next);

    executor.consumed.push((next, token));
    let state =
        PassState::act(resource.clone(), Mode::Live, observed_nothing(&resource), Action::Apply);
    let (_, _, next_step) = drive(&state, &mut executor);
    assert_eq!(next_step, NextStep::End(EarlyExit::TokenConsumedAgain));
}

#[test]
fn armed_resource_never_gets_another_token() {
    let resource = with_token(&node());
    let own = Armed::Token(id(TOKEN));
    let (effects, _) = act(&resource, &existing(&resource, armed(own, true)), Action::Apply);
    assert_eq!(effects, [record_substrate(&resource)]);

    let (effects, _) = act(&resource, &existing(&resource, armed(own, false)), Action::Apply);
    assert_eq!(effects[1..], [Effect::Reapply(own, version(7))]);
}

#[test]
fn nothing_is_applied_while_a_gate_is_closed() {
    let resource = node();
    let leaving = XrObservation::Shell { at: version(7), deleting: true };
    let config_leaving =
        ConfigObservation::Exists { at: version(3), deleting: true, applied: true };
    let cases = [
        (
            "the namespace is not ready",
            Observation {
                gate: Gate::Namespace(NamespacePhase::Provisioning),
                ..observed_nothing(&resource)
            },
        ),
        (
            "the shared ProviderConfig is being deleted",
            Observation { gate: Gate::ConfigLeaving, ..observed_nothing(&resource) },
        ),
        (
            "the cluster's brake is set",
            Observation { brakes: vec![brake()], ..observed_nothing(&resource) },
        ),
        ("the composite resource is being deleted", existing(&resource, leaving)),
        (
            "the ProviderConfig is being deleted",
            Observation { config: config_leaving, ..observed_nothing(&resource) },
        ),
    ];
    for (why, observation) in cases {
        let (effects, next_step) = act(&resource, &observation, Action::Apply);
        assert_eq!((effects, next_step), (vec![], NextStep::Continue), "{why}");
    }
}

#[test]
fn observation_is_recorded_before_any_other_effect() {
    let resource = deleting_node();
    let vm = ObjectReference::new("nop/v1", "NopResource", "vm", Some("home")).unwrap();
    let observation = Observation {
        substrate: resource.substrate().clone().observed([vm], ReferencesDigest::new([1; 32])),
        ..existing(&resource, armed(Armed::Token(id(TOKEN)), true))
    };
    for action in Action::ALL {
        let (effects, _) = act(&resource, &observation, action);
        assert!(matches!(effects[0], Effect::RecordSubstrate(_)), "{action}: {effects:?}");
    }
}

#[test]
fn teardown_deletes_the_provider_config_last() {
    let resource = deleting_node();
    let live = existing(&resource, armed(Armed::Token(id(TOKEN)), true));
    let leaving = XrObservation::Armed {
        at: version(7),
        with: Some(Armed::Token(id(TOKEN))),
        deleting: true,
        applied: true,
    };
    let config_only = Observation { xr: XrObservation::Absent, ..live.clone() };
    let config_leaving =
        ConfigObservation::Exists { at: version(3), deleting: true, applied: true };
    let delete_config = Effect::DeleteProviderConfig("uid".to_owned());
    let rows = [
        ("it exists", live.clone(), vec![Effect::DeleteXr("uid".to_owned())]),
        ("it is already being deleted", Observation { xr: leaving, ..live.clone() }, vec![]),
        (
            "a shell is deleted in the same way",
            Observation { xr: shell(7), ..live.clone() },
            vec![Effect::DeleteXr("uid".to_owned())],
        ),
        ("one is left", Observation { composed_left: true, ..config_only.clone() }, vec![]),
        ("only the ProviderConfig is left", config_only.clone(), vec![delete_config]),
        (
            "the ProviderConfig is being deleted",
            Observation { config: config_leaving, ..config_only },
            vec![],
        ),
    ];
    for (why, observation, expected) in rows {
        let (effects, next_step) = act(&resource, &observation, Action::DeleteSubstrate);
        assert_eq!((effects, next_step), (expected, NextStep::Continue), "{why}");
    }
}

#[test]
fn shared_config_is_never_deleted_by_a_teardown() {
    let resource = deleting_node_with(config_named("openstack"));
    let observation = Observation {
        xr: XrObservation::Absent,
        ..existing(&resource, armed(Armed::Token(id(TOKEN)), true))
    };
    let (effects, next_step) = act(&resource, &observation, Action::DeleteSubstrate);
    assert_eq!((effects, next_step), (vec![], NextStep::Continue));
}

#[test]
fn substrate_is_not_deleted_while_tokens_are_open() {
    let resource = ready_node().request_deletion(stamp(4)).unwrap().into_resource();
    let observation = existing(&resource, armed(Armed::Token(id(TOKEN)), true));
    let (effects, next_step) = act(&resource, &observation, Action::DeleteSubstrate);
    assert_eq!((effects, next_step), (vec![], NextStep::End(EarlyExit::TokensOpen)));
}

#[test]
fn deregistration_drains_the_node_of_the_row() {
    let resource = deleting_node();
    let observation = existing(&resource, armed(Armed::Token(id(TOKEN)), true));
    let (effects, next_step) = act(&resource, &observation, Action::DeregisterNode);
    assert_eq!(effects, [Effect::DeregisterNode(id(TOKEN))]);
    assert_eq!(next_step, NextStep::Continue);
}

#[test]
fn rollback_requests_deletion_and_closes_tokens() {
    let state = PassState::prepare(failed(&rolling_back()), Mode::Live);
    let (effects, state, next_step) = drive(&state, &mut fake_executor());
    let deleted = [Effect::RequestDeletion, Effect::CloseTokens, Effect::RecordClosed];
    assert_eq!(effects, [&[Effect::CheckBrake], &deleted[..]].concat());
    assert_eq!(next_step, NextStep::Continue);
    assert_eq!(state.resource().phase(), Phase::Deregistering);
    assert!(state.resource().token_closed());
}

#[test]
fn prepare_is_a_no_op_outside_teardown_and_when_repeated() {
    for resource in [node(), ready_node(), deleting_node(), failed(&node())] {
        let (effects, _, next_step) =
            drive(&PassState::prepare(resource, Mode::Live), &mut fake_executor());
        assert_eq!((effects, next_step), (vec![], NextStep::Continue));
    }
}

#[test]
fn persist_stores_only_a_changed_phase() {
    let resource = with_token(&node());
    let observation = observed_nothing(&resource);
    let reason = FailureReason::from_message("quota");
    let failed = Observation { failure: Some(reason.clone()), ..observation.clone() };
    let rows = [
        ("the phase stays", observation.clone(), Phase::Pending, vec![]),
        (
            "the phase changes",
            observation.clone(),
            Phase::Enrolling,
            vec![Effect::UpdatePhase(Phase::Enrolling)],
        ),
        ("it fails with a reason", failed, Phase::Failed, vec![Effect::Fail(reason)]),
        (
            "it fails without a reason",
            observation,
            Phase::Failed,
            vec![Effect::Fail(FailureReason::from_message(""))],
        ),
    ];
    for (why, observation, to, expected) in rows {
        let state = PassState::persist(resource.clone(), Mode::Live, observation, to);
        let (effects, _, next_step) = drive(&state, &mut fake_executor());
        assert_eq!((effects, next_step), (expected, NextStep::Continue), "{why}");
    }
}

#[test]
fn lost_race_ends_the_pass_after_any_effect() {
    let resource = node();
    let state =
        PassState::act(resource.clone(), Mode::Live, observed_nothing(&resource), Action::Apply);
    let (mut state, mut next_step) = step(&state, EffectResult::Begin);
    let mut executor = fake_executor();
    let mut effects = 0;
    while let NextStep::Perform(effect) = &next_step {
        effects += 1;
        let (_, lost) = step(&state, EffectResult::LostRace);
        assert_eq!(lost, NextStep::End(EarlyExit::LostRace), "{effect:?}");
        let result = executor.execute(state.resource(), effect);
        (state, next_step) = step(&state, result);
    }
    assert_eq!(effects, 6);
}

#[test]
fn dry_run_performs_no_effect() {
    let resource = deleting_node();
    let observation = existing(&resource, armed(Armed::Token(id(TOKEN)), true));
    let states = [
        PassState::prepare(failed(&rolling_back()), Mode::DryRun),
        PassState::act(
            resource.clone(),
            Mode::DryRun,
            observation.clone(),
            Action::DeleteSubstrate,
        ),
        PassState::persist(resource, Mode::DryRun, observation, Phase::Deprovisioning),
    ];
    for state in states {
        assert_eq!(drive(&state, &mut fake_executor()).0, []);
    }
}
