//! SIGQUIT prints what all workers are doing, and the program goes on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The part of the test below that runs in a process of its own.
#[test]
#[ignore = "run by the other test"]
fn child() {
    umcg::rt::dump_on_quit().unwrap();
    umcg::rt::dump_on_quit().unwrap();
    let runtime = umcg::Runtime::builder()
        .servers(2)
        .name("here")
        .build()
        .unwrap();
    let builder = umcg::Builder::new().name("sleeper");
    let sleeper = runtime
        .build(&builder, || umcg::sleep(Duration::from_secs(600)))
        .unwrap();
    while !umcg::rt::dump_all().contains("sleeper: waits: sleep") {
        std::thread::sleep(Duration::from_millis(1));
    }
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::QUIT)
        .unwrap();
    // The dump is printed by another thread, and the parent says when it has come.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let text = umcg::rt::dump_all();
    assert!(text.contains("sleeper"), "{text}");
    sleeper.abort();
    assert!(matches!(sleeper.join(), Err(umcg::JoinError::Cancelled)));
    println!("went on");
}

#[test]
fn dumps_and_goes_on() {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "300"])
        .arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut err = Vec::new();
    for words in ["runtime `here`", "sleeper: waits: sleep"] {
        let is_there = said
            .by_ref()
            .inspect(|line| err.push(line.clone()))
            .any(|line| line.contains(words));
        assert!(is_there, "no `{words}` in {err:#?}");
    }
    drop(child.stdin.take());
    err.extend(said);
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && out.contains("went on"),
        "{out}{err:#?}"
    );
}
