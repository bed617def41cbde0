//! Queues with a bounded number of workers each, so that creations, teardowns and hints do not delay one another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker_domain::ProvisionedResourceId;
use broker_ports::{Lane, PageSize};

use super::hint_backoff::Cause;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Queue {
    Teardown,
    Converge,
    /// A change on the cluster; the lane is not known yet.
    Hinted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Job {
    queue: Queue,
    resource: ProvisionedResourceId,
}

pub(super) struct Lanes {
    workers: usize,
    waiting: BTreeMap<Queue, VecDeque<ProvisionedResourceId>>,
    queued: BTreeSet<ProvisionedResourceId>,
    running: BTreeSet<Job>,
}

impl Job {
    pub(super) const fn in_lane(lane: Lane, resource: ProvisionedResourceId) -> Self {
        let queue = match lane {
            Lane::Converge => Queue::Converge,
            Lane::Teardown => Queue::Teardown,
        };
        Self { queue, resource }
    }

    /// Whether it follows a hint. Its resource may then be Deleted.
    pub(super) fn is_hinted(self) -> bool {
        self.queue == Queue::Hinted
    }

    pub(super) fn cause(self) -> Cause {
        if self.is_hinted() { Cause::Hint } else { Cause::Schedule }
    }

    pub(super) const fn resource(self) -> ProvisionedResourceId {
        self.resource
    }
}

impl Lanes {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            waiting: BTreeMap::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
        }
    }

    pub(super) fn enqueue(&mut self, lane: Lane, resource: ProvisionedResourceId) {
        self.push(Job::in_lane(lane, resource));
    }

    pub(super) fn enqueue_hint(&mut self, resource: ProvisionedResourceId) {
        self.push(Job { queue: Queue::Hinted, resource });
    }

    /// Queues a job, unless the resource is already queued: one pass is enough.
    fn push(&mut self, job: Job) {
        if self.queued.insert(job.resource) {
            self.waiting.entry(job.queue).or_default().push_back(job.resource);
        }
    }

    /// Starts the next job, if a worker is free.
    ///
    /// A resource with a running pass waits: its claim would fail, and its hint would be lost.
    pub(super) fn start_next(&mut self) -> Option<Job> {
        for queue in [Queue::Teardown, Queue::Converge, Queue::Hinted] {
            if self.running_in(queue) >= self.workers {
                continue;
            }
            if let Some(resource) = self.take_idle(queue) {
                self.queued.remove(&resource);
                let job = Job { queue, resource };
                self.running.insert(job);
                return Some(job);
            }
        }
        None
    }

    /// Takes the first queued resource without a running pass. Skips at most as many as there are workers.
    fn take_idle(&mut self, queue: Queue) -> Option<ProvisionedResourceId> {
        let running = &self.running;
        let waiting = self.waiting.get_mut(&queue)?;
        let is_idle = |queued: &_| !running.iter().any(|job| job.resource == *queued);
        let index = waiting.iter().position(is_idle)?;
        waiting.remove(index)
    }

    pub(super) fn mark_started(&mut self, job: Job) {
        self.running.insert(job);
    }

    pub(super) fn mark_finished(&mut self, job: Job) {
        self.running.remove(&job);
    }

    /// The number of free workers of a lane; `None` if there is none.
    pub(super) fn free_workers(&self, lane: Lane) -> Option<PageSize> {
        let queue = match lane {
            Lane::Converge => Queue::Converge,
            Lane::Teardown => Queue::Teardown,
        };
        let free = self.workers.saturating_sub(self.running_in(queue));
        PageSize::new(u16::try_from(free).unwrap_or(PageSize::MAX.get()).min(PageSize::MAX.get()))
            .ok()
    }

    fn running_in(&self, queue: Queue) -> usize {
        self.running.iter().filter(|job| job.queue == queue).count()
    }
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::id;

    use super::*;

    #[test]
    fn full_lane_does_not_delay_other_lanes() {
        let mut lanes = Lanes::new(2);
        for number in 1..=5 {
            lanes.enqueue(Lane::Converge, id(number));
        }
        assert!(lanes.start_next().is_some() && lanes.start_next().is_some());
        assert_eq!(lanes.start_next(), None, "two workers, two passes");
        assert_eq!(lanes.free_workers(Lane::Converge), None);

        lanes.enqueue(Lane::Teardown, id(9));
        assert_eq!(lanes.start_next(), Some(Job::in_lane(Lane::Teardown, id(9))));
        lanes.mark_finished(Job::in_lane(Lane::Converge, id(1)));
        assert_eq!(lanes.start_next(), Some(Job::in_lane(Lane::Converge, id(3))));
    }

    #[test]
    fn resource_is_queued_once() {
        let mut lanes = Lanes::new(9);
        lanes.enqueue_hint(id(1));
        lanes.enqueue_hint(id(1));
        lanes.enqueue(Lane::Converge, id(1));
        assert!(lanes.start_next().is_some());
        assert_eq!(lanes.start_next(), None);
    }

    #[test]
    fn hint_during_a_pass_is_followed_after_it() {
        let mut lanes = Lanes::new(9);
        let running = Job::in_lane(Lane::Converge, id(1));
        lanes.mark_started(running);
        lanes.enqueue_hint(id(1));
        lanes.enqueue_hint(id(2));
        assert_eq!(
            lanes.start_next().map(Job::resource),
            Some(id(2)),
            "other resources do not wait"
        );
        assert_eq!(lanes.start_next(), None, "one pass at a time");
        lanes.mark_finished(running);
        assert_eq!(lanes.start_next().map(Job::resource), Some(id(1)));
    }
}
