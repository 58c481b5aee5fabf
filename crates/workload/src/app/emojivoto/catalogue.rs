//! The catalogue of a hundred emoji.

/// The emoji for which voting always fails, as in the original.
pub(super) const DOUGHNUT: &str = "doughnut";

/// Shortcode without colons, and the character.
#[rustfmt::skip]
pub(super) const CATALOGUE: [(&str, &str); 100] = [
    ("joy", "\u{1F602}"),
    ("sunglasses", "\u{1F60E}"),
    ("ghost", "\u{1F47B}"),
    ("rocket", "\u{1F680}"),
    ("pizza", "\u{1F355}"),
    ("tada", "\u{1F389}"),
    ("fire", "\u{1F525}"),
    ("cat", "\u{1F431}"),
    ("rainbow", "\u{1F308}"),
    ("dog", "\u{1F436}"),
    ("doughnut", "\u{1F369}"),
    ("poop", "\u{1F4A9}"),
    ("mask", "\u{1F637}"),
    ("relaxed", "\u{263A}"),
    ("smirk", "\u{1F60F}"),
    ("wink", "\u{1F609}"),
    ("heart_eyes", "\u{1F60D}"),
    ("thinking", "\u{1F914}"),
    ("zzz", "\u{1F4A4}"),
    ("angel", "\u{1F47C}"),
    ("alien", "\u{1F47D}"),
    ("robot", "\u{1F916}"),
    ("skull", "\u{1F480}"),
    ("clap", "\u{1F44F}"),
    ("wave", "\u{1F44B}"),
    ("pray", "\u{1F64F}"),
    ("muscle", "\u{1F4AA}"),
    ("crown", "\u{1F451}"),
    ("tophat", "\u{1F3A9}"),
    ("eyes", "\u{1F440}"),
    ("brain", "\u{1F9E0}"),
    ("bear", "\u{1F43B}"),
    ("panda_face", "\u{1F43C}"),
    ("tiger", "\u{1F42F}"),
    ("lion", "\u{1F981}"),
    ("cow", "\u{1F42E}"),
    ("pig", "\u{1F437}"),
    ("frog", "\u{1F438}"),
    ("monkey", "\u{1F412}"),
    ("chicken", "\u{1F414}"),
    ("penguin", "\u{1F427}"),
    ("owl", "\u{1F989}"),
    ("fox_face", "\u{1F98A}"),
    ("wolf", "\u{1F43A}"),
    ("horse", "\u{1F434}"),
    ("unicorn", "\u{1F984}"),
    ("bee", "\u{1F41D}"),
    ("bug", "\u{1F41B}"),
    ("snail", "\u{1F40C}"),
    ("turtle", "\u{1F422}"),
    ("snake", "\u{1F40D}"),
    ("octopus", "\u{1F419}"),
    ("crab", "\u{1F980}"),
    ("shrimp", "\u{1F990}"),
    ("whale", "\u{1F433}"),
    ("dolphin", "\u{1F42C}"),
    ("shark", "\u{1F988}"),
    ("cactus", "\u{1F335}"),
    ("palm_tree", "\u{1F334}"),
    ("mushroom", "\u{1F344}"),
    ("sunflower", "\u{1F33B}"),
    ("rose", "\u{1F339}"),
    ("tulip", "\u{1F337}"),
    ("four_leaf_clover", "\u{1F340}"),
    ("banana", "\u{1F34C}"),
    ("apple", "\u{1F34E}"),
    ("pear", "\u{1F350}"),
    ("lemon", "\u{1F34B}"),
    ("grapes", "\u{1F347}"),
    ("watermelon", "\u{1F349}"),
    ("strawberry", "\u{1F353}"),
    ("cherries", "\u{1F352}"),
    ("peach", "\u{1F351}"),
    ("pineapple", "\u{1F34D}"),
    ("avocado", "\u{1F951}"),
    ("eggplant", "\u{1F346}"),
    ("hot_pepper", "\u{1F336}"),
    ("corn", "\u{1F33D}"),
    ("carrot", "\u{1F955}"),
    ("potato", "\u{1F954}"),
    ("bread", "\u{1F35E}"),
    ("cheese", "\u{1F9C0}"),
    ("taco", "\u{1F32E}"),
    ("burrito", "\u{1F32F}"),
    ("hamburger", "\u{1F354}"),
    ("fries", "\u{1F35F}"),
    ("ramen", "\u{1F35C}"),
    ("sushi", "\u{1F363}"),
    ("icecream", "\u{1F366}"),
    ("cookie", "\u{1F36A}"),
    ("birthday", "\u{1F382}"),
    ("coffee", "\u{2615}"),
    ("tea", "\u{1F375}"),
    ("beer", "\u{1F37A}"),
    ("soccer", "\u{26BD}"),
    ("basketball", "\u{1F3C0}"),
    ("guitar", "\u{1F3B8}"),
    ("trophy", "\u{1F3C6}"),
    ("balloon", "\u{1F388}"),
    ("star", "\u{2B50}"),
];

/// The name of the method that votes for an emoji: `VoteHeartEyes` for `heart_eyes`.
pub(super) fn vote_method(name: &str) -> String {
    let mut method = String::from("Vote");
    for word in name.split('_') {
        let (first, rest) = word.split_at(1);
        method.push_str(&first.to_ascii_uppercase());
        method.push_str(rest);
    }
    method
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tare_plan::graph::builtin;

    #[test]
    fn a_hundred_distinct_emoji_have_distinct_methods() {
        let names: BTreeSet<_> = CATALOGUE.iter().map(|(n, _)| n).collect();
        let characters: BTreeSet<_> = CATALOGUE.iter().map(|(_, c)| c).collect();
        let methods: BTreeSet<_> = CATALOGUE.iter().map(|(n, _)| vote_method(n)).collect();
        assert_eq!(
            (names.len(), characters.len(), methods.len()),
            (100, 100, 100)
        );
        assert_eq!(vote_method("four_leaf_clover"), "VoteFourLeafClover");
    }

    #[test]
    fn every_vote_of_the_mixes_is_for_a_known_emoji() {
        let graph = builtin("emojivoto").unwrap();
        let mut votes = 0;
        for e in graph.mixes.iter().flat_map(|m| &m.endpoints) {
            if let Some(choice) = e.path.strip_prefix("/api/vote?choice=") {
                let known = CATALOGUE.iter().any(|(n, _)| format!(":{n}:") == choice);
                assert!(known, "{choice}");
                votes += 1;
            }
        }
        assert_eq!(votes, 20);
    }
}
