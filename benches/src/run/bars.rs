//! What is asked of `umcg run`: the figure that a row is to reach, and whether it has.
//!
//! A bar is met by the ratio or by the time, whichever is easier: ratios were set on a machine
//! whose kernel switches in about 2.5 us, and another one's may do so in half of that.

use super::{NATIVE, UMCG_RUN};
use crate::harness::{Finding, Outcome, Report, Row, number};

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

/// The rows that are measured where none is asked for: those that something is asked of, on one
/// server where nothing else is said.
pub(super) const USUAL: &[&str] = &[
    "futex servers=1",
    "condvar servers=1",
    "sem_t servers=1",
    "barrier",
    "sysbench-threads",
    "libgomp servers=1",
    "libgomp-nested servers=1",
    "create-join servers=1",
    "python-queue servers=1",
    "single servers=1",
    "mutex servers=1",
    "mutex-yield servers=1",
    "pipeline servers=1",
    "mapped-file servers=1",
    "echo servers=1",
    "memcached servers=1",
    "redis servers=1",
    "nginx servers=1",
    "xz servers=1",
    "pigz servers=1",
    "rocksdb servers=1",
    "hackbench-sockets servers=1",
    "hackbench-pipes servers=1",
];

impl Bar {
    fn is_for(&self, row: &Row) -> bool {
        let is = |key: &str| row.params.get(key);
        let is_its_program = is("program").and_then(|value| value.as_str()) == Some(self.program);
        let servers = is("servers").and_then(|value| value.as_u64());
        is_its_program && (self.servers.is_none() || self.servers == servers)
    }

    /// None without a native side, where the ratio is all there is.
    fn finding(&self, row: &Row, native: Option<&Row>) -> Option<Finding> {
        let (micros, rounds) = (1e6 / row.median, row.runs);
        Some(match self.limit {
            Limit::Ratio(least) => Finding {
                demand: format!("x {}", number(least)),
                outcome: Outcome::beside(row, native?, least),
            },
            Limit::RatioOrTime(least, most) => {
                let is_met = |native: &Row| row.median >= least * native.median;
                Finding {
                    demand: format!("x {} or {} us", number(least), number(most)),
                    outcome: Outcome::of(micros <= most || native.is_some_and(is_met), rounds),
                }
            }
            Limit::More(most) => Finding {
                demand: format!("{} us more", number(most)),
                outcome: Outcome::of(micros - 1e6 / native?.median <= most, rounds),
            },
        })
    }
}

/// For the rows that something is asked of.
pub(super) fn findings(report: &Report, row: &Row) -> Vec<Finding> {
    let bar = BARS.iter().find(|bar| bar.is_for(row));
    let bar = bar.filter(|_| row.case == UMCG_RUN);
    let native = report.beside(row, NATIVE, row.metric);
    bar.and_then(|bar| bar.finding(row, native))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::judge::listed;
    use crate::harness::{Machine, Params, higher};
    use crate::run::tests::programs;

    fn row(case: &'static str, program: &str, servers: u64, median: f64) -> Row {
        let params: Params = [
            ("program".to_owned(), program.into()),
            ("servers".to_owned(), servers.into()),
        ]
        .into_iter()
        .collect();
        Row::new(case, params, &higher("ops", "1/s"), vec![median; 15]).unwrap()
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
            notes: Vec::new(),
            failed: Vec::new(),
        };
        let of = |row| findings(&report, row);
        assert_eq!(report.rows.get(1).map_or(Vec::new(), of), Vec::new());
        let all = of(&report.rows[0]);
        (!all.is_empty()).then(|| listed(&all))
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
            let is_its = |row: &&&str| row.split(' ').next() == Some(bar.program);
            assert!(USUAL.iter().find(is_its).is_some(), "{}", bar.program);
        }
    }
}
