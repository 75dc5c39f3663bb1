//! SIGQUIT prints what all workers are doing, and the program goes on.

use std::process::Command;
use std::time::Duration;

/// What the test below runs in a process of its own.
#[test]
#[ignore = "run by the other test"]
fn child() {
    umcg::rt::dump_on_quit().unwrap();
    umcg::rt::dump_on_quit().unwrap();
    let runtime = umcg::Runtime::builder().servers(2).name("here").build().unwrap();
    let builder = umcg::Builder::new().name("sleeper");
    let sleeper = runtime.build(&builder, || umcg::sleep(Duration::from_secs(600))).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::QUIT).unwrap();
    // The dump is printed by another thread: a second one, by call, comes after it only if this waits for it.
    std::thread::sleep(Duration::from_millis(1_500));
    let text = umcg::rt::dump_all();
    assert!(text.contains("sleeper"), "{text}");
    sleeper.abort();
    assert!(matches!(sleeper.join(), Err(umcg::JoinError::Cancelled)));
    println!("went on");
}

#[test]
fn dumps_and_goes_on() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", "child", "--ignored", "--nocapture"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("went on"), "{out}{err}");
    assert!(err.contains("runtime `here`") && err.contains("sleeper: waits: sleep"), "{out}{err}");
}
