//! Parsers of files below `/proc`. Each function takes the whole text of one file and returns
//! `None` if the text is not valid. Source: proc(5).

/// User and system CPU time from `/proc/PID/stat`, in clock ticks, of all threads, including ended
/// ones.
#[must_use]
pub fn stat_cpu_ticks(text: &str) -> Option<u64> {
    let user: u64 = stat_field(text, 11)?.parse().ok()?;
    let system: u64 = stat_field(text, 12)?.parse().ok()?;
    Some(user + system)
}

/// Field of `/proc/PID/stat`, counted from 0 after the command in parentheses, which may contain
/// spaces and parentheses.
fn stat_field(text: &str, index: usize) -> Option<&str> {
    let after = &text[text.rfind(')')? + 1..];
    after.split_ascii_whitespace().nth(index)
}

/// Start time from `/proc/PID/stat`, in clock ticks since boot. Together with the process id it
/// identifies a process.
#[must_use]
pub fn stat_start_ticks(text: &str) -> Option<u64> {
    stat_field(text, 19)?.parse().ok()
}

/// State letter from `/proc/PID/stat`; `Z` is a process that has ended.
#[must_use]
pub fn stat_state(text: &str) -> Option<char> {
    stat_field(text, 0)?.chars().next()
}

/// Resident pages from `/proc/PID/stat`.
#[must_use]
pub fn stat_resident_pages(text: &str) -> Option<u64> {
    stat_field(text, 21)?.parse().ok()
}

/// Value of a `Name:   123 kB` line, in bytes: `meminfo`, `smaps_rollup`, `status`.
#[must_use]
pub fn kib_line_bytes(text: &str, name: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let number = rest.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The machine's CPU time since boot, in clock ticks over all cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineTicks {
    /// Number of cores.
    pub cpus: u32,
    /// Idle or waiting for I/O.
    pub idle: u64,
    /// Taken by the hypervisor.
    pub stolen: u64,
}

/// Idle and stolen time of `/proc/stat`, and its number of cores. The busy columns are not used:
/// they are sampled at ticks, while the others are exact.
#[must_use]
pub fn machine_ticks(text: &str) -> Option<MachineTicks> {
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    let mut f = [0_u64; 8];
    let mut fields = line.split_ascii_whitespace().skip(1);
    for (i, slot) in f.iter_mut().enumerate() {
        match fields.next() {
            Some(text) => *slot = text.parse().ok()?,
            // Kernels before 2.6.11 have no `steal`.
            None if i >= 7 => break,
            None => return None,
        }
    }
    let [_user, _nice, _system, idle, iowait, _irq, _softirq, steal] = f;
    let core = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
    Some(MachineTicks {
        cpus: text.lines().filter(core).count() as u32,
        idle: idle + iowait,
        stolen: steal,
    })
}

/// The value of the first `name : value` line of `/proc/cpuinfo`.
#[must_use]
pub fn cpuinfo_value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Load average over one minute from `/proc/loadavg`, in hundredths.
#[must_use]
pub fn loadavg_centi(text: &str) -> Option<u32> {
    let (whole, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    if hundredths.len() != 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    whole
        .checked_mul(100)?
        .checked_add(hundredths.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = include_str!("../../tests/golden/proc/pid_stat.txt");
    const SMAPS: &str = include_str!("../../tests/golden/proc/smaps_rollup.txt");
    const MACHINE: &str = include_str!("../../tests/golden/proc/stat.txt");
    const MEMINFO: &str = include_str!("../../tests/golden/proc/meminfo.txt");

    #[test]
    fn process_stat_is_parsed_after_a_name_with_parentheses_and_spaces() {
        assert_eq!(stat_cpu_ticks(STAT), Some(1_203 + 457));
        assert_eq!(stat_start_ticks(STAT), Some(140_385));
        assert_eq!(stat_state(STAT), Some('S'));
    }

    #[test]
    fn memory_is_parsed_in_pages_and_kib() {
        assert_eq!(stat_resident_pages(STAT), Some(381));
        assert_eq!(kib_line_bytes(SMAPS, "Pss"), Some(14_784 * 1024));
        assert_eq!(kib_line_bytes(SMAPS, "Rss"), Some(66_440 * 1024));
        assert_eq!(kib_line_bytes(MEMINFO, "MemTotal"), Some(24_684_096 * 1024));
        assert_eq!(
            kib_line_bytes(MEMINFO, "MemAvailable"),
            Some(23_963_356 * 1024)
        );
        assert_eq!(kib_line_bytes(MEMINFO, "Mem"), None);
    }

    #[test]
    fn machine_time_is_idle_and_stolen_time() {
        let expected = MachineTicks {
            cpus: 2,
            idle: 261_899 + 4_313,
            stolen: 6,
        };
        assert_eq!(machine_ticks(MACHINE), Some(expected));
    }

    #[test]
    fn the_load_average_and_the_cpu_model_are_parsed() {
        assert_eq!(loadavg_centi("0.43 0.19 0.08 2/88 13838\n"), Some(43));
        assert_eq!(loadavg_centi("12.07 0.19 0.08 2/88 13838\n"), Some(1207));
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n";
        assert_eq!(cpuinfo_value(cpuinfo, "model name"), Some("AMD EPYC"));
    }

    proptest::proptest! {
        #[test]
        fn parsers_accept_any_text_without_a_panic(text in "[ -~\\n)(]{0,200}") {
            let _ = (stat_cpu_ticks(&text), stat_start_ticks(&text), stat_state(&text));
            let _ = (stat_resident_pages(&text), kib_line_bytes(&text, "Pss"));
            let _ = (machine_ticks(&text), cpuinfo_value(&text, "a"), loadavg_centi(&text));
        }
    }
}
