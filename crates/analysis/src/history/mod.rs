//! Histories: an entry from the summaries of its runs, and the changes over all entries.

mod changes;
mod entry;

pub use changes::{ENTRIES_LASTING, series};
pub use entry::{EntryNames, entry};
