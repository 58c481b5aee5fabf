//! A fuzzer for the stable compiler: mutates the corpus for a number of seconds and reports
//! the first input that panics. It does not measure coverage; for fuzzing guided by coverage
//! use `cargo +nightly fuzz run TARGET --features libfuzzer`.
//!
//! Usage: `mutate [SECONDS [TARGET]]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tare_fuzz::{TARGETS, Target};
use tare_stats::rng::Rng;

/// Largest length of an input.
const BYTES_MAX: usize = 8 * 1024;

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args
        .next()
        .map_or(10, |s| s.parse().expect("SECONDS must be a number"));
    let only = args.next();
    // From the clock, because the process id is always the same in a container.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.expect("the clock must be after 1970").as_nanos() as u64;
    for (name, target) in TARGETS {
        if only.as_deref().is_none_or(|o| o == name) {
            fuzz(name, target, Duration::from_secs(seconds), seed);
        }
    }
}

fn fuzz(name: &str, target: Target, length: Duration, seed: u64) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = corpus(&root.join("corpus").join(name));
    let mut rng = Rng::new(seed);
    let begun = Instant::now();
    let mut runs = 0_u64;
    while begun.elapsed() < length {
        for _ in 0..1_000 {
            let input = mutated(&corpus, &mut rng);
            if std::panic::catch_unwind(|| target(&input)).is_err() {
                let path = keep(root, name, &input);
                eprintln!("{name}: panicked, input {}, seed {seed}", path.display());
                std::process::exit(1);
            }
        }
        runs += 1_000;
    }
    println!(
        "{name}: {runs} inputs in {} s from seed {seed}, no panic",
        length.as_secs()
    );
}

fn corpus(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("read the folder of the corpus")
        .map(|e| e.expect("read the folder of the corpus").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|p| std::fs::read(p).expect("read an input of the corpus"))
        .collect()
}

fn keep(root: &Path, name: &str, input: &[u8]) -> PathBuf {
    let folder = root.join("artifacts").join(name);
    std::fs::create_dir_all(&folder).expect("create the folder for the input");
    let path = folder.join(format!("found-{}", input.len()));
    std::fs::write(&path, input).expect("write the input");
    path
}

fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n.max(1) as u64) as usize
}

/// Changes one of the inputs at one to sixteen places.
fn mutated(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = corpus[below(rng, corpus.len())].clone();
    for _ in 0..1 << below(rng, 5) {
        let at = below(rng, input.len());
        let end = at + below(rng, (input.len() - at.min(input.len())).min(64));
        match rng.below(9) {
            _ if input.is_empty() => input.push(rng.next_u64() as u8),
            0 => input[at] ^= 1 << rng.below(8),
            1 => input[at] = rng.next_u64() as u8,
            2 => input[at] = [0, 1, 0x7f, 0x80, 0xff][below(rng, 5)],
            3 => input.insert(at, rng.next_u64() as u8),
            4 => drop(input.drain(at..end)),
            5 => input.extend_from_within(at..end),
            6 => {
                let copy = input[at..end].to_vec();
                let to = below(rng, input.len());
                input.splice(to..to, copy);
            }
            7 => {
                let other = &corpus[below(rng, corpus.len())];
                let from = below(rng, other.len());
                let part = other[from..from + below(rng, other.len() - from)].to_vec();
                input.splice(at..end, part);
            }
            _ => input = frames_changed(&input, rng),
        }
        input.truncate(BYTES_MAX);
    }
    input
}

/// Interprets the input after its first byte as HTTP/2 frames, and drops, duplicates, swaps or
/// changes one of them. The length in its header stays correct.
fn frames_changed(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut rest = &input[1..];
    while rest.len() >= 9 {
        let length = usize::from(rest[1]) << 8 | usize::from(rest[2]);
        let (frame, after) = rest.split_at(rest.len().min(9 + length));
        frames.push(frame.to_vec());
        rest = after;
    }
    if frames.is_empty() {
        return input.to_vec();
    }
    let nth = below(rng, frames.len());
    match rng.below(6) {
        0 => drop(frames.remove(nth)),
        1 => frames.insert(nth, frames[nth].clone()),
        2 => {
            let other = below(rng, frames.len());
            frames.swap(nth, other);
        }
        3 => frames[nth][3] = rng.below(11) as u8,
        4 => frames[nth][4] = rng.next_u64() as u8,
        _ => frames[nth][8] = rng.below(14) as u8,
    }
    let mut out = vec![input[0]];
    frames.iter().for_each(|f| out.extend_from_slice(f));
    out.extend_from_slice(rest);
    out
}
