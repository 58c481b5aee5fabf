//! Change points against Apache Otava, which uses the same method, and on series whose answer is known.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tare_model::rng::Rng;
use tare_stats::changepoint::change_points;

const OTAVA: &str = "apache-otava==0.8.0";
/// Simulated series that are compared with Otava.
const SERIES: u64 = 200;

fn normal(rng: &mut Rng) -> f64 {
    let (a, b) = (1.0 - rng.next_f64(), rng.next_f64());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A series of 8 to 120 points with up to three changes of its level, and outliers in some.
fn simulated(seed: u64) -> Vec<f64> {
    let mut rng = Rng::stream(seed, 0);
    let len = 8 + (rng.next_f64() * 112.0) as usize;
    let changes = (rng.next_f64() * 4.0) as usize;
    let at: Vec<usize> = (0..changes)
        .map(|_| (rng.next_f64() * len as f64) as usize)
        .collect();
    let outliers = rng.next_f64() < 0.3;
    let mut level = 10.0;
    let mut series = Vec::new();
    for i in 0..len {
        let step = at.iter().filter(|a| **a == i).count();
        level += step as f64 * (rng.next_f64() * 4.0 - 2.0);
        let outlier = if outliers && rng.next_f64() < 0.05 {
            5.0
        } else {
            0.0
        };
        series.push(level + 0.3 * normal(&mut rng) + outlier);
    }
    series
}

fn indices(series: &[f64]) -> Vec<usize> {
    change_points(series, 0.0).iter().map(|p| p.index).collect()
}

#[test]
fn a_step_is_found_with_its_size_and_noise_is_not() {
    let mut rng = Rng::stream(0, 1);
    let noise: Vec<f64> = (0..60).map(|_| 0.05 * normal(&mut rng)).collect();
    assert_eq!(change_points(&noise, 0.0), []);
    let step = |i: usize| if i < 40 { 0.0 } else { 0.5 };
    let stepped: Vec<f64> = noise.iter().enumerate().map(|(i, x)| x + step(i)).collect();
    let [found] = change_points(&stepped, 0.1)[..] else {
        panic!("{:?}", change_points(&stepped, 0.1));
    };
    assert_eq!(found.index, 40);
    assert!(
        (found.size() - 0.5).abs() < 0.05 && found.p < 1e-6,
        "{found:?}"
    );
    // A change that is too small to matter.
    assert_eq!(change_points(&stepped, 0.6), []);
    for short in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 1.0, 1.0, 1.0]] {
        assert_eq!(change_points(short, 0.0), []);
    }
}

#[test]
fn false_alarms_are_rare() {
    let alarms = (0..500).filter(|seed| {
        let mut rng = Rng::stream(*seed, 2);
        let noise: Vec<f64> = (0..60).map(|_| normal(&mut rng)).collect();
        !indices(&noise).is_empty()
    });
    let alarms = alarms.count();
    // The best of 59 splits at 0.001 each: a few in a hundred.
    assert!(alarms <= 25, "{alarms} of 500 series without a change");
}

/// The directory of Otava and its example series, from PyPI; kept between runs.
fn otava() -> (PathBuf, PathBuf) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("otava-0.8.0");
    let example = dir.join("apache_otava-0.8.0/examples/csv/data/local_sample.csv");
    if !example.exists() {
        let pip = |arguments: &[&str]| {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
            let output = pip.args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        let packages = dir.join("packages");
        std::fs::create_dir_all(&packages).unwrap();
        let (packages, here) = (packages.to_str().unwrap(), dir.to_str().unwrap());
        pip(&["install", "--upgrade", "--target", packages, OTAVA]);
        pip(&[
            "download",
            "--no-deps",
            "--no-binary",
            "apache-otava",
            "--dest",
            here,
            OTAVA,
        ]);
        let archive = dir.join("apache_otava-0.8.0.tar.gz");
        let tar = Command::new("tar")
            .arg("xzf")
            .arg(archive)
            .arg("-C")
            .arg(&dir)
            .status();
        assert!(tar.unwrap().success());
    }
    (dir.join("packages"), example)
}

#[derive(serde::Deserialize)]
struct Oracle {
    series: Vec<Vec<f64>>,
    as_it_is: Vec<Vec<usize>>,
    mended: Vec<Vec<usize>>,
}

/// With two steps of Otava mended, which `oracle.py` names, both find the same points. As it is, Otava finds other
/// points in some series.
#[test]
fn apache_otava_finds_the_same_points() {
    let (packages, example) = otava();
    let simulated: Vec<Vec<f64>> = (1..=SERIES).map(simulated).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/change_points/oracle.py");
    let mut python = Command::new("python3")
        .arg(script)
        .arg(&example)
        .env("PYTHONPATH", packages)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = python.stdin.take().unwrap();
    stdin
        .write_all(&serde_json::to_vec(&simulated).unwrap())
        .unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let oracle: Oracle = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        oracle.series.len() > simulated.len(),
        "Otava's example has no metrics"
    );
    let (mut found, mut more) = (0, 0);
    for (i, series) in oracle.series.iter().enumerate() {
        assert_eq!(indices(series), oracle.mended[i], "series {i}: {series:?}");
        found += oracle.mended[i].len();
        more += usize::from(oracle.as_it_is[i] != oracle.mended[i]);
    }
    assert!(found > 100, "{found} change points");
    assert!(
        more <= oracle.series.len() / 4,
        "Otava as it is differs in {more} series"
    );
    println!(
        "{found} points in {} series; Otava as it is differs in {more}",
        oracle.series.len()
    );
}
