//! Test data in builder style: `resource().enrolling().with_token()`.
//!
//! Ids are small numbers; times are seconds after a fixed moment in the past. The domain's own methods build everything, so a
//! builder cannot create an impossible state: it panics with the domain's error.
//!
//! ```
//! use broker_domain::Phase;
//! use broker_testkit::builders::{project, resource};
//!
//! let resource = resource().numbered(7).in_project(project(2)).enrolling().with_token().build();
//! assert_eq!(resource.phase(), Phase::Enrolling);
//! assert!(resource.bootstrap_token_id().is_some());
//! ```

mod history;

use broker_domain::{
    Change, ClusterId, Declaration, Error, EventId, MeshRole, ObjectReference, OnFailure, Phase,
    ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId, ResourceHandle, Stamp, XrUid,
};
use broker_render::{ParameterSchema, ValidParameters};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

pub use history::ResourceHistory;

use broker_ports::{Actor, Admitted, Attribution, CorrelationId, PageSize, WorkerId};

/// The origin of [`second`]. It is in the past, so that the clock of a real store is always later.
const ORIGIN: i64 = 1_700_000_000;

/// An id of any type from a small number.
///
/// # Panics
///
/// For zero, which is not an id.
pub fn id<T: TryFrom<Uuid, Error = Error>>(number: u128) -> T {
    T::try_from(Uuid::from_u128(number)).expect("a number above zero makes an id")
}

/// The handle of a Resource.
///
/// # Panics
///
/// For an invalid one.
pub fn handle(text: &str) -> ResourceHandle {
    ResourceHandle::new(text).expect("a valid handle")
}

/// A Project.
///
/// # Panics
///
/// For zero, which is not an id.
pub fn project(number: u128) -> ProjectId {
    id(number)
}

/// A time this many seconds after a fixed moment.
///
/// # Panics
///
/// Beyond the year 9999.
pub fn second(number: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(ORIGIN).expect("a time") + Duration::seconds(number)
}

/// An event id and a time.
///
/// # Panics
///
/// For event number zero, which is not an id.
pub fn stamp(event: u128, at: i64) -> Stamp {
    Stamp::new(id::<EventId>(event), second(at))
}

/// An arbitrary attribution.
///
/// # Panics
///
/// Never.
pub fn attribution() -> Attribution {
    let correlation_id = CorrelationId::new("req-1").expect("visible ASCII");
    Attribution::new(Actor::new("user:tester").expect("an opaque id"), correlation_id)
}

/// A worker of that name.
///
/// # Panics
///
/// When the name is invalid.
pub fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("a worker's name")
}

/// A page of that size.
///
/// # Panics
///
/// For zero and for more than a thousand.
pub fn rows(number: u16) -> PageSize {
    PageSize::new(number).expect("1 to 1,000 rows")
}

/// A cluster.
///
/// # Panics
///
/// Never.
pub fn cluster(number: u32) -> ClusterId {
    ClusterId::new(format!("cluster-{number}")).expect("visible ASCII")
}

/// The uid of a composite resource.
///
/// # Panics
///
/// Never: a number makes a valid uid.
pub fn xr_uid(number: u128) -> XrUid {
    XrUid::new(format!("xr-{number}")).expect("visible ASCII")
}

/// A composed object.
///
/// # Panics
///
/// For the empty name.
pub fn composed(name: &str) -> ObjectReference {
    ObjectReference::new("nop.crossplane.io/v1", "NopResource", name, Some("team-a"))
        .expect("a complete reference")
}

/// A declaration in Project 1, of blueprint version 1, with credential 1, for resource 1.
pub fn declaration() -> DeclarationBuilder {
    DeclarationBuilder(Declaration::new(id(1), id(1), id(1), id(1)))
}

/// A node that was just declared: resource number 1.
pub fn resource() -> ResourceBuilder {
    ResourceBuilder {
        number: 1,
        declaration: declaration(),
        mesh_role: MeshRole::Node,
        phase: Phase::Pending,
        token: false,
        closed: false,
        abandoned: false,
        substrate: false,
        cluster: None,
    }
}

/// A new resource under a declaration, ready to be stored.
///
/// # Panics
///
/// When it is not new, or its parameters are invalid.
pub fn admitted_as(declared: &Change, declaration: &Declaration) -> Admitted {
    let resource = declared.resource();
    let event = declared.event().expect("a declaration has an event");
    let admitted = Admitted::new(
        resource.id(),
        declaration,
        resource.mesh_role(),
        valid_parameters(resource.parameters().as_json()),
        Stamp::new(event.id(), event.occurred_at()),
        attribution(),
    )
    .expect("a declaration that the domain accepts");
    match resource.substrate().cluster() {
        Some(cluster) => admitted.on_cluster(cluster.clone()),
        None => admitted,
    }
}

/// Parameters validated by a schema that accepts every object.
///
/// # Panics
///
/// When the text is not a JSON object.
pub fn valid_parameters(json: &str) -> ValidParameters {
    let permissive = ParameterSchema::parse(br#"{"type": "object"}"#).expect("a schema");
    permissive.validate(json).expect("parameters are a JSON object")
}

/// A builder of declarations.
#[derive(Debug, Clone)]
#[must_use]
pub struct DeclarationBuilder(Declaration);

impl DeclarationBuilder {
    /// Sets the Project.
    pub fn in_project(mut self, project: ProjectId) -> Self {
        self.0.project_id = project;
        self
    }

    /// Sets the tenancy Resource.
    pub fn for_resource(mut self, number: u128) -> Self {
        self.0.resource_id = id(number);
        self
    }

    /// Sets the blueprint version.
    pub fn from_blueprint(mut self, number: u128) -> Self {
        self.0.blueprint_version_id = id(number);
        self
    }

    /// Sets the credential.
    pub fn with_credential(mut self, number: u128) -> Self {
        self.0.cloud_credential_id = id(number);
        self
    }

    /// Sets the parameters: the text of a JSON object.
    pub fn with_parameters(self, json: &str) -> Self {
        Self(self.0.with_parameters(json))
    }

    /// Rolls back on failure.
    pub fn rolling_back(self) -> Self {
        Self(self.0.on_failure(OnFailure::Rollback))
    }

    /// Sets the request id.
    ///
    /// # Panics
    ///
    /// When the request id is invalid.
    pub fn requested_as(self, request: &str) -> Self {
        Self(self.0.with_request_id(RequestId::new(request).expect("a request id")))
    }

    /// The declaration.
    pub fn build(self) -> Declaration {
        self.0
    }
}

/// A builder of resources: the declaration and the current state.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
#[must_use]
pub struct ResourceBuilder {
    number: u128,
    declaration: DeclarationBuilder,
    mesh_role: MeshRole,
    phase: Phase,
    token: bool,
    closed: bool,
    abandoned: bool,
    substrate: bool,
    cluster: Option<ClusterId>,
}

impl ResourceBuilder {
    /// Binds the resource to a cluster at its declaration.
    pub fn bound_to(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Sets its id and a tenancy Resource of the same number.
    pub fn numbered(mut self, number: u128) -> Self {
        self.number = number;
        self.declaration = self.declaration.for_resource(number);
        self
    }

    /// Sets its declaration.
    pub fn declared_as(mut self, declaration: DeclarationBuilder) -> Self {
        self.declaration = declaration;
        self
    }

    /// Sets the Project.
    pub fn in_project(mut self, project: ProjectId) -> Self {
        self.declaration = self.declaration.in_project(project);
        self
    }

    /// Sets the request id.
    pub fn requested_as(mut self, request: &str) -> Self {
        self.declaration = self.declaration.requested_as(request);
        self
    }

    /// Rolls back on failure.
    pub fn rolling_back(mut self) -> Self {
        self.declaration = self.declaration.rolling_back();
        self
    }

    /// A resource without a Node.
    pub fn standalone(mut self) -> Self {
        self.mesh_role = MeshRole::Standalone;
        self
    }

    /// Records a token. A Node that was ever Ready always has one.
    pub fn with_token(mut self) -> Self {
        self.token = true;
        self
    }

    /// Records a cluster, a ProviderConfig and a composed object.
    pub fn with_substrate(mut self) -> Self {
        self.substrate = true;
        self
    }

    /// Records that its tokens were closed. From Deprovisioning on, they always are.
    pub fn with_tokens_closed(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Sets the phase, which the resource reaches by the shortest path.
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    /// In Provisioning.
    pub fn provisioning(self) -> Self {
        self.in_phase(Phase::Provisioning)
    }

    /// In Enrolling.
    pub fn enrolling(self) -> Self {
        self.in_phase(Phase::Enrolling)
    }

    /// In Ready.
    pub fn ready(self) -> Self {
        self.in_phase(Phase::Ready)
    }

    /// In Failed, from Provisioning.
    pub fn failed(self) -> Self {
        self.in_phase(Phase::Failed)
    }

    /// In Deregistering, from Ready.
    pub fn deregistering(self) -> Self {
        self.in_phase(Phase::Deregistering)
    }

    /// In Deprovisioning, from Ready.
    pub fn deprovisioning(self) -> Self {
        self.in_phase(Phase::Deprovisioning)
    }

    /// In Deleted, from Ready.
    pub fn deleted(self) -> Self {
        self.in_phase(Phase::Deleted)
    }

    /// In Deleted by an abandoned teardown, without proof of absence.
    pub fn abandoned(mut self) -> Self {
        self.abandoned = true;
        self.in_phase(Phase::Deleted)
    }

    /// Its id.
    pub fn id(&self) -> ProvisionedResourceId {
        id(self.number)
    }

    /// Its declaration.
    pub fn declaration(&self) -> Declaration {
        self.declaration.clone().build()
    }

    /// The declared resource, ready to be stored.
    ///
    /// # Panics
    ///
    /// When the domain rejects it.
    pub fn admitted(&self) -> Admitted {
        let declared = self.history().declared;
        admitted_as(&declared, &self.declaration())
    }

    /// All changes of the resource, in order.
    ///
    /// # Panics
    ///
    /// When the domain rejects it.
    pub fn history(&self) -> ResourceHistory {
        ResourceHistory::of(self)
    }

    /// The resource.
    ///
    /// # Panics
    ///
    /// When the domain rejects it.
    pub fn build(&self) -> ProvisionedResource {
        self.history().into_resource()
    }
}
