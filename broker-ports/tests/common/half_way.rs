//! Calls that leave something behind when they are dropped half way.

/// A point at which a call waits. If it is dropped there the damage is done; if it goes on there is none, so
/// that whoever waits to the end sees nothing wrong.
pub(crate) async fn half_way(damage: impl FnOnce() + Send) {
    let mut unfinished = Unfinished(Some(damage));
    tokio::task::yield_now().await;
    unfinished.0 = None;
}

struct Unfinished<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Unfinished<F> {
    fn drop(&mut self) {
        if let Some(damage) = self.0.take() {
            damage();
        }
    }
}
