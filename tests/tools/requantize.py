#!/usr/bin/env python3
"""Writes a GGUF file with another's metadata and weights, matrices in another block type; vectors stay as they are.

    requantize.py IN.gguf TYPE OUT.gguf     TYPE: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0

Needs numpy and gguf from PyPI, whose quantisation this is."""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize, quantize


def copy_metadata(reader, writer):
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], inner)


def requantize(source, kind, target):
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, values.reshape(-1))
        else:
            values = values.reshape([int(n) for n in tensor.shape][::-1])
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    requantize(sys.argv[1], GGMLQuantizationType[sys.argv[2]], sys.argv[3])
