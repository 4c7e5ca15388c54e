#!/usr/bin/env python3
"""split_gguf.py FILE N DIRECTORY: takes a GGUF model apart into N files, as llama.cpp's gguf-split does: the first has all
keys, every one some of the tensors and the three keys of a split. Prints the path of the first."""

import struct
import sys
from pathlib import Path

from gguf import GGUFReader

UINT16, INT32 = 2, 5
ALIGNMENT = 32


def pair(key, kind, form, value):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I" + form, kind, value)


def split(path, n, directory, stem="model"):
    """Returns the paths of the parts."""
    data, reader = Path(path).read_bytes(), GGUFReader(path)
    tensors = sorted(reader.tensors, key=lambda tensor: tensor.data_offset)
    entries = min(tensor.field.offset for tensor in tensors)
    n_keys = struct.unpack_from("<Q", data, 16)[0]
    paths = []
    for i in range(n):
        own = tensors[len(tensors) * i // n : len(tensors) * (i + 1) // n]
        keys = pair(b"split.no", UINT16, "H", i) + pair(b"split.count", UINT16, "H", n)
        keys += pair(b"split.tensors.count", INT32, "i", len(tensors))
        if i == 0:
            keys = data[24:entries] + keys
        head, body = keys, b""
        for tensor in own:
            body += bytes(-len(body) % ALIGNMENT)
            name = tensor.name.encode()
            shape = [int(d) for d in tensor.shape]
            head += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            head += struct.pack("<IQ", int(tensor.tensor_type), len(body))
            body += data[tensor.data_offset : tensor.data_offset + tensor.n_bytes]
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(own), 3 + (n_keys if i == 0 else 0)) + head
        paths.append(Path(directory) / f"{stem}-{i + 1:05}-of-{n:05}.gguf")
        paths[-1].write_bytes(head + bytes(-len(head) % ALIGNMENT) + body)
    return paths


if __name__ == "__main__":
    print(split(sys.argv[1], int(sys.argv[2]), sys.argv[3])[0])
