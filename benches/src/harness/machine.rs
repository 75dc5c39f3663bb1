//! The machine that the figures were measured on.

use super::cpu;
use serde::Serialize;
use std::fs;

/// Stands in every report.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// How many CPUs this process may use.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpus: cpu::allowed().map_or(1, |cpus| cpus.len()),
            kernel: kernel.trim().to_owned(),
            cpu: cpu_name(&info).unwrap_or(std::env::consts::ARCH).to_owned(),
        }
    }
}

/// x86 calls it "model name", RISC-V "uarch"; arm64 only has numbers.
fn cpu_name(info: &str) -> Option<&str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| match key.trim() {
            "model name" | "uarch" => Some(value.trim()),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_named() {
        assert_eq!(
            cpu_name("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n"),
            Some("Some CPU @ 3 GHz")
        );
        assert_eq!(
            cpu_name("processor\t: 0\nuarch\t\t: sifive,u74\n"),
            Some("sifive,u74")
        );
        assert_eq!(cpu_name("CPU implementer\t: 0x41\n"), None);
        assert!(!Machine::this().kernel.is_empty());
    }
}
