//! Throughout: types that may hold a secret cannot be cloned, serialised or printed. The rustdoc of the ports shows it
//! for the innermost types; these tests also cover the types that contain them.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use broker_domain::ClusterId;
use broker_ports::{
    ApplyRequest, BootstrapToken, DryRun, Issue, IssuedToken, LiveObject, LiveXr, ObjectVersion,
    Reading, XrReading,
};
use broker_render::{Manifest, SealedManifest, XrdScope};
use serde_json::json;

/// Probes whether a type implements a trait. The inherent constant exists only if it does, and takes precedence over
/// the constant of [`Unless`].
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
            const { assert!(!Asked::<$type>::CLONE, concat!(stringify!($type), " can be cloned")) };
            const { assert!(!Asked::<$type>::SERIALIZE, concat!(stringify!($type), " can be serialised")) };
        )+
    };
}

#[test]
fn secret_types_are_neither_cloned_nor_serialised() {
    const { assert!(Asked::<ObjectVersion>::CLONE, "the probe denies every type") };
    const { assert!(Asked::<String>::SERIALIZE, "the probe denies every type") };
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
    const { assert!(Asked::<Manifest>::CLONE, "a manifest without a token may be cloned") };
}

#[test]
fn objects_read_from_the_cluster_are_not_printed() {
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
