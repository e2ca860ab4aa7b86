//! One column of texts of a Parquet file, read batch by batch. A file is hostile input: what the reader complains about, or
//! panics over, becomes an error.
use crate::abi::Fallible;
use parquet::basic::Type;
use parquet::column::reader::{get_typed_column_reader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;

pub struct ParquetTexts {
    file: SerializedFileReader<File>,
    column: usize,
    /// Level of definition at which a value is there; below it is null.
    present: i16,
    group: usize,
    reader: Option<ColumnReaderImpl<ByteArrayType>>,
    rows: u64,
}

/// A row that is null.
pub const NULL: u32 = u32::MAX;

impl ParquetTexts {
    pub fn open(path: &str, column: &str) -> Fallible<Self> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let file = SerializedFileReader::new(file).map_err(|e| e.to_string())?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
        let Some(index) = names.iter().position(|name| name == column) else {
            let some: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
            return Err(format!(
                "there is no column '{column}'; set the source's field to the one that holds the text, of: {}",
                some.join(", ")
            ));
        };
        let descr = schema.column(index);
        if descr.physical_type() != Type::BYTE_ARRAY || descr.max_rep_level() > 0 {
            return Err(format!("column '{column}' is no column of texts"));
        }
        Ok(ParquetTexts {
            column: index,
            present: descr.max_def_level(),
            group: 0,
            reader: None,
            rows: 0,
            file,
        })
    }

    /// At most `most` rows more: their texts one after another, and their lengths. No lengths: the file is at its end.
    pub fn next(&mut self, most: usize) -> Fallible<(Vec<u8>, Vec<u32>)> {
        loop {
            if self.reader.is_none() {
                if self.group == self.file.num_row_groups() {
                    return Ok((Vec::new(), Vec::new()));
                }
                let group = self.file.get_row_group(self.group);
                let reader = group.and_then(|g| g.get_column_reader(self.column));
                let reader = reader.map_err(|e| self.at(&e.to_string()))?;
                self.reader = Some(get_typed_column_reader::<ByteArrayType>(reader));
                self.group += 1;
            }
            let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
            let reader = self.reader.as_mut().expect("set above");
            let read = reader.read_records(most, Some(&mut levels), None, &mut values);
            let (records, _, _) = read.map_err(|e| self.at(&e.to_string()))?;
            if records == 0 {
                self.reader = None;
                continue;
            }
            return self.gathered(records, &levels, &values);
        }
    }

    fn gathered(
        &mut self,
        records: usize,
        levels: &[i16],
        values: &[ByteArray],
    ) -> Fallible<(Vec<u8>, Vec<u32>)> {
        let (mut text, mut lengths) = (Vec::new(), Vec::with_capacity(records));
        let mut next = values.iter();
        for i in 0..records {
            self.rows += 1;
            if self.present > 0 && levels.get(i) != Some(&self.present) {
                lengths.push(NULL);
                continue;
            }
            let Some(value) = next.next() else {
                return Err(self.at("the value is missing"));
            };
            let bytes = value.data();
            match u32::try_from(bytes.len()) {
                Ok(length) if length != NULL => lengths.push(length),
                _ => return Err(self.at("the text is too long")),
            }
            if std::str::from_utf8(bytes).is_err() {
                return Err(self.at("the text is not UTF-8"));
            }
            text.extend_from_slice(bytes);
        }
        Ok((text, lengths))
    }

    fn at(&self, what: &str) -> String {
        format!("row {}: {what}", self.rows)
    }
}
