//! Captures the log of a test's thread and the application's metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// The captured log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures a level, and the events of spans, until the guard is dropped.
    #[must_use]
    pub fn start(
        level: tracing::Level,
        spans: FmtSpan,
    ) -> (Self, (DefaultGuard, tracing::Dispatch)) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_span_events(spans)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        // With only one subscriber, a call site that another test reaches first is cached as disabled
        // for all tests.
        let second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        (log, (tracing::subscriber::set_default(subscriber), second))
    }

    /// Removes the captured text; returns its lines that contain `part`.
    #[must_use]
    pub fn take_lines(&self, part: &str) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    /// The captured text.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs work and captures its log.
pub fn with_log<T>(level: tracing::Level, spans: FmtSpan, work: impl FnOnce(Log) -> T) -> T {
    let (log, _guard) = Log::start(level, spans);
    work(log)
}

/// A recorder that keeps the names and labels of metrics, not their values.
#[derive(Debug, Default)]
pub struct MetricsCapture {
    /// The recorded metrics by name.
    pub recorded: Mutex<BTreeMap<String, KindAndLabels>>,
    /// The names of the described metrics.
    pub described: Mutex<BTreeSet<String>>,
}

/// The kind of a metric, and the values of each label.
pub type KindAndLabels = (&'static str, BTreeMap<String, BTreeSet<String>>);

impl MetricsCapture {
    fn record(&self, kind: &'static str, key: &Key) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, labels) =
            recorded.entry(key.name().to_owned()).or_insert_with(|| (kind, BTreeMap::new()));
        for label in key.labels() {
            labels.entry(label.key().to_owned()).or_default().insert(label.value().to_owned());
        }
    }

    fn describe(&self, name: &KeyName) {
        self.described
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.as_str().to_owned());
    }
}

impl Recorder for MetricsCapture {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.record("counter", key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.record("gauge", key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.record("histogram", key);
        Histogram::noop()
    }
}
