//! Runs the command itself.

use serde_json::Value;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

fn umcg() -> Command {
    Command::new(env!("CARGO_BIN_EXE_umcg"))
}

fn run(args: &[&str]) -> Output {
    umcg().args(args).output().unwrap()
}

/// Standard output must be one JSON object and nothing else.
fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check_shape(report: &Value, bench: &str) {
    assert_eq!(report["bench"], bench);
    assert!(report["machine"]["cpus"].as_u64().unwrap() >= 1);
    assert!(report["machine"]["kernel"].is_string() && report["machine"]["cpu"].is_string());
    let rows = report["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert!(
            row["case"].is_string() && row["params"].is_object(),
            "{row}"
        );
        assert!(
            row["metric"].is_string() && row["unit"].is_string(),
            "{row}"
        );
        let figure = |key: &str| row[key].as_f64().unwrap();
        // The favoured side may have the object all the time.
        let least = if row["metric"] == "fairness" {
            -1.0
        } else {
            0.0
        };
        assert!(figure("min") > least, "{row}");
        let order = ["min", "q1", "median", "q3", "max"].map(figure);
        assert!(order.is_sorted(), "{row}");
        assert_eq!(row["runs"], 15);
        assert_eq!(row["values"].as_array().unwrap().len(), 15);
    }
}

fn has(report: &Value, case: &str, metric: &str, key: &str, value: Value) -> bool {
    let rows = report["rows"].as_array().unwrap();
    rows.iter()
        .any(|row| row["case"] == case && row["metric"] == metric && row["params"][key] == value)
}

#[test]
fn bench_switch_prints_json_alone() {
    let report = json(&["bench", "switch", "--seconds", "0.1", "--json"]);
    check_shape(&report, "switch");
    for case in [
        "condvar",
        "futex",
        "pipe",
        "sem_t",
        "umcg-thread",
        "umcg-light",
        "uth",
    ] {
        assert!(
            has(&report, case, "round_trips", "cpus", 1.into()),
            "{case}"
        );
    }
}

#[test]
fn bench_uth_prints_json_alone_and_draws() {
    let file = std::env::temp_dir().join(format!("umcg-bench-{}.svg", std::process::id()));
    let report = json(&[
        "bench",
        "uth",
        "--seconds",
        "0.01",
        "--all-rows",
        "--json",
        "--plot",
        file.to_str().unwrap(),
    ]);
    let svg = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    check_shape(&report, "uth");
    for case in ["asm", "sjlj", "mcsc", "corosensei", "generator"] {
        for contexts in [2, 16, 4096] {
            assert!(
                has(&report, case, "switch", "contexts", contexts.into()),
                "{case}"
            );
        }
        for metric in ["create", "recycle", "reinit", "create_run_delete"] {
            assert!(
                has(&report, case, metric, "contexts", 100.into()),
                "{case}: {metric}"
            );
        }
        assert!(
            has(&report, case, "switch", "depth", "deep".into()),
            "{case}"
        );
    }
    let svg = svg.unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("corosensei"));
}

#[test]
fn bench_scale_simulates_and_measures() {
    let file = std::env::temp_dir().join(format!("umcg-bench-scale-{}.svg", std::process::id()));
    let only = ["simulated servers=4 sockets=2", "measured servers=1"];
    let only = only.iter().flat_map(|words| ["--only", words]);
    let more = ["--measure-costs", "--seconds", "0.01", "--json", "--plot"];
    let arguments: Vec<&str> = ["bench", "scale"]
        .into_iter()
        .chain(only)
        .chain(more)
        .chain(file.to_str())
        .collect();
    let report = json(&arguments);
    let svg = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    assert!(svg.unwrap().contains("ping-pong: efficiency"));
    assert_eq!(report["bench"], "scale");
    for workload in ["fork-join", "pipeline", "ping-pong", "bursts"] {
        for case in ["simulated", "measured"] {
            assert!(
                has(&report, case, "efficiency", "workload", workload.into()),
                "{case} {workload}"
            );
        }
    }
    for metric in ["p99", "wakes", "share_barriers"] {
        assert!(has(&report, "simulated", metric, "workload", "echo".into()));
    }
}

#[test]
fn bench_rt_runs_sides_as_children() {
    let report = json(&[
        "bench",
        "rt",
        "--small",
        "--seconds",
        "0.01",
        "--only",
        "yield",
        "--only",
        "echo_rate",
        "--json",
    ]);
    check_shape(&report, "rt");
    for case in ["umcg", "tokio", "may", "threads"] {
        assert!(has(&report, case, "yield", "servers", 1.into()), "{case}");
        assert!(
            has(&report, case, "echo_rate", "connections", 40.into()),
            "{case}"
        );
        assert!(
            !has(&report, case, "echo_cpu", "connections", 40.into()),
            "not asked for"
        );
    }
}

#[test]
fn bench_block_has_all_sides() {
    let file = std::env::temp_dir().join(format!("umcg-bench-block-{}.svg", std::process::id()));
    // The kernel counts the CPU time of another process too coarsely for turns as short as these.
    let only = ["ops", "kernel_threads", "cpu sleep", "cpu hook"];
    let only = only.iter().flat_map(|words| ["--only", words]);
    let more: Vec<&str> = only.chain(["--plot", file.to_str().unwrap()]).collect();
    let report = small("block", &more);
    let svg = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    assert!(svg.unwrap().contains("umcg-net"));
    let rows = |case: &str, what: &str, metric: &str| {
        let rows = report["rows"].as_array().unwrap();
        let is = |row: &&Value| {
            row["case"] == case && row["params"]["what"] == what && row["metric"] == metric
        };
        rows.iter().filter(is).count()
    };
    for case in ["threads", "tokio"] {
        assert_eq!(rows(case, "sleep", "ops"), 1, "{case}");
        assert_eq!(rows(case, "echo", "ops"), 2, "{case}");
    }
    assert_eq!(rows("umcg-net", "echo", "ops"), 2);
    assert_eq!(rows("umcg-off", "hook", "cpu"), 4);
    assert_eq!(rows("umcg-off", "none", "ops"), 2);
    if cfg!(target_arch = "x86_64") {
        let all = [
            ("sleep", 1),
            ("echo", 2),
            ("mutex", 2),
            ("hook", 4),
            ("none", 2),
        ];
        for (what, count) in all {
            assert_eq!(rows("umcg", what, "ops"), count, "{what}");
        }
        // Where there is a database, all sides ask it.
        let clients = ["umcg", "threads", "tokio"].map(|case| rows(case, "client", "ops"));
        assert!(clients == [0; 3] || clients == [1; 3], "{clients:?}");
    }
}

/// With so little time that the figures say nothing.
fn small(bench: &str, more: &[&str]) -> Value {
    let report = json(
        &[
            &["bench", bench, "--small", "--seconds", "0.01", "--json"],
            more,
        ]
        .concat(),
    );
    check_shape(&report, bench);
    report
}

#[test]
fn bench_sem_has_all_sides() {
    let file = std::env::temp_dir().join(format!("umcg-bench-sem-{}.svg", std::process::id()));
    let report = small("sem", &["--plot", file.to_str().unwrap()]);
    let svg = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    for case in [
        "umcg",
        "sem_t",
        "pthread",
        "std",
        "parking_lot",
        "parking_lot-fair",
        "sysv",
        "eventfd",
        "tokio",
    ] {
        assert!(
            has(&report, case, "contended", "workers", 3.into()),
            "{case}"
        );
        assert!(has(&report, case, "fairness", "cpus", 1.into()), "{case}");
    }
    for kind in ["worker", "thread"] {
        assert!(
            has(&report, "umcg", "uncontended", "kind", kind.into()),
            "{kind}"
        );
        assert!(
            has(&report, "umcg", "hand_over", "kind", kind.into()),
            "{kind}"
        );
        assert!(has(&report, "umcg", "alpha", "kind", kind.into()), "{kind}");
    }
    assert!(
        has(&report, "umcg", "hand_over", "order", "barging".into())
            && has(&report, "umcg", "contended", "object", "mutex".into())
    );
    assert!(
        has(&report, "eventfd", "beta", "processes", 3.into())
            && has(&report, "spin_lock", "increment", "processes", 2.into())
    );
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let is_measured_one_by_one = ["alpha", "alpha_nonblocking", "beta", "increment"]
            .contains(&row["metric"].as_str().unwrap());
        assert_eq!(row["box"]["q3"].is_f64(), is_measured_one_by_one, "{row}");
    }
    let svg = svg.unwrap();
    assert!(
        svg.contains("Alpha graphs") && svg.contains("parking_lot-fair") && svg.contains("css 10")
    );
}

#[test]
fn bench_altsems_and_select_have_all_sides() {
    let report = small("altsems", &[]);
    for case in ["umcg", "sem_t", "sysv", "eventfd"] {
        assert!(
            has(&report, case, "gamma", "semaphores", 2.into()),
            "{case}"
        );
    }
    let report = small("select", &["--only", "ready"]);
    for case in ["umcg", "crossbeam", "flume", "tokio"] {
        assert!(has(&report, case, "ready", "k", 10.into()), "{case}");
        assert!(
            !has(&report, case, "blocking", "k", 10.into()),
            "not asked for"
        );
    }
    for kind in ["worker", "thread"] {
        assert!(has(&report, "umcg", "ready", "kind", kind.into()), "{kind}");
    }
    for object in ["semaphore", "list", "macro"] {
        assert!(
            has(&report, "umcg", "ready", "object", object.into()),
            "{object}"
        );
    }
    assert!(
        has(&report, "crossbeam", "ready", "k", 128.into())
            && !has(&report, "tokio", "ready", "k", 128.into())
    );
}

#[test]
fn bench_tube_and_waitv_have_all_sides() {
    let report = small("tube", &[]);
    for case in [
        "umcg",
        "kanal",
        "flume",
        "crossbeam",
        "tokio",
        "pipe",
        "mqueue",
    ] {
        assert!(has(&report, case, "round", "size", 4096.into()), "{case}");
        assert!(
            has(&report, case, "throughput", "producers", 1.into()),
            "{case}"
        );
        assert_eq!(
            has(&report, case, "epsilon", "pongers", 3.into()),
            case != "tokio",
            "{case}"
        );
        assert_eq!(
            has(&report, case, "throughput", "consumers", 4.into()),
            case != "tokio",
            "{case}"
        );
    }
    let report = small("waitv", &[]);
    for case in ["umcg", "poll", "epoll"] {
        assert!(has(&report, case, "cycle", "objects", 8.into()), "{case}");
        assert!(has(&report, case, "cycle", "consumers", 2.into()), "{case}");
    }
}

#[test]
fn bench_switch_prints_a_table() {
    let output = run(&["bench", "switch", "--seconds", "0.05"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("round trips/s") && text.contains("x futex") && text.contains("condvar"),
        "{text}"
    );
}

#[test]
fn doctor_looks_at_everything() {
    let diagnosis = json(&["doctor", "--json"]);
    let features = diagnosis["features"].as_array().unwrap();
    for name in [
        "FSGSBASE",
        "MADV_GUARD_INSTALL",
        "futex_waitv",
        "io_uring",
        "vm.max_map_count",
    ] {
        let feature = features
            .iter()
            .find(|feature| feature["feature"] == name)
            .unwrap();
        assert!(["yes", "no", "limited", "info"].contains(&feature["state"].as_str().unwrap()));
        assert!(feature["detail"].is_string() && feature["effect"].is_string());
    }
    for name in [
        "epoll_pwait2",
        "pidfd_open",
        "timers of threads",
        "blocking noticed",
    ] {
        assert!(
            features.iter().any(|feature| feature["feature"] == name),
            "{name}"
        );
    }
    let output = run(&["doctor"]);
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("perf_event_open")
    );
}

/// Puts a filter on a command that forbids one system call.
fn forbid(command: &mut Command, call: libc::c_long) {
    let install = move || {
        let step = |code: u32, jf, k| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf,
            k,
        };
        let mut program = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            step(
                libc::BPF_RET | libc::BPF_K,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: sets a bit of the calling process.
        let privileged = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: a valid program, which outlives the call.
        let installed = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        if privileged == 0 && installed == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: system calls only.
    unsafe { command.pre_exec(install) };
}

#[test]
fn doctor_finds_what_a_filter_forbids() {
    let cases = [
        (libc::SYS_io_uring_enter, "io_uring"),
        (libc::SYS_io_uring_setup, "io_uring"),
        (libc::SYS_epoll_pwait2, "epoll_pwait2"),
        (libc::SYS_pidfd_open, "pidfd_open"),
        (libc::SYS_timer_settime, "timers of threads"),
        (libc::SYS_futex_waitv, "futex_waitv"),
        (libc::SYS_membarrier, "membarrier"),
    ];
    for (call, name) in cases {
        let mut command = umcg();
        forbid(command.args(["doctor", "--json"]), call);
        let Ok(output) = command.output() else {
            eprintln!("no filters of system calls here");
            return;
        };
        let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
        let features = diagnosis["features"].as_array().unwrap();
        let feature = features
            .iter()
            .find(|feature| feature["feature"] == name)
            .unwrap();
        assert_eq!(feature["state"], "no", "{feature}");
        if call == libc::SYS_io_uring_enter {
            assert!(
                feature["detail"]
                    .as_str()
                    .unwrap()
                    .contains("io_uring_enter: forbidden"),
                "{feature}"
            );
        }
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = umcg()
        .arg("doctor")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(errors, "");
}

/// Messages that nobody can read end nothing, and hide no exit status.
#[test]
fn a_full_standard_error_is_no_reason_to_stop() {
    let full = || std::fs::File::create("/dev/full").unwrap();
    let told = ["bench", "switch", "--ours", "--seconds", "0.01", "--rounds"];
    let run = |more: &[&str]| {
        umcg()
            .args(told)
            .args(more)
            .stderr(full())
            .output()
            .unwrap()
    };
    assert_eq!(run(&["1"]).status.code(), Some(0));
    assert_eq!(run(&["1", "--only", "nonsense"]).status.code(), Some(2));
}

#[test]
fn nothing_measured_is_an_error() {
    let output = run(&["bench", "switch", "--ours", "--only", "futex"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_arguments_are_refused() {
    for args in [
        &["bench", "switch", "--seconds", "0"][..],
        &["bench", "nothing"],
        &["bench", "rt", "--only", "speed"],
        &["bench", "rt-child", "{}"],
        &["bench", "block", "--only", "speed"],
        &["bench", "block-child", "{}"],
        &["bench", "sem", "--only", "ready"],
        &["bench", "sync-child", "{}"],
        &["bench", "uth", "--json", "--paper"],
        &[],
    ] {
        assert!(!run(args).status.success(), "{args:?}");
    }
}

/// The time would be an hour: it is refused before anything is measured.
#[test]
fn a_picture_that_could_not_be_drawn_is_refused_at_once() {
    for (file, reason) in [
        ("/no/such/folder/x.svg", "/no/such/folder/x.svg"),
        ("/proc/x.svg", "/proc/x.svg"),
        ("y.jpg", ".svg"),
    ] {
        let output = run(&["bench", "switch", "--seconds", "3600", "--plot", file]);
        assert!(!output.status.success() && output.stdout.is_empty());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(reason), "{errors}");
    }
}

#[test]
fn few_rows_are_usual() {
    let is_there =
        |report: &Value, contexts: u64| has(report, "asm", "switch", "contexts", contexts.into());
    let usual = json(&["bench", "uth", "--seconds", "0.01", "--json"]);
    assert!(is_there(&usual, 2) && !is_there(&usual, 16));
    let only = [
        "bench",
        "uth",
        "--seconds",
        "0.01",
        "--json",
        "--only",
        "contexts=16",
    ];
    let only = json(&only);
    assert!(is_there(&only, 16) && !is_there(&only, 2));
    let hint = |more: &[&str]| {
        let output = run(&[&["bench", "uth", "--seconds", "0.01"], more].concat());
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("--all-rows")
    };
    assert!(hint(&["--rounds", "1"]) && !hint(&["--only", "reinit"]));
}

#[test]
fn rows_are_chosen() {
    let report = json(&[
        "bench",
        "switch",
        "--seconds",
        "0.01",
        "--rounds",
        "2",
        "--only",
        "futex cpus=1",
        "--only",
        "uth",
        "--json",
    ]);
    let rows: Vec<_> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["case"].as_str().unwrap())
        .collect();
    assert!(
        rows.contains(&"uth") && rows.iter().filter(|case| **case == "futex").count() == 1,
        "{rows:?}"
    );
    assert!(
        rows.iter().all(|case| ["uth", "futex"].contains(case)) && report["rows"][0]["runs"] == 2,
        "{report}"
    );
    let report = json(&[
        "bench",
        "uth",
        "--seconds",
        "0.01",
        "--only",
        "ring contexts=16",
        "--ours",
        "--json",
    ]);
    for row in report["rows"].as_array().unwrap() {
        assert!(
            row["metric"] == "ring" && row["params"]["contexts"] == 16,
            "{row}"
        );
    }
    let report = small(
        "sem",
        &[
            "--ours",
            "--only",
            "uncontended",
            "--only",
            "hand_over barging cpus=1",
            "--rounds",
            "15",
        ],
    );
    assert!(
        report["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["case"] == "umcg"),
        "{report}"
    );
    assert!(
        has(&report, "umcg", "hand_over", "order", "barging".into())
            && !has(&report, "umcg", "hand_over", "cpus", 2.into())
    );
    let output = run(&["bench", "rt", "--only", "umcg speed"]);
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("no row has \"speed\"; the metrics are yield, hand_over")
    );
}

#[test]
fn help_says_what_metrics_are() {
    for (bench, metric) in [
        ("sem", "alpha "),
        ("altsems", "gamma "),
        ("tube", "epsilon "),
        ("uth", "reinit "),
        ("switch", "round_trips "),
        ("block", "kernel_threads "),
    ] {
        let help = String::from_utf8(run(&["bench", bench, "--help"]).stdout).unwrap();
        let line = help.lines().find(|line| line.trim().starts_with(metric));
        assert!(line.is_some_and(|line| line.len() > 30), "{help}");
        assert!(
            help.contains("\n  spread ") && help.contains("are equal"),
            "{help}"
        );
    }
}

#[test]
fn help_says_what_parameters_are() {
    let help = |bench: &str| String::from_utf8(run(&["bench", bench, "--help"]).stdout).unwrap();
    let sem = help("sem");
    assert!(
        sem.contains("  css                steps inside the critical section"),
        "{sem}"
    );
    assert!(
        sem.contains("  nss   ") && sem.contains("Experiment 1"),
        "{sem}"
    );
    assert!(help("uth").contains("  depth  "));
}

#[test]
fn hidden_commands_write_the_manual_and_completions() {
    assert!(
        String::from_utf8(run(&["man"]).stdout)
            .unwrap()
            .contains(".TH umcg")
    );
    assert!(
        String::from_utf8(run(&["completions", "bash"]).stdout)
            .unwrap()
            .contains("umcg")
    );
}
