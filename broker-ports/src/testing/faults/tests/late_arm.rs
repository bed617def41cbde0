//! The arm of a worker that was cut off arrives as it was sent, though its manifest is sealed and cannot be
//! copied.
#![cfg(feature = "mocks")]

use std::sync::Arc;

use broker_domain::{MeshRole, Parameters};
use broker_render::{
    Armed, CloudTags, CompositionName, Identity, InjectionStrategy, XrInput, Xrd,
    preserve_injection, xr,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{DEADLINE, DELAY};
use crate::cluster::{Applied, ApplyRequest, Cluster, ObjectVersion};
use crate::error::PortName;
use crate::mocks::MockCluster;
use crate::testing::builders::{id, project};
use crate::testing::faults::{Fault, FaultPlan, Faults, Late};

const XRD: &str = "apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: machines.example.org}
spec:
  group: example.org
  names: {kind: Machine, plural: machines}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {userData: {type: string}}}
";

#[tokio::test(start_paused = true)]
async fn an_arm_lands_late() {
    let request = arm();
    let sent = request.expose_for_apply();
    assert!(String::from_utf8_lossy(&sent).contains("hush"), "it carries its injection");
    let mut cluster = MockCluster::new();
    cluster
        .expect_apply()
        .withf(move |late| {
            late.expose_for_apply() == sent && *late.precondition() == shell().unchanged()
        })
        .once()
        .returning(|_| Ok(Applied::Conflict));
    let fault = Fault::Delay { by: DELAY, late: Late::Lands };
    let faults = Faults::new(FaultPlan::none().on(PortName::Cluster, "apply", 1, fault));
    let cluster = faults.around::<dyn Cluster>(Arc::new(cluster));
    timeout(DEADLINE, cluster.apply(&request)).await.unwrap_err();
    drop(request);
    assert_eq!(faults.land_all().await, 1);
}

fn shell() -> ObjectVersion {
    ObjectVersion::new("u", "7")
}

fn arm() -> ApplyRequest {
    let xrd = Xrd::parse(XRD.as_bytes()).unwrap();
    let identity = Identity { resource: id(1), project: project(1), blueprint_version: id(2) };
    let input = XrInput {
        xrd: &xrd,
        composition: CompositionName::new("machine").unwrap(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Node,
        identity,
        parameters: &Parameters::default(),
        tags: &CloudTags::default(),
    };
    let rendered = xr(&input).unwrap();
    let armed = rendered.armed(&Armed::Token(id(3)));
    let mut live: Value = serde_json::from_slice(&armed.to_bytes()).unwrap();
    live["spec"] = json!({"userData": "hush"});
    let manifest = preserve_injection(&live, &rendered, id(3)).unwrap();
    ApplyRequest::sealed(project(1), manifest, shell().unchanged())
}
