//! What listens: to log, spans and metrics of one thread, and to whatever it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// Everything that was heard, by where, and what must not be in it.
#[derive(Default)]
pub(super) struct Net {
    pub(super) secrets: BTreeSet<String>,
    heard: BTreeMap<&'static str, String>,
}

impl Net {
    pub(super) fn hear(&mut self, place: &'static str, text: impl AsRef<str>) {
        let heard = self.heard.entry(place).or_default();
        heard.push_str(text.as_ref());
        heard.push('\n');
    }

    /// Everything that an error says, in every way.
    pub(super) fn hear_error(&mut self, error: &dyn Error) {
        let mut text = format!("{error} {error:?} {error:#?}");
        let mut source = error.source();
        while let Some(cause) = source {
            let _ = write!(text, " {cause} {cause:?}");
            source = cause.source();
        }
        self.hear("an error", text);
    }

    /// The places that hold a secret, as it is or as JSON, base64 or Rust would write it.
    pub(super) fn found(&self) -> Vec<&'static str> {
        let spelt = |secret: &String| {
            assert!(secret.len() > 8, "{secret:?} would be found anywhere");
            let json = serde_json::to_string(secret).unwrap();
            let json = json.trim_matches('"').to_owned();
            let debug = secret.escape_debug().to_string();
            // Whatever stands before and after it, this much of its base64 is the same.
            let inner = base64(&secret.as_bytes()[..secret.len() / 3 * 3]);
            [secret.clone(), json, debug, inner]
        };
        let forms: Vec<_> = self.secrets.iter().flat_map(spelt).collect();
        let holds = |text: &String| forms.iter().any(|form| text.contains(form.as_str()));
        self.heard.iter().filter(|(_, text)| holds(text)).map(|(place, _)| *place).collect()
    }

    /// What was heard at a place.
    pub(super) fn at(&self, place: &str) -> &str {
        self.heard.get(place).map_or("", String::as_str)
    }
}

/// As a Secret holds it.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
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
