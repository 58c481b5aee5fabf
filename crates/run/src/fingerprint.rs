//! The properties of the machine that are needed to repeat a run.

use std::collections::BTreeMap;
use std::fs;

use tare_records::layout::Fingerprint;

use crate::proc::{counters, parse, read};

/// Reads the properties of this machine. A property that cannot be read is empty, zero or `None`.
/// The environment sets `programs` and `idle`.
#[must_use]
pub fn of_this_machine() -> Fingerprint {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let line = |path: &str| {
        let text = text(path).trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let cpuinfo = text("/proc/cpuinfo");
    let uname = rustix::system::uname();
    Fingerprint {
        kernel: format!(
            "{} {} {} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy(),
            uname.version().to_string_lossy(),
            uname.machine().to_string_lossy()
        ),
        cpu_model: cpu_model(&cpuinfo),
        cores: read::cores_allowed(),
        memory_bytes: parse::kib_line_bytes(&text("/proc/meminfo"), "MemTotal").unwrap_or(0),
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle: None,
        virtualised: virtualised(
            &cpuinfo,
            line("/sys/hypervisor/type"),
            line("/sys/class/dmi/id/sys_vendor"),
        ),
        hardware_counters: Some(counters::availability()),
        programs: BTreeMap::new(),
        load_average_centi: parse::loadavg_centi(&text("/proc/loadavg")).unwrap_or(0),
    }
}

/// Returns the processor model. On ARM `/proc/cpuinfo` has numbers in place of a name.
fn cpu_model(cpuinfo: &str) -> String {
    if let Some(name) = parse::cpuinfo_value(cpuinfo, "model name") {
        return name.to_owned();
    }
    match (
        parse::cpuinfo_value(cpuinfo, "CPU implementer"),
        parse::cpuinfo_value(cpuinfo, "CPU part"),
    ) {
        (Some(implementer), Some(part)) => format!("implementer {implementer} part {part}"),
        _ => String::new(),
    }
}

/// Returns the type of the hypervisor, otherwise the vendor of the board, or "yes" where only the
/// processor flag shows a hypervisor.
fn virtualised(cpuinfo: &str, kind: Option<String>, vendor: Option<String>) -> Option<String> {
    let flagged = parse::cpuinfo_value(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|f| f == "hypervisor"));
    match (kind, flagged) {
        (Some(kind), _) => Some(kind),
        (None, true) => Some(vendor.unwrap_or_else(|| "yes".to_owned())),
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let f = of_this_machine();
        assert!(f.kernel.starts_with("Linux "), "{}", f.kernel);
        assert!(f.cores >= 1 && f.memory_bytes > 1 << 20);
        let counters = f.hardware_counters.unwrap();
        assert!(counters.starts_with("instructions") || counters.starts_with("none: "));
    }

    #[test]
    fn a_virtual_machine_is_recognised() {
        let guest = "model name : X\nflags : fpu hypervisor lm\n";
        assert_eq!(virtualised(guest, None, None).as_deref(), Some("yes"));
        let vendor = Some("Acme".to_owned());
        assert_eq!(
            virtualised(guest, None, vendor.clone()).as_deref(),
            Some("Acme")
        );
        assert_eq!(virtualised("flags : fpu lm\n", None, vendor), None);
        let xen = Some("xen".to_owned());
        assert_eq!(virtualised("", xen, None).as_deref(), Some("xen"));
        assert_eq!(
            cpu_model("CPU implementer : 0x41\nCPU part : 0xd0c\n"),
            "implementer 0x41 part 0xd0c"
        );
    }
}
