//! The container image of tare, with one static program for each architecture, as an archive.
//!
//! Source: Open Container Initiative, image format and image layout, version 1.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tare_run::digest::sha256;

/// Size of a tar block.
const BLOCK: usize = 512;
/// `e_machine` of ELF files, with the name of the architecture in images.
const MACHINES: [(u16, &str); 2] = [(62, "amd64"), (183, "arm64")];

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Why no image could be written.
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
    /// A program of Helm is missing.
    #[error("found no Helm for {0}, expected one for the architecture of each program of tare")]
    Helm(&'static str),
    /// An index has one image for each architecture.
    #[error("found two programs for {0}, expected one for each architecture")]
    Twice(String),
    /// The layer could not be written.
    #[error("failed to write the layer: {0}")]
    Io(#[from] io::Error),
}

/// An image of tare. The same programs give the same bytes.
#[derive(Debug)]
pub struct Image {
    /// One for each architecture.
    platforms: Vec<PlatformImage>,
    /// Of several architectures.
    index: Option<Vec<u8>>,
    /// Descriptor of the manifest or, for several programs, of the index of their manifests.
    top: Value,
}

/// The image for one architecture.
#[derive(Debug)]
struct PlatformImage {
    config: Vec<u8>,
    layer: Vec<u8>,
    manifest: Vec<u8>,
    /// Of the manifest, with its platform.
    descriptor: Value,
}

impl Image {
    /// Makes an image with `programs` as `/tare`.
    ///
    /// # Errors
    /// When a program is not static or not of a supported architecture, or two have the same architecture.
    pub fn new(programs: &[Vec<u8>]) -> Result<Self, ImageError> {
        Self::with_helm(programs, &[])
    }

    /// Makes an image like [`Self::new`], with the program of `helms` for the same architecture as `/helm`.
    ///
    /// # Errors
    /// As [`Self::new`], also for the programs of Helm, and when one is missing.
    pub fn with_helm(programs: &[Vec<u8>], helms: &[Vec<u8>]) -> Result<Self, ImageError> {
        let mut platforms: Vec<PlatformImage> = Vec::new();
        for program in programs {
            let new = PlatformImage::new(program, helms)?;
            let architecture = platform(&new.descriptor);
            if platforms
                .iter()
                .any(|p| platform(&p.descriptor) == architecture)
            {
                return Err(ImageError::Twice(architecture.to_owned()));
            }
            platforms.push(new);
        }
        let descriptors: Vec<Value> = platforms.iter().map(|p| p.descriptor.clone()).collect();
        let (index, top) = match descriptors.as_slice() {
            [] => return Err(ImageError::Machine),
            [one] => (None, one.clone()),
            // One descriptor, of the index, for all images: importers create one image for each descriptor in
            // index.json.
            several => {
                let index = index(several);
                let top = descriptor(INDEX, &index);
                (Some(index), top)
            }
        };
        Ok(Self {
            platforms,
            index,
            top,
        })
    }

    /// Digest of the manifest or, for several programs, of the index of their manifests.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.top["digest"].as_str().unwrap_or_default()
    }

    /// Writes the image under a name as an OCI archive.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, name: &str, out: &mut impl Write) -> io::Result<()> {
        let mut named = self.top.clone();
        named["annotations"] = json!({"io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rsplit_once(':').map_or("latest", |(_, tag)| tag)});
        entry(
            out,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#,
            0o644,
        )?;
        entry(out, "index.json", &index(&[named]), 0o644)?;
        if let [one] = self.platforms.as_slice() {
            // Older versions of `docker load` need this file.
            let (config, layer) = (blob(&one.config), blob(&one.layer));
            let docker = json!([{"Config": config, "RepoTags": [name], "Layers": [layer]}]);
            entry(out, "manifest.json", docker.to_string().as_bytes(), 0o644)?;
        }
        let of_platforms = self.platforms.iter();
        let of_platforms = of_platforms.flat_map(|p| [&p.config, &p.layer, &p.manifest]);
        for bytes in of_platforms.chain(&self.index) {
            entry(out, &blob(bytes), bytes, 0o644)?;
        }
        end(out)?;
        out.flush()
    }
}

impl PlatformImage {
    fn new(program: &[u8], helms: &[Vec<u8>]) -> Result<Self, ImageError> {
        let word = machine(program)?;
        let mut files = Vec::new();
        entry(&mut files, "tare", program, 0o755)?;
        let mut helm = None;
        for candidate in helms {
            if machine(candidate)? == word {
                helm = Some(candidate);
            }
        }
        match helm {
            Some(helm) => entry(&mut files, "helm", helm, 0o755)?,
            None if helms.is_empty() => {}
            None => return Err(ImageError::Helm(word)),
        }
        end(&mut files)?;
        let mut layer = GzEncoder::new(Vec::new(), Compression::default());
        layer.write_all(&files)?;
        let layer = layer.finish()?;
        let config = json!({"architecture": word, "os": "linux",
            "config": {"Entrypoint": ["/tare"], "User": "65532:65532", "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [sha256(&files)]},
            "history": [{"created_by": "tare image"}]});
        let config = config.to_string().into_bytes();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)]});
        let manifest = manifest.to_string().into_bytes();
        let mut descriptor = descriptor(MANIFEST, &manifest);
        descriptor["platform"] = json!({"architecture": word, "os": "linux"});
        Ok(Self {
            config,
            layer,
            manifest,
            descriptor,
        })
    }
}

fn index(manifests: &[Value]) -> Vec<u8> {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    index.to_string().into_bytes()
}

fn platform(image: &Value) -> &str {
    image["platform"]["architecture"]
        .as_str()
        .unwrap_or_default()
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": sha256(bytes), "size": bytes.len()})
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

    /// A 64-bit ELF header with one program header of this type.
    fn elf(machine: u8, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = kind;
        bytes
    }

    /// Unpacks an archive of `programs`; returns the JSON documents below its digest, outermost
    /// first, after a check of every digest, and the number of blobs.
    fn unpacked(programs: &[Vec<u8>]) -> (tempfile::TempDir, Vec<Value>, usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image.tar");
        let mut file = std::fs::File::create(&path).unwrap();
        let image = Image::new(programs).unwrap();
        image.write("localhost/tare:1", &mut file).unwrap();
        let digest = image.digest();
        let done = std::process::Command::new("tar")
            .arg("-xf")
            .arg(&path)
            .current_dir(dir.path())
            .status();
        assert!(done.unwrap().success());
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        let index: Value = serde_json::from_slice(&read("index.json")).unwrap();
        let named = &index["manifests"][0];
        assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
        assert_eq!(named["digest"], digest);
        assert_eq!(
            named["annotations"]["io.containerd.image.name"],
            "localhost/tare:1"
        );
        let mut next = vec![named.clone()];
        let (mut documents, mut blobs) = (Vec::new(), 0);
        while let Some(descriptor) = next.pop() {
            let digest = descriptor["digest"].as_str().unwrap();
            let bytes = read(&format!("blobs/{}", digest.replace(':', "/")));
            assert_eq!(sha256(&bytes), digest);
            assert_eq!(descriptor["size"], bytes.len());
            blobs += 1;
            let Ok(document) = serde_json::from_slice::<Value>(&bytes) else {
                continue;
            };
            for key in ["manifests", "layers"] {
                next.extend(document[key].as_array().into_iter().flatten().cloned());
            }
            next.extend(
                document
                    .get("config")
                    .filter(|c| c.get("digest").is_some())
                    .cloned(),
            );
            documents.push(document);
        }
        (dir, documents, blobs)
    }

    #[test]
    fn tar_reads_the_archive_and_every_blob_is_named_by_its_digest() {
        let (dir, documents, blobs) = unpacked(&[elf(62, 1)]);
        assert_eq!(blobs, 3, "manifest, configuration, layer");
        assert_eq!(documents[0]["mediaType"], MANIFEST);
        let docker = std::fs::read(dir.path().join("manifest.json")).unwrap();
        let docker: Value = serde_json::from_slice(&docker).unwrap();
        for path in [&docker[0]["Config"], &docker[0]["Layers"][0]] {
            assert!(dir.path().join(path.as_str().unwrap()).is_file());
        }
        let read = |path: &Value| std::fs::read(dir.path().join(path.as_str().unwrap())).unwrap();
        let config: Value = serde_json::from_slice(&read(&docker[0]["Config"])).unwrap();
        let mut files = Vec::new();
        let layer = read(&docker[0]["Layers"][0]);
        let mut layer = flate2::read::GzDecoder::new(layer.as_slice());
        std::io::Read::read_to_end(&mut layer, &mut files).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], sha256(&files));
    }

    #[test]
    fn two_architectures_make_one_index() {
        let (dir, documents, blobs) = unpacked(&[elf(62, 1), elf(183, 1)]);
        assert_eq!(blobs, 1 + 2 * 3, "index; manifests, configurations, layers");
        let index = &documents[0];
        assert_eq!(index["mediaType"], INDEX);
        let platforms: Vec<&str> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(platform)
            .collect();
        assert_eq!(platforms, ["amd64", "arm64"]);
        assert!(!dir.path().join("manifest.json").exists());
    }

    #[test]
    fn helm_is_in_the_layer_of_its_architecture() {
        let names = |image: &PlatformImage| -> Vec<String> {
            let mut layer = Vec::new();
            let mut packed = flate2::read::GzDecoder::new(image.layer.as_slice());
            std::io::Read::read_to_end(&mut packed, &mut layer).unwrap();
            let name = |block: &[u8]| {
                let name = block.split(|b| *b == 0).next().unwrap_or_default();
                String::from_utf8_lossy(name).into_owned()
            };
            let blocks = layer.chunks(BLOCK).filter(|b| b[257..262] == *b"ustar");
            blocks.map(name).collect()
        };
        let programs = [elf(62, 1), elf(183, 1)];
        let image = Image::with_helm(&programs, &programs).unwrap();
        for platform in &image.platforms {
            assert_eq!(names(platform), ["tare", "helm"]);
        }
        assert_eq!(
            names(&Image::new(&programs).unwrap().platforms[0]),
            ["tare"]
        );
        let missing = Image::with_helm(&programs, &programs[..1]).unwrap_err();
        assert!(matches!(missing, ImageError::Helm("arm64")), "{missing}");
    }

    #[test]
    fn a_dynamically_linked_program_is_rejected() {
        let refuse = |programs: &[Vec<u8>]| Image::new(programs).unwrap_err();
        assert!(matches!(refuse(&[elf(62, 3)]), ImageError::Dynamic));
        let script = b"#!/bin/sh".to_vec();
        assert!(matches!(refuse(&[script]), ImageError::Machine));
        let twice = refuse(&[elf(62, 1), elf(62, 1)]);
        assert!(matches!(twice, ImageError::Twice(a) if a == "amd64"));
    }
}
