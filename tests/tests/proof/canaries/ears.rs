//! What listens: to log, spans and metrics of one thread.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

pub(super) use broker_tests::canary::{Net, base64};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Runs something on this thread and hears all that it logs and measures.
pub(super) fn listen<T>(net: &mut Net, work: impl FnOnce(&mut Net) -> T) -> T {
    let (log, measured) = (Notes::default(), Notes::default());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // While there is only one subscriber, a call site that another test reaches first counts as unwanted for all
    // of them, ours included.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let result = with_local_recorder(&measured, || {
        tracing::subscriber::with_default(subscriber, || work(net))
    });
    net.hear("the log", log.text());
    net.hear("a metric", measured.text());
    result
}

/// A text that grows.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<u8>>>);

impl Notes {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    fn note(&self, key: &Key) {
        let mut line = format!("{}\n", key.name());
        for label in key.labels() {
            let _ = writeln!(line, "{}={}", label.key(), label.value());
        }
        self.0.lock().unwrap().extend_from_slice(line.as_bytes());
    }
}

impl io::Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Notes {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Recorder for Notes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.note(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.note(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.note(key);
        Histogram::noop()
    }
}
