//! Run directories of earlier versions stay readable: each directory under `runs/` was written by the
//! first version with its schema and is never changed.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use tare_plan::SCHEMA_VERSION;
use tare_records::layout;
use tare_report::export::{Export, Format, export};
use tare_report::{load_run, summarise};

fn stored(schema: u32) -> PathBuf {
    let folder = format!("tests/runs/schema-{schema}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

fn copied(schema: u32) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut folders = vec![(stored(schema), copy.path().to_owned())];
    while let Some((from, to)) = folders.pop() {
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push((entry.path(), target));
            } else {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy
}

/// Changes a file of a copied run.
fn change(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn runs_of_every_schema_so_far_are_read_whole() {
    for schema in 1..=SCHEMA_VERSION {
        let run = load_run(&stored(schema)).unwrap();
        assert_eq!(run.manifest.schema_version, schema);
        assert_eq!(run.notes, Vec::<String>::new());
        let summary = summarise(&run);
        assert_eq!(summary.trials_done, summary.trials_planned);
        let load = run.trials[0].result.load.as_ref().unwrap();
        assert_eq!(load.counts.ok, 20);
        for format in [Format::Csv, Format::Openmetrics, Format::Json] {
            assert!(matches!(
                export(&run, &summary, format),
                Ok(Export::Document(_))
            ));
        }
        for format in [Format::Hlog, Format::Hgrm, Format::Fortio] {
            let Ok(Export::Files(files)) = export(&run, &summary, format) else {
                panic!("no files");
            };
            assert!(!files.is_empty());
        }
    }
}

#[test]
fn a_document_of_a_newer_version_is_reported_as_newer() {
    let copy = copied(1);
    let trial = copy.path().join(layout::TRIALS).join("000-b0-bare-20rps");
    let result = trial.join(layout::RESULT);
    change(&result, "{", "{\"field_of_a_newer_version\": true,");
    let run = load_run(copy.path()).unwrap();
    assert_eq!(run.trials.len(), 0);
    assert!(
        run.notes[0].contains("may be from a newer version"),
        "{:?}",
        run.notes
    );
    let manifest = copy.path().join(layout::RUN);
    change(
        &manifest,
        "\"schema_version\": 1",
        "\"schema_version\": 999",
    );
    let error = load_run(copy.path()).unwrap_err().to_string();
    assert!(
        error.contains("written by a newer tare: schema 999"),
        "{error}"
    );
}
