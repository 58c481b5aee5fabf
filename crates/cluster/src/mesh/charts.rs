//! Charts: where they come from, and where downloaded ones are kept.

use std::fs;
use std::path::{Path, PathBuf};

use tare_plan::graph::Chart;
use tare_plan::mesh::HelmRelease;

use super::helm::Helm;
use tare_run::cache;
use tare_run::digest::sha256;
use tare_run::environment::EnvironmentError;
use tare_run::scratch;
use tare_run::scratch::Scratch;

/// Beginning of the names of directories into which Helm writes charts.
const SCRATCH_PREFIX: &str = "tare-charts";
/// Largest archive of a chart.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// The folder in which charts are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Charts {
    /// In tare's cache. A chart is downloaded once.
    Cache(PathBuf),
    /// That of `TARE_CHARTS`, which a detached run brings: the charts of [`Helm::pack`].
    Brought(PathBuf),
}

impl Charts {
    pub(super) fn from_env() -> Self {
        match std::env::var_os("TARE_CHARTS") {
            Some(folder) => Self::Brought(folder.into()),
            None => Self::Cache(cache::folder().join("charts")),
        }
    }
}

/// Where a chart comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// Its name in the repository; or a folder, an archive, or `oci://REGISTRY/CHART`.
    chart: &'a str,
    repo: Option<&'a str>,
    version: Option<&'a str>,
}

impl<'a> From<&'a HelmRelease> for Origin<'a> {
    fn from(release: &'a HelmRelease) -> Self {
        Self {
            chart: &release.chart,
            repo: release.repo.as_deref(),
            version: release.version.as_deref(),
        }
    }
}

impl<'a> From<&'a Chart> for Origin<'a> {
    fn from(chart: &'a Chart) -> Self {
        Self {
            chart: &chart.chart,
            repo: chart.repo.as_deref(),
            version: chart.version.as_deref(),
        }
    }
}

/// Helm's argument that names a chart, and the options that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located<'a> {
    pub(super) chart: String,
    pub(super) options: Vec<&'a str>,
}

impl<'a> Origin<'a> {
    /// Name of the file in which the chart is kept.
    fn file(self) -> String {
        let key = format!("{}\n{:?}\n{:?}", self.chart, self.repo, self.version);
        let digest = sha256(key.as_bytes());
        format!("{}.tgz", &digest[digest.len() - 16..])
    }

    /// Whether it always means the same chart: not the newest one, one of a range, or one on this machine.
    fn is_fixed(self) -> bool {
        let is_remote = self.repo.is_some() || self.chart.starts_with("oci://");
        is_remote && self.version.is_some_and(is_exact)
    }

    /// Helm's options for the repository and the version.
    fn options(self) -> Vec<&'a str> {
        let options = [("--repo", self.repo), ("--version", self.version)];
        let set = options
            .into_iter()
            .filter_map(|(option, value)| Some([option, value?]));
        set.flatten().collect()
    }
}

/// Whether a version is one version, and not a range: `1.30.4`, but not `1.30` or `^1.30.4`.
fn is_exact(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-+.".contains(&b);
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = numbers.split('.').collect();
    let is_number = |n: &&str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    version.bytes().all(is_plain) && numbers.len() == 3 && numbers.iter().all(is_number)
}

fn read(file: &Path) -> Result<Vec<u8>, EnvironmentError> {
    tare_files::read(file, ARCHIVE_BYTES_MAX)
        .map_err(|e| EnvironmentError::start(format!("chart {}", file.display()), e))
}

impl Helm {
    /// Name of the file with the chart of a release, in the folder of `TARE_CHARTS`.
    pub(crate) fn archive(release: &HelmRelease) -> String {
        Origin::from(release).file()
    }

    /// Returns the chart of a release as an archive.
    pub(crate) async fn pack(&self, release: &HelmRelease) -> Result<Vec<u8>, EnvironmentError> {
        let failed = |e| EnvironmentError::start(format!("chart {}", release.name), e);
        let chart = Path::new(&release.chart);
        if let Some(file) = self.kept(release.into()).await? {
            return read(&file);
        }
        if release.repo.is_none() && chart.is_file() {
            return read(chart);
        }
        let scratch = Scratch::new(&std::env::temp_dir(), SCRATCH_PREFIX).map_err(failed)?;
        let file = self.archive_into(&scratch, release.into()).await?;
        read(&file)
    }

    /// Locates a chart: where it is kept, or in its repository.
    pub(super) async fn located<'a>(
        &self,
        of: Origin<'a>,
    ) -> Result<Located<'a>, EnvironmentError> {
        Ok(match self.kept(of).await? {
            Some(file) => Located {
                chart: file.display().to_string(),
                options: Vec::new(),
            },
            None => Located {
                chart: of.chart.to_owned(),
                options: of.options(),
            },
        })
    }

    /// Returns the file with a chart, if it is kept. A chart of a fixed version is downloaded into the cache when it is
    /// first used. If the cache cannot be written, the chart is not kept, and Helm downloads it each time.
    ///
    /// # Errors
    /// If Helm cannot download the chart.
    async fn kept(&self, of: Origin<'_>) -> Result<Option<PathBuf>, EnvironmentError> {
        let folder = match &self.charts {
            Charts::Brought(folder) => {
                return Ok(Some(folder.join(of.file())).filter(|f| f.is_file()));
            }
            Charts::Cache(folder) if of.is_fixed() => folder,
            Charts::Cache(_) => return Ok(None),
        };
        let file = folder.join(of.file());
        let usable = cache::check(folder);
        if usable.is_ok() && file.is_file() {
            return Ok(Some(file));
        }
        let scratch = usable.and_then(|()| {
            scratch::sweep(folder, SCRATCH_PREFIX);
            cache::ensure(folder)?;
            Scratch::new(folder, SCRATCH_PREFIX)
        });
        let Ok(scratch) = scratch else {
            tracing::warn!(folder = %folder.display(), "the cache cannot be written: charts are not kept");
            return Ok(None);
        };
        let archive = self.archive_into(&scratch, of).await?;
        // Another process never reads a part of it.
        let renamed = fs::rename(archive, &file);
        renamed.map_err(EnvironmentError::io(format!("write {}", file.display())))?;
        Ok(Some(file))
    }

    /// Downloads a chart into a directory, or packs the chart's folder. Returns the path of the archive.
    async fn archive_into(
        &self,
        scratch: &Scratch,
        of: Origin<'_>,
    ) -> Result<PathBuf, EnvironmentError> {
        let to = scratch.path().display().to_string();
        let is_folder = of.repo.is_none() && Path::new(of.chart).is_dir();
        let verb = if is_folder { "package" } else { "pull" };
        let mut arguments = vec![verb, of.chart, "--destination", &to];
        if !is_folder {
            arguments.extend(of.options());
        }
        self.run(&arguments, None, None).await?;
        let only = fs::read_dir(scratch.path()).and_then(|mut entries| {
            let entry = entries.next().ok_or(std::io::ErrorKind::NotFound)??;
            Ok(entry.path())
        });
        only.map_err(|e| EnvironmentError::start(format!("chart {}", of.chart), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executable::executable;

    /// A script in place of Helm, which adds its arguments to the file `asked`, and writes them into the folder after
    /// `--destination`.
    fn stub(dir: &Path, charts: Charts) -> Helm {
        let program = dir.join("helm");
        let dir = dir.display();
        let script = format!("echo \"$@\" >> \"{dir}/asked\"\necho \"$@\" > \"$4/chart-1.tgz\"");
        executable(&program, &format!("#!/bin/sh\n{script}\n"));
        Helm::of_test(program, charts)
    }

    fn asked(dir: &Path) -> usize {
        let asked = std::fs::read_to_string(dir.join("asked")).unwrap_or_default();
        asked.lines().count()
    }

    fn release() -> HelmRelease {
        HelmRelease {
            name: "istiod".into(),
            chart: "istiod".into(),
            repo: Some("https://charts.example".into()),
            version: Some("1.2.3".into()),
            namespace: "istio-system".into(),
        }
    }

    #[tokio::test]
    async fn a_chart_of_a_fixed_version_is_downloaded_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache/charts");
        let helm = stub(dir.path(), Charts::Cache(cache.clone()));
        let release = release();
        let file = helm.kept((&release).into()).await.unwrap().unwrap();
        let archive = std::fs::read_to_string(&file).unwrap();
        assert!(
            archive.starts_with("pull istiod --destination "),
            "{archive}"
        );
        let origin = "--repo https://charts.example --version 1.2.3";
        assert!(archive.contains(origin), "{archive}");
        assert_eq!(
            helm.kept((&release).into()).await.unwrap(),
            Some(file.clone())
        );
        let kept = helm.located((&release).into()).await.unwrap();
        assert_eq!(kept.chart, file.display().to_string());
        assert!(kept.options.is_empty(), "{kept:?}");
        assert_eq!(helm.pack(&release).await.unwrap(), archive.into_bytes());
        assert_eq!(asked(dir.path()), 1, "Helm was asked again");
        let newer = HelmRelease {
            version: Some("1.2.4".into()),
            ..release.clone()
        };
        assert_ne!(helm.kept((&newer).into()).await.unwrap(), Some(file));
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 2);
        let newest = HelmRelease {
            version: None,
            ..release
        };
        let remote = helm.located((&newest).into()).await.unwrap();
        assert_eq!(remote.chart, "istiod");
        assert_eq!(remote.options, ["--repo", "https://charts.example"]);
        assert_eq!(asked(dir.path()), 2, "the newest chart is not kept");
        let on_this_machine = HelmRelease {
            chart: "/charts/istiod".into(),
            repo: None,
            ..newest
        };
        let local = helm.located((&on_this_machine).into()).await.unwrap();
        assert_eq!(local.chart, "/charts/istiod");
        assert!(local.options.is_empty(), "{local:?}");
    }

    #[tokio::test]
    async fn charts_that_a_run_brings_are_found_by_their_origin_and_no_other_is_downloaded() {
        let dir = tempfile::tempdir().unwrap();
        let helm = stub(dir.path(), Charts::Brought(dir.path().to_owned()));
        let folder = HelmRelease {
            chart: dir.path().display().to_string(),
            repo: None,
            ..release()
        };
        assert_eq!(helm.kept((&release()).into()).await.unwrap(), None);
        assert_eq!(asked(dir.path()), 0);
        let archive = helm.pack(&folder).await.unwrap();
        assert!(archive.starts_with(b"package "));
        let file = dir.path().join(Helm::archive(&folder));
        std::fs::write(&file, archive).unwrap();
        assert_eq!(helm.kept((&folder).into()).await.unwrap(), Some(file));
    }

    #[tokio::test]
    async fn a_cache_that_cannot_be_written_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let occupied = dir.path().join("file");
        std::fs::write(&occupied, "").unwrap();
        let helm = stub(dir.path(), Charts::Cache(occupied.join("charts")));
        assert_eq!(helm.kept((&release()).into()).await.unwrap(), None);
    }

    #[test]
    fn only_a_complete_version_is_exact() {
        for exact in ["1.30.4", "v1.2.3", "2026.7.1", "1.2.3-rc.1+build"] {
            assert!(is_exact(exact), "{exact}");
        }
        for range in [
            "1.30",
            "^1.30.4",
            "1.2.x",
            "1.2.3 - 2.0.0",
            "1.2.3 || 2.0.0",
            ">=1.2.3",
            "",
        ] {
            assert!(!is_exact(range), "{range}");
        }
        let on_this_machine = HelmRelease {
            repo: None,
            ..release()
        };
        assert!(!Origin::from(&on_this_machine).is_fixed());
        let in_registry = HelmRelease {
            chart: "oci://registry.example/istiod".into(),
            ..on_this_machine
        };
        assert!(Origin::from(&in_registry).is_fixed());
    }
}
