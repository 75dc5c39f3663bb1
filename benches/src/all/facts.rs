//! The machine, for the top of the page: what makes figures of one differ from those of another.

use crate::harness::{Machine, clock_step, number};
use serde::Serialize;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names and values.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Facts(pub(super) Vec<(&'static str, String)>);

impl Facts {
    pub(super) fn here() -> Self {
        let machine = Machine::this();
        let read = |path: &str| fs::read_to_string(path).ok();
        let line = |path: &str| read(path).map(|text| text.trim().to_owned());
        let info = read("/proc/cpuinfo").unwrap_or_default();
        let is_virtual = info.split_whitespace().any(|word| word == "hypervisor");
        let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let facts = [
            ("Processor", Some(machine.cpu)),
            ("CPUs to run on", Some(machine.cpus.to_string())),
            (
                "Memory",
                read("/proc/meminfo").and_then(|text| memory(&text)),
            ),
            ("Kernel", Some(format!("Linux {}", machine.kernel))),
            ("Kernel's build", line("/proc/sys/kernel/version")),
            ("Virtual machine", Some(yes_or_no(is_virtual))),
            ("Frequency governor", line(governor)),
            ("Clock source", line(clock)),
            ("Step of the clock", Some(step())),
            (
                "Load when it began",
                read("/proc/loadavg").map(|text| load(&text)),
            ),
            ("umcg", Some(env!("CARGO_PKG_VERSION").to_owned())),
            ("Began", now.ok().map(|now| date(now.as_secs()))),
        ];
        let known = facts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Self(known.collect())
    }
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn step() -> String {
    format!("{} ns", number(clock_step()))
}

/// `MemTotal:  16384 kB`
fn memory(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / 1024.0 / 1024.0))
}

/// Its three averages.
fn load(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

/// In UTC, from the seconds since 1970. The days are counted in years that begin in March, so that
/// a leap day is the last of its year.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86400 + 719_468, seconds % 86400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + next;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(951_868_799), "2000-02-29 23:59 UTC");
        assert_eq!(date(951_868_800), "2000-03-01 00:00 UTC");
        assert_eq!(date(1_798_761_599), "2026-12-31 23:59 UTC");
    }

    #[test]
    fn the_machine_is_told() {
        assert_eq!(memory("MemTotal:       2097152 kB\n").unwrap(), "2.0 GiB");
        assert_eq!(load("0.10 0.20 0.30 1/100 4000\n"), "0.10 0.20 0.30");
        let facts = Facts::here();
        for name in [
            "Processor",
            "Kernel",
            "Memory",
            "Step of the clock",
            "Began",
        ] {
            assert!(facts.0.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
