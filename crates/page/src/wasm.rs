//! The analysis inside the page: the same code as on the command line, called by
//! `web/src/analysis.ts`. Bytes go in and out through two buffers in this module's
//! memory; nothing else is shared.

use std::cell::RefCell;

use crate::evidence::RunInput;

thread_local! {
    static IN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static RUN: RefCell<Option<RunInput>> = const { RefCell::new(None) };
}

/// Where the caller may write `bytes` bytes.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn take(bytes: usize) -> *mut u8 {
    IN.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(bytes, 0);
        buffer.as_mut_ptr()
    })
}

/// Where the last result lies.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn result() -> *const u8 {
    OUT.with_borrow(|buffer| buffer.as_ptr())
}

/// Reads the run (`RunInput` as JSON) from the buffer. Returns 1, or 0 when it is none.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn open() -> u32 {
    let run = IN.with_borrow(|bytes| serde_json::from_slice::<RunInput>(bytes).ok());
    RUN.replace(run);
    RUN.with_borrow(|run| u32::from(run.is_some()))
}

/// Analyses the run without the trials in the buffer (a JSON list of indices).
/// Returns the length of the result: `{"summary": ..., "parts": {...}}`; 0 when
/// there is no run or no list.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn analyse() -> usize {
    let excluded = IN.with_borrow(|bytes| serde_json::from_slice::<Vec<u32>>(bytes).ok());
    let answer = RUN.with_borrow(|run| {
        let summary = run.as_ref()?.summarise(&excluded?);
        let parts = crate::parts(&summary);
        serde_json::to_vec(&serde_json::json!({ "summary": summary, "parts": parts })).ok()
    });
    OUT.replace(answer.unwrap_or_default());
    OUT.with_borrow(Vec::len)
}
