//! Brings a machine to Ready in memory, and counts the issued bootstrap tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_embed::memory::MemoryPlatform;
use broker_embed::{ApiUrl, Broker, Phase, RequestContext, WaitOutcome};
use custom_token_issuer::counted::CountingIssuer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = MemoryPlatform::new();
    let count = Arc::new(AtomicUsize::new(0));
    let broker = Broker::builder(ApiUrl::new("https://mesh.example.org")?)
        .ports(platform.living_ports())
        .token_issuer(|inner| CountingIssuer { inner, count: Arc::clone(&count) })
        .build()
        .await?;

    let (service, timeout) = (broker.service(), Duration::from_secs(60));
    let ann = RequestContext::operator("user:ann", "req-1")?;
    let machine = service.provision(&ann, &platform.declaration()).await?;
    let until_ready = async {
        let waited = service.wait_for(&ann, machine.id(), Phase::Ready, timeout).await;
        assert!(matches!(waited, Ok(WaitOutcome::Reached(_))), "{waited:?}");
    };
    broker.run(until_ready).await?;
    println!("Ready with {} token", count.load(Ordering::Relaxed));
    Ok(())
}
