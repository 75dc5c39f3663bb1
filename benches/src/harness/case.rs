//! The description of a side of a comparison for the harness.

use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// Whether a larger or a smaller figure is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    Higher,
    /// A cost.
    Lower,
}

/// A figure that a side reports. Names are stable: programs read them from the JSON.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// For example `round_trips`.
    pub name: &'static str,
    /// For example `1/s`.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
}

/// A cost.
pub const fn lower(name: &'static str, unit: &'static str) -> Metric {
    Metric {
        name,
        unit,
        better: Better::Lower,
    }
}

/// A rate, or anything else of which more is better.
pub const fn higher(name: &'static str, unit: &'static str) -> Metric {
    Metric {
        name,
        unit,
        better: Better::Higher,
    }
}

/// The parameters of a case, by name.
pub type Params = Map<String, Value>;

/// One turn of a side: runs for about the given time and returns one value for each of its metrics.
pub type Turn = Box<dyn FnMut(Duration) -> anyhow::Result<Vec<f64>> + Send>;

/// One side of a comparison.
pub struct Case {
    /// The stable name.
    pub name: &'static str,
    /// The parameters that distinguish this case from others of the same name.
    pub params: Params,
    /// The metrics that a turn reports, in this order.
    pub metrics: &'static [Metric],
    /// The CPU that the turn's thread is pinned to.
    pub cpu: usize,
    /// How many times as long as its budget a turn takes; 0 if it has a fixed amount of work.
    pub length: u32,
    /// Does the work.
    pub turn: Turn,
}
