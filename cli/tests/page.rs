//! The page of `umcg bench all`, as the command writes it, and as a browser reads it.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("umcg-page-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const PARTS: &[&str] = &["switch cpus=1", "sem alpha", "altsems ready", "block hook"];

/// A plot for each of their metrics.
const PLOTS: usize = 5;

/// Some rows of some benches.
fn all(page: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umcg"));
    command.args(["bench", "all", "--small", "--rounds", "1", "--time", "10"]);
    command.arg("--html").arg(page).args(more);
    PARTS.iter().for_each(|part| {
        command.args(["--only", part]);
    });
    command.stdin(Stdio::null()).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_page_stands_by_itself() {
    let folder = Folder::new("itself");
    let page = folder.0.join("page.html");
    let output = all(&page, &["--json"]);
    let json: Value = serde_json::from_str(&succeeded(&output)).unwrap();
    let names: Vec<&str> = json["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["bench"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["switch", "block", "sem", "altsems"]);
    assert_eq!(json["bench"], "all");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sem: bench 3 of 4 (about"), "{said}");

    let page = fs::read_to_string(&page).unwrap();
    for outside in ["http", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg ").count(), PLOTS);
    assert_eq!(page.matches("<figcaption>").count(), PLOTS);
    assert!(page.ends_with("</html>\n") && !page.contains("Unfinished"));
}

#[test]
fn people_get_a_summary() {
    let folder = Folder::new("summary");
    let page = folder.0.join("page.html");
    let text = succeeded(&all(&page, &["--ours"]));
    assert!(text.contains("\nsem ") && text.contains("bars: "), "{text}");
    assert!(
        text.contains(&format!("The page: {}", page.display())),
        "{text}"
    );
}

#[test]
fn a_page_that_could_not_be_written_is_refused_at_once() {
    let start = Instant::now();
    let folder = Folder::new("refused");
    for wrong in ["/no/such/folder/x.html", folder.0.to_str().unwrap()] {
        let output = all(Path::new(wrong), &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("cannot write") && said.contains(wrong),
            "{said}"
        );
        assert!(!said.contains("bench 1 of"), "{said}");
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    let nothing = Command::new(env!("CARGO_BIN_EXE_umcg"))
        .args(["bench", "all", "--only", "nothing", "--html"])
        .arg(folder.0.join("x.html"))
        .output()
        .unwrap();
    assert_eq!(nothing.status.code(), Some(2));
}

/// `ci/setup.sh` installs one where there is a package.
fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        })
}

/// The document as the browser has it after loading, and what it complained of.
fn opened(browser: &str, page: &Path, folder: &Path) -> Option<(String, Vec<String>)> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--enable-logging=stderr", "--disable-background-networking"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let console = errors.lines().filter(|line| line.contains(":CONSOLE"));
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    output
        .status
        .success()
        .then(|| (document, console.map(str::to_owned).collect()))
}

#[test]
fn a_browser_finds_every_plot_and_nothing_to_complain_of() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no chromium (ci/setup.sh): no browser has read the page");
        return;
    };
    let folder = Folder::new("browser");
    let page = folder.0.join("page.html");
    // The check has to be able to fail.
    let wrong = "<!DOCTYPE html><title>x</title><script>console.error('on purpose')</script>";
    fs::write(&page, wrong).unwrap();
    let Some((_, console)) = opened(browser, &page, &folder.0) else {
        eprintln!("SKIPPED: {browser} does not start here: no browser has read the page");
        return;
    };
    assert!(console.iter().any(|line| line.contains("on purpose")));

    succeeded(&all(&page, &[]));
    let (document, console) = opened(browser, &page, &folder.0).unwrap();
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(document.matches("<svg ").count(), PLOTS);
    assert!(document.matches("<circle ").count() >= PLOTS);
}

/// What the other patterns ask for is measured all the same.
#[test]
fn a_pattern_that_fits_no_bench_is_told() {
    let folder = Folder::new("nonsense");
    let page = folder.0.join("page.html");
    let output = all(&page, &["--ours", "--only", "nonsense"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no bench has a row with all of \"nonsense\""),
        "{said}"
    );
    assert!(fs::read_to_string(&page).unwrap().contains("altsems"));
}
