//! Change points on series whose answer is known, beside those of Apache Otava.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tare_stats::changepoint::levels;
use tare_stats::rng::Rng;

const OTAVA: &str = "apache-otava==0.8.0";
/// Simulated series that are compared with Otava.
const SERIES: u64 = 200;

fn normal(rng: &mut Rng) -> f64 {
    let (a, b) = (1.0 - rng.next_f64(), rng.next_f64());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A series of 20 to 120 points with up to two changes of its level that are clear, and where they
/// are. In half of the series, 5 % of the points are outliers, none of them beside a change.
fn simulated(seed: u64) -> (Vec<f64>, Vec<usize>) {
    let mut rng = Rng::stream(seed, 0);
    let len = 20 + (rng.next_f64() * 100.0) as usize;
    let first = 8 + (rng.next_f64() * (len - 12) as f64) as usize;
    let second = first + 2 + (rng.next_f64() * 20.0) as usize;
    let mut changes = Vec::new();
    if !seed.is_multiple_of(4) {
        changes.push(first);
    }
    // A level that ends again, in half of the series.
    if seed % 4 > 1 && second + 3 <= len {
        changes.push(second);
    }
    let levels = [10.0, 10.0 + 3.0 * (1.0 + rng.next_f64()), 10.0];
    let level = |i: usize| levels[changes.iter().filter(|at| i >= **at).count()];
    let mut series: Vec<f64> = (0..len)
        .map(|i| level(i) + 0.3 * normal(&mut rng))
        .collect();
    if seed / 4 % 2 == 1 {
        // Two outliers side by side would be a level.
        let mut last = 0;
        let beside = |i: usize| changes.iter().any(|at| i + 2 >= *at && i <= at + 1);
        for (i, x) in series.iter_mut().enumerate().skip(1) {
            if rng.next_f64() < 0.05 && i > last + 2 && !beside(i) {
                *x += 5.0;
                last = i;
            }
        }
    }
    (series, changes)
}

fn indices(series: &[f64]) -> Vec<usize> {
    let found = levels(series, 0.0).changes;
    found.iter().map(|p| p.index).collect()
}

#[test]
fn a_step_is_found_with_its_size_and_noise_is_not() {
    let mut rng = Rng::stream(0, 1);
    let noise: Vec<f64> = (0..60).map(|_| 0.05 * normal(&mut rng)).collect();
    assert!(indices(&noise).is_empty());
    let step = |i: usize| if i < 40 { 0.0 } else { 0.5 };
    let stepped: Vec<f64> = noise.iter().enumerate().map(|(i, x)| x + step(i)).collect();
    let [found] = levels(&stepped, 0.1).changes[..] else {
        panic!("{:?}", levels(&stepped, 0.1));
    };
    assert_eq!(found.index, 40);
    assert!(
        (found.size() - 0.5).abs() < 0.05 && found.p < 1e-6,
        "{found:?}"
    );
    // A change that is too small to matter.
    assert_eq!(levels(&stepped, 0.6).changes, []);
    for short in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 1.0, 1.0, 1.0]] {
        assert_eq!(levels(short, 0.0).changes, []);
    }
}

#[test]
fn false_alarms_are_rare() {
    // Degrees of freedom of Student's distribution for heavy tails.
    let heavy = |rng: &mut Rng| {
        let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
        normal(rng) / (squares / 3.0).sqrt()
    };
    // At most this share of 500 series without a change, about twice what 2,000 series had.
    for (len, of_normal, of_heavy) in [(20, 0.02, 0.03), (50, 0.03, 0.05), (200, 0.04, 0.15)] {
        let alarms = |next: &dyn Fn(&mut Rng) -> f64| {
            let alarm = |seed: &u64| {
                let mut rng = Rng::stream(*seed, len);
                let noise: Vec<f64> = (0..len).map(|_| next(&mut rng)).collect();
                !indices(&noise).is_empty()
            };
            (0..500).filter(alarm).count() as f64 / 500.0
        };
        let (normal, heavy) = (alarms(&normal), alarms(&heavy));
        assert!(normal <= of_normal, "{normal} of the series of {len}");
        assert!(heavy <= of_heavy, "{heavy} of the series of {len}");
    }
}

#[test]
fn a_change_has_its_date_from_the_second_point_on() {
    // Two windows of the search meet before the points 36 and 60. A point half-way between the
    // levels, which either may have, leads them to different dates.
    for before in [12, 35, 36, 40, 59, 60, 130] {
        for (after, half) in [2, 3, 5, 8, 20, 60]
            .into_iter()
            .flat_map(|n| [(n, 0), (n, 1)])
        {
            let mut late = 0;
            for seed in 0..100 {
                let mut rng = Rng::stream(seed, before + after);
                let level = |i: u64| match i {
                    i if i < before => 0.0,
                    i if i < before + half => 5.0,
                    _ => 10.0,
                };
                let series: Vec<f64> = (0..before + half + after)
                    .map(|i| level(i) + normal(&mut rng))
                    .collect();
                let dates = before as usize..=(before + half) as usize;
                late += u32::from(!indices(&series).iter().any(|at| dates.contains(at)));
            }
            assert!(
                late <= 2,
                "{late} of 100 with {before} before, {half} half-way and {after} after"
            );
        }
    }
}

#[test]
fn a_level_that_ends_again_is_found_and_a_single_point_is_an_outlier() {
    for after in [3, 8, 40, 300] {
        for slow in [1_usize, 2, 3, 8] {
            let mut wrong = 0;
            for seed in 0..50 {
                let mut rng = Rng::stream(seed, 4);
                let is_slow = |i: usize| (15..15 + slow).contains(&i);
                let series: Vec<f64> = (0..15 + slow + after)
                    .map(|i| if is_slow(i) { 14.0 } else { 0.0 } + normal(&mut rng))
                    .collect();
                let found = levels(&series, 0.0);
                let right = match slow {
                    1 => {
                        found.outliers.iter().any(|o| o.index == 15)
                            && !indices(&series).contains(&15)
                    }
                    _ => [15, 15 + slow]
                        .iter()
                        .all(|at| indices(&series).contains(at)),
                };
                wrong += u32::from(!right);
            }
            assert!(
                wrong <= 1,
                "{wrong} of 50 with {slow} slow points and {after} after them"
            );
        }
    }
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
    mended: Vec<Vec<usize>>,
}

/// Otava uses E-divisive, which stops at the first segment without a significant split, so that it forgets a level
/// that ended. tare finds all that Otava finds of what is there.
#[test]
fn what_apache_otava_finds_is_found() {
    let (packages, example) = otava();
    let known: Vec<(Vec<f64>, Vec<usize>)> = (1..=SERIES).map(simulated).collect();
    let simulated: Vec<&Vec<f64>> = known.iter().map(|(series, _)| series).collect();
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history/change_points/oracle.py");
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
    let (mut own, mut of_otava, mut all, mut wrong) = (0, 0, 0, [0; 2]);
    for ((series, truth), otava) in known.iter().zip(&oracle.mended) {
        let found = indices(series);
        all += truth.len();
        for at in truth {
            own += usize::from(found.contains(at));
            of_otava += usize::from(otava.contains(at));
            assert!(
                found.contains(at) || !otava.contains(at),
                "{at}: {found:?}, Otava {otava:?}: {series:?}"
            );
        }
        for (wrong, found) in wrong.iter_mut().zip([&found, otava]) {
            *wrong += found.iter().filter(|at| !truth.contains(at)).count();
        }
    }
    println!("of {all} changes, tare dates {own} and Otava {of_otava}; wrong: {wrong:?}");
    assert!(own * 100 >= all * 98, "{own} of {all}");
    assert!(own > of_otava, "{own}, Otava {of_otava}");
    assert!(wrong[0] <= SERIES as usize / 20, "{wrong:?}");
    // Otava's own example: the same points, but for their dates, which may differ by one.
    let example = oracle.series.iter().zip(&oracle.mended).skip(known.len());
    let mut points = 0;
    for (series, otava) in example {
        let found = indices(series);
        let near = |at: &usize, all: &[usize]| all.iter().any(|f| f.abs_diff(*at) <= 1);
        assert!(
            otava.iter().all(|at| near(at, &found)) && found.iter().all(|at| near(at, otava)),
            "{found:?}, Otava {otava:?}: {series:?}"
        );
        points += otava.len();
    }
    assert!(points > 0, "Otava's example has no change points");
}
