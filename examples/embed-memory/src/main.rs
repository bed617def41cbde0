//! The README's program: the whole broker in memory.

use std::time::Duration;

use broker_embed::{Broker, Phase, RequestContext, WaitOutcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A store, a cluster with Crossplane and a catalog in memory: yours are the real ones.
    let (broker, platform) = Broker::in_memory();
    let (service, timeout) = (broker.service(), Duration::from_secs(60));
    let ann = RequestContext::operator("user:ann", "req-1")?;
    let machine = service.provision(&ann, &platform.declaration()).await?; // a handle, at once
    let until_ready = async {
        let waited = service.wait_for(&ann, machine.id(), Phase::Ready, timeout).await;
        assert!(matches!(waited, Ok(WaitOutcome::Reached(_))), "{waited:?}");
    };
    broker.run(until_ready).await?; // until you say so: ctrl-c, a channel, …
    Ok(())
}
