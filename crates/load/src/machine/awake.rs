//! Keeps the cores out of deep idle states during a measurement.
//!
//! An idle core enters a sleep state and needs time to wake: microseconds on hardware; on a
//! virtual machine up to milliseconds, until the host returns the core. At a low rate this
//! time dominates the latency. The kernel limits it while a process requests so (PM QoS):
//! <https://docs.kernel.org/power/pm_qos_interface.html>.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Error, Write};
use std::path::Path;

const DEVICE: &str = "/dev/cpu_dma_latency";
const CPUIDLE: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const FIRST_SLEEP: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency";
const CPUINFO: &str = "/proc/cpuinfo";
/// If it takes longer than this to leave the first sleep state, the cores spin instead.
const FIRST_SLEEP_US_MAX: u32 = 3;

/// Why the cores cannot be kept awake.
#[derive(Debug, thiserror::Error)]
pub enum NotAwake {
    /// The processor or the host controls idle states.
    #[error("the kernel has no cpuidle driver, so the idle states of the cores cannot be limited")]
    NoDriver,
    /// The device is missing, or this user may not write to it.
    #[error("cannot write to {DEVICE}: {0}; run as root, and in a container add the device")]
    Device(#[source] Error),
}

/// Keeps all cores of the machine awake until it is dropped or the process ends.
#[derive(Debug)]
pub struct Awake {
    /// The kernel drops the request when this file is closed.
    _request: File,
    limit_us: u32,
    driver: String,
}

impl Awake {
    /// Requests that the kernel keep the cores awake. On a virtual machine the cores spin,
    /// because even the lightest sleep returns the core to the host. On other machines they may
    /// enter the first sleep state if it takes at most 3 us to leave, because spinning slows
    /// down the other thread of the core.
    ///
    /// # Errors
    /// Without a cpuidle driver, or without access to the device.
    pub fn hold() -> Result<Self, NotAwake> {
        Self::at(
            Path::new(DEVICE),
            Path::new(CPUIDLE),
            Path::new(FIRST_SLEEP),
            Path::new(CPUINFO),
        )
    }

    fn at(
        device: &Path,
        driver: &Path,
        first_sleep: &Path,
        cpuinfo: &Path,
    ) -> Result<Self, NotAwake> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let driver = read(driver).trim().to_owned();
        if driver.is_empty() || driver == "none" {
            return Err(NotAwake::NoDriver);
        }
        let first_us = read(first_sleep).trim().parse().unwrap_or(0);
        let flags = read(cpuinfo);
        let flags = flags.lines().find(|l| l.starts_with("flags"));
        let is_virtual = flags.is_some_and(|l| l.split_whitespace().any(|f| f == "hypervisor"));
        // Only virtual machines use the haltpoll driver.
        let spins = is_virtual || driver == "haltpoll" || first_us > FIRST_SLEEP_US_MAX;
        let limit_us = if spins { 0 } else { first_us };
        let mut request = OpenOptions::new()
            .write(true)
            .open(device)
            .map_err(NotAwake::Device)?;
        request
            .write_all(&limit_us.to_ne_bytes())
            .map_err(NotAwake::Device)?;
        Ok(Self {
            _request: request,
            limit_us,
            driver,
        })
    }
}

impl fmt::Display for Awake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit_us, driver, ..
        } = self;
        write!(f, "at most {limit_us} us to wake, cpuidle driver {driver}")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(driver: Option<&str>, first_sleep: Option<&str>) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            fs::write(machine.path("device"), []).unwrap();
            for (name, text) in [("driver", driver), ("first", first_sleep)] {
                if let Some(text) = text {
                    fs::write(machine.path(name), format!("{text}\n")).unwrap();
                }
            }
            machine
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.0.path().join(name)
        }

        fn hold(&self) -> Result<Awake, NotAwake> {
            Awake::at(
                &self.path("device"),
                &self.path("driver"),
                &self.path("first"),
                &self.path("cpuinfo"),
            )
        }

        fn limit_us(&self) -> u32 {
            let awake = self.hold().unwrap();
            let written = fs::read(self.path("device")).unwrap();
            let limit_us = u32::from_ne_bytes(written.try_into().unwrap());
            assert_eq!(limit_us, awake.limit_us);
            limit_us
        }
    }

    #[test]
    fn cores_spin_on_virtual_machines_and_where_the_first_sleep_state_is_slow() {
        assert_eq!(Machine::new(Some("haltpoll"), Some("1")).limit_us(), 0);
        assert_eq!(Machine::new(Some("intel_idle"), Some("2")).limit_us(), 2);
        assert_eq!(Machine::new(Some("intel_idle"), Some("10")).limit_us(), 0);
        assert_eq!(Machine::new(Some("acpi_idle"), None).limit_us(), 0);
        let guest = Machine::new(Some("acpi_idle"), Some("1"));
        fs::write(
            guest.path("cpuinfo"),
            "model name: x\nflags : fpu hypervisor\n",
        )
        .unwrap();
        assert_eq!(guest.limit_us(), 0);
        let awake = Machine::new(Some("acpi_idle"), Some("1")).hold().unwrap();
        assert_eq!(
            awake.to_string(),
            "at most 1 us to wake, cpuidle driver acpi_idle"
        );
    }

    #[test]
    fn a_missing_driver_or_device_is_an_error() {
        for driver in [None, Some("none")] {
            let refused = Machine::new(driver, None).hold().unwrap_err();
            assert!(matches!(refused, NotAwake::NoDriver), "{refused}");
        }
        let machine = Machine::new(Some("haltpoll"), None);
        fs::remove_file(machine.path("device")).unwrap();
        let refused = machine.hold().unwrap_err().to_string();
        assert!(refused.contains("run as root"), "{refused}");
    }

    #[test]
    fn the_kernel_applies_the_request_while_it_is_held() {
        let driver = fs::read_to_string(CPUIDLE).unwrap_or_default();
        let may = OpenOptions::new().write(true).open(DEVICE).is_ok();
        let held = Awake::hold();
        assert_eq!(
            held.is_ok(),
            may && !["", "none"].contains(&driver.trim()),
            "{driver}: {held:?}"
        );
        let Ok(awake) = held else {
            return;
        };
        // The device returns the strictest of all requests.
        let mut strictest = [0; 4];
        File::open(DEVICE)
            .unwrap()
            .read_exact(&mut strictest)
            .unwrap();
        let strictest_us = i32::from_ne_bytes(strictest);
        assert!(
            strictest_us <= awake.limit_us as i32,
            "{strictest_us} us, {awake}"
        );
    }
}
