//! The side in the pod, which sends.

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tare_records::layout::PARTIAL_PREFIX;

use super::{Header, ListDigest, REQUEST_BYTES_MAX, Request};
use tare_run::digest::sha256;

/// Longest time in which the receiver reads nothing.
const STALLED: Duration = Duration::from_secs(60);

/// Answers requests for the files of a directory on a port of the loopback, without an end.
///
/// # Errors
/// When the port cannot be used.
pub fn serve(dir: &Path, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    for connection in listener.incoming() {
        let dir = dir.to_owned();
        match connection {
            // A connection that fails is repeated by the receiver.
            Ok(connection) => drop(thread::spawn(move || respond(&dir, &connection))),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
    Ok(())
}

fn respond(dir: &Path, connection: &TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(STALLED))?;
    connection.set_write_timeout(Some(STALLED))?;
    let mut request = String::new();
    BufReader::new(connection.take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    answer(dir, &request, &mut io::BufWriter::new(connection))
}

/// Writes the answer to a request: all files of the directory, without those of trials that are still in progress. A file
/// that vanishes meanwhile is left out.
///
/// # Errors
/// When the request is invalid, a file cannot be read, or `out` fails.
pub fn answer(dir: &Path, request: &str, out: &mut impl Write) -> io::Result<()> {
    let Request { have } = serde_json::from_str(request)?;
    let (mut files, mut list) = (0, ListDigest::new());
    let mut paths = Vec::new();
    add_files(dir, "", &mut paths)?;
    for (path, file) in paths {
        let content = match std::fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            content => content?,
        };
        let sha256 = sha256(&content);
        let known = have.get(&path) == Some(&sha256);
        let packed = if known { Vec::new() } else { gzip(&content)? };
        files += 1;
        list.add(&path, &sha256);
        let bytes = packed.len() as u64;
        let header = Header::File {
            path,
            bytes,
            sha256,
        };
        write_header(&header, out)?;
        out.write_all(&packed)?;
    }
    let sha256 = list.finish();
    write_header(&Header::End { files, sha256 }, out)?;
    out.flush()
}

/// Adds the regular files of a directory, in the order of their names.
fn add_files(dir: &Path, above: &str, paths: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut entries: Vec<_> = entries.collect::<io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| !n.starts_with(PARTIAL_PREFIX)) else {
            continue;
        };
        let path = format!("{above}{name}");
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            add_files(&entry.path(), &format!("{path}/"), paths)?;
        } else if kind.is_file() {
            paths.push((path, entry.path()));
        }
    }
    Ok(())
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(content)?;
    packed.finish()
}

fn write_header(header: &Header, out: &mut impl Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(header)?;
    line.push(b'\n');
    out.write_all(&line)
}
