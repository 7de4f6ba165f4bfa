#!/usr/bin/env python3
"""Times decoding (one query row) beside the memory: bytes of keys and values over time, against a copy on the same device.

    decode.py --library build/release/lib/libattnfuse_c.so --out DIR [--rounds N]

Keys and values dense [batch, kv_heads, length, head_dim], and in pages that lie in random order. Results are checked against
PyTorch's on the first and the last batch entry before anything is timed; PyTorch's SDPA on the dense tensors is timed beside.
"""
import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attnfuse

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
CALLS = ((32, 8192), (1, 131072), (4, 8192), (2, 32768))  # batch, keys
PAGE_SIZES = (0, 16, 64, 256)  # 0: dense
COPY_BYTES = 1 << 29
MAX_ERROR = 5e-3

TEXT = """attention decode {{
  heads {heads}  kv_heads {kv_heads}  head_dim {head_dim}  dtype bf16
  {storage}
  score scale(1 / sqrt(head_dim))
  mask causal
  normalize softmax
}}
"""


def milliseconds(torch, run, calls=20):
    for _ in range(3):
        run()
    events = []
    for _ in range(calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(200_000)  # hides the host
        start.record()
        run()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in events)


def in_pages(torch, x, table):
    """x [batch, kv_heads, length, d] as [pages, kv_heads, page_size, d], each page where the table [batch, pages of an entry] says."""
    batch, heads, length, d = x.shape
    page_size = length // table.shape[1]
    pages = torch.empty(table.numel(), heads, page_size, d, device=x.device, dtype=x.dtype)
    pages[table.flatten().long()] = x.reshape(batch, heads, -1, page_size, d).transpose(1, 2).reshape(-1, heads, page_size, d)
    return pages


def measure(torch, device, batch, length, page_size, rounds):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    def random(heads, rows):
        return torch.randn(batch, heads, rows, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    q, k, v = random(HEADS, 1), random(KV_HEADS, length), random(KV_HEADS, length)
    storage = f"storage paged(page_size = {page_size})" if page_size else ""
    program = device.compile(TEXT.format(heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, storage=storage))
    o, lse = torch.full_like(q, float("nan")), torch.full((batch, HEADS, 1), float("nan"), device="cuda")
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    if page_size:
        table = torch.randperm(batch * length // page_size, device="cuda").to(torch.int32).view(batch, -1)
        tensors["k"], tensors["v"], tensors["page_table"] = in_pages(torch, k, table), in_pages(torch, v, table), table
        tensors["seqused_k"] = torch.full((batch,), length, device="cuda", dtype=torch.int32)
    launch = program.bind(tensors)
    launch()
    torch.cuda.synchronize()
    for b in {0, batch - 1}:
        wanted = sdpa(*(x[b:b + 1].float() for x in (q, k, v)), enable_gqa=True)
        error = ((o[b:b + 1].float() - wanted).norm() / wanted.norm()).item()
        if not error < MAX_ERROR:
            raise SystemExit(f"wrong result: off by {error:.2e} of its norm")
    runs = {"ours": launch} if page_size else {"ours": launch, "torch": lambda: sdpa(q, k, v, enable_gqa=True)}
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(milliseconds(torch, run))
    result = {name: statistics.median(all) for name, all in times.items()}
    result["spread"] = max(times["ours"]) / min(times["ours"]) - 1
    result["gb_s"] = 2 * k.numel() * 2 / result["ours"] / 1e6
    result["kernels"] = [kernel["name"] for kernel in launch.kernels()]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libattnfuse_c.so")
    parser.add_argument("--out", required=True, help="folder for decode.json and decode.md")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import torch
    torch.zeros(1, device="cuda")  # makes PyTorch's context current
    device = attnfuse.Library(os.path.abspath(options.library)).device()
    source = torch.ones(COPY_BYTES, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    copy = 2 * COPY_BYTES / min(milliseconds(torch, lambda: target.copy_(source)) for _ in range(options.rounds)) / 1e6
    os.makedirs(options.out, exist_ok=True)
    lines = [f"# Decoding, one {torch.cuda.get_device_name()}, {time.strftime('%Y-%m-%d')}", "",
             f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}; bf16, {HEADS}/{KV_HEADS} heads, head_dim {HEAD_DIM}, one query "
             f"row. Medians of {options.rounds} rounds; a copy moves {copy:.0f} GB/s.", "",
             "| batch | keys | keys and values | ours us (spread) | GB/s | of the copy | PyTorch SDPA us |", "|---|---|---|---|---|---|---|"]
    report = {"copy_gb_s": copy, "rows": []}
    for batch, length in CALLS:
        for page_size in PAGE_SIZES:
            r = measure(torch, device, batch, length, page_size, options.rounds)
            report["rows"].append({"batch": batch, "length": length, "page_size": page_size, **r})
            peer = f"{r['torch'] * 1e3:.1f}" if "torch" in r else ""
            lines.append(f"| {batch} | {length} | {f'pages of {page_size}' if page_size else 'dense'} | {r['ours'] * 1e3:.1f} "
                         f"({r['spread']:.1%}) | {r['gb_s']:.0f} | {r['gb_s'] / copy:.0%} | {peer} |")
            print(lines[-1], flush=True)
            torch.cuda.empty_cache()
    with open(os.path.join(options.out, "decode.json"), "w") as file:
        json.dump(report, file, indent=1)
    with open(os.path.join(options.out, "decode.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
