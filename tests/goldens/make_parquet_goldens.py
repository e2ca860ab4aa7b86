#!/usr/bin/env python3
"""Makes parquet/*.parquet: the same seven rows by each codec, as Arrow's own writer lays them out. Needs pyarrow."""
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).resolve().parent / "parquet"
TEXTS = ["The sea is deep.", None, "Grüße von der Küste – 海は深い", "", "two\nlines", "The sea is deep.", "x" * 300]


def main():
    FOLDER.mkdir(exist_ok=True)
    table = pa.table({
        "text": pa.array(TEXTS, pa.string()),
        "inner": pa.array([None if t is None else {"body": t.upper()} for t in TEXTS], pa.struct([("body", pa.string())])),
        "always": pa.array([t or "-" for t in TEXTS], pa.large_string()),
        "number": pa.array(range(len(TEXTS)), pa.int64()),
        "many": pa.array([[t] for t in TEXTS], pa.list_(pa.string())),
        "raw": pa.array([b"fine", b"bad \xff\xfe", *[b"fine"] * 5], pa.binary()),
    }, schema=pa.schema([("text", pa.string()), ("inner", pa.struct([("body", pa.string())])), pa.field("always", pa.large_string(), nullable=False),
                         ("number", pa.int64()), ("many", pa.list_(pa.string())), ("raw", pa.binary())]))
    for codec, more in (("snappy", {}), ("zstd", {"use_dictionary": False, "data_page_version": "2.0"}), ("gzip", {}),
                        ("none", {"column_encoding": "DELTA_BYTE_ARRAY", "use_dictionary": False}), ("brotli", {})):
        if "column_encoding" in more:
            more["column_encoding"] = {"text": "DELTA_BYTE_ARRAY", "always": "DELTA_LENGTH_BYTE_ARRAY"}
        pq.write_table(table, FOLDER / f"{codec}.parquet", compression=codec, row_group_size=3, store_schema=False, write_statistics=False, **more)


if __name__ == "__main__":
    main()
