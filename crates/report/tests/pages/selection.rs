//! Which trials the figures are made of.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::{analysed, legend, scale};
use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::trial::order;
use tare_plan::{Figure, Plan};
use tare_records::summary::{MeshComparison, Outcome, Summary, TrialSelection, TrialStatus};
use tare_records::trial::TrialResult;
use tare_records::verdict::{Finding, Grade, Reason, Verdict};

fn against_itself() -> Plan {
    support::plan(
        &[("bare", "No mesh"), ("bare-again", "No mesh, once more")],
        &[200.0],
        3,
    )
}

fn invalid(result: &mut TrialResult, reason: Reason) {
    let finding = Finding::new(Grade::Invalid, reason, "busy for 99 % of the window");
    result.verdict = Verdict::from_findings(vec![finding]);
}

fn pair<'a>(summary: &'a Summary, mesh: &str, reference: &str, load: &str) -> &'a MeshComparison {
    let same = |c: &&MeshComparison| c.mesh == mesh && c.reference == reference && c.load == load;
    summary.comparisons.iter().find(same).unwrap()
}

#[test]
fn a_saturated_mesh_is_a_result_and_no_trial_is_left_out_for_what_it_measured() {
    let summary = analysed(&support::quick(), |r| {
        if r.trial.mesh.name == "envoy" && r.trial.block > 0 {
            invalid(r, Reason::MachineSaturated);
            r.load.as_mut().unwrap().rate.achieved *= 0.9;
            scale(r, 50.0);
        }
    });
    let cells = || summary.cells.iter().filter(|c| c.mesh == "envoy");
    for cell in cells() {
        assert_eq!(cell.trials_used.len(), 3);
        assert_eq!(cell.saturation.as_ref().unwrap().trials, 2);
        assert_eq!(cell.verdict.grade, Grade::Suspect);
    }
    let text = &summary.answers[0].text;
    let expected = "at 400 rps: saturated in 2 of 3 trials (busy for 99 % of the window), it carried \
                    373 of 400 rps; the median";
    assert!(text.contains(expected), "{text}");
    assert!(tare_report::render_table(&summary, false).contains("saturated"));
}

#[test]
fn a_disturbed_block_is_left_out_whole_and_the_answer_with_it_stands_beside() {
    let plan = Plan {
        repeats: 5,
        ..support::quick()
    };
    let summary = analysed(&plan, |r| {
        if r.trial.block == 2 && r.trial.mesh.name == "envoy/mtls" {
            invalid(r, Reason::NoisyNeighbour);
            scale(r, 40.0);
        }
    });
    let left_out: Vec<u32> = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::LeftOut)
        .map(|t| t.block)
        .collect();
    assert_eq!(left_out, [2; 6], "the trials of all meshes and loads");
    for counted in &summary.mesh_trials {
        assert_eq!((counted.used, counted.left_out), (8, 2), "{counted:?}");
    }
    let p50 = pair(&summary, "envoy/mtls", "bare", "400rps")
        .ratio(Figure::P50)
        .unwrap();
    assert_eq!((p50.outcome, p50.blocks.len()), (Outcome::Different, 4));
    let variant = &p50.variants[0];
    assert_eq!(
        (variant.trials, variant.blocks),
        (TrialSelection::AllBlocks, 5)
    );
    assert_eq!(variant.outcome, Outcome::NotResolved);
    let caution = summary.answers[1].caution.as_ref().unwrap();
    assert!(caution.starts_with(
        "Over the first attempts at all 5 blocks, also the disturbed ones, p50 is not resolved"
    ));
    assert!(summary.notes.contains(
        &"something outside the trials disturbed block 3; left out for all meshes".to_owned()
    ));
    let table = legend(&summary);
    assert!(
        table.contains("Trials used: 8 of 10 (2 left out with the block) of each mesh."),
        "{table}"
    );
}

#[test]
fn other_trials_claim_no_more_than_the_answer_may() {
    let mut claims = 0;
    for seed in 0..40 {
        let plan = Plan {
            seed,
            ..support::plan(&[("bare", "No mesh"), ("again", "Once more")], &[400.0], 5)
        };
        let summary = analysed(&plan, |r| {
            if r.trial.block == 1 && r.trial.mesh.name == "again" {
                invalid(r, Reason::NoisyNeighbour);
            }
        });
        let ratios = summary.comparisons.iter().flat_map(|c| &c.ratios);
        let variants = ratios.filter(|r| r.primary).flat_map(|r| &r.variants);
        claims += variants.filter(|v| v.outcome == Outcome::Different).count();
    }
    // Three questions with a level of 5 % together: about 2 in 40 runs.
    assert!(claims <= 6, "{claims}");
}

#[test]
fn where_every_block_is_disturbed_all_are_used_and_the_run_is_invalid() {
    let summary = analysed(&support::quick(), |r| invalid(r, Reason::HostStalled));
    assert!(summary.trials.iter().all(|t| t.status == TrialStatus::Used));
    assert_eq!(summary.grade, Grade::Invalid);
    // The sentence is beside the answers, and there once.
    let words = "Every block was disturbed by stalls of the host: all are used, and the answers hold \
                 for this disturbed machine only.";
    let table = tare_report::render_table(&summary, false).replace("\n  ", " ");
    let (first, rest) = table.split_once("latency, ms").unwrap();
    assert!(
        first.contains(words) && !rest.contains("very block"),
        "{table}"
    );
    let page = tare_report::render_page(&summary);
    let (first, _) = page.split_once("Percentiles").unwrap();
    assert!(first.contains(words), "{first}");
    // Blocks that are left out are no reason to doubt the others.
    let summary = analysed(&support::quick(), |r| {
        if r.trial.block == 0 {
            invalid(r, Reason::NoisyNeighbour);
        }
    });
    assert!(!tare_report::render_page(&summary).contains("disturbed by"));
}

#[test]
fn where_most_blocks_are_disturbed_the_few_others_do_not_stand_for_the_run() {
    let of = |disturbed: u32| {
        let plan = Plan {
            repeats: 5,
            ..support::quick()
        };
        analysed(&plan, |r| {
            if r.trial.block < disturbed {
                invalid(r, Reason::NoisyNeighbour);
            }
        })
    };
    let blocks = |summary: &Summary| {
        let p50 = pair(summary, "envoy/mtls", "bare", "400rps").ratio(Figure::P50);
        p50.unwrap().blocks.len()
    };
    let minority = of(2);
    assert_eq!((blocks(&minority), minority.grade), (3, Grade::Suspect));
    assert!(!tare_report::render_page(&minority).contains("disturbed by"));
    let most = of(3);
    assert_eq!((blocks(&most), most.grade), (5, Grade::Invalid));
    let words = "3 of 5 blocks were disturbed by other users of the CPU: all are used";
    let page = tare_report::render_page(&most);
    assert!(page.split_once("Percentiles").unwrap().0.contains(words));
}

#[test]
fn no_answer_where_one_mesh_was_disturbed_more_often_than_chance_allows() {
    let plan = Plan {
        repeats: 10,
        ..support::quick()
    };
    let disturbed = |mesh: &'static str| {
        analysed(&plan, |r| {
            if r.trial.mesh.name == mesh && r.trial.block % 4 != 0 {
                invalid(r, Reason::NoisyNeighbour);
            }
        })
    };
    let summary = disturbed("envoy");
    assert!(summary.disturbed_equally_p.unwrap() < 0.01);
    for answer in &summary.answers {
        assert!(
            answer.text.contains("no answer, because something outside"),
            "{}",
            answer.text
        );
        assert_eq!(answer.outcome, None);
    }
    let nobody = disturbed("none");
    assert_eq!(nobody.disturbed_equally_p, None);
    // What the host did changes no key of the document.
    let keys = |summary: &Summary| {
        let document = serde_json::to_value(summary).unwrap();
        document
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&summary), keys(&nobody));
    assert!(nobody.answers.iter().all(|a| a.outcome.is_some()));
}

#[test]
fn the_last_attempt_at_a_block_is_used() {
    let plan = against_itself();
    let mut trials: Vec<StoredTrial> = Vec::new();
    for spec in order(&plan) {
        let attempts = if spec.block == 1 { 2 } else { 1 };
        for attempt in 0..attempts {
            let mut result = support::trial(&spec).1;
            result.trial.attempt = attempt;
            result.trial.index += 100 * attempt;
            if attempts == 2 && attempt == 0 && spec.mesh.name == "bare" {
                invalid(&mut result, Reason::NoisyNeighbour);
            }
            trials.push(StoredTrial {
                dir: result.trial.dir_name(),
                result,
                seconds: Vec::new(),
                failed_since_s: None,
                calls: None,
            });
        }
    }
    let summary = summarise(&support::manifest(&plan), &trials, Vec::new());
    assert_eq!((summary.trials_done, summary.trials_planned), (6, 6));
    for cell in &summary.cells {
        assert_eq!(
            (cell.trials_used.len(), cell.trials_disturbed.len()),
            (3, 1)
        );
        assert_eq!(cell.trials_used.iter().filter(|i| **i >= 100).count(), 1);
    }
    assert!(summary.mesh_trials.iter().all(|m| m.run_again == 1));
    assert_eq!(summary.mesh_trials[0].disturbed, 1);
    assert_ne!(summary.grade, Grade::Invalid);
}

#[test]
fn without_a_usable_trial_there_is_no_answer() {
    let plan = support::quick();
    let without = |mesh: &'static str| {
        analysed(&plan, |r| {
            if r.trial.mesh.name == mesh {
                invalid(r, Reason::NotMeshed);
            }
        })
    };
    let of_mesh = without("envoy");
    assert_eq!(
        of_mesh.answers[0].text,
        "Envoy sidecars against No mesh at 400 rps: no comparison, because envoy has no usable trial."
    );
    assert!(of_mesh.answers[1].text.contains("the median is x"));
    assert_eq!(of_mesh.grade, Grade::Invalid);
    let cell = of_mesh.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    assert!(cell.latency.is_empty() && cell.achieved_rps.is_none());
    assert!(
        of_mesh
            .comparisons
            .iter()
            .all(|c| c.mesh != "envoy" && c.reference != "envoy")
    );
    let mut reasons = cell.verdict.reasons.iter();
    assert!(reasons.any(|f| f.found.contains("busy for 99 %")));
    assert_eq!(
        without("bare").answers[0].text,
        "Envoy sidecars against No mesh at 400 rps: no comparison, because bare has no usable trial."
    );
}

#[test]
fn only_common_blocks_are_compared() {
    let plan = support::quick();
    let summary = analysed(&plan, |r| {
        let t = &r.trial;
        let failed = match t.mesh.name.as_str() {
            "bare" => t.block == 0,
            "envoy" => t.block == 2,
            _ => false,
        };
        if failed {
            invalid(r, Reason::NotMeshed);
        }
    });
    let found = pair(&summary, "envoy", "bare", "400rps");
    assert_eq!(found.blocks, [1]);
    assert_eq!(
        found.ratio(Figure::P50).unwrap().outcome,
        Outcome::NotResolved
    );
    let cell = summary.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    assert_eq!((cell.trials_used.len(), cell.trials_failed.len()), (2, 1));
}

#[test]
fn the_same_trial_twice_counts_once() {
    let plan = support::quick();
    let mut trials: Vec<StoredTrial> = order(&plan)
        .iter()
        .map(|spec| StoredTrial {
            dir: spec.dir_name(),
            result: support::trial(spec).1,
            seconds: Vec::new(),
            failed_since_s: None,
            calls: None,
        })
        .collect();
    let mut copy = trials[0].clone();
    copy.dir = "copy".to_owned();
    trials.push(copy);
    let summary = summarise(&support::manifest(&plan), &trials, Vec::new());
    assert!(
        summary
            .notes
            .iter()
            .any(|n| n.starts_with("copy: another trial")),
        "{:?}",
        summary.notes
    );
    assert_eq!(
        summary
            .trials
            .iter()
            .filter(|t| t.status == TrialStatus::Unplanned)
            .count(),
        1
    );
}

#[test]
fn a_damaged_histogram_makes_its_trial_invalid() {
    let plan = support::quick();
    let summary = analysed(&plan, |r| {
        if r.trial.index == 3 {
            r.load
                .as_mut()
                .unwrap()
                .histograms
                .latency
                .v2
                .replace_range(20..24, "!!!!");
        }
    });
    let row = &summary.trials[3];
    assert_eq!(
        (row.status, row.verdict.grade),
        (TrialStatus::Failed, Grade::Invalid)
    );
    assert!(row.verdict.reasons[0].found.contains("invalid histogram"));
}

#[test]
fn the_same_trials_never_stand_beside_an_answer_as_others() {
    let mut corrected = 0;
    for step in 0..60 {
        let factor = 1.0 + 0.002 * f64::from(step);
        let summary = analysed(&support::quick(), |result| {
            if result.trial.mesh.name == "envoy" {
                scale(result, factor);
            }
        });
        for ratio in summary.comparisons.iter().flat_map(|c| &c.ratios) {
            assert!(
                ratio.variants.is_empty(),
                "no block is disturbed, and no trial suspect: {ratio:?}"
            );
            // Holm's correction finds a difference that would not be one among as many questions by Bonferroni's.
            let questions = summary.comparisons.iter().flat_map(|c| &c.ratios);
            let questions = questions.filter(|r| r.p_holm.is_some()).count() as f64;
            let is_found = ratio.primary && ratio.outcome == Outcome::Different;
            corrected += usize::from(is_found && ratio.p.unwrap() * questions >= 0.05);
        }
    }
    assert!(corrected > 0, "no ratio is between the two corrections");
}

#[test]
fn an_invalid_run_says_that_it_has_no_answer_why_and_what_to_do() {
    let summary = analysed(&support::quick(), |r| invalid(r, Reason::NoisyNeighbour));
    let answer = "No answer: ";
    let remedy = "(and in 17 other trials). Stop other programs on the machine, and repeat.";
    let page = tare_report::render_page(&summary);
    let (first, folded) = page.split_once("<summary>What was measured").unwrap();
    let (_, said) = first.split_once("<p class=\"no-answer\">").unwrap();
    assert!(said.starts_with(answer) && said.contains(remedy), "{said}");
    assert!(folded.contains("class=\"answers\""));
    let table = tare_report::render_table(&summary, false);
    assert!(
        table.starts_with(answer) && table.replace("\n  ", " ").contains(remedy),
        "{table}"
    );
    // What is wrong with one mesh leaves an answer about the others.
    let plan = support::plan(&[("bare", "No mesh"), ("a", "A"), ("b", "B")], &[200.0], 3);
    let summary = analysed(&plan, |r| {
        if r.trial.mesh.name == "b" {
            invalid(r, Reason::NotMeshed);
        }
    });
    assert_eq!(summary.grade, Grade::Invalid);
    assert!(!tare_report::render_page(&summary).contains("No answer:"));
    assert!(!tare_report::render_table(&summary, false).contains("No answer:"));
}
