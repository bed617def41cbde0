//! Six workflows, each of which can run with one faulty call.

use std::collections::BTreeMap;
use std::fmt;

use broker_domain::Phase;
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan, Faults, LateArrival};

use super::fault_kind::{AN_HOUR, FaultKind};
use super::run::Run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workflow {
    Create,
    CreateAndRollBack,
    /// The sink rejects its first event until it is dead-lettered, and an operator redrives it.
    Delete,
    /// A mass disappearance sets the brake, and an operator releases it.
    ReProvision,
    TakeOver,
    Replace,
}

/// A method of a port, and the object's kind or the pass's phase that distinguishes its calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) port: PortName,
    pub(super) method: &'static str,
    pub(super) label: Option<String>,
}

/// One call of a run; `nth` counts the calls of its method from 1.
#[derive(Debug, Clone)]
pub(super) struct NumberedCall {
    pub(super) call: Call,
    pub(super) nth: u64,
    /// Whether a stale response would differ.
    pub(super) can_be_stale: bool,
}

impl Workflow {
    pub(super) const ALL: [Self; 6] = [
        Self::Create,
        Self::CreateAndRollBack,
        Self::Delete,
        Self::ReProvision,
        Self::TakeOver,
        Self::Replace,
    ];

    /// The final phase of the workflow's resource.
    pub(super) const fn end(self) -> Phase {
        match self {
            Self::Create | Self::ReProvision | Self::TakeOver | Self::Replace => Phase::Ready,
            Self::CreateAndRollBack | Self::Delete => Phase::Deleted,
        }
    }

    /// The calls of a run without faults, from the beginning of the workflow.
    pub(super) async fn calls(self) -> Vec<NumberedCall> {
        let mut run = Box::pin(Run::begin(self, self.plan().remembering())).await;
        let before = run.faults().calls();
        run.run_to_end(FaultKind::BeforeEffect).await.expect("without faults");
        let (after, stale) = (run.faults().calls(), run.faults().stale_calls());
        let mut labels = run.faults().subjects();
        labels.extend(run.labels_of_reads());
        let mut calls = Vec::new();
        for ((port, method), last) in after {
            let first = before.get(&(port, method)).copied().unwrap_or(0) + 1;
            calls.extend((first..=last).map(|nth| {
                let label = labels.get(&(port, method, nth)).cloned();
                let can_be_stale = stale.contains(&(port, method, nth));
                NumberedCall { call: Call { port, method, label }, nth, can_be_stale }
            }));
        }
        calls
    }

    pub(super) async fn run_with_fault(
        self,
        call: &Call,
        nth: u64,
        fault_kind: FaultKind,
    ) -> Result<(), String> {
        let Call { port, method, .. } = *call;
        let plan = self.plan().on(port, method, nth, fault_kind.fault());
        let mut run = Box::pin(Run::begin(self, plan)).await;
        run.run_to_end(fault_kind).await?;
        let log = run.faults().log();
        let fired = log
            .entries()
            .iter()
            .filter(|fired| (fired.port, fired.method, fired.nth) == (port, method, nth));
        let fired = fired.count();
        if fired != 1 {
            return Err(format!("the fault fired {fired} times"));
        }
        if fault_kind.arrives_late() && Faults::may_change(port, method) && run.late_arrivals != 1 {
            return Err(format!("{} late requests arrived, not one", run.late_arrivals));
        }
        Ok(())
    }

    fn plan(self) -> FaultPlan {
        let hangs = Fault::Delay { by: AN_HOUR, late: LateArrival::Never };
        let plan = FaultPlan::none();
        if self == Self::TakeOver { plan.on(PortName::Cluster, "apply", 2, hangs) } else { plan }
    }
}

pub(super) type CallLabels = BTreeMap<(PortName, &'static str, u64), String>;

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, method, label } = self;
        write!(f, "`{port}.{method}`")?;
        label.as_ref().map_or(Ok(()), |label| write!(f, ", {label}"))
    }
}

impl fmt::Display for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::CreateAndRollBack => "create, roll back",
            Self::Delete => "delete",
            Self::ReProvision => "re-provision",
            Self::TakeOver => "take over",
            Self::Replace => "replace",
        })
    }
}
