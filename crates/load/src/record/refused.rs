//! Responses that are refused: why, how many, and the first bytes of one of them.

/// Bytes that are kept of the beginning of a response.
const FIRST_BYTES_MAX: usize = 48;

/// The first bytes of a response. They are only copied when its first read does not complete it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FirstBytes {
    length: u8,
    bytes: [[u8; 16]; FIRST_BYTES_MAX / 16],
}

impl FirstBytes {
    /// Appends the next bytes of the response, as far as they fit.
    #[cold]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let free = &mut self.bytes.as_flattened_mut()[usize::from(self.length)..];
        let n = free.len().min(bytes.len());
        free[..n].copy_from_slice(&bytes[..n]);
        self.length += n as u8;
    }

    /// Forgets the previous response.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes.as_flattened()[..usize::from(self.length)]
    }
}

/// Refused responses by reason; the reasons are few.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Vec<Refusal>);

/// The responses refused for one reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
    /// Of the first response that has any.
    pub(crate) first: FirstBytes,
}

impl Refusals {
    pub(crate) fn add(&mut self, new: Refusal) {
        match self.0.iter_mut().find(|r| r.reason == new.reason) {
            None => self.0.push(new),
            Some(known) => {
                known.count += new.count;
                if known.first.get().is_empty() {
                    known.first = new.first;
                }
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Refusal> {
        self.0.iter()
    }
}
