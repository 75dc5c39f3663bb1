//! `umcg bench compare`, mostly with builds that are small scripts.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);

/// A folder of builds that goes with the test.
struct Builds(PathBuf);

impl Builds {
    fn new(test: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("umcg-compare-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A build that notes its arguments, counts its runs in `$n`, and follows its orders.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let (file, log) = (self.path(name), self.path(&format!("{name}.log")));
        let log = log.display();
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *--help*) {HELP}; exit;; esac\n\
             echo \"$*\" >> {log}; n=$(wc -l < {log})\n{body}\n"
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    /// One that prints a row with this figure, an arithmetic expression of the shell.
    fn printing(&self, name: &str, figure: &str) -> PathBuf {
        self.script(
            name,
            &format!("echo '{HEAD}'; echo \"{}\"; echo ']}}'", row("uth", figure)),
        )
    }

    /// The arguments of each of its runs.
    fn runs(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Builds {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const HELP: &str = "echo '  --only <METRIC>  Only this metric'";
const HEAD: &str =
    r#"{"bench": "switch", "machine": {"cpus": 2, "kernel": "6.1", "cpu": "A CPU"}, "rows": ["#;

/// For double quotes of the shell.
fn row(case: &str, figure: &str) -> String {
    let key = r#"\"params\": {\"cpus\": 1}, \"metric\": \"round_trips\", \"unit\": \"1/s\""#;
    format!(r#"{{\"case\": \"{case}\", {key}, \"median\": $(({figure}))}}"#)
}

fn compare(a: &Path, b: &Path, options: &[&str], target: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umcg"));
    command
        .args(["bench", "compare", "--builds"])
        .args([a, b])
        .args(options)
        .arg("--")
        .args(target)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(output)))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_slower_build_is_found_and_an_equal_one_is_not() {
    let builds = Builds::new("slower");
    // Each drifts and jitters, by itself: 900 and a tenth of it, now and then half.
    let noisy = |base: u32| format!("{base} + n * 7 % 11 - (n % 6 == 0) * {base} / 2");
    let a = builds.printing("a", &noisy(900));
    let same = builds.printing("same", &noisy(900));
    let slow = builds.printing("slow", &noisy(800));
    let output = compare(&a, &same, &["--json"], &["switch"]);
    let (found, status) = (json(&output), output.status.code());
    assert_eq!(
        (found["rows"][0]["verdict"].as_str(), status),
        (Some("same"), Some(0)),
        "{found}"
    );

    let output = compare(&a, &slow, &["--json"], &["switch"]);
    let (found, status) = (json(&output), output.status.code());
    let row = &found["rows"][0];
    assert_eq!(
        (row["verdict"].as_str(), status),
        (Some("worse"), Some(1)),
        "{found}"
    );
    assert!(
        row["first"]["low"].as_f64().unwrap() > 1.03 && row["cost"]["low"].as_f64().unwrap() > 1.03,
        "{row}"
    );
    assert_eq!(
        builds.runs("slow").len(),
        1 + 2 * 15,
        "once to warm up, and each pair twice: it looked worse"
    );
    assert!(
        errors(&output).contains("1 of 1 rows look worse: they are measured again"),
        "{}",
        errors(&output)
    );

    let output = compare(&a, &slow, &["--tolerance", "20"], &["switch"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("By more than 20.0 %: 0 worse"),
        "{text}"
    );
    let picture = builds.path("x.svg");
    let plot = ["--plot", picture.to_str().unwrap()];
    let output = compare(&slow, &a, &plot, &["switch"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("better by") && text.contains("1 better"),
        "{text}"
    );
    assert!(
        fs::read_to_string(picture)
            .unwrap()
            .contains("uth cpus=1 round_trips")
    );
}

#[test]
fn what_looked_worse_once_is_measured_again() {
    let builds = Builds::new("again");
    let a = builds.printing("a", "1000");
    let b = builds.printing("b", "n <= 16 ? 900 : 1000");
    let output = compare(&a, &b, &["--json"], &["switch"]);
    let row = json(&output)["rows"][0].clone();
    assert_eq!(
        (row["verdict"].as_str(), output.status.code()),
        (Some("same"), Some(0)),
        "{row}"
    );
    assert!(row["first"]["low"].as_f64().unwrap() > 1.1, "{row}");
}

#[test]
fn the_best_round_tells_where_the_median_does_not() {
    let builds = Builds::new("best");
    let printing = |name: &str, step: u32, best: u32| {
        let median = row("uth", &format!("500 + n * {step} % 101 * 10"));
        let rounds = format!(r#", \"min\": 1, \"max\": $(({best} + n % 3))}}"#);
        let disturbed = median.strip_suffix('}').unwrap().to_owned() + &rounds;
        builds.script(
            name,
            &format!("echo '{HEAD}'; echo \"{disturbed}\"; echo ']}}'"),
        )
    };
    let (a, b) = (printing("a", 37, 1000), printing("b", 53, 900));
    let verdict = |options: &[&str]| {
        json(&compare(&a, &b, options, &["switch"]))["rows"][0]["verdict"].clone()
    };
    assert_eq!(verdict(&["--json"]), "unclear");
    assert_eq!(verdict(&["--json", "--best"]), "worse");
}

#[test]
fn noise_gives_no_verdict() {
    let builds = Builds::new("noise");
    let a = builds.printing("a", "500 + n * 37 % 101 * 10");
    let b = builds.printing("b", "500 + n * 53 % 97 * 10");
    let output = compare(&a, &b, &["--json"], &["switch"]);
    let row = json(&output)["rows"][0].clone();
    assert_eq!(
        (row["verdict"].as_str(), output.status.code()),
        (Some("unclear"), Some(0)),
        "{row}"
    );
}

#[test]
fn builds_are_asked_for_what_both_can() {
    let builds = Builds::new("both");
    let (a, b) = (builds.printing("a", "1000"), builds.printing("b", "1000"));
    let output = compare(
        &a,
        &b,
        &["--pairs", "6", "--json"],
        &[
            "switch",
            "--only",
            "uth cpus=1 round_trips",
            "--seconds",
            "0.5",
        ],
    );
    assert!(output.status.success(), "{}", errors(&output));
    for name in ["a", "b"] {
        let runs = builds.runs(name);
        assert_eq!(runs.len(), 7);
        assert!(
            runs.iter()
                .all(|run| run == "bench switch --json --seconds 0.5 --only round_trips"),
            "{runs:?}"
        );
    }
}

#[test]
fn rows_that_one_side_has_are_listed() {
    let builds = Builds::new("listed");
    let both = |name: &str, other: &str| {
        let rows = [row("uth", "1000"), row(other, "1"), row("futex", "1")].join(", ");
        builds.script(name, &format!("echo '{HEAD}'; echo \"{rows}\"; echo ']}}'"))
    };
    let output = compare(
        &both("a", "umcg-light"),
        &both("b", "umcg-thread"),
        &["--pairs", "6", "--json"],
        &["switch"],
    );
    let found = json(&output);
    assert_eq!(
        found["rows"].as_array().unwrap().len(),
        1,
        "without the peer: {found}"
    );
    let reasons: Vec<_> = found["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["only A has it", "only B has it"]);
    let output = compare(
        &both("a", "x"),
        &both("b", "x"),
        &["--pairs", "6", "--json"],
        &["switch", "--peers", "--only", "futex"],
    );
    assert_eq!(json(&output)["rows"][0]["case"], "futex");
    let output = compare(
        &both("a", "x"),
        &both("b", "x"),
        &["--pairs", "6"],
        &["switch", "--only", "cpus=9"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("no row to compare"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_build_that_fails_says_why() {
    let builds = Builds::new("fails");
    let a = builds.printing("a", "1000");
    let always = builds.script("always", "echo first >&2; echo the reason >&2; exit 3");
    let output = compare(&a, &always, &[], &["switch"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("B failed: exit status: 3; it said at last:")
            && said.contains("    the reason"),
        "{said}"
    );

    let print = format!("echo '{HEAD}'; echo \"{}\"; echo ']}}'", row("uth", "1000"));
    let once = builds.script(
        "once",
        &format!("[ $n = 5 ] && {{ echo oh >&2; kill -9 $$; }}\n{print}"),
    );
    let output = compare(&a, &once, &["--json"], &["switch"]);
    let found = json(&output);
    assert_eq!(
        (
            found["rows"][0]["cost"]["count"].as_u64(),
            output.status.code()
        ),
        (Some(15), Some(2)),
        "{found}"
    );
    assert!(
        found["failures"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("signal: 9"),
        "{found}"
    );

    let output = compare(&builds.script("words", "echo hello"), &a, &[], &["switch"]);
    assert!(
        errors(&output).contains("A printed no report of bench switch"),
        "{}",
        errors(&output)
    );
    let often = builds.script("often", &format!("[ $((n % 3)) = 0 ] && exit 1\n{print}"));
    let output = compare(&often, &a, &[], &["switch"]);
    assert!(
        output.status.code() == Some(2) && errors(&output).contains("A has failed 3 times"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_build_that_hangs_is_ended() {
    let builds = Builds::new("hangs");
    let pid = builds.path("pid");
    let hangs = builds.script(
        "b",
        &format!(
            "echo $$ > {}; echo waiting for it >&2; exec sleep 1000",
            pid.display()
        ),
    );
    let a = builds.printing("a", "1000");
    // Until the machine is fast enough that a build which does not hang prints something in that
    // time.
    let ended = ["0.2", "2.0", "20.0"].into_iter().any(|patience| {
        let output = compare(&a, &hangs, &["--patience", patience], &["switch"]);
        assert_eq!(output.status.code(), Some(2));
        let (said, patience) = (
            errors(&output),
            Duration::from_secs_f64(patience.parse().unwrap()),
        );
        let reason = format!("it has said nothing for {patience:?}");
        assert!(said.contains(&reason), "{said}");
        said.contains(&format!("B failed: {reason}")) && said.contains("    waiting for it")
    });
    assert!(ended);
    gone(&fs::read_to_string(pid).unwrap());
}

/// Waits until a process is gone.
fn gone(pid: &str) {
    let place = format!("/proc/{}/stat", pid.trim());
    let start = Instant::now();
    // A zombie whose new parent has not reaped it yet does not run any more.
    while fs::read_to_string(&place).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(start.elapsed() < PATIENCE, "{pid} is still there");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_is_left_after_an_interrupt() {
    let builds = Builds::new("interrupt");
    let file = builds.path("pid");
    let hangs = builds.script(
        "a",
        &format!(
            "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
            file.display()
        ),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_umcg"));
    command
        .args(["bench", "compare", "--builds"])
        .args([&hangs, &hangs])
        .args(["--", "switch"]);
    let mut judge = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < PATIENCE, "it has not begun");
        sleep(Duration::from_millis(10));
    }
    let interrupted = Command::new("kill")
        .args(["-INT", &judge.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success() && !judge.wait().unwrap().success());
    gone(&fs::read_to_string(file).unwrap());
}

#[test]
fn wrong_arguments_are_refused() {
    let a = Path::new("/bin/true");
    for (options, target, reason) in [
        (
            &["--pairs", "5"][..],
            &["switch"][..],
            "so that there is an interval",
        ),
        (&["--tolerance=-1"], &["switch"], "per cent"),
        (&["--plot", "x.jpg"], &["switch"], ".svg"),
        (
            &["--plot", "/no/such/folder/x.svg"],
            &["switch"],
            "/no/such/folder/x.svg",
        ),
        (&[], &["nothing"], "nothing"),
        (&[], &["switch", "--only", ""], "--only"),
    ] {
        let output = compare(a, a, options, target);
        assert_eq!(output.status.code(), Some(2), "{options:?} {target:?}");
        assert!(errors(&output).contains(reason), "{}", errors(&output));
    }
    let output = compare(Path::new("/no/such/build"), a, &[], &["switch"]);
    assert!(
        errors(&output).contains("A: /no/such/build: No such file"),
        "{}",
        errors(&output)
    );
}

/// The command itself, with so little time that the figures say nothing.
#[test]
fn a_build_is_compared_with_itself() {
    let own = Path::new(env!("CARGO_BIN_EXE_umcg"));
    let own_twice = |target: &[&str]| {
        json(&compare(
            own,
            own,
            &["--pairs", "6", "--tolerance", "1000", "--json"],
            target,
        ))
    };
    let found = own_twice(&["switch", "--seconds", "0.01", "--rounds", "1"]);
    let rows = found["rows"].as_array().unwrap();
    let has = |case: &str| rows.iter().any(|row| row["case"] == case);
    assert!(
        has("uth") && has("umcg-light") && has("umcg-thread") && !has("futex"),
        "{found}"
    );
    assert!(
        rows.iter()
            .all(|row| row["cost"]["count"] == 6 && row["better"] == "higher"),
        "{found}"
    );
    let only = [
        "sem",
        "--small",
        "--seconds",
        "0.01",
        "--rounds",
        "1",
        "--only",
        "uncontended mutex thread strong",
    ];
    let found = own_twice(&only);
    assert_eq!(found["rows"].as_array().unwrap().len(), 1, "{found}");
}

fn umcg(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umcg"));
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn files_are_compared() {
    let folder = Builds::new("files");
    let measured = |name: &str, bench: &str| {
        let file = folder.path(name);
        let output = umcg(&[
            "bench",
            bench,
            "--json",
            "--seconds",
            "0.02",
            "--only",
            "uth",
        ]);
        fs::write(&file, &output.stdout).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let [a, b] = ["a.json", "b.json"].map(|name| measured(name, "switch"));
    let picture = folder.path("x.svg");
    let output = umcg(&[
        "bench",
        "compare",
        &a,
        &b,
        "--json",
        "--only",
        "cpus=1",
        "--tolerance",
        "1000",
        "--plot",
        picture.to_str().unwrap(),
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["case"], &rows[0]["verdict"]),
        (&"uth".into(), &"same".into())
    );
    assert!(fs::read_to_string(&picture).unwrap().contains("uth"));

    let text = umcg(&["bench", "compare", &a, &b]);
    assert!(String::from_utf8(text.stdout).unwrap().contains("B costs"));
    for wrong in [
        &["bench", "compare", &a][..],
        &["bench", "compare", &a, &b, "--", "switch"],
        &["bench", "compare", &a, "/no/such/file.json"],
        &["bench", "compare", &a, &b, "--only", "nothing"],
        &[
            "bench", "compare", "--only", "uth", "--builds", &a, &b, "--", "switch",
        ],
        &["bench", "compare"],
    ] {
        assert_eq!(umcg(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
