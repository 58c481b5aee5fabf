//! Text for a terminal, up to 80 columns wide.

mod clusters;
mod comparison;
mod detectable;
mod findings;
mod gate;
mod history;
mod observation;
pub(crate) mod output;
mod price_list;
mod profiles;
mod published;
mod run;
mod sweep;

pub use clusters::render_clusters;
pub use comparison::{render_comparison, render_comparison_markdown};
pub use detectable::render_detectable;
pub use gate::{render_gate_junit, render_gate_markdown};
pub use history::render_history;
pub use observation::render_observation;
pub use published::{render_method, render_published};
pub use run::render_table;
