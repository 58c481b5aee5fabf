//! The flags that `tare search` shares with `tare load`.

use clap::builder::Resettable;
use clap::{ArgMatches, Command, Error, FromArgMatches};

use super::load;

/// Flags of a load that do not apply to a search: hidden, and rejected when given.
const NOT_FOR_SEARCH: [&str; 8] = [
    "awake", "rate", "max", "duration", "warmup", "hlog", "progress", "spec",
];

/// Help of `--arrivals`: those that do not define a rate of their own.
const ARRIVALS: &str = "\
Arrival process of the requests.

`constant`: evenly spaced. `poisson`: exponentially distributed gaps. `bursts:N`: N requests at \
once, as often as the rate needs. `wrk2`: compatibility mode; all connections in phase, each at its \
share of the rate.";

/// All flags of `tare load`, some of them hidden.
pub(super) struct OfLoad(pub(super) load::Args);

impl FromArgMatches for OfLoad {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        load::Args::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for OfLoad {
    fn augment_args(command: Command) -> Command {
        let own = command.get_about().cloned();
        let own_long = command.get_long_about().cloned();
        let mut command = load::Args::augment_args(command);
        for flag in NOT_FOR_SEARCH {
            command = command.mut_arg(flag, |arg| arg.hide(true));
        }
        command = command.mut_arg("arrivals", |arg| arg.long_help(ARRIVALS));
        // `augment_args` also replaced the description of the command.
        command
            .about(own.map_or(Resettable::Reset, Resettable::Value))
            .long_about(own_long.map_or(Resettable::Reset, Resettable::Value))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
