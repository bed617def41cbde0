//! Brings a machine to Ready and Deleted in memory, with tokens and a mesh of one's own, and counts the tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_embed::WaitOutcome::Reached;
use broker_embed::memory::MemoryPlatform;
use broker_embed::{ApiUrl, Broker, Phase, RequestContext};
use custom_token_issuer::counted::CountingIssuer;
use custom_token_issuer::own::OwnTokens;
use secrecy::ExposeSecret;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = MemoryPlatform::new();
    let tokens = Arc::new(OwnTokens::new(platform.ports().clock));
    let count = Arc::new(AtomicUsize::new(0));
    let counting = CountingIssuer { inner: tokens.clone(), count: Arc::clone(&count) };
    let broker = Broker::builder(ApiUrl::new("https://mesh.example.org")?)
        .ports(platform.living_ports())
        .token_issuer(|_| counting)
        .node_deregistrar(|_| Arc::clone(&tokens))
        .build()
        .await?;

    let (service, timeout) = (broker.service(), Duration::from_secs(60));
    let ann = RequestContext::operator("user:ann", "req-1")?;
    let machine = service.provision(&ann, &platform.declaration()).await?.id();
    let until_deleted = async {
        while !enrol_agents(&platform, &tokens) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Your enrolment endpoint makes this call. Without it, the next sweep finds the Node.
        let known = service.reconcile_now(&ann, machine).await;
        let ready = service.wait_for(&ann, machine, Phase::Ready, timeout).await;
        let requested = service.deprovision(&ann, machine).await;
        let deleted = service.wait_for(&ann, machine, Phase::Deleted, timeout).await;
        let steps = (known, ready, requested, deleted);
        let done = matches!(steps, (Ok(()), Ok(Reached(_)), Ok(_), Ok(Reached(_))));
        assert!(done, "{steps:?}");
    };
    broker.run(until_deleted).await?;
    println!("Ready and Deleted with {} token", count.load(Ordering::Relaxed));
    Ok(())
}

/// What agents and your enrolment endpoint do: each booted machine sends its token. Returns whether one enrolled.
fn enrol_agents(platform: &MemoryPlatform, tokens: &OwnTokens) -> bool {
    let machines = platform.adapters.cluster.agent_documents().into_iter();
    let mut tokens_sent = machines.filter(|machine| machine.booted).map(|machine| machine.token);
    tokens_sent.any(|token| tokens.consume(token.secret().expose_secret()).is_ok_and(|live| live))
}
