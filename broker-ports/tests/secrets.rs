//! Types that may hold a secret cannot be cloned, serialised or printed. The rustdoc of the ports shows
//! this for the innermost types; these tests also cover the types that contain them.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use broker_domain::ClusterId;
use broker_ports::{
    ApplyRequest, BootstrapToken, DryRun, Issue, IssuedToken, LiveObject, LiveXr, ObjectVersion,
    Reading, XrReading,
};
use broker_render::{Manifest, SealedManifest, XrdScope};
use serde_json::json;

/// Probes whether a type implements a trait. If it does, the inherent constant exists and takes precedence over the
/// constant of [`NotImplemented`].
struct TraitProbe<T>(PhantomData<T>);

trait NotImplemented {
    const CLONE: bool = false;
    const SERIALIZE: bool = false;
}

impl<T> NotImplemented for TraitProbe<T> {}

impl<T: Clone> TraitProbe<T> {
    const CLONE: bool = true;
}

impl<T: serde::Serialize> TraitProbe<T> {
    const SERIALIZE: bool = true;
}

macro_rules! assert_secret_types {
    ($($type:ty),+ $(,)?) => {
        $(
            const { assert!(!TraitProbe::<$type>::CLONE, concat!(stringify!($type), " can be cloned")) };
            const { assert!(!TraitProbe::<$type>::SERIALIZE, concat!(stringify!($type), " can be serialised")) };
        )+
    };
}

#[test]
fn secret_types_are_neither_cloned_nor_serialised() {
    const { assert!(TraitProbe::<ObjectVersion>::CLONE, "the probe denies every type") };
    const { assert!(TraitProbe::<String>::SERIALIZE, "the probe denies every type") };
    assert_secret_types!(
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
    const { assert!(TraitProbe::<Manifest>::CLONE, "a manifest without a token may be cloned") };
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
