//! The newest numbered lines, in two files of limited size.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

/// Keeps at least the newest half of `bytes_max` bytes, and never more than `bytes_max`.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    bytes_max: u64,
    /// The older lines.
    older: Option<Segment>,
    newer: Segment,
    /// Number of the next line; the first line has number 1.
    next: u64,
    /// Number of files that were started.
    files: u64,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Segment {
    fn create(dir: &Path, number: u64) -> io::Result<Self> {
        let path = dir.join(format!("{number}.records"));
        Ok(Self {
            file: File::create(&path)?,
            path,
            bytes: 0,
        })
    }
}

impl Store {
    /// Creates an empty store in an existing directory.
    pub(super) fn create(dir: &Path, bytes_max: u64) -> io::Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            bytes_max,
            older: None,
            newer: Segment::create(dir, 0)?,
            next: 1,
            files: 1,
        })
    }

    /// Adds a line and returns it with its number and a newline. Without space, the line is not kept.
    pub(super) fn add(&mut self, line: &str) -> String {
        let numbered = format!("{} {line}\n", self.next);
        self.next += 1;
        if let Err(error) = self.keep(numbered.as_bytes()) {
            tracing::debug!(%error, "a record is not kept");
        }
        numbered
    }

    fn keep(&mut self, line: &[u8]) -> io::Result<()> {
        if self.newer.bytes + line.len() as u64 > self.bytes_max / 2 {
            let segment = Segment::create(&self.dir, self.files)?;
            self.files += 1;
            let full = std::mem::replace(&mut self.newer, segment);
            if let Some(oldest) = self.older.replace(full) {
                std::fs::remove_file(oldest.path)?;
            }
        }
        if line.len() as u64 > self.bytes_max / 2 {
            return Ok(());
        }
        self.newer.file.write_all(line)?;
        self.newer.bytes += line.len() as u64;
        Ok(())
    }

    /// Returns a reader of the lines from number `from` that are kept now, and the number of the line after them.
    pub(super) fn read(&self, from: u64) -> io::Result<(Kept, u64)> {
        let segments = self.older.iter().chain([&self.newer]);
        let files: io::Result<Vec<_>> = segments
            .map(|s| Ok(BufReader::new(File::open(&s.path)?.take(s.bytes))))
            .collect();
        let mut files = files?;
        files.reverse();
        Ok((Kept { files, from }, self.next))
    }
}

/// Lines of a [`Store`], which may be changed or deleted meanwhile.
#[derive(Debug)]
pub(super) struct Kept {
    /// The next file is the last one.
    files: Vec<BufReader<io::Take<File>>>,
    from: u64,
}

impl Kept {
    /// Returns the next line with its number and newline.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(file) = self.files.last_mut() {
            let mut line = Vec::new();
            if file.read_until(b'\n', &mut line)? == 0 {
                self.files.pop();
                continue;
            }
            if number(&line).is_some_and(|n| n >= self.from) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

fn number(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&b| b == b' ').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &Store, from: u64) -> (String, u64) {
        let (mut kept, next) = store.read(from).unwrap();
        let mut all = Vec::new();
        while let Some(line) = kept.next().unwrap() {
            all.extend(line);
        }
        (String::from_utf8(all).unwrap(), next)
    }

    #[test]
    fn lines_are_read_from_any_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), 1 << 20).unwrap();
        assert_eq!(read(&store, 1), (String::new(), 1));
        assert_eq!(store.add("{\"a\": 1}"), "1 {\"a\": 1}\n");
        store.add("b");
        store.add("c");
        assert_eq!(read(&store, 2), ("2 b\n3 c\n".to_owned(), 4));
        assert_eq!(read(&store, 4), (String::new(), 4));
    }

    #[test]
    fn the_oldest_lines_are_dropped_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), 40).unwrap();
        for _ in 0..9 {
            store.add("1234567");
        }
        let (text, next) = read(&store, 1);
        // Two lines of 10 bytes fit into each file.
        assert_eq!(
            (text.as_str(), next),
            ("7 1234567\n8 1234567\n9 1234567\n", 10)
        );
        let kept: u64 = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|f| f.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(kept, 30);
        store.add(&"x".repeat(60));
        assert_eq!(
            read(&store, 10).0,
            "",
            "a line that does not fit is not kept"
        );
        store.add("after");
        assert_eq!(read(&store, 10).0, "11 after\n");
    }

    #[test]
    fn a_reader_keeps_its_lines_while_the_store_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), 40).unwrap();
        store.add("1234567");
        let (mut kept, _) = store.read(1).unwrap();
        for _ in 0..9 {
            store.add("1234567");
        }
        assert_eq!(kept.next().unwrap().unwrap(), b"1 1234567\n");
        assert_eq!(kept.next().unwrap(), None);
    }
}
