//! The budget for automatic destruction: which effects need a permit.
#![expect(clippy::wildcard_enum_match_arm, reason = "only two effects request a permission")]

use super::*;

fn applied(resource: &ProvisionedResource, uid: &str) -> ProvisionedResource {
    let substrate = resource
        .substrate()
        .clone()
        .about_to_apply(cluster(), config_reference())
        .armed(XrUid::new(uid).unwrap());
    resource.record_substrate(substrate, second(4)).unwrap().unwrap().into_resource()
}

fn drive_without_permit(state: &PassState, result: &EffectResult) -> (Vec<Effect>, NextStep) {
    let (mut state, mut next_step) = step(state, EffectResult::Begin);
    let mut effects = Vec::new();
    while let NextStep::Perform(effect) = &next_step {
        effects.push(effect.clone());
        let result = match effect {
            Effect::CheckBrake | Effect::TakePermit(_) => result.clone(),
            _ => fake_executor().execute(state.resource(), effect),
        };
        (state, next_step) = step(&state, result);
    }
    (effects, next_step)
}

#[test]
fn destruction_without_a_permit_ends_the_pass() {
    let lost = applied(&ready_node(), "uid-1");
    let uid = LostObject::Xr(XrUid::new("uid-1").unwrap());
    let shell = XrObservation::Shell { at: version(7), deleting: false };
    let ready = with_token(&rolling_back()).advance(Phase::Ready, stamp(2)).unwrap().unwrap();
    let failed = failed(&applied(&ready.into_resource(), "uid-1"));
    let act = |observation| PassState::act(lost.clone(), Mode::Live, observation, Action::Apply);
    let cases = [
        ("a lost composite resource", act(observed_nothing(&lost)), uid.clone()),
        ("a shell that an earlier pass re-created", act(existing(&lost, shell)), uid.clone()),
        (
            "Ready becomes Failed",
            PassState::persist(lost.clone(), Mode::Live, observed_nothing(&lost), Phase::Failed),
            uid.clone(),
        ),
        ("the rollback of a resource that was Ready", PassState::prepare(failed, Mode::Live), uid),
    ];
    for (why, state, lost) in cases {
        for (result, exit) in [
            (EffectResult::Braked, EarlyExit::Braked),
            (EffectResult::OverBudget, EarlyExit::OverBudget),
        ] {
            let (effects, next_step) = drive_without_permit(&state, &result);
            assert_eq!(effects, [Effect::TakePermit(lost.clone())], "{why}");
            assert_eq!(next_step, NextStep::End(exit), "{why}");
        }
    }
}

#[test]
fn replacing_a_consumed_token_needs_a_permit() {
    let resource = with_token(&node());
    let token = resource.bootstrap_token_id().unwrap();
    let state =
        PassState::act(resource.clone(), Mode::Live, observed_nothing(&resource), Action::Apply);
    let mut executor =
        FakeExecutor { consumed: vec![(resource.token_ordinal(), token)], ..fake_executor() };
    let (effects, ..) = drive(&state, &mut executor);
    let permit = effects.iter().position(|it| *it == Effect::TakePermit(LostObject::Node(token)));
    let drained = effects.iter().position(|it| *it == Effect::DeregisterNode(token));
    assert!(permit.is_some() && permit < drained, "{effects:?}");
}

#[test]
fn first_creation_and_early_rollback_need_no_permit() {
    let resource = node();
    let (effects, _) = act(&resource, &observed_nothing(&resource), Action::Apply);
    assert!(!effects.iter().any(|it| matches!(it, Effect::TakePermit(_))), "{effects:?}");
    let state = PassState::prepare(failed(&rolling_back()), Mode::Live);
    let (effects, next_step) = drive_without_permit(&state, &EffectResult::Braked);
    assert_eq!((effects, next_step), (vec![Effect::CheckBrake], NextStep::End(EarlyExit::Braked)));
}
