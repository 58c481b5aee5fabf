//! Text for a terminal, up to 80 columns wide.

mod capacity;
mod churn;
mod clusters;
mod comparison;
mod cost;
mod detectable;
mod findings;
mod gate;
mod history;
mod markdown;
mod observation;
mod output;
mod overload;
mod path;
mod price_list;
mod profiles;
mod published;
mod sweep;
mod table;

pub use clusters::render_clusters;
pub use comparison::render_comparison;
pub use detectable::render_detectable;
pub use gate::{render_gate_junit, render_gate_markdown};
pub use history::render_history;
pub use markdown::render_comparison_markdown;
pub use observation::render_observation;
pub use published::{render_method, render_published};
pub use table::render_table;
