//! The rule of a gate: is a candidate worse than its reference by more than a margin?
//!
//! The blocks of a gate are looked at several times, at numbers of blocks that are fixed beforehand. At
//! each look, a candidate can pass or raise an alarm. An alarm is confirmed by fresh blocks, which
//! took no part in it. docs/gate.md has the simulated error rates, from `tests/gate.rs`.
//!
//! Sources: Holm, "A simple sequentially rejective multiple test procedure" (1979), for alarms at any of
//! several questions; Berger, "Multiparameter hypothesis testing and acceptance sampling" (1982), for a
//! pass, which needs all of them and therefore no correction; Bonferroni over the looks.

use crate::effect::Effect;
use crate::hypothesis::holm;

/// A figure of which more is worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Of each block, the logarithm of the candidate's figure divided by the reference's.
    pub logs: Vec<f64>,
    /// How much worse the candidate may be, as a share above 0.
    pub margin: f64,
    /// Half of the resolution of a logarithm.
    pub grain: f64,
}

/// When a gate looks at its blocks, and how sure it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Numbers of blocks, ascending.
    pub looks: Vec<u32>,
    /// Number of fresh blocks that confirm an alarm.
    pub confirm: u32,
}

/// Probability of an alarm at one look if a figure is worse by exactly its margin, over all figures.
const ALARM_P: f64 = 0.05;
/// Probability that a candidate passes at any look although a figure is worse by exactly its margin.
const PASS_P: f64 = 0.05;

/// What a gate found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Not decided: this number of blocks is needed.
    Needs(u32),
    /// A figure is worse by more than its margin, confirmed by fresh blocks.
    Regressed {
        /// Index of the question.
        question: usize,
        /// Blocks at the alarm.
        at: u32,
    },
    /// Every figure is within its margin, or better.
    Pass {
        /// Blocks at the look.
        at: u32,
    },
    /// The blocks do not decide it.
    Inconclusive,
}

impl Rule {
    /// The looks at a gate of at most `blocks` blocks; `None` with too few blocks for a decision.
    #[must_use]
    pub fn of(blocks: u32) -> Option<Self> {
        let confirm = (blocks / 6).max(2);
        let last = blocks.checked_sub(confirm).filter(|last| *last >= 6)?;
        let mut looks: Vec<u32> = [0.4, 0.7, 1.0]
            .iter()
            .map(|share| ((f64::from(last) * share).round() as u32).max(5))
            .collect();
        looks.dedup();
        Some(Self { looks, confirm })
    }

    /// Decides with the blocks so far, in their order. `ended` if there will be no more.
    #[must_use]
    pub fn decide(&self, questions: &[Question], ended: bool) -> Decision {
        let ran = questions.iter().map(|q| q.logs.len()).min();
        let ran = ran.unwrap_or(0) as u32;
        for planned in &self.looks {
            let at = match ended {
                true => ran.min(*planned),
                false => *planned,
            };
            if ran < at {
                return Decision::Needs(at);
            }
            if at < self.looks[0] {
                break;
            }
            if let Some(question) = alarm(questions, at) {
                let until = at + self.confirm;
                if ran < until && !ended {
                    return Decision::Needs(until);
                }
                if ran >= until && is_confirmed(&questions[question], at, until) {
                    return Decision::Regressed { question, at };
                }
            } else if self.passes(questions, at) {
                return Decision::Pass { at };
            }
        }
        Decision::Inconclusive
    }

    fn passes(&self, questions: &[Question], at: u32) -> bool {
        let level = PASS_P / self.looks.len() as f64;
        questions.iter().all(|q| {
            let effect = effect(q, at);
            effect.is_some_and(|e| one_sided(&e, q.margin.ln_1p(), -1.0) <= level)
        })
    }
}

fn effect(question: &Question, at: u32) -> Option<Effect> {
    Effect::paired(&question.logs[..at as usize], question.grain)
}

/// p-value of the hypothesis that the effect is not beyond `null`, in the direction of the sign.
fn one_sided(effect: &Effect, null: f64, sign: f64) -> f64 {
    let half = effect.p_value(null) / 2.0;
    match (effect.estimate() - null) * sign > 0.0 {
        true => half,
        false => 1.0 - half,
    }
}

/// The question whose figure is worse than its margin, if any: of several, that with the smallest p-value.
fn alarm(questions: &[Question], at: u32) -> Option<usize> {
    let p = |q: &Question| effect(q, at).map_or(1.0, |e| one_sided(&e, q.margin.ln_1p(), 1.0));
    let corrected = holm(&questions.iter().map(p).collect::<Vec<f64>>());
    let smallest = (0..questions.len()).min_by(|a, b| corrected[*a].total_cmp(&corrected[*b]))?;
    (corrected[smallest] <= ALARM_P).then_some(smallest)
}

/// Whether the mean over the fresh blocks is beyond the margin as well.
fn is_confirmed(question: &Question, from: u32, until: u32) -> bool {
    let fresh = &question.logs[from as usize..until as usize];
    let mean = fresh.iter().sum::<f64>() / fresh.len().max(1) as f64;
    mean > question.margin.ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(logs: &[f64]) -> Question {
        Question {
            logs: logs.to_vec(),
            margin: 0.05,
            grain: 0.0,
        }
    }

    fn around(centre: f64, blocks: u32) -> Vec<f64> {
        let offset = |i: u32| [-0.01, 0.004, 0.01, -0.004][i as usize % 4];
        (0..blocks).map(|i| centre + offset(i)).collect()
    }

    #[test]
    fn looks_are_planned_within_the_blocks() {
        assert_eq!(Rule::of(7), None);
        for blocks in 8..200 {
            let rule = Rule::of(blocks).unwrap_or_else(|| panic!("{blocks}"));
            assert!(rule.looks.is_sorted() && rule.looks[0] >= 5, "{rule:?}");
            assert_eq!(
                rule.looks.last().map(|last| last + rule.confirm),
                Some(blocks)
            );
        }
    }

    #[test]
    fn a_clear_case_is_decided_at_the_first_look() {
        let rule = Rule::of(24).unwrap_or_else(|| unreachable!());
        assert_eq!((rule.looks.as_slice(), rule.confirm), (&[8, 14, 20][..], 4));
        let all = |centre, blocks| {
            vec![
                question(&around(centre, blocks)),
                question(&around(0.0, blocks)),
            ]
        };
        assert_eq!(rule.decide(&all(0.0, 7), false), Decision::Needs(8));
        assert_eq!(rule.decide(&all(0.0, 8), false), Decision::Pass { at: 8 });
        // Better is a pass, too.
        assert_eq!(rule.decide(&all(-0.3, 8), false), Decision::Pass { at: 8 });
        assert_eq!(rule.decide(&all(0.2, 8), false), Decision::Needs(12));
        let regressed = Decision::Regressed { question: 0, at: 8 };
        assert_eq!(rule.decide(&all(0.2, 12), false), regressed);
        // At the margin, nothing is decided.
        assert_eq!(
            rule.decide(&all(0.05_f64.ln_1p(), 24), true),
            Decision::Inconclusive
        );
    }

    #[test]
    fn an_alarm_that_fresh_blocks_do_not_confirm_is_none() {
        let rule = Rule::of(24).unwrap_or_else(|| unreachable!());
        let mut logs = around(0.2, 8);
        logs.extend(around(0.0, 4));
        assert_eq!(rule.decide(&[question(&logs)], false), Decision::Needs(14));
        // A gate that ends with the alarm is not confirmed either.
        assert_eq!(
            rule.decide(&[question(&around(0.2, 8))], true),
            Decision::Inconclusive
        );
        assert_eq!(
            rule.decide(&[question(&around(0.0, 4))], true),
            Decision::Inconclusive
        );
    }
}
