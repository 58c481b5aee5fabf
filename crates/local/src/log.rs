//! Logs of the processes of a trial: the lines that explain a failure, and a limit of their size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of bytes at the end of a log that are read for a message.
const READ_BYTES: u64 = 64 << 10;
/// Maximum number of last lines in a message.
const TAIL_LINES: usize = 5;
/// Maximum number of characters of a line in a message.
const LINE_CHARS: usize = 300;
/// Words of lines that explain a failure.
const COMPLAINTS: [&str; 18] = [
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "denied",
    "error",
    "exception",
    "fail",
    "fatal",
    "in use",
    "invalid",
    "no such",
    "not found",
    "not known",
    "panic",
    "refused",
    "unable",
    "unknown",
];
/// Largest size of a log.
const BYTES_MAX: u64 = 16 << 20;
/// What is kept of a log that has become larger: its end.
const KEPT_BYTES: u64 = 4 << 20;
/// Begins the note in a log that was shortened.
const NOTE: &str = "tare: removed ";
/// A note is shorter.
const NOTE_BYTES_MAX: u64 = 200;
/// How often the sizes are checked.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The end of a log, for messages.
pub(super) fn end(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// The lines of a log's end that are not empty.
fn lines(path: &Path) -> Vec<String> {
    let end = end(path, READ_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&end);
    let short = |line: &str| line.chars().take(LINE_CHARS).collect();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(short).collect()
}

fn complains(line: &str) -> bool {
    let line = line.to_lowercase();
    COMPLAINTS.iter().any(|word| line.contains(word))
}

/// The last line of a log that explains a failure.
pub(super) fn complaint(path: &Path) -> Option<String> {
    lines(path).into_iter().rfind(|line| complains(line))
}

/// The last lines of a log, and before them the last that explains a failure; an empty string if the log is empty.
pub(super) fn tail(path: &Path) -> String {
    let lines = lines(path);
    if lines.is_empty() {
        return String::new();
    }
    let (before, last) = lines.split_at(lines.len().saturating_sub(TAIL_LINES));
    let explained = last.iter().any(|line| complains(line));
    let earlier = before.iter().rfind(|line| !explained && complains(line));
    let earlier = earlier.map(|line| format!("{line} | ... | "));
    format!(
        "; last lines of its log: {}{}",
        earlier.unwrap_or_default(),
        last.join(" | ")
    )
}

/// Keeps the logs in a directory short, until it is dropped.
pub(super) async fn keep_short(dir: &Path, access_logs: &[PathBuf]) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        shorten_all(dir, access_logs);
    }
}

/// Shortens the logs in a directory that are too large. Access logs are left out, because their
/// lines are counted.
pub(super) fn shorten_all(dir: &Path, access_logs: &[PathBuf]) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".log")
            && !access_logs.contains(&path)
            && let Err(error) = shorten(&path, BYTES_MAX, KEPT_BYTES)
        {
            tracing::debug!(path = %path.display(), %error, "a log could not be shortened");
        }
    }
}

/// Replaces a log by its end and a note, if it is too large. Its writers append, so that they
/// continue after that; what they write meanwhile may be lost.
fn shorten(path: &Path, bytes_max: u64, kept_bytes: u64) -> io::Result<()> {
    let bytes = fs::metadata(path)?.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    let mut end = end(path, kept_bytes)?;
    if let Some(first) = end.iter().position(|b| *b == b'\n') {
        end.drain(..=first);
    }
    let (note_bytes, removed_before) = noted(path)?;
    let removed = removed_before + bytes.saturating_sub(note_bytes + end.len() as u64);
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.set_len(0)?;
    let limit = bytes_max >> 20;
    let note = format!(
        "{NOTE}{removed} bytes from the start of this log; a log may have at most {limit} MiB\n"
    );
    file.write_all(&[note.as_bytes(), &end].concat())
}

/// The length of the note at the start of a log that was shortened before, and the number in it.
fn noted(path: &Path) -> io::Result<(u64, u64)> {
    let mut start = Vec::new();
    File::open(path)?
        .take(NOTE_BYTES_MAX)
        .read_to_end(&mut start)?;
    let start = String::from_utf8_lossy(&start);
    let note = start.lines().next().unwrap_or_default();
    let number = note
        .strip_prefix(NOTE)
        .and_then(|rest| rest.split(' ').next());
    Ok(match number.and_then(|number| number.parse().ok()) {
        Some(removed) => (note.len() as u64 + 1, removed),
        None => (0, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_explains_a_failure_is_in_the_message() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| fs::write(file.path(), text).unwrap();
        assert_eq!(tail(file.path()), "");
        write("starts\n\nUnknownHostException: stock\n at a\n at b\n at c\n at d\n at e\n");
        let expected = "; last lines of its log: UnknownHostException: stock | ... |  at a |  at b |  at c |  at d |  at e";
        assert_eq!(tail(file.path()), expected);
        assert_eq!(
            complaint(file.path()).unwrap(),
            "UnknownHostException: stock"
        );
        write("error: early\nx\ny\nfailed: late\n");
        assert_eq!(
            tail(file.path()),
            "; last lines of its log: error: early | x | y | failed: late"
        );
        assert_eq!(complaint(file.path()).unwrap(), "failed: late");
        write("all is well\n");
        assert_eq!(complaint(file.path()), None);
    }

    #[test]
    fn a_log_keeps_its_end_and_its_writer_continues_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("front.log");
        let mut writer = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        for place in 0..200 {
            writeln!(writer, "line {place}").unwrap();
        }
        let length = fs::metadata(&path).unwrap().len();
        shorten(&path, length, 30).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), length, "not too large");
        shorten(&path, length - 1, 30).unwrap();
        writeln!(writer, "more").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let note = |removed: u64| {
            format!(
                "tare: removed {removed} bytes from the start of this log; a log may have at most 0 MiB"
            )
        };
        let kept = "line 197\nline 198\nline 199\n".len() as u64;
        assert_eq!(lines[0], note(length - kept));
        assert_eq!(lines[1..], ["line 197", "line 198", "line 199", "more"]);
        // The second note counts what the first one did.
        shorten(&path, 30, 10).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\nmore\n", note(length)));
    }

    #[test]
    fn only_access_logs_may_be_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names = ["shop-0-x-access.log", "shop-0-front-access.log"];
        for name in names {
            let file = File::create(path(name)).unwrap();
            file.set_len(BYTES_MAX + 1).unwrap();
        }
        shorten_all(dir.path(), &[path(names[1])]);
        let lengths = names.map(|name| fs::metadata(path(name)).unwrap().len());
        assert!(lengths[0] < BYTES_MAX, "{lengths:?}");
        assert_eq!(lengths[1], BYTES_MAX + 1);
    }
}
