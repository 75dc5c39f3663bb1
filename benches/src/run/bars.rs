//! What is asked of `umcg run`: a column that says which figure a row is to reach, and whether it
//! has.
//!
//! A bar is met by the ratio or by the time, whichever is easier: ratios were set on a machine
//! whose kernel switches in about 2.5 us, and another one's may do so in half of that.

use super::{NATIVE, UMCG_RUN};
use crate::harness::{Report, Row, number};

struct Bar {
    program: &'static str,
    /// None: for any number.
    servers: Option<u64>,
    limit: Limit,
}

enum Limit {
    /// So many times native's operations a second.
    Ratio(f64),
    /// Or at most so many microseconds an operation.
    RatioOrTime(f64, f64),
    /// At most so many microseconds an operation more than native.
    More(f64),
}

const fn bar(program: &'static str, servers: Option<u64>, limit: Limit) -> Bar {
    Bar {
        program,
        servers,
        limit,
    }
}

/// Where nothing is to be gained, nothing may be lost either.
const EVEN: Limit = Limit::Ratio(0.97);

const BARS: &[Bar] = &[
    bar("futex", Some(1), Limit::RatioOrTime(35.0, 0.15)),
    bar("condvar", Some(1), Limit::RatioOrTime(22.0, 0.25)),
    bar("sem_t", Some(1), Limit::RatioOrTime(28.0, 0.185)),
    bar("barrier", Some(1), Limit::RatioOrTime(33.0, 5.5)),
    bar("barrier", Some(2), Limit::RatioOrTime(25.0, 7.5)),
    bar("sysbench-threads", Some(1), Limit::RatioOrTime(20.0, 180.0)),
    bar("sysbench-threads", Some(2), Limit::Ratio(28.0)),
    bar("libgomp", Some(1), Limit::RatioOrTime(14.0, 3.8)),
    bar("libgomp-nested", Some(1), Limit::RatioOrTime(4.0, 200.0)),
    bar("create-join", Some(1), Limit::RatioOrTime(10.0, 2.5)),
    bar("python-queue", Some(1), Limit::RatioOrTime(4.0, 5.8)),
    bar("single", None, Limit::More(3000.0)),
    bar("mutex", None, EVEN),
    bar("mutex-yield", None, EVEN),
    bar("pipeline", None, EVEN),
    bar("mapped-file", None, EVEN),
    bar("echo", None, EVEN),
    bar("memcached", None, EVEN),
    bar("redis", None, EVEN),
    bar("nginx", None, EVEN),
    bar("xz", None, EVEN),
    bar("pigz", None, EVEN),
    bar("rocksdb", None, EVEN),
    bar("hackbench-sockets", None, EVEN),
    bar("hackbench-pipes", None, EVEN),
];

impl Bar {
    fn is_for(&self, row: &Row) -> bool {
        let is = |key: &str| row.params.get(key);
        let is_its_program = is("program").and_then(|value| value.as_str()) == Some(self.program);
        let servers = is("servers").and_then(|value| value.as_u64());
        is_its_program && (self.servers.is_none() || self.servers == servers)
    }

    /// None without a native side, where the ratio is all there is.
    fn verdict(&self, row: &Row, ratio: Option<f64>) -> Option<String> {
        let micros = 1e6 / row.median;
        let (text, is_met) = match self.limit {
            Limit::Ratio(least) => (format!("x {}", number(least)), ratio? >= least),
            Limit::RatioOrTime(least, most) => (
                format!("x {} or {} us", number(least), number(most)),
                micros <= most || ratio.is_some_and(|ratio| ratio >= least),
            ),
            // Native takes `ratio` times as long.
            Limit::More(most) => (
                format!("{} us more", number(most)),
                micros - ratio? * micros <= most,
            ),
        };
        let word = if is_met { "met" } else { "missed" };
        Some(format!("{text}: {word}"))
    }
}

/// For the rows that something is asked of.
pub(super) fn verdict(report: &Report, row: &Row) -> Option<String> {
    if row.case != UMCG_RUN {
        return None;
    }
    let bar = BARS.iter().find(|bar| bar.is_for(row))?;
    bar.verdict(row, report.ratio(row, NATIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Better, Machine, Params};
    use crate::run::tests::programs;

    fn row(case: &'static str, program: &str, servers: u64, median: f64) -> Row {
        let params: Params = [
            ("program".to_owned(), program.into()),
            ("servers".to_owned(), servers.into()),
        ]
        .into_iter()
        .collect();
        Row {
            case,
            params,
            metric: "ops",
            unit: "1/s",
            median,
            min: median,
            max: median,
            runs: 1,
            better: Better::Higher,
            tukey: None,
        }
    }

    /// With a native side of 1,000 operations a second, or without.
    fn said(program: &str, servers: u64, ours: f64, has_native: bool) -> Option<String> {
        let mut rows = vec![row(UMCG_RUN, program, servers, ours)];
        if has_native {
            rows.push(row(NATIVE, program, servers, 1000.0));
        }
        let machine = Machine::this();
        let report = Report {
            bench: "run",
            machine,
            rows,
        };
        assert_eq!(
            report.rows.get(1).and_then(|row| verdict(&report, row)),
            None
        );
        verdict(&report, &report.rows[0])
    }

    #[test]
    fn a_bar_is_met_by_the_easier_way() {
        let met = |text: &str| Some(format!("{text}: met"));
        let missed = |text: &str| Some(format!("{text}: missed"));
        let futex = "x 35.0 or 0.150 us";
        assert_eq!(said("futex", 1, 35_000.0, true), met(futex));
        assert_eq!(said("futex", 1, 34_000.0, true), missed(futex));
        assert_eq!(
            said("futex", 1, 6.7e6, false),
            met(futex),
            "by the time alone"
        );
        assert_eq!(said("futex", 2, 1.0, true), None);
        assert_eq!(said("echo", 2, 970.0, true), met("x 0.970"));
        assert_eq!(said("echo", 1, 960.0, true), missed("x 0.970"));
        assert_eq!(said("echo", 1, 960.0, false), None);
        // 1 ms natively, so 4 ms are allowed.
        assert_eq!(said("single", 1, 251.0, true), met("3,000 us more"));
        assert_eq!(said("single", 1, 249.0, true), missed("3,000 us more"));
        assert_eq!(said("tasks", 1, 1.0, true), None);
    }

    #[test]
    fn every_bar_is_for_a_program_of_the_bench() {
        for bar in BARS {
            assert!(programs().contains(&bar.program), "{}", bar.program);
        }
    }
}
