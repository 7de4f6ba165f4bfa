"""Safetensors files of torch tensors: the header's length, the header in JSON, the bytes."""
import json
import struct

import torch

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32", torch.bool: "BOOL"}


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = next(dtype for dtype, known in NAMES.items() if known == entry["dtype"])
        tensors[name] = torch.frombuffer(bytearray(content[begin:end]), dtype=dtype).reshape(entry["shape"])
    return tensors
