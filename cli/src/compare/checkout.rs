//! Builds the command in a checkout.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use umcg_benches::harness::tell;

/// Returns the program. The build goes into the checkout's own `target`, even if the environment
/// says otherwise: two checkouts that shared one would end with the same program.
pub(super) fn build(checkout: &Path) -> Result<PathBuf> {
    let checkout = checkout.canonicalize()?;
    tell(format_args!("building {}", checkout.display()));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--bin",
        "umcg",
        "--message-format",
        "json-render-diagnostics",
    ]);
    command
        .arg("--target-dir")
        .arg(checkout.join("target"))
        .current_dir(&checkout);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo could not build {}: {}",
        checkout.display(),
        output.status
    );
    let found = String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(program);
    found.with_context(|| format!("{} has no program umcg", checkout.display()))
}

/// The path of the built program, if this line of cargo's names it.
fn program(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == "umcg";
    is_it
        .then(|| message["executable"].as_str().map(PathBuf::from))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages() {
        let line = |name: &str, executable: &str| {
            format!(
                concat!(
                    r#"{{"reason": "compiler-artifact", "target": {{"name": "{name}"}}, "#,
                    r#""executable": {executable}}}"#
                ),
                name = name,
                executable = executable
            )
        };
        assert_eq!(
            program(&line("umcg", "\"/x/umcg\"")),
            Some("/x/umcg".into())
        );
        assert_eq!(program(&line("umcg", "null")), None, "the library");
        assert_eq!(program(&line("other", "\"/x/other\"")), None);
        assert_eq!(program("no JSON"), None);
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_checkout() {
        assert!(build(Path::new("/no/such/folder")).is_err());
    }
}
