//! The numbers of `/metrics`. What happens is counted as it happens; what is (rows, connections) is read when somebody asks.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use chrono::{DateTime, Utc};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::ledger::{Counts, parse_ledger_time};
use crate::state::State;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FrontLabel {
    front: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Everything that is counted.
pub(super) struct Metrics {
    registry: Registry,
    telegrams: Family<CodeLabel, Counter>,
    rows: Family<StateLabel, Gauge>,
    oldest: Family<StateLabel, Gauge<f64, AtomicU64>>,
    in_flight: Gauge,
    connections: Family<FrontLabel, Gauge>,
    core_call: Family<OutcomeLabel, Histogram>,
    commit: Histogram,
    commit_batch: Histogram,
    wal: Gauge,
}

/// What is at the moment somebody asks.
pub(super) struct Moment {
    pub(super) counts: Counts,
    pub(super) now: DateTime<Utc>,
    pub(super) in_flight: usize,
    pub(super) tcp: Option<usize>,
    pub(super) http: Option<usize>,
    pub(super) wal_bytes: u64,
}

impl Metrics {
    pub(super) const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    pub(super) fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("oncegate"),
            telegrams: Family::default(),
            rows: Family::default(),
            oldest: Family::default(),
            in_flight: Gauge::default(),
            connections: Family::default(),
            core_call: Family::new_with_constructor(call_seconds),
            commit: Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
            commit_batch: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            wal: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "telegrams",
            "Telegrams answered, by the code of the reply",
            self.telegrams.clone(),
        );
        registry.register("rows", "Transfers in the ledger, by state", self.rows.clone());
        registry.register_with_unit(
            "oldest",
            "Time since the last change of the oldest transfer in a state (DONE is not looked up)",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register("in_flight", "Calls of the core under way", self.in_flight.clone());
        registry.register(
            "connections",
            "Open connections of channels, by front",
            self.connections.clone(),
        );
        registry.register_with_unit(
            "core_call",
            "Duration of calls of the core, by outcome",
            Unit::Seconds,
            self.core_call.clone(),
        );
        registry.register_with_unit(
            "commit",
            "Duration of the ledger's commits, the sync included",
            Unit::Seconds,
            self.commit.clone(),
        );
        registry.register(
            "commit_batch_size",
            "Operations that shared a commit",
            self.commit_batch.clone(),
        );
        registry.register_with_unit(
            "wal",
            "Size of the ledger's write-ahead log",
            Unit::Bytes,
            self.wal.clone(),
        );
    }

    /// A telegram was answered with this code.
    pub(super) fn answered(&self, code: &str) {
        self.telegrams.get_or_create(&CodeLabel { code: code.to_owned() }).inc();
    }

    /// A call of the core ended.
    pub(super) fn called(&self, outcome: &'static str, took: Duration) {
        self.core_call.get_or_create(&OutcomeLabel { outcome }).observe(took.as_secs_f64());
    }

    /// The ledger committed.
    pub(super) fn committed(&self, took: Duration, operations: usize) {
        self.commit.observe(took.as_secs_f64());
        self.commit_batch.observe(f64::from(u32::try_from(operations).unwrap_or(u32::MAX)));
    }

    /// All of it, in the text form.
    pub(super) fn text(&self, moment: &Moment) -> String {
        self.set(moment);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String takes whatever is written to it");
        text
    }

    fn set(&self, moment: &Moment) {
        for (at, state) in State::ALL.into_iter().enumerate() {
            let label = StateLabel { state: state.as_str() };
            self.rows.get_or_create(&label).set(number(moment.counts.rows[at]));
            if state != State::Done {
                let since = moment.counts.oldest[at].as_deref().and_then(parse_ledger_time);
                let age = since.map_or(0.0, |since| (moment.now - since).as_seconds_f64().max(0.0));
                self.oldest.get_or_create(&label).set(age);
            }
        }
        self.in_flight.set(number(moment.in_flight as u64));
        for (front, open) in [("tcp", moment.tcp), ("http", moment.http)] {
            if let Some(open) = open {
                self.connections.get_or_create(&FrontLabel { front }).set(number(open as u64));
            }
        }
        self.wal.set(number(moment.wal_bytes));
    }
}

fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 17))
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
