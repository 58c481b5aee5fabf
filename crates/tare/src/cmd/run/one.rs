//! One run on one environment, from its preparation to its end.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};
use tare_cluster::detached::FETCHED;
use tare_files::DOCUMENT_BYTES_MAX;
use tare_plan as plan;
use tare_plan::Plan;
use tare_plan::units::format_duration_ns;
use tare_records::layout;
use tare_records::layout::{Fingerprint, RunManifest};
use tare_run::environment::Environment;
use tare_run::experiment;
use tare_run::experiment::{Observer, Update};
use tare_run::store::RunDir;
use tokio::sync::watch;

use super::ended::EndedRun;
use super::place::{build, check_same_place};
use crate::cmd::output::say;
use crate::progress::Display;
use crate::web::{Feed, Server};

/// A run that is about to start.
pub(in crate::cmd) struct RunStart {
    pub(in crate::cmd) id: String,
    pub(in crate::cmd) started_unix_ns: u64,
    pub(in crate::cmd) plan: Plan,
    /// The plan as it was written; empty for a resumed run.
    pub(in crate::cmd) text: String,
    pub(in crate::cmd) dir: PathBuf,
    /// The interrupted or finished run to continue; `None` for a new run.
    pub(in crate::cmd) resumed: Option<RunDir>,
    /// The blocks that `plan` adds to those of the run, in words; `None` if it has the plan of the run.
    pub(in crate::cmd) added: Option<String>,
    /// A note for every result of the run.
    pub(in crate::cmd) note: Option<String>,
    /// Whether to add profile trials.
    pub(in crate::cmd) profile: bool,
}

impl RunStart {
    /// Returns the interrupted run in this directory.
    pub(in crate::cmd) fn resume(dir: &Path) -> anyhow::Result<Self> {
        if let Ok(id) = tare_files::read_text(&dir.join(FETCHED), DOCUMENT_BYTES_MAX) {
            bail!(
                "{} is a copy of the detached run {id}, which may continue on its cluster: follow it with `tare attach {id}`. \
                 To continue it here, first end it with `tare clean --run {id}`, and then remove the file {FETCHED}",
                dir.display()
            );
        }
        let run = RunDir::resume(dir)?;
        run.found().iter().for_each(say);
        let manifest = run.manifest();
        Ok(Self {
            id: manifest.id.clone(),
            started_unix_ns: manifest.started_unix_ns,
            plan: manifest.plan.clone(),
            text: String::new(),
            dir: dir.to_owned(),
            resumed: Some(run),
            added: None,
            note: None,
            profile: false,
        })
    }

    /// Returns the finished run in this directory with new levels of a factor, and prints what is added.
    pub(in crate::cmd) fn extend(dir: &Path, vary: &str) -> anyhow::Result<Self> {
        let start = Self::resume(dir)?;
        let plan = plan::extend(&start.plan, vary)
            .map_err(|problems| anyhow::anyhow!("cannot extend the run\n\n{problems}"))?;
        let missing = start.resumed.as_ref().map_or(0, experiment::missing);
        ensure!(
            missing == 0,
            "the run is not finished: {missing} of {} trials are missing; first continue it with \
             tare run --resume {}",
            start.plan.trial_count(),
            dir.display()
        );
        let added = added(&plan);
        say(format_args!("extends {}: {added}", dir.display()));
        Ok(Self {
            plan,
            added: Some(added),
            ..start
        })
    }

    /// Opens or creates the run directory.
    fn open(self, fingerprint: Fingerprint) -> anyhow::Result<RunDir> {
        if let Some(mut run) = self.resumed {
            check_same_place(&run, &self.plan, &fingerprint)?;
            if let Some(added) = self.added {
                run.extend(self.plan, added)?;
            }
            if let Some(note) = self.note {
                run.note(note)?;
            }
            if self.profile {
                run.add_profile()?;
            }
            return Ok(run);
        }
        let manifest = RunManifest {
            schema_version: tare_plan::SCHEMA_VERSION,
            id: self.id,
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            tare_build: build().to_owned(),
            started_unix_ns: self.started_unix_ns,
            plan: self.plan,
            command: std::env::args().collect(),
            fingerprint,
            profile: self.profile,
            notes: self.note.into_iter().collect(),
        };
        Ok(RunDir::create(&self.dir, manifest, &self.text)?)
    }
}

/// Describes the last blocks of a plan.
fn added(plan: &Plan) -> String {
    let groups = plan.block_groups();
    let Some(last) = groups.last() else {
        return String::new();
    };
    let loads: Vec<&str> = last.loads.iter().map(|l| l.name.as_str()).collect();
    format!(
        "{} trials in {} blocks, about {}, with {}",
        last.trials(),
        last.len(),
        format_duration_ns(plan.estimated_duration_of_ns(last)),
        loads.join(", ")
    )
}

/// Prepares the environment, runs the plan, and cleans up. Returns `None` when it was stopped
/// before the run directory was created.
pub(in crate::cmd) async fn go<E: Environment>(
    mut environment: E,
    mut start: RunStart,
    mut stop: watch::Receiver<bool>,
    web: Option<TcpListener>,
    mut display: Display,
) -> anyhow::Result<Option<EndedRun>> {
    if start.profile
        && let Some(found) = environment.profile_prevented()
    {
        let found = format!("no profile trials: {found}");
        display.say(&found);
        start.profile = false;
        start.note = Some(match start.note {
            Some(note) => format!("{note}; {found}"),
            None => found,
        });
    }
    let mut say = |line: &str| display.say(line);
    let prepared = tokio::select! {
        biased;
        _ = stop.wait_for(|s| *s) => None,
        prepared = environment.prepare(&start.plan, &mut say) => Some(prepared),
    };
    let done = match prepared {
        None => Ok(None),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(fingerprint)) => match start.open(fingerprint) {
            Err(error) => Err(error),
            Ok(run) => conduct(&mut environment, &run, &mut display, stop, web)
                .await
                .map(Some),
        },
    };
    display.finish();
    for event in environment.close().await {
        display.say(&format!("tare: {event}"));
    }
    done
}

async fn conduct<E: Environment>(
    environment: &mut E,
    run: &RunDir,
    display: &mut Display,
    stop: watch::Receiver<bool>,
    web: Option<TcpListener>,
) -> anyhow::Result<EndedRun> {
    display.say(&format!("run directory: {}", run.path().display()));
    let mut watchers = Watchers::new(display, web, run.path())?;
    let outcome = experiment::run(environment, run, &mut watchers, stop).await;
    watchers.finish().await;
    let command = match run.manifest().plan.gate {
        Some(_) => "gate",
        None => "run",
    };
    Ok(EndedRun {
        dir: run.path().to_owned(),
        resume: format!(
            "Continue with: tare {command} --resume {}",
            run.path().display()
        ),
        outcome,
    })
}

/// The terminal and, with `--web`, the browser.
struct Watchers<'a> {
    display: &'a mut Display,
    web: Option<(Server, Feed, PathBuf)>,
}

impl<'a> Watchers<'a> {
    fn new(
        display: &'a mut Display,
        listener: Option<TcpListener>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let mut web = None;
        if let Some(listener) = listener {
            let feed = Feed::new();
            let of = dir.to_owned();
            let create = move || tare_report::render_live(&of).map_err(|e| e.to_string());
            let server = crate::web::serve(listener, feed.clone(), create)?;
            display.say(&format!("report page during the run: {}", server.address));
            web = Some((server, feed, dir.join(layout::REPORT)));
        }
        Ok(Self { display, web })
    }

    /// Sends the path of the report to the browser, after it has shown the last trial.
    async fn finish(&self) {
        if let Some((_, feed, report)) = self.web.as_ref().filter(|(_, feed, _)| feed.watched()) {
            tokio::time::sleep(BROWSER_UPDATE).await;
            feed.over(&report.display().to_string());
            tokio::time::sleep(BROWSER_UPDATE).await;
        }
    }
}

/// Time for the browser to show the last trial, and to receive the end of the run.
const BROWSER_UPDATE: Duration = Duration::from_millis(1500);

impl Observer for Watchers<'_> {
    fn update(&mut self, update: Update<'_>) {
        if let Some((_, feed, _)) = &self.web {
            feed.update(&update);
        }
        let starts = matches!(update, Update::Started { .. });
        self.display.update(update);
        if let Some((_, feed, _)) = self.web.as_ref().filter(|_| starts) {
            feed.left(&self.display.time_left());
        }
    }
}
