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

/// CPU time of the children that the process has waited for, from `/proc/PID/stat`, in clock ticks.
#[must_use]
pub fn stat_children_cpu_ticks(text: &str) -> Option<u64> {
    let user: u64 = stat_field(text, 13)?.parse().ok()?;
    let system: u64 = stat_field(text, 14)?.parse().ok()?;
    Some(user + system)
}

/// The parent from `/proc/PID/stat`.
#[must_use]
pub fn stat_parent(text: &str) -> Option<u32> {
    stat_field(text, 1)?.parse().ok()
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
    /// Hard and soft interrupts, if the kernel accounts them apart from processes.
    pub interrupts: Option<u64>,
}

/// Smallest share of hard interrupts in the busy time of a kernel that accounts interrupts apart from
/// processes (`CONFIG_IRQ_TIME_ACCOUNTING`). There, the timer alone takes at least 1 µs in each 4 ms
/// of busy time. Another kernel samples both columns at ticks: it counts soft interrupts, which the
/// CPU clocks of processes include as well, but almost no hard ones.
const HARD_INTERRUPTS_MIN: f64 = 0.000_2;

/// Idle and stolen time of `/proc/stat`, interrupts if they are exact, and its number of cores. The
/// other busy columns are not used: they are sampled at ticks, while these are exact.
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
    let [user, nice, system, idle, iowait, hard, soft, steal] = f;
    let busy = (user + nice + system + hard + soft) as f64;
    let core = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
    Some(MachineTicks {
        cpus: text.lines().filter(core).count() as u32,
        idle: idle + iowait,
        stolen: steal,
        interrupts: (hard as f64 > HARD_INTERRUPTS_MIN * busy).then_some(hard + soft),
    })
}

/// Run-queue delay of one thread from its `schedstat`, in nanoseconds; `None` if the kernel does not
/// count it, or if the thread has not run yet.
#[must_use]
pub fn schedstat_delay_ns(text: &str) -> Option<u64> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let [cpu_ns, delay_ns, slices]: [u64; 3] = [
        fields.next()?.ok()?,
        fields.next()?.ok()?,
        fields.next()?.ok()?,
    ];
    ([cpu_ns, delay_ns, slices] != [0; 3]).then_some(delay_ns)
}

/// Time for which some process waited for a core, from `/proc/pressure/cpu`, in nanoseconds.
#[must_use]
pub fn pressure_ns(text: &str) -> Option<u64> {
    let some = text.lines().find(|l| l.starts_with("some "))?;
    let us: u64 = some.split_once(" total=")?.1.trim().parse().ok()?;
    us.checked_mul(1000)
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
            interrupts: None,
        };
        assert_eq!(machine_ticks(MACHINE), Some(expected));
    }

    #[test]
    fn interrupts_count_only_where_the_kernel_measures_them() {
        let interrupts = |hard: u64, soft: u64| {
            let text = format!("cpu  1890443 455674 431254 3132865 13127 {hard} {soft} 1137 0 0\n");
            machine_ticks(&text).unwrap().interrupts
        };
        // Read from a kernel without IRQ_TIME_ACCOUNTING, which samples soft interrupts at ticks.
        assert_eq!(interrupts(0, 64_750), None);
        // With it, no core is busy without hard interrupts.
        assert_eq!(interrupts(19_430, 64_750), Some(84_180));
        assert_eq!(
            machine_ticks("cpu  0 0 0 0 0 0 0 0\n").unwrap().interrupts,
            None
        );
    }

    #[test]
    fn waiting_for_a_core_is_parsed_or_unknown() {
        assert_eq!(schedstat_delay_ns("1234 5678 9\n"), Some(5678));
        assert_eq!(schedstat_delay_ns("1234 0 9\n"), Some(0));
        let unknown = ["0 0 0\n", "", "1 2", "1 x 3"];
        assert!(unknown.iter().all(|t| schedstat_delay_ns(t).is_none()));
        let psi = "some avg10=8.95 avg60=7.92 avg300=5.02 total=4739819103\n\
                   full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure_ns(psi), Some(4_739_819_103_000));
        assert_eq!(pressure_ns("full avg10=0.00 total=1\n"), None);
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
            let _ = (schedstat_delay_ns(&text), pressure_ns(&text));
            let _ = (machine_ticks(&text), cpuinfo_value(&text, "a"), loadavg_centi(&text));
        }
    }
}
