//! Names of functions: from the symbol tables of programs and libraries, and from /proc/kallsyms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use tare_records::stacks::Frame;

/// Finds the names of functions, and keeps the symbol tables that it has read.
pub(super) struct Symbols(Symbolizer);

impl Symbols {
    pub(super) fn new() -> Self {
        Self(Symbolizer::new())
    }

    /// Returns the functions of addresses in the code of a process. Addresses outside of code have none.
    pub(super) fn of_process(
        &self,
        code: &[Mapping],
        addresses: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Frame> {
        let mut found = BTreeMap::new();
        let mut modules: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for &address in addresses {
            if let Some(mapping) = code.iter().find(|m| m.memory.contains(&address)) {
                let offset = address - mapping.memory.start + mapping.offset;
                let of_module = modules.entry(&mapping.path).or_default();
                of_module.push((address, offset));
            }
        }
        for (path, places) in modules {
            let offsets: Vec<u64> = places.iter().map(|(_, offset)| *offset).collect();
            let names = match path.starts_with('/') {
                true => self.names(
                    &Source::Elf(Elf::new(path)),
                    Input::FileOffset(&offsets),
                    true,
                ),
                false => vec![None; offsets.len()],
            };
            let name = Path::new(path).file_name().map(|n| n.to_string_lossy());
            let module = name.unwrap_or(path.into());
            for ((address, _), function) in places.into_iter().zip(names) {
                let module = Some(module.clone().into_owned());
                found.insert(address, Frame { function, module });
            }
        }
        found
    }

    /// Returns the functions of addresses of the kernel.
    pub(super) fn of_kernel(&self, addresses: &BTreeSet<u64>) -> BTreeMap<u64, Frame> {
        let all: Vec<u64> = addresses.iter().copied().collect();
        let names = self.names(
            &Source::Kernel(Kernel::default()),
            Input::AbsAddr(&all),
            false,
        );
        let frame = |function| Frame {
            function,
            module: None,
        };
        all.into_iter().zip(names.into_iter().map(frame)).collect()
    }

    /// The name of the function at each address. `sized`: only of symbols with a size, because the last
    /// symbol of a stripped program would give its name to all code after it.
    fn names(&self, source: &Source<'_>, input: Input<&[u64]>, sized: bool) -> Vec<Option<String>> {
        let (Input::AbsAddr(all) | Input::VirtOffset(all) | Input::FileOffset(all)) = input;
        let count = all.len();
        match self.0.symbolize(source, input) {
            Ok(all) => all
                .into_iter()
                .map(|one| match one {
                    Symbolized::Sym(s) if !sized || s.size.is_some_and(|bytes| bytes > 0) => {
                        Some(s.name.into_owned())
                    }
                    _ => None,
                })
                .collect(),
            Err(error) => {
                tracing::debug!(%error, "no symbols");
                vec![None; count]
            }
        }
    }
}

/// Why functions of the kernel have no names, and what reveals them; `None` if they have.
pub(super) fn kernel_hidden() -> Option<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let restrict = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    hidden(&symbols, restrict.trim())
}

/// The kernel shows all addresses as zero to those who may not see them.
fn hidden(symbols: &str, restrict: &str) -> Option<String> {
    let visible = |line: &str| {
        line.split(' ')
            .next()
            .is_some_and(|a| a.contains(|c| c != '0'))
    };
    (!symbols.lines().take(100).any(visible)).then(|| {
        format!(
            "functions of the kernel have no names (kernel.kptr_restrict is {restrict}): run tare as root, \
             or permit them with `sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=0`; a \
             container also needs CAP_SYSLOG"
        )
    })
}

/// A part of a file that a process has in its memory as code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    memory: Range<u64>,
    /// Where the part begins in the file, in bytes.
    offset: u64,
    /// Path of the file, or a name such as `[vdso]`.
    path: String,
}

/// The code of a process; nothing of a process that has ended. `in_container`: it has a file system of its own.
pub(super) fn code_of(pid: u32, in_container: bool) -> Vec<Mapping> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut code = mappings(&maps);
    for mapping in code
        .iter_mut()
        .filter(|m| in_container && m.path.starts_with('/'))
    {
        mapping.path.insert_str(0, &format!("/proc/{pid}/root"));
    }
    code
}

/// Reads the code from `/proc/PID/maps`.
fn mappings(maps: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        if !fields.next()?.contains('x') {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            memory: number(start)?..number(end)?,
            offset: number(fields.next()?)?,
            path: fields.nth(2).unwrap_or("[anonymous memory]").to_owned(),
        })
    };
    maps.lines().filter_map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_belongs_to_the_file_that_was_loaded() {
        let maps = "\
55d0-55e0 r--p 00000000 fe:00 17 /usr/bin/envoy
55e0-55f0 r-xp 00000010 fe:00 17 /usr/bin/envoy (deleted)
7f00-7f10 r-xp 00000000 00:00 0
ff00-ff10 r-xp 00000000 00:00 0 [vdso]
";
        let found = mappings(maps);
        let names: Vec<&str> = found.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(names, ["/usr/bin/envoy", "[anonymous memory]", "[vdso]"]);
        assert_eq!(
            (&found[0].memory, found[0].offset),
            (&(0x55e0..0x55f0), 0x10)
        );
        let frames = Symbols::new().of_process(&found, &BTreeSet::from([0x55e1, 0x6000, 0xff01]));
        let modules: Vec<_> = frames
            .iter()
            .map(|(at, f)| (*at, f.module.as_deref()))
            .collect();
        assert_eq!(modules, [(0x55e1, Some("envoy")), (0xff01, Some("[vdso]"))]);
    }

    #[test]
    fn hidden_symbols_of_the_kernel_are_reported() {
        let seen = "ffffffff81000000 T _text\n";
        assert_eq!(hidden(seen, "0"), None);
        let zeros = "0000000000000000 T _text\n0000000000000000 T _stext\n";
        let found = hidden(zeros, "1").unwrap();
        assert!(
            found.contains("sudo sysctl kernel.kptr_restrict=0"),
            "{found}"
        );
        assert!(hidden("", "2").is_some());
    }
}
