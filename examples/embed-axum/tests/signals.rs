//! The service ends on SIGTERM, which ends a Pod. This test has a separate process, because the whole process receives it.

use std::process::Command;
use std::time::Duration;

#[tokio::test]
async fn sigterm_ends_the_service() {
    let shutdown = embed_axum::shutdown_signal().expect("the handlers");
    let kill = format!("kill -TERM {}", std::process::id());
    let status = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
    assert!(status.success());
    // Without a handler the signal would have ended this process.
    tokio::time::timeout(Duration::from_secs(60), shutdown).await.expect("SIGTERM was received");
}
