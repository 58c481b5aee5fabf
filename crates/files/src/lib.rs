//! What tare asks of the operating system in one place: the wall clock, files that are replaced as a whole, and files that
//! somebody else may have written. A named pipe, a socket or a device in the place of a file is
//! refused and never waited for, and no file is read beyond a limit.

mod clock;
mod write;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, major, minor};

pub use clock::unix_ns;
pub use write::{create_private, write_atomically};

/// A limit for documents that a person writes or reads.
pub const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// Opens a regular file. Links are followed. `/dev/null` counts as an empty file.
///
/// What the shell passes as `/dev/stdin` or `/dev/fd/N` may be a pipe: the user who typed the command connected it.
///
/// # Errors
/// When the file cannot be opened, or is none.
pub fn open(path: &Path) -> io::Result<File> {
    if is_descriptor(path) {
        return File::open(path);
    }
    opened(path, OFlags::NONBLOCK, std::fs::metadata(path)?)
}

/// Opens a regular file, and refuses a symbolic link: for folders whose files tare wrote itself.
///
/// # Errors
/// When the file cannot be opened, or is none.
pub fn open_without_links(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    opened(path, flags, std::fs::symlink_metadata(path)?)
}

fn opened(path: &Path, flags: OFlags, before: Metadata) -> io::Result<File> {
    // A socket cannot be opened, and opening a device can have an effect.
    is_file(&before)?;
    // Without blocking: another file may have taken the place meanwhile.
    let flags = flags.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    is_file(&file.metadata()?)?;
    Ok(file)
}

fn is_file(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let device = found.rdev();
    let is_null = kind.is_char_device() && (major(device), minor(device)) == (1, 3);
    if kind.is_file() || is_null {
        return Ok(());
    }
    let (error, name) = match () {
        () if kind.is_dir() => (ErrorKind::IsADirectory, "a directory"),
        () if kind.is_symlink() => (ErrorKind::InvalidInput, "a symbolic link"),
        () if kind.is_fifo() => (ErrorKind::InvalidInput, "a named pipe"),
        () if kind.is_socket() => (ErrorKind::InvalidInput, "a socket"),
        () => (ErrorKind::InvalidInput, "a device"),
    };
    Err(Error::new(error, format!("it is {name}, not a file")))
}

/// Whether a path names a descriptor that this process was started with.
fn is_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || [Path::new("/dev/fd"), Path::new("/proc/self/fd")]
            .contains(&path.parent().unwrap_or(path))
}

/// Checks that another library can read a file: that it is one, and has at most `most` bytes.
///
/// # Errors
/// As for [`read`].
pub fn check(path: &Path, most: u64) -> io::Result<()> {
    match open(path)?.metadata()?.len() > most {
        true => Err(too_large(most)),
        false => Ok(()),
    }
}

/// Reads a file of at most `most` bytes. Links are followed.
///
/// # Errors
/// When the file cannot be read, is none (see [`open`]), or is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    all(open(path)?, most)
}

/// Reads a text file of at most `most` bytes. Links are followed.
///
/// # Errors
/// As for [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    all_text(open(path)?, most)
}

/// Reads all of `input`, a text of at most `most` bytes.
///
/// # Errors
/// When it cannot be read, has more, or is not UTF-8.
pub fn all_text(input: impl Read, most: u64) -> io::Result<String> {
    String::from_utf8(all(input, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let found = format!("byte {} is not valid UTF-8: save the file as UTF-8", at + 1);
        Error::new(ErrorKind::InvalidData, found)
    })
}

/// Reads all of `input`, which must have at most `most` bytes.
///
/// # Errors
/// When it cannot be read, or has more.
pub fn all(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_large(most)),
        false => Ok(bytes),
    }
}

fn too_large(most: u64) -> Error {
    let size = match (most >> 20, most >> 10) {
        (0, 0) => format!("{most} bytes"),
        (0, kib) => format!("{kib} KiB"),
        (mib, _) => format!("{mib} MiB"),
    };
    Error::new(ErrorKind::FileTooLarge, format!("it is larger than {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn found(path: &Path) -> Result<Vec<u8>, String> {
        read(path, 4).map_err(|e| e.to_string())
    }

    #[test]
    fn only_files_are_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let not = |what: &str| Err(format!("it is {what}, not a file"));
        std::fs::write(at("file"), "abcd").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(found(&at("file")).unwrap(), b"abcd");
        assert_eq!(found(&at("link")).unwrap(), b"abcd");
        assert_eq!(found(&at("pipe")), not("a named pipe"));
        assert_eq!(found(&at("socket")), not("a socket"));
        assert_eq!(found(&at("zero")), not("a device"));
        assert_eq!(found(dir.path()), not("a directory"));
        assert_eq!(found(Path::new("/dev/null")).unwrap(), b"");
        assert_eq!(open(&at("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(open_without_links(&at("file")).is_ok());
        let error = open_without_links(&at("link")).unwrap_err();
        assert_eq!(error.to_string(), "it is a symbolic link, not a file");
    }

    #[test]
    fn what_the_shell_connects_may_be_a_pipe() {
        let paths = ["/dev/stdin", "/dev/fd/63", "/proc/self/fd/3"];
        assert!(paths.iter().all(|path| is_descriptor(Path::new(path))));
        let paths = ["/dev/zero", "/dev/fd/../zero", "stdin", "/", "/dev/fd"];
        assert!(!paths.iter().any(|path| is_descriptor(Path::new(path))));
    }

    #[test]
    fn a_larger_file_is_refused_while_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        // No memory for 1 TiB: only what the limit permits is read.
        let file = File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(found(&path), Err("it is larger than 4 bytes".into()));
        let error = read(&path, DOCUMENT_BYTES_MAX).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 16 MiB");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let error = check(&path, DOCUMENT_BYTES_MAX).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 16 MiB");
    }

    #[test]
    fn the_place_of_an_invalid_character_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path, 9).unwrap_err().to_string();
        assert_eq!(error, "byte 3 is not valid UTF-8: save the file as UTF-8");
    }
}
