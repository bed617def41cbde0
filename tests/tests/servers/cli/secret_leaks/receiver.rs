//! A receiver of events that keeps every post.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A receiver that rejects every second post, so that both outcomes occur.
pub(super) struct Receiver {
    pub(super) address: String,
    posts: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let posts = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&posts);
        // Records headers and body, not the URL, which may contain the key.
        let take = move |headers: HeaderMap, body: String| {
            let number = {
                let mut posts = kept.lock().unwrap();
                posts.push(format!("{headers:?}\n{body}"));
                posts.len()
            };
            async move {
                if number.is_multiple_of(2) {
                    StatusCode::NO_CONTENT
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            }
        };
        let router = Router::new().fallback(post(take));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, posts, _serving: serving }
    }

    pub(super) fn posts(&self) -> Vec<String> {
        self.posts.lock().unwrap().clone()
    }
}
