//! Reads run directories and shows them: text for the terminal, the page `report.html` and exports.
//! Everything shown is derived from the run directory, and `tare report` derives it again.
//!
//! Every output prints the numbers of one `Summary` through `tare_analysis::figures` and computes
//! none of its own.

mod churn_words;
mod comparison_words;
mod derived;
pub mod export;
mod findings;
mod fit_words;
mod gate_words;
mod history;
mod page;
mod prices;
mod profiles;
mod steps;
mod store;
mod table;
mod tables;
mod terminal;
mod text;
mod words;

pub use derived::{WriteError, summarise, write_clusters, write_derived};
pub use history::{HistoryDir, HistoryError, entries_min, render_badge};
pub use page::{
    Details, HistoryData, render_comparison_page, render_history_page, render_live,
    render_live_history_page, render_page, render_report,
};
pub use store::{LoadedRun, StoreError, load_run};
pub use terminal::{
    render_clusters, render_comparison, render_comparison_markdown, render_detectable,
    render_gate_junit, render_gate_markdown, render_history, render_method, render_observation,
    render_published, render_table,
};
