//! The settings of both sides. Source: RFC 9113, section 6.5.

use super::frame::{self, ErrorCode, Violation};
use super::{HEADER_LIST_BYTES_MAX, STREAM_WINDOW_BYTES};

const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// Largest window that the protocol allows.
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// The peer's settings that concern a client without a dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) concurrent: u32,
    pub(super) window: i64,
    pub(super) payload_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrent: u32::MAX,
            window: 65_535,
            payload_max: frame::PAYLOAD_BYTES_MAX,
        }
    }
}

impl Settings {
    /// Applies one SETTINGS frame.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let (entries, []) = payload.as_chunks::<6>() else {
            return Err(Violation::size(
                "SETTINGS with a length that is not a multiple of 6",
            ));
        };
        for &[a, b, c, d, e, f] in entries {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                ENABLE_PUSH if value != 0 => {
                    return Err(Violation::protocol("ENABLE_PUSH from a server"));
                }
                MAX_CONCURRENT_STREAMS => self.concurrent = value,
                INITIAL_WINDOW_SIZE => {
                    self.window = i64::from(value);
                    if self.window > WINDOW_MAX {
                        let code = ErrorCode::FlowControl;
                        return Err(Violation::new(code, "an initial window above its limit"));
                    }
                }
                MAX_FRAME_SIZE => {
                    self.payload_max = value as usize;
                    if !(16_384..=16_777_215).contains(&value) {
                        return Err(Violation::protocol(
                            "a maximum frame size outside its range",
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the SETTINGS frame of the preface.
pub(super) fn announce(out: &mut Vec<u8>) {
    let ours = [
        (ENABLE_PUSH, 0),
        (INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
        (MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES_MAX as u32),
    ];
    frame::begin(out, 6 * ours.len(), frame::SETTINGS, 0, 0);
    for (name, value) in ours {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}
