//! An OCI image of one static program, and its archive.
//!
//! Source: Open Container Initiative, image format and image layout, version 1.

use std::io::{self, Write};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// Size of a tar block.
const BLOCK: usize = 512;
/// `e_machine` of ELF files, with the name of the architecture in images.
const MACHINES: [(u16, &str); 2] = [(62, "amd64"), (183, "arm64")];

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file is not a Linux program for a supported architecture.
    #[error("not an ELF program for x86-64 or ARM64")]
    Machine,
    /// The program needs shared libraries, which the image does not have.
    #[error(
        "the program is dynamically linked: build it with --target x86_64-unknown-linux-musl (`make image`)"
    )]
    Dynamic,
    /// The archive could not be written.
    #[error("failed to write the archive: {0}")]
    Io(#[from] io::Error),
}

/// Writes an archive with an image that contains `program` as `/tare`, and returns the digest of its
/// manifest. The same program gives the same bytes.
///
/// # Errors
/// When the program is not static or not of a supported architecture, or `out` fails.
pub fn write(program: &[u8], name: &str, out: &mut impl Write) -> Result<String, ImageError> {
    let machine = machine(program)?;
    let mut layer = Vec::new();
    entry(&mut layer, "tare", program, 0o755)?;
    end(&mut layer)?;
    let config = json!({"architecture": machine, "os": "linux",
        "config": {"Entrypoint": ["/tare"], "User": "65532:65532", "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
        "history": [{"created_by": "tare image"}]});
    let config = config.to_string().into_bytes();
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)]});
    let manifest = manifest.to_string().into_bytes();
    let mut of_index = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    of_index["platform"] = json!({"architecture": machine, "os": "linux"});
    of_index["annotations"] = json!({"io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rsplit_once(':').map_or("latest", |(_, tag)| tag)});
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [of_index]});
    entry(
        out,
        "oci-layout",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
        0o644,
    )?;
    entry(out, "index.json", index.to_string().as_bytes(), 0o644)?;
    // Older versions of `docker load` need this file.
    let docker = json!([{"Config": blob(&config), "RepoTags": [name], "Layers": [blob(&layer)]}]);
    entry(out, "manifest.json", docker.to_string().as_bytes(), 0o644)?;
    for bytes in [&config, &manifest, &layer] {
        entry(out, &blob(bytes), bytes, 0o644)?;
    }
    end(out)?;
    out.flush()?;
    Ok(sha256(&manifest))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": sha256(bytes), "size": bytes.len()})
}

fn sha256(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let hex: String = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/{}", sha256(bytes).replace(':', "/"))
}

/// Returns the architecture of a static 64-bit little-endian ELF file.
fn machine(program: &[u8]) -> Result<&'static str, ImageError> {
    let number = |at: usize, len: usize| -> Option<u64> {
        let bytes = program.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let known = program.starts_with(b"\x7fELF\x02\x01");
    let id = number(18, 2).filter(|_| known).ok_or(ImageError::Machine)?;
    let machine = MACHINES.iter().find(|(n, _)| u64::from(*n) == id);
    let (_, word) = machine.ok_or(ImageError::Machine)?;
    let (at, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let (Some(at), Some(size), Some(count)) = (at, size, count) else {
        return Err(ImageError::Machine);
    };
    const INTERPRETER: u64 = 3;
    let kind = |i: u64| number(at.saturating_add(i * size) as usize, 4);
    if (0..count).any(|i| kind(i) == Some(INTERPRETER)) {
        return Err(ImageError::Dynamic);
    }
    Ok(word)
}

/// Writes one file of a tar archive in the ustar format, without time and owner.
fn entry(out: &mut impl Write, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut header = [0_u8; BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    let sum = format!("{sum:06o}\0 ");
    header[148..156].copy_from_slice(sum.as_bytes());
    out.write_all(&header)?;
    out.write_all(bytes)?;
    let rest = bytes.len().next_multiple_of(BLOCK) - bytes.len();
    out.write_all(&vec![0; rest])
}

fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit x86 ELF header with one program header of this type.
    fn elf(kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = 62;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = kind;
        bytes
    }

    #[test]
    fn tar_reads_the_archive_and_every_blob_is_named_by_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image.tar");
        let mut file = std::fs::File::create(&path).unwrap();
        let said = write(&elf(1), "localhost/tare:1", &mut file).unwrap();
        let done = std::process::Command::new("tar")
            .arg("-xf")
            .arg(&path)
            .current_dir(dir.path())
            .status();
        assert!(done.unwrap().success());
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        let index: Value = serde_json::from_slice(&read("index.json")).unwrap();
        assert_eq!(index["manifests"][0]["digest"], said.as_str());
        let mut next = vec![said];
        let mut seen = 0;
        while let Some(digest) = next.pop() {
            let bytes = read(&format!("blobs/{}", digest.replace(':', "/")));
            assert_eq!(sha256(&bytes), digest);
            seen += 1;
            if let Ok(manifest) = serde_json::from_slice::<Value>(&bytes) {
                let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
                for part in layers.iter().chain([&manifest["config"]]) {
                    next.extend(part["digest"].as_str().map(ToOwned::to_owned));
                }
            }
        }
        assert_eq!(seen, 3, "manifest, configuration, layer");
    }

    #[test]
    fn a_dynamically_linked_program_is_rejected() {
        let refused = write(&elf(3), "x", &mut Vec::new());
        assert!(matches!(refused, Err(ImageError::Dynamic)));
        assert!(matches!(
            write(b"#!/bin/sh", "x", &mut Vec::new()),
            Err(ImageError::Machine)
        ));
    }
}
