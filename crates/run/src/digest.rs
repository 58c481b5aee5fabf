//! SHA-256 digests.

use std::io::{self, Read as _};
use std::path::Path;

use ring::digest::{Context, Digest, SHA256, digest};

/// Returns a digest in the form of image references: `sha256:` and hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&digest(&SHA256, bytes)))
}

/// Formats a digest in hexadecimal digits.
pub fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the SHA-256 digest of a file in hexadecimal digits.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = tare_files::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => context.update(&buffer[..n]),
        }
    }
    Ok(hex(&context.finish()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn digest_of_a_known_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        fs::write(&path, "abc").unwrap();
        assert_eq!(
            of_file(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
