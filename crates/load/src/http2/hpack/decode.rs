//! Decodes header blocks.

use super::field::FieldKind;
use super::table::Table;
use super::{HpackError, TABLE_BYTES_MAX, huffman, integer};

/// Decodes one connection's header blocks, in order.
#[derive(Debug, Default)]
pub struct Decoder {
    table: Table,
    /// Name and value of the current literal.
    literal: Vec<u8>,
}

impl Decoder {
    /// Decodes a complete block; calls `field` with kind, name and value of each field.
    ///
    /// # Errors
    /// [`HpackError`], after the calls for the fields before it.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        field: &mut impl FnMut(FieldKind, &[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut begun = false;
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let index = integer::decode(&mut block, 7)?;
                    let f = self.table.get(index).ok_or(HpackError::Index)?;
                    field(f.kind, f.name, f.value);
                }
                0x20..=0x3f => {
                    let size = integer::decode(&mut block, 5)?;
                    if begun || size > TABLE_BYTES_MAX {
                        return Err(HpackError::TableSize);
                    }
                    self.table.resize(size);
                    continue;
                }
                _ => {
                    let indexed = first & 0x40 != 0;
                    let bits = if indexed { 6 } else { 4 };
                    let (kind, name_len) = self.literal(&mut block, bits)?;
                    let (name, value) = self.literal.split_at(name_len);
                    field(kind, name, value);
                    if indexed {
                        self.table.insert(kind, &self.literal, name_len);
                    }
                }
            }
            begun = true;
        }
        Ok(())
    }

    /// Reads a literal into its buffer; returns its kind and the length of its name.
    fn literal(&mut self, block: &mut &[u8], bits: u32) -> Result<(FieldKind, usize), HpackError> {
        let index = integer::decode(block, bits)?;
        self.literal.clear();
        if index == 0 {
            string(block, &mut self.literal)?;
        } else {
            let f = self.table.get(index).ok_or(HpackError::Index)?;
            self.literal.extend_from_slice(f.name);
        }
        let name_len = self.literal.len();
        string(block, &mut self.literal)?;
        let (name, value) = self.literal.split_at(name_len);
        Ok((FieldKind::of(name, value), name_len))
    }

    /// Size of the dynamic table as RFC 7541 counts it.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }
}

fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let huffman = block.first().is_some_and(|b| b & 0x80 != 0);
    let length = integer::decode(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(HpackError::Cut)?;
    *block = rest;
    if huffman {
        return huffman::decode(bytes, out);
    }
    out.extend_from_slice(bytes);
    Ok(())
}
