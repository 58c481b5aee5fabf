//! Length-prefixed messages.

/// Longest message that is accepted.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 30;

/// Why the prefix of a message is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Compressed, although no encoding was offered, or an unknown flag.
    #[error("found message flag {0}, expected 0: no compression was offered")]
    Flag(u8),
    /// A message longer than [`MESSAGE_BYTES_MAX`].
    #[error("found a message of {0} bytes, expected at most {MESSAGE_BYTES_MAX}")]
    TooLong(u32),
}

/// Appends `message` with its prefix.
pub fn frame(out: &mut Vec<u8>, message: &[u8]) {
    out.push(0);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
}

/// Counts the messages in a stream of bytes that arrives in pieces of any size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// Received bytes of the next prefix.
    prefix: u8,
    length: u32,
    /// Missing bytes of the message; valid once the prefix is complete.
    left: u32,
    count: u64,
}

impl Messages {
    /// Takes the next bytes; returns how many messages they completed.
    ///
    /// # Errors
    /// [`MessageError`] for an invalid prefix.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<u32, MessageError> {
        let mut completed = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let n = bytes.len().min(self.left as usize);
                self.left -= n as u32;
                bytes = &bytes[n..];
            } else {
                let byte = bytes[0];
                bytes = &bytes[1..];
                match self.prefix {
                    0 if byte != 0 => return Err(MessageError::Flag(byte)),
                    0 => self.length = 0,
                    _ => self.length = self.length << 8 | u32::from(byte),
                }
                self.prefix += 1;
                if self.prefix < 5 {
                    continue;
                }
                if self.length > MESSAGE_BYTES_MAX {
                    return Err(MessageError::TooLong(self.length));
                }
                self.left = self.length;
            }
            if self.left == 0 {
                self.prefix = 0;
                completed += 1;
            }
        }
        self.count += u64::from(completed);
        Ok(completed)
    }

    /// Complete messages so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the bytes so far end at the end of a message.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.prefix == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_are_counted_for_any_split(
            lengths in prop::collection::vec(0_usize..70_000, 0..6),
            cut in 1_usize..9_000,
        ) {
            let mut bytes = Vec::new();
            lengths.iter().for_each(|&n| frame(&mut bytes, &vec![7; n]));
            let mut m = Messages::default();
            let mut completed = 0;
            for piece in bytes.chunks(cut) {
                completed += m.feed(piece).unwrap();
            }
            prop_assert_eq!((completed as usize, m.count() as usize), (lengths.len(), lengths.len()));
            prop_assert!(m.at_boundary());
        }
    }

    #[test]
    fn incomplete_messages_and_invalid_prefixes_are_detected() {
        let mut m = Messages::default();
        assert_eq!(m.feed(&[0, 0, 0, 0, 2, 1]), Ok(0));
        assert!(!m.at_boundary());
        assert_eq!(m.feed(&[1, 0]), Ok(1));
        assert!(!m.at_boundary());
        assert_eq!(Messages::default().feed(&[1]), Err(MessageError::Flag(1)));
        let long = Messages::default().feed(&[0, 0xff, 0, 0, 0]);
        assert_eq!(long, Err(MessageError::TooLong(0xff00_0000)));
    }
}
