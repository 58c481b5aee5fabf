use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("run.json", "{}");
    write("trials/000-a/load.ndjson", &"record\n".repeat(9_000));
    write("trials/000-a/logs/empty", "");
    write("trials/.partial-001-b/load.ndjson", "unfinished");
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("link")).unwrap();
    dir
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut below = vec![dir.to_owned()];
    while let Some(next) = below.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            found.push((name, std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Reads a request, and returns the connection and the complete answer.
async fn asked(mut stream: DuplexStream, dir: &Path) -> (DuplexStream, Vec<u8>) {
    let mut request = Vec::new();
    while request.last() != Some(&b'\n') {
        request.push(stream.read_u8().await.unwrap());
    }
    let mut bytes = Vec::new();
    answer(dir, std::str::from_utf8(&request).unwrap(), &mut bytes).unwrap();
    (stream, bytes)
}

/// Sends a directory, but only the first `limit` bytes of the answer; returns the length of the whole answer.
async fn send(stream: DuplexStream, dir: &Path, limit: usize) -> usize {
    let (mut stream, bytes) = asked(stream, dir).await;
    let sent = &bytes[..limit.min(bytes.len())];
    stream.write_all(sent).await.unwrap();
    bytes.len()
}

#[tokio::test]
async fn a_directory_arrives_without_unfinished_trials_and_without_links() {
    let (from, to) = (directory(), tempfile::tempdir().unwrap());
    let mut receiver = Receiver::new(to.path().to_owned());
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (received, _) = tokio::join!(
        receiver.receive(ours),
        send(theirs, from.path(), usize::MAX)
    );
    received.unwrap();
    let mut expected = files(from.path());
    expected.retain(|(name, _)| !name.contains("partial") && name != "link");
    assert_eq!(expected.len(), 3);
    assert_eq!(files(to.path()), expected);
    assert_eq!(receiver.files(), 3);
}

#[tokio::test]
async fn a_connection_that_breaks_anywhere_is_continued_without_the_complete_files() {
    let from = directory();
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let to = tempfile::tempdir().unwrap();
    let mut whole = Receiver::new(to.path().to_owned());
    let (received, length) =
        tokio::join!(whole.receive(ours), send(theirs, from.path(), usize::MAX));
    received.unwrap();
    for cut in 0..length {
        let to = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(to.path().to_owned());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (received, _) = tokio::join!(receiver.receive(ours), send(theirs, from.path(), cut));
        received.unwrap_err();
        let complete = receiver.files();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (received, again) = tokio::join!(
            receiver.receive(ours),
            send(theirs, from.path(), usize::MAX)
        );
        received.unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        assert_eq!(files(to.path()).len(), 3, "cut at {cut}");
        assert_eq!(again < length, complete > 0, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_file_that_vanishes_between_two_connections_is_removed() {
    let (from, to) = (directory(), tempfile::tempdir().unwrap());
    let mut receiver = Receiver::new(to.path().to_owned());
    for expected in [3, 2] {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (received, _) = tokio::join!(
            receiver.receive(ours),
            send(theirs, from.path(), usize::MAX)
        );
        received.unwrap();
        assert_eq!(files(to.path()).len(), expected);
        let _ = std::fs::remove_file(from.path().join("run.json"));
    }
}

#[tokio::test]
async fn paths_that_lead_out_of_the_directory_are_refused() {
    for path in ["../up", "/etc/passwd", "a/../../b", "", "./a"] {
        let to = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(to.path().join("run"));
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let header = serde_json::json!({"type": "file", "path": path, "bytes": 0, "sha256": "x"});
        theirs
            .write_all(format!("{header}\n").as_bytes())
            .await
            .unwrap();
        let refused = receiver.receive(ours).await.unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("inside the run directory"), "{refused}");
        assert!(files(to.path()).is_empty());
    }
}

#[tokio::test]
async fn the_files_are_served_on_a_port_again_and_again() {
    let from = directory();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let dir = from.path().to_owned();
    std::thread::spawn(move || serve(&dir, port));
    let connect = || async {
        for _ in 0..500 {
            if let Ok(stream) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                return stream;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("nothing listens on port {port}");
    };
    for _ in 0..2 {
        let to = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(to.path().to_owned());
        receiver.receive(connect().await).await.unwrap();
        assert_eq!(files(to.path()).len(), 3);
    }
}

/// Sends two files of zeros, which a few bytes unpack to. Returns what the receiver found, and the
/// names of the files that it left.
async fn zeros(bytes: usize, limits: Limits) -> (Result<(), Failure>, Vec<String>) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("zeros"), vec![0; bytes]).unwrap();
    std::fs::write(from.path().join("zeros-2"), vec![0; bytes]).unwrap();
    let mut receiver = Receiver::new(to.path().to_owned()).with_limits(limits);
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (received, _) = tokio::join!(
        receiver.receive(ours),
        send(theirs, from.path(), usize::MAX)
    );
    drop(receiver);
    let left = files(to.path()).into_iter().map(|(name, content)| {
        assert!(content.len() as u64 <= limits.file_bytes, "{name}");
        name
    });
    (received, left.collect())
}

#[tokio::test]
async fn what_is_too_large_is_refused_while_it_arrives_and_named() {
    let limits = Limits {
        file_bytes: 1 << 20,
        all_bytes: 3 << 20,
        files: 2,
    };
    let both = ["zeros", "zeros-2"].map(str::to_owned).to_vec();
    assert_eq!(zeros(1 << 20, limits).await, (Ok(()), both.clone()));
    let (bomb, left) = zeros(64 << 20, limits).await;
    let bomb = bomb.unwrap_err();
    assert_eq!(left, Vec::<String>::new());
    assert!(
        matches!(&bomb, Failure::Refused(found) if found.starts_with("zeros is too large")),
        "{bomb}"
    );
    let all = Limits {
        all_bytes: 1 << 20,
        ..limits
    };
    let (found, left) = zeros(1 << 20, all).await;
    let found = found.unwrap_err();
    assert_eq!(left, both[..1]);
    assert!(
        matches!(&found, Failure::Refused(found) if found.contains("until zeros-2")),
        "{found}"
    );
    let few = Limits { files: 1, ..limits };
    let (found, left) = zeros(1, few).await;
    let refused = Failure::Refused("found more than 1 files".to_owned());
    assert_eq!((found, left), (Err(refused), both));
}

#[tokio::test]
async fn a_path_that_comes_again_is_refused() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("a"), "a").unwrap();
    let mut one = Vec::new();
    answer(from.path(), "{\"have\": {}}", &mut one).unwrap();
    let header = b"{\"type\":\"end\"";
    let end = one
        .windows(header.len())
        .position(|at| at == header)
        .unwrap();
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    theirs.write_all(&one[..end].repeat(3)).await.unwrap();
    let mut receiver = Receiver::new(to.path().to_owned());
    let refused = receiver.receive(ours).await.unwrap_err();
    let expected = "found the path \"a\" twice".to_owned();
    assert_eq!(refused, Failure::Refused(expected));
}

#[tokio::test]
async fn a_stream_with_any_byte_damaged_ends_and_leaves_no_file_that_is_not_the_senders() {
    let from = directory();
    let mut whole = Vec::new();
    answer(from.path(), "{\"have\": {}}", &mut whole).unwrap();
    let sent = files(from.path());
    for at in 0..whole.len() {
        let to = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        let mut receiver = Receiver::new(to.path().to_owned());
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&damaged).await.unwrap();
        theirs.shutdown().await.unwrap();
        let _ = receiver.receive(ours).await;
        for (name, content) in files(to.path()) {
            let is_sent = sent.iter().any(|(_, original)| *original == content);
            assert!(is_sent || name == ".part", "byte {at}: {name}");
        }
    }
}
