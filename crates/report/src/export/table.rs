//! A table with typed columns, and how it looks as CSV and as Parquet. Both print the
//! same numbers: floating-point numbers in CSV with as many digits as bring them back.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use tare_analysis::formats::csv;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Whole,
    Number,
    Truth,
}

/// One value; none where there is nothing to state.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    None,
    Text(String),
    Whole(u64),
    Number(f64),
    Truth(bool),
}

impl From<Option<u64>> for Value {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::None, Self::Whole)
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::None, Self::Number)
    }
}

/// Columns, and rows with one value for each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Value>>,
}

/// One row by the names of its columns.
pub(super) type Row = Vec<(String, Kind, Value)>;

impl Table {
    /// Adds a row; columns that are new come after those that are known.
    pub(super) fn push(&mut self, row: Row) {
        let mut values = vec![Value::None; self.columns.len()];
        for (name, kind, value) in row {
            match self.columns.iter().position(|(n, _)| *n == name) {
                Some(at) => values[at] = value,
                None => {
                    self.columns.push((name, kind));
                    values.push(value);
                }
            }
        }
        self.rows.push(values);
    }

    fn value(&self, row: usize, column: usize) -> &Value {
        self.rows[row].get(column).unwrap_or(&Value::None)
    }

    pub(super) fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(n, _)| n.as_str()).collect();
        let mut out = names.join(",") + "\n";
        for row in 0..self.rows.len() {
            let fields: Vec<String> = (0..self.columns.len())
                .map(|column| match self.value(row, column) {
                    Value::None => String::new(),
                    Value::Text(text) => csv::field(text),
                    Value::Whole(n) => n.to_string(),
                    Value::Number(x) => x.to_string(),
                    Value::Truth(b) => b.to_string(),
                })
                .collect();
            out += &fields.join(",");
            out.push('\n');
        }
        out
    }

    pub(super) fn to_parquet(&self) -> Result<Vec<u8>> {
        let fields = self
            .columns
            .iter()
            .map(|(name, kind)| {
                let (physical, logical) = match kind {
                    Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                    Kind::Whole => (Physical::INT64, None),
                    Kind::Number => (Physical::DOUBLE, None),
                    Kind::Truth => (Physical::BOOLEAN, None),
                };
                let built = Type::primitive_type_builder(name, physical)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_logical_type(logical)
                    .build()?;
                Ok(Arc::new(built))
            })
            .collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("tare")
            .with_fields(fields)
            .build()?;
        let properties = Arc::new(WriterProperties::builder().build());
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), properties)?;
        let mut group = file.next_row_group()?;
        for column in 0..self.columns.len() {
            self.write_column(column, &mut group)?;
        }
        group.close()?;
        file.close()?;
        Ok(bytes)
    }

    fn write_column(
        &self,
        column: usize,
        group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    ) -> Result<()> {
        let values = || (0..self.rows.len()).map(|row| self.value(row, column));
        let there: Vec<i16> = values().map(|v| i16::from(*v != Value::None)).collect();
        let there = Some(there.as_slice());
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("a column too many".to_owned()));
        };
        match self.columns[column].1 {
            Kind::Text => {
                let of = |v: &Value| match v {
                    Value::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                };
                let values: Vec<_> = values().filter_map(of).collect();
                writer
                    .typed::<ByteArrayType>()
                    .write_batch(&values, there, None)?;
            }
            Kind::Whole => {
                let of = |v: &Value| match v {
                    Value::Whole(n) => Some(i64::try_from(*n).unwrap_or(i64::MAX)),
                    _ => None,
                };
                let values: Vec<_> = values().filter_map(of).collect();
                writer
                    .typed::<Int64Type>()
                    .write_batch(&values, there, None)?;
            }
            Kind::Number => {
                let of = |v: &Value| match v {
                    Value::Number(x) => Some(*x),
                    _ => None,
                };
                let values: Vec<_> = values().filter_map(of).collect();
                writer
                    .typed::<DoubleType>()
                    .write_batch(&values, there, None)?;
            }
            Kind::Truth => {
                let of = |v: &Value| match v {
                    Value::Truth(b) => Some(*b),
                    _ => None,
                };
                let values: Vec<_> = values().filter_map(of).collect();
                writer
                    .typed::<BoolType>()
                    .write_batch(&values, there, None)?;
            }
        }
        writer.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    fn table() -> Table {
        let mut table = Table::default();
        table.push(vec![
            (
                "name".to_owned(),
                Kind::Text,
                Value::Text("a,\"b\"".to_owned()),
            ),
            (
                "n".to_owned(),
                Kind::Whole,
                Value::Whole(u64::from(u32::MAX) + 1),
            ),
        ]);
        table.push(vec![
            ("n".to_owned(), Kind::Whole, Value::None),
            ("x".to_owned(), Kind::Number, Value::Number(0.1 + 0.2)),
            ("ok".to_owned(), Kind::Truth, Value::Truth(true)),
        ]);
        table
    }

    #[test]
    fn rows_may_know_different_columns() {
        assert_eq!(
            table().to_csv(),
            "name,n,x,ok\n\"a,\"\"b\"\"\",4294967296,,\n,,0.30000000000000004,true\n"
        );
    }

    #[test]
    fn parquet_holds_the_same_values() {
        let bytes = table().to_parquet().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap()
                    .get_column_iter()
                    .map(|(_, f)| f.clone())
                    .collect()
            })
            .collect();
        let text = Field::Str("a,\"b\"".to_owned());
        assert_eq!(
            rows,
            [
                [text, Field::Long(4_294_967_296), Field::Null, Field::Null],
                [
                    Field::Null,
                    Field::Null,
                    Field::Double(0.1 + 0.2),
                    Field::Bool(true)
                ],
            ]
        );
    }
}
