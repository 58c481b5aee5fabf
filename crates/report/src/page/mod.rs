//! `report.html`: one file that works offline. Text and tables are written here, so that they work
//! without scripts, for screen readers and on paper. The bundle of `web/` draws the charts from the
//! embedded summary.

mod about;
mod axis;
mod capacity;
mod churn;
mod comparison;
mod cost;
mod details;
mod document;
mod gate;
mod header;
mod history;
pub(crate) mod html;
mod instrument;
mod lanes;
mod noise;
mod overload;
mod parts;
mod path;
mod path_drawing;
mod plot;
mod price_list;
mod profiles;
mod published;
mod sections;
mod series;
mod stack;
mod sweep;
mod tables;
mod trials;

pub use comparison::render_comparison_page;
pub use details::Details;
pub use document::{render_live, render_page, render_report};
pub use history::{HistoryData, render_history_page, render_live_history_page};
