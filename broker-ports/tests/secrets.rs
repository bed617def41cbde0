//! What may hold a secret can neither be copied nor serialised, and prints none. The ports' own documentation shows
//! it for the innermost types; here it is asked of everything that they are a part of, too.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use broker_domain::ClusterId;
use broker_ports::{
    ApplyRequest, BootstrapToken, DryRun, Issue, IssuedToken, LiveObject, LiveXr, ObjectVersion,
    Reading, XrReading,
};
use broker_render::{Manifest, SealedManifest, XrdScope};
use serde_json::json;

/// Answers for a type whether it implements a trait: the constant of its own is there only if it does, and stands
/// before the one that everything has.
struct Asked<T>(PhantomData<T>);

trait Unless {
    const CLONE: bool = false;
    const SERIALIZE: bool = false;
}

impl<T> Unless for Asked<T> {}

impl<T: Clone> Asked<T> {
    const CLONE: bool = true;
}

impl<T: serde::Serialize> Asked<T> {
    const SERIALIZE: bool = true;
}

macro_rules! holds_a_secret {
    ($($type:ty),+ $(,)?) => {
        $(
            const { assert!(!Asked::<$type>::CLONE, concat!(stringify!($type), " can be copied")) };
            const { assert!(!Asked::<$type>::SERIALIZE, concat!(stringify!($type), " can be sent")) };
        )+
    };
}

#[test]
fn what_may_hold_a_secret_is_neither_copied_nor_serialised() {
    const { assert!(Asked::<ObjectVersion>::CLONE, "the question is answered no for everything") };
    const { assert!(Asked::<String>::SERIALIZE, "the question is answered no for everything") };
    holds_a_secret!(
        ApplyRequest,
        BootstrapToken,
        DryRun,
        Issue,
        IssuedToken,
        LiveObject,
        LiveXr,
        Reading,
        SealedManifest,
        XrReading,
    );
    const { assert!(Asked::<Manifest>::CLONE, "a manifest without a token may be copied") };
}

#[test]
fn what_was_read_from_the_cluster_is_not_printed() {
    let object = || {
        json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "spec": {"userData": "hush"},
            "status": {"conditions": [{"type": "Ready", "status": "False", "message": "hush"}]},
        })
    };
    let live = || LiveObject::from_json(object()).unwrap();
    let xr = || LiveXr::from_json(object(), XrdScope::Namespaced).unwrap();
    let cluster = ClusterId::new("uid").unwrap();
    let present = XrReading::Present(Box::new(xr()));
    let reading = Reading::new(cluster, present, Some(live()), BTreeMap::new(), BTreeSet::new());
    let printed = [
        format!("{:?}", live()),
        format!("{:?}", xr()),
        format!("{:?}", DryRun::Accepted(live())),
        format!("{reading:?}"),
    ];
    for text in printed {
        assert!(!text.contains("hush"), "{text}");
    }
}
