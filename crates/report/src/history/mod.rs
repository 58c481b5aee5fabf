//! Histories: their directory, tables and badge.

mod badge;
mod store;
pub(crate) mod tables;

pub use badge::render_badge;
pub use store::{HistoryDir, HistoryError};
pub use tables::entries_min;
