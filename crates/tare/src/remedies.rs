//! Tests that every option and command that a message names exists where the message is printed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use tare_plan as plan;
use tare_records::verdict::Reason;

/// Options of other programs in messages.
const FOREIGN: [&str; 5] = [
    "all-namespaces",
    "hash",
    "map-root-user",
    "release",
    "target",
];
/// Parts of texts that are no messages.
const NO_MESSAGES: [&str; 3] = ["pip install", "svg {", "cargo test"];
/// Commands that read plans, and so print the problems of plans.
const OF_PLANS: [&str; 4] = ["run", "gate", "patrol", "plan check"];

/// The command line with all its global options.
fn tare() -> Command {
    let mut command = super::Cli::command();
    command.build();
    command
}

/// The command of a name such as `plan check`.
fn command<'c>(tare: &'c Command, name: &str) -> Option<&'c Command> {
    let mut names = name.split(' ');
    names.try_fold(tare, |command, name| command.find_subcommand(name))
}

/// Whether a command has an option, and whether that needs a value.
fn option(command: &Command, name: &str) -> Option<bool> {
    let is = |a: &&clap::Arg| a.get_long() == Some(name);
    let found = command.get_arguments().find(is)?;
    let values = found.get_num_args().map_or(0, |n| n.min_values());
    Some(values > 0)
}

/// Names of all commands, with those below `plan` and the like.
fn names(command: &Command, above: &str, all: &mut Vec<String>) {
    for below in command.get_subcommands() {
        let name = format!("{above}{}", below.get_name());
        names(below, &format!("{name} "), all);
        all.push(name);
    }
}

/// The texts that a file prints: its string literals and, of commands, the help.
fn texts(path: &Path, source: &str) -> Vec<String> {
    let is_command = path.components().any(|c| c.as_os_str() == "cmd");
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let (mut texts, mut code) = (Vec::new(), String::new());
    for line in source.lines() {
        match line.trim_start() {
            help if help.starts_with("/// ") && is_command => texts.push(help[4..].to_owned()),
            comment if comment.starts_with("//") => {}
            _ => {
                code += line;
                code.push('\n');
            }
        }
    }
    let code = code
        .replace("'\"'", "' '")
        .replace("\\\\", "")
        .replace("\\\"", "'");
    let literals = code.split('"').skip(1).step_by(2);
    for literal in literals {
        let mut text = String::new();
        let mut parts = literal.split("\\\n");
        text += parts.next().unwrap_or("");
        parts.for_each(|part| text += part.trim_start());
        let lines = text.replace("\\n", "\n");
        texts.extend(lines.lines().map(str::to_owned));
    }
    // A single word is an argument of a program.
    texts.retain(|text| text.trim().contains(' ') && !NO_MESSAGES.iter().any(|n| text.contains(n)));
    texts
}

/// What is wrong with the commands and options that a text names. An option outside of a command must be one of
/// each of `of_all`, or of any command if that is empty.
fn wrong(tare: &Command, text: &str, of_all: &[String], all: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| {
        let is_mark = |c: char| "`'\"().,;:!?*".contains(c);
        word.trim_matches(is_mark).to_owned()
    };
    let mut in_command: Option<String> = None;
    for (i, word) in words.iter().enumerate() {
        let two = words
            .get(i + 1..i + 3)
            .map(|w| format!("{} {}", bare(w[0]), bare(w[1])));
        let one = words.get(i + 1).map(|w| bare(w));
        if bare(word) == "tare" && !word.ends_with('.') {
            let named = [two, one].into_iter().flatten().find(|n| all.contains(n));
            in_command = named;
        }
        let option_name = bare(word);
        let Some(name) = option_name
            .strip_prefix("--")
            .filter(|n| n.starts_with(|c: char| c.is_ascii_alphabetic()))
        else {
            if word.ends_with(['`', '.', ';', ',', ')']) && bare(word) != "tare" {
                in_command = None;
            }
            continue;
        };
        let (name, has_value) = match name.split_once('=') {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit());
        if !is_name || FOREIGN.contains(&name) {
            continue;
        }
        match &in_command {
            Some(of) => match command(tare, of).and_then(|c| option(c, name)) {
                None => found.push(format!("`tare {of}` has no --{name}")),
                // Other options are named as a reference to their help.
                Some(true) if !has_value && name == "resume" => {
                    let ends = word.ends_with(['`', '.', ';', ',', ')']);
                    let next = words.get(i + 1).filter(|w| !ends && !w.starts_with("--"));
                    if next.is_none() {
                        found.push(format!("`tare {of}`: --{name} needs a value"));
                    }
                }
                Some(_) => {}
            },
            None if of_all.is_empty() => {
                let has = |of: &String| command(tare, of).and_then(|c| option(c, name)).is_some();
                if !all.iter().any(has) {
                    found.push(format!("no command has --{name}"));
                }
            }
            None => {
                let lacks =
                    |of: &&String| command(tare, of).and_then(|c| option(c, name)).is_none();
                let lacking = of_all.iter().filter(lacks);
                found
                    .extend(lacking.map(|of| format!("`tare {of}` prints it and has no --{name}")));
            }
        }
        if word.ends_with(['`', '.', ';', ',', ')']) {
            in_command = None;
        }
    }
    found
}

/// The commands that print the messages of a file; empty if they are not known.
fn printed_by(path: &Path, all: &[String]) -> Vec<String> {
    let path = path.to_str().unwrap();
    if path.contains("/plan/src/plan/") {
        return OF_PLANS.map(str::to_owned).to_vec();
    }
    if path.contains("/cluster/src/observe/") {
        return vec!["observe".to_owned()];
    }
    let Some((_, of)) = path.split_once("/tare/src/cmd/") else {
        return Vec::new();
    };
    // Of `load/search/text.rs`, the innermost: `search`.
    let mut parts = of.split(['/', '.']).map(|part| part.replace('_', "-"));
    let name = parts.rfind(|part| all.contains(part));
    let name = name.unwrap_or_default();
    match name.as_str() {
        // They have commands below them, other commands use them, or they name options of others.
        "plan" | "workload" | "history" | "run" | "keep" | "grpc" | "image" => Vec::new(),
        // `tare search` prints some of them.
        "load" if of == "load.rs" => Vec::new(),
        _ => all.iter().filter(|c| **c == name).cloned().collect(),
    }
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" && name != "simulated" {
            sources(&path, files);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "remedies.rs" {
            files.push(path);
        }
    }
}

#[test]
fn every_option_that_a_message_names_is_one_of_the_command_that_prints_it() {
    let tare = tare();
    let mut all = Vec::new();
    names(&tare, "", &mut all);
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut files = Vec::new();
    for name in [
        "files", "plan", "records", "analysis", "load", "workload", "run", "local", "cluster",
        "report", "tare",
    ] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let (mut found, mut checked) = (Vec::new(), 0);
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        let of_all = printed_by(&path, &all);
        for text in texts(&path, &source) {
            checked += usize::from(text.contains("--"));
            let wrong = wrong(&tare, &text, &of_all, &all);
            found.extend(
                wrong
                    .iter()
                    .map(|w| format!("{}: {text}\n  {w}", path.display())),
            );
        }
    }
    assert!(checked > 150, "{checked} texts with options");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_wrong_option_in_a_message_is_found() {
    let tare = tare();
    let mut all = Vec::new();
    names(&tare, "", &mut all);
    let found = |text: &str, of: &[&str]| {
        let of: Vec<String> = of.iter().map(|s| (*s).to_owned()).collect();
        wrong(&tare, text, &of, &all)
    };
    for (text, of, expected) in [
        (
            "use --pace spin",
            &["run"][..],
            "`tare run` prints it and has no --pace",
        ),
        ("use --pacing spin", &[], "no command has --pacing"),
        (
            "continue with `tare run --resume`, or not",
            &[],
            "`tare run`: --resume needs a value",
        ),
        (
            "see `tare plan check --resume x`",
            &[],
            "`tare plan check` has no --resume",
        ),
    ] {
        assert_eq!(found(text, of), [expected], "{text}");
    }
    for text in [
        "use --pace spin, or `--max`",
        "continue with tare run --resume {}",
        "a -- b",
    ] {
        assert!(found(text, &["load"][..]).is_empty(), "{text}");
    }
}

#[test]
fn the_remedies_of_findings_parse_where_they_are_printed() {
    let tare = tare();
    let mut all = Vec::new();
    names(&tare, "", &mut all);
    for reason in Reason::ALL {
        let of_load = wrong(&tare, reason.remedy(), &["load".to_owned()], &all);
        assert!(of_load.is_empty(), "{reason:?}: {of_load:?}");
        let remedy = reason.remedy_in_run();
        let in_run = wrong(&tare, remedy, &["run".to_owned(), "gate".to_owned()], &all);
        assert!(in_run.is_empty(), "{reason:?}: {in_run:?}");
        // What a plan is to be changed to is valid in a plan.
        for set in remedy.split("--set ").skip(1) {
            let set = set.split(['`', ' ', ')']).next().unwrap_or("");
            for of in ["quick", "gate", "patrol"] {
                let plan = plan::builtin(of).unwrap();
                let sets = [set.to_owned()];
                let resolved = plan::resolve(of, plan.text, &sets, &|_| Err("no file".to_owned()));
                assert!(
                    resolved.is_ok(),
                    "{reason:?}: {set}: {}",
                    resolved.unwrap_err()
                );
            }
        }
    }
}
