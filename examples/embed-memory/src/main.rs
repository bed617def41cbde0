//! The README's program: the whole broker in memory.

use std::time::Duration;

use broker_embed::{Broker, Phase, RequestContext, WaitOutcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Store, cluster and catalog in memory; production code uses Postgres and Kubernetes.
    let (broker, platform) = Broker::in_memory();
    let (service, timeout) = (broker.service(), Duration::from_secs(60));
    let ann = RequestContext::operator("user:ann", "req-1")?;
    let machine = service.provision(&ann, &platform.declaration()).await?; // returns at once
    let until_ready = async {
        let waited = service.wait_for(&ann, machine.id(), Phase::Ready, timeout).await;
        assert!(matches!(waited, Ok(WaitOutcome::Reached(_))), "{waited:?}");
    };
    broker.run(until_ready).await?; // a service passes its shutdown signal instead
    Ok(())
}
