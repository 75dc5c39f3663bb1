//! Programs that are installed on many machines, as their packages have them; `setup-run.sh` gets
//! them where apt can.

use super::client::Protocol;
use super::entry::{Ask, Count, Entry, File, Measure};

/// Groups of hackbench, and the senders and receivers of each.
const GROUPS: u64 = 2;
const SENDERS: u64 = 10;
/// Threads of db_bench.
const WRITERS: u64 = 8;
/// Bytes of the file that xz and pigz compress.
const INPUT: [usize; 2] = [16 << 20, 64 << 10];
/// Its name.
const TEXT: &str = "text";

type Parse = fn(&str, &Ask<'_>) -> Option<Count>;

const fn tool(
    program: &'static str,
    file: &'static str,
    arguments: fn(&Ask<'_>) -> Vec<String>,
    measure: Measure,
) -> Entry {
    Entry {
        program,
        file: File::Installed(file),
        arguments,
        variables: &[],
        needs: |_| Vec::new(),
        measure,
    }
}

const fn counted(first: u64, figures: Parse) -> Measure {
    Measure::Counted { first, figures }
}

const fn served(protocol: Protocol, full: &'static [usize], small: &'static [usize]) -> Measure {
    Measure::Served {
        protocol,
        connections: [full, small],
    }
}

const fn compressor(
    program: &'static str,
    file: &'static str,
    arguments: fn(&Ask<'_>) -> Vec<String>,
) -> Entry {
    Entry {
        needs: |ask| vec![(TEXT, text(ask.pick(INPUT[0], INPUT[1])))],
        ..tool(program, file, arguments, Measure::Whole)
    }
}

pub(super) static ENTRIES: &[Entry] = &[
    tool(
        "sysbench-threads",
        "sysbench",
        |ask| {
            let events = format!("--events={}", ask.count);
            words(
                "threads --threads=16 --thread-locks=4 --time=0",
                &[&events, "run"],
            )
        },
        counted(16, sysbench),
    ),
    tool(
        "hackbench-sockets",
        "hackbench",
        |ask| hackbench_arguments(ask, &[]),
        counted(20, hackbench),
    ),
    tool(
        "hackbench-pipes",
        "hackbench",
        |ask| hackbench_arguments(ask, &["-p"]),
        counted(20, hackbench),
    ),
    tool(
        "memcached",
        "memcached",
        |ask| {
            let port = ask.port.to_string();
            words("-l 127.0.0.1 -U 0 -t 4 -m 64 -u root -p", &[&port])
        },
        served(Protocol::Memcached, &[1, 20], &[3]),
    ),
    tool(
        "redis",
        "redis-server",
        |ask| {
            let port = ask.port.to_string();
            let fixed = "--bind 127.0.0.1 --appendonly no --daemonize no --loglevel warning --port";
            words(fixed, &[&port, "--save", ""])
        },
        served(Protocol::Redis, &[1, 20], &[3]),
    ),
    Entry {
        needs: |ask| vec![("nginx.conf", nginx(ask).into_bytes())],
        ..tool(
            "nginx",
            "nginx",
            |ask| {
                let folder = ask.folder.display().to_string();
                words("-e stderr -c nginx.conf -p", &[&folder])
            },
            served(Protocol::Http, &[1, 20], &[3]),
        )
    },
    compressor("xz", "xz", |_| {
        words("--stdout --threads=4 --block-size=256KiB -2", &[TEXT])
    }),
    compressor("pigz", "pigz", |_| {
        words("--stdout --no-name --processes 4", &[TEXT])
    }),
    tool(
        "rocksdb",
        "db_bench",
        |ask| {
            let (writers, records) = (WRITERS.to_string(), ask.count.to_string());
            let folder = ask.folder.join("rocksdb").display().to_string();
            let fixed = "--benchmarks=fillrandom --threads";
            words(fixed, &[&writers, "--num", &records, "--db", &folder])
        },
        counted(2000, rocksdb),
    ),
    tool(
        "stress-ng-futex",
        "stress-ng",
        |ask| stress_arguments(ask, "futex"),
        counted(2000, |text, _| stress(text, "futex")),
    ),
    tool(
        "stress-ng-pthread",
        "stress-ng",
        |ask| stress_arguments(ask, "pthread"),
        counted(200, |text, _| stress(text, "pthread")),
    ),
];

/// Words that are fixed, and then others.
fn words(fixed: &str, more: &[&str]) -> Vec<String> {
    let fixed = fixed.split(' ').filter(|word| !word.is_empty());
    fixed
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// "total time: 0.2075s" and "total number of events: 64".
fn sysbench(text: &str, _: &Ask<'_>) -> Option<Count> {
    let value = |key: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
    };
    count(
        value("total number of events:")?,
        value("total time:")?.strip_suffix('s')?,
    )
}

fn count(operations: &str, seconds: &str) -> Option<Count> {
    let count = Count {
        operations: operations.parse().ok()?,
        seconds: seconds.parse().ok()?,
    };
    is_possible(count).then_some(count)
}

fn is_possible(count: Count) -> bool {
    let is_good = |value: f64| value.is_finite() && value > 0.0;
    is_good(count.operations) && is_good(count.seconds)
}

fn hackbench_arguments(ask: &Ask<'_>, more: &[&str]) -> Vec<String> {
    let (groups, senders) = (GROUPS.to_string(), SENDERS.to_string());
    let loops = ask.count.to_string();
    let sizes = ["-g", &groups, "-f", &senders, "-l", &loops];
    words("-T", &[&sizes, more].concat())
}

/// "Time: 0.027". Each sender sends each message to every receiver of its group.
fn hackbench(text: &str, ask: &Ask<'_>) -> Option<Count> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("Time:"))?;
    let messages = GROUPS * SENDERS * SENDERS * ask.count;
    count(&messages.to_string(), seconds.trim())
}

/// "fillrandom   :      38.383 micros/op 198102 ops/sec 2.019 seconds 400000 operations;   21.9
/// MB/s".
fn rocksdb(text: &str, _: &Ask<'_>) -> Option<Count> {
    let line = text.lines().find(|line| line.starts_with("fillrandom"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?;
        words.get(at.checked_sub(1)?).copied()
    };
    count(before("operations;")?, before("seconds")?)
}

fn stress_arguments(ask: &Ask<'_>, stressor: &str) -> Vec<String> {
    let (one, operations) = (format!("--{stressor}"), format!("--{stressor}-ops"));
    // The limit of time is for a stressor that does not end.
    let fixed = "--metrics-brief --timeout 10";
    words(fixed, &[&one, "1", &operations, &ask.count.to_string()])
}

/// "stress-ng: metrc: [9] futex 20001 0.08 0.01 0.09 260762.84 209926.95": the number of
/// operations, the time, and so on. The time has two digits only, so it is computed of the rate.
fn stress(text: &str, stressor: &str) -> Option<Count> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != stressor);
        let figures: Option<Vec<f64>> = words
            .by_ref()
            .skip(1)
            .map(|word| word.parse().ok())
            .collect();
        let [operations, _, _, _, rate, _] = figures?[..] else {
            return None;
        };
        let count = Count {
            operations,
            seconds: operations / rate,
        };
        is_possible(count).then_some(count)
    })
}

/// Answers from memory, so that no file's permissions matter.
fn nginx(ask: &Ask<'_>) -> String {
    format!(
        "daemon off;\nuser root;\nworker_processes {};\npid nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 100000000;\n  \
         client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n  \
         uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n  \
         server {{\n    listen 127.0.0.1:{};\n    location / {{ return 200 \"{}\"; }}\n  }}\n}}\n",
        ask.servers,
        ask.port,
        super::client::PAGE,
    )
}

/// Text of so many bytes that can be compressed about as well as prose.
fn text(size: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % below
    };
    let words: Vec<Vec<u8>> = (0..3000)
        .map(|_| (0..2 + next(8)).map(|_| b'a' + next(26) as u8).collect())
        .collect();
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        // Small numbers are more frequent, as words of a language are.
        let bound = 1 + next(words.len() as u64);
        text.extend_from_slice(&words[next(bound) as usize]);
        text.push(if next(12) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    fn ask() -> Ask<'static> {
        Ask {
            budget: Duration::from_secs(1),
            servers: 2,
            count: 100,
            port: 1234,
            folder: Path::new("folder"),
            small: true,
        }
    }

    #[test]
    fn figures_are_found_in_what_tools_print() {
        let is = |operations, seconds| {
            Some(Count {
                operations,
                seconds,
            })
        };
        let said = "General statistics:\n    total time:                          0.2075s\n    \
                    total number of events:              64\n";
        assert_eq!(sysbench(said, &ask()), is(64.0, 0.2075));
        assert_eq!(sysbench("total time: 0.2075s\n", &ask()), None);
        let said = "Each sender will pass 100 messages of 100 bytes\nTime: 0.027\n";
        assert_eq!(hackbench(said, &ask()), is(20_000.0, 0.027));
        assert_eq!(
            hackbench("Time: 0.000\n", &ask()),
            None,
            "too short to tell"
        );
        let said = "fillrandom   :  38.383 micros/op 198102 ops/sec 2.019 seconds \
                    400000 operations;   21.9 MB/s\n";
        assert_eq!(rocksdb(said, &ask()), is(400_000.0, 2.019));
        assert_eq!(rocksdb("fillrandom : seconds operations;\n", &ask()), None);
        let said = "stress-ng: info:  [9] dispatching hogs: 1 futex\n\
                    stress-ng: metrc: [9] stressor bogo ops real time\n\
                    stress-ng: metrc: [9] futex  20000  0.08  0.01  0.09  200000.00  209926.95\n\
                    stress-ng: metrc: [9] futex  3781.81 nanosecs per call\n";
        assert_eq!(stress(said, "futex"), is(20_000.0, 0.1));
        assert_eq!(stress(said, "pthread"), None);
    }

    #[test]
    fn arguments_have_what_is_asked() {
        for entry in ENTRIES {
            let arguments = (entry.arguments)(&ask()).join(" ");
            let has = match entry.measure {
                Measure::Counted { .. } => "100",
                Measure::Served { .. } if entry.program == "nginx" => "nginx.conf",
                Measure::Served { .. } => "1234",
                Measure::Timed | Measure::Whole => TEXT,
            };
            assert!(arguments.contains(has), "{}: {arguments}", entry.program);
        }
        let file = nginx(&ask());
        assert!(file.contains("listen 127.0.0.1:1234;") && file.contains("worker_processes 2;"));
    }

    #[test]
    fn text_is_the_same_every_time_and_no_noise() {
        let one = text(50_000);
        assert_eq!((one.len(), &one), (50_000, &text(50_000)));
        assert!(
            one.iter()
                .all(|byte| byte.is_ascii_lowercase() || b" \n".contains(byte))
        );
    }
}
