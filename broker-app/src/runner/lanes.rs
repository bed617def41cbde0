//! Queues with a bounded number of workers each: creations, teardowns and hints do not hold up one another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker_domain::ProvisionedResourceId;
use broker_ports::{Lane, PageSize};

use super::hinted::Cause;

/// Which queue a job stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Queue {
    Teardown,
    Converge,
    /// Something changed on the cluster; which lane it belongs into is not known yet.
    Hinted,
}

/// One pass to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Job {
    queue: Queue,
    resource: ProvisionedResourceId,
}

/// What waits and what runs.
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

    /// It follows a hint: what it is about may be Deleted.
    pub(super) fn is_hinted(self) -> bool {
        self.queue == Queue::Hinted
    }

    /// Why the pass is made.
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

    /// Queues a job, unless one for the same resource waits already: two in a row see the same.
    fn push(&mut self, job: Job) {
        if self.queued.insert(job.resource) {
            self.waiting.entry(job.queue).or_default().push_back(job.resource);
        }
    }

    /// A job that can start now; it counts as running.
    ///
    /// A resource that a pass is under way for waits: the claim would be refused, and whatever the hint was
    /// about, which that pass may have looked too early for, would be forgotten.
    pub(super) fn next(&mut self) -> Option<Job> {
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

    /// Takes the first in a queue that nobody works on. It steps over no more than there are workers.
    fn take_idle(&mut self, queue: Queue) -> Option<ProvisionedResourceId> {
        let running = &self.running;
        let waiting = self.waiting.get_mut(&queue)?;
        let is_idle = |waits: &_| !running.iter().any(|job| job.resource == *waits);
        let place = waiting.iter().position(is_idle)?;
        waiting.remove(place)
    }

    /// A job was started from elsewhere.
    pub(super) fn started(&mut self, job: Job) {
        self.running.insert(job);
    }

    pub(super) fn finished(&mut self, job: Job) {
        self.running.remove(&job);
    }

    /// How many workers of a lane are free, if any.
    pub(super) fn free(&self, lane: Lane) -> Option<PageSize> {
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
    fn a_full_lane_does_not_hold_up_another() {
        let mut lanes = Lanes::new(2);
        for number in 1..=5 {
            lanes.enqueue(Lane::Converge, id(number));
        }
        assert!(lanes.next().is_some() && lanes.next().is_some());
        assert_eq!(lanes.next(), None, "two workers, two passes");
        assert_eq!(lanes.free(Lane::Converge), None);

        lanes.enqueue(Lane::Teardown, id(9));
        assert_eq!(lanes.next(), Some(Job::in_lane(Lane::Teardown, id(9))));
        lanes.finished(Job::in_lane(Lane::Converge, id(1)));
        assert_eq!(lanes.next(), Some(Job::in_lane(Lane::Converge, id(3))));
    }

    #[test]
    fn a_resource_waits_once() {
        let mut lanes = Lanes::new(9);
        lanes.enqueue_hint(id(1));
        lanes.enqueue_hint(id(1));
        lanes.enqueue(Lane::Converge, id(1));
        assert!(lanes.next().is_some());
        assert_eq!(lanes.next(), None);
    }

    #[test]
    fn what_changes_during_a_pass_is_looked_at_when_it_is_over() {
        let mut lanes = Lanes::new(9);
        let under_way = Job::in_lane(Lane::Converge, id(1));
        lanes.started(under_way);
        lanes.enqueue_hint(id(1));
        lanes.enqueue_hint(id(2));
        assert_eq!(lanes.next().map(Job::resource), Some(id(2)), "it holds up nobody else");
        assert_eq!(lanes.next(), None, "one pass at a time");
        lanes.finished(under_way);
        assert_eq!(lanes.next().map(Job::resource), Some(id(1)));
    }
}
