//! Background tasks of the runner: relay events, measure the outbox, purge expired rows.

use std::sync::Arc;
use std::time::Duration;

use broker_ports::Clock;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Runner;
use super::purge::Purge;
use crate::emit::Relay;
use crate::error::error_message;

pub(super) struct BackgroundTasks(JoinSet<()>);

impl BackgroundTasks {
    pub(super) fn start(runner: &Runner) -> Self {
        let mut tasks = JoinSet::new();
        let (relay, poll) = (runner.relay.clone(), runner.config().poll_interval);
        let probe = runner.probe.clone();
        tasks.spawn(async move { relay.run(poll, |report| probe.relayed(report)).await });
        let clock = Arc::clone(&runner.reconciler.ports().clock);
        let (relay, purge) = (runner.relay.clone(), runner.purge.clone());
        tasks.spawn(maintenance(relay, purge, clock, runner.config().sweep_interval));
        Self(tasks)
    }

    pub(super) async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

/// Measures and purges once per interval. A failed run is retried at the next one.
async fn maintenance(relay: Relay, purge: Option<Purge>, clock: Arc<dyn Clock>, every: Duration) {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = relay.measure(clock.now()).await {
            tracing::warn!(error = error_message(&error), "the outbox could not be measured");
        }
        if let Some(purge) = &purge
            && let Err(error) = purge.run().await
        {
            tracing::warn!(
                error = error_message(&error),
                "expired rows and events could not be purged"
            );
        }
    }
}
