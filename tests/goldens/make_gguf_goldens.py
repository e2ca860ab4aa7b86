#!/usr/bin/env python3
"""Makes tests/goldens/quant.gguf and quant.f32: one tensor of each type that Isotone reads, written and dequantised by
the Python package `gguf`. Run in an environment with `pip install gguf numpy`; the results are committed."""
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(HERE / "quant.gguf", "llama")
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_uint64("test.u64", 2**63 + 5)
    writer.add_int64("test.i64", -(2**62))
    writer.add_float64("test.f64", 0.1)
    writer.add_float32("test.f32", 0.5)
    writer.add_bool("test.bool", True)
    writer.add_string("test.text", "grüße 你好")
    writer.add_array("test.texts", ["a", "", "ccc"])
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.floats", [0.5, 1.5])
    writer.add_array("test.nested", [[1, 2], [3]])
    golden = b""
    types = gguf.GGMLQuantizationType
    for kind in (types.F32, types.F16, types.BF16, types.Q4_0, types.Q4_1, types.Q8_0):
        values = (rng.standard_normal((6, 64)) * np.exp(rng.uniform(-12, 6, (6, 1)))).astype(np.float32)
        values[0, :5] = [0.0, -0.0, 65504.0, 1e-8, -1e-5]
        values[5] = 0.0
        stored = gguf.quantize(values, kind)
        name = f"{kind.name.lower()}.weight"
        writer.add_tensor(name, stored, raw_dtype=kind)
        golden += gguf.dequantize(stored, kind).astype("<f4").tobytes()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (HERE / "quant.f32").write_bytes(golden)


if __name__ == "__main__":
    main()
