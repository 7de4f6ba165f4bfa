#!/usr/bin/env python3
"""Times our kernels beside PyTorch's own on the same tensors, interleaved in one process.

Usage: forward.py ATTNFUSE [--seconds S] [--flex] [--filter TEXT] [--json FILE]

ATTNFUSE is the tool; kernels come from `attnfuse emit`. Every case is checked against double precision before it is
timed. Reported: medians over rounds, TFLOP/s (4*B*H*Sq*Skv*D, half if causal), and peer time over our time.
"""
import argparse, ctypes, json, math, os, statistics, struct, subprocess, tempfile, time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADER = "heads {h}; kv_heads {g}; head_dim {d}; dtype bf16"
# name, program text, batch, heads, kv heads, length, head_dim, causal, peers that compute the same
CASES = [
    ("plain", "score scale(1/sqrt({d})); mask causal", 4, 32, 8, 4096, 128, True, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d}))", 4, 32, 8, 4096, 128, False, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d})); mask causal", 4, 32, 32, 4096, 64, True, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d}))", 4, 32, 32, 4096, 64, False, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d})); mask causal", 4, 16, 16, 4096, 256, True, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d})); mask causal", 32, 32, 8, 512, 128, True, ("fa2", "cudnn")),
    ("plain", "score scale(1/sqrt({d})); mask causal", 1, 32, 8, 16384, 128, True, ("fa2", "cudnn")),
    ("softcap", "score scale(1/sqrt({d})); score softcap(50); mask causal", 2, 32, 8, 8192, 128, True, ("flex",)),
    ("alibi", "score scale(1/sqrt({d})); score alibi; mask causal", 2, 32, 8, 8192, 128, True, ("flex",)),
    ("window 1024", "score scale(1/sqrt({d})); mask causal && window(1024)", 2, 32, 8, 8192, 128, True, ("flex",)),
    ("rope", "query rope(theta = 500000); key rope(theta = 500000); score scale(1/sqrt({d})); mask causal",
     4, 32, 8, 4096, 128, True, ("fa2",)),
]

cu = ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status:
        text = ctypes.c_char_p()
        cu.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value}")


class Kernel:
    """A kernel from `attnfuse emit`, launched on PyTorch's tensors through the driver."""

    def __init__(self, tool, program):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([tool, "emit", "-", "--target", "cuda", "-o", folder], input=program.encode(), check=True, stdout=subprocess.DEVNULL)
            files = {os.path.splitext(f)[1]: os.path.join(folder, f) for f in os.listdir(folder)}
            self.launch = json.load(open(files[".json"]))
            self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
            check(cu.cuModuleLoad(ctypes.byref(self.module), files[".cubin"].encode()), "load")
        check(cu.cuModuleGetFunction(ctypes.byref(self.function), self.module, self.launch["kernel"].encode()), "function")
        check(cu.cuFuncSetAttribute(self.function, 8, self.launch["shared_bytes"]), "shared memory")

    def bind(self, tensors, sq, skv, batch):
        params = self.launch["params"]
        block = bytearray(params["bytes"])
        for field in params["fields"]:
            name, kind = field["name"].split("_")[0], field["type"]
            if kind == "u64":
                struct.pack_into("<Q", block, field["offset"], tensors[name].data_ptr())
            elif kind == "i64":
                axis = field["name"].rsplit("_", 1)[1]
                dim = {"b": 0, "h": 1, "s": 2}.get(axis)
                struct.pack_into("<q", block, field["offset"], tensors[name].stride(dim if dim is not None else int(axis)))
            else:
                struct.pack_into("<i", block, field["offset"], {"batch": batch, "sq": sq, "skv": skv}[field["name"]])
        grid = self.launch["grid"]
        n = batch * grid["heads"] * -(-sq // grid["block_q"])
        x = min(n, grid["max_grid_x"])
        buffer = ctypes.create_string_buffer(bytes(block), len(block))
        size = ctypes.c_size_t(len(block))
        extra = (ctypes.c_void_p * 5)(1, ctypes.cast(buffer, ctypes.c_void_p), 2, ctypes.cast(ctypes.pointer(size), ctypes.c_void_p), 0)
        keep = (buffer, size)

        def run(keep=keep):
            check(cu.cuLaunchKernel(self.function, x, -(-n // x), 1, self.launch["threads"], 1, 1, self.launch["shared_bytes"],
                                    ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), None, extra), "launch")
        return run


def rope(x, theta):
    d = x.shape[-1]
    freq = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * freq
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    a, b = x.float().chunk(2, -1)
    return (x.float() * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)


def oracle(name, q, k, v, causal):
    """Double precision on one head of one batch entry, to keep it small."""
    q, k, v = q[:1, :1], k[:1, :1], v[:1, :1]
    if name == "rope":
        q, k = rope(q, 500000.0), rope(k, 500000.0)
    s = (q.double() @ k.double().transpose(-1, -2)) / math.sqrt(q.shape[-1])
    i, j = torch.arange(s.shape[-2], device=s.device)[:, None], torch.arange(s.shape[-1], device=s.device)
    if name == "softcap":
        s = 50 * torch.tanh(s / 50)
    if name == "alibi":
        s = s + 2.0 ** (-8.0 / 32) * (j - i)  # head 0 of 32
    if causal:
        s = s.masked_fill(j > i, -math.inf)
    if name == "window 1024":
        s = s.masked_fill(i - j >= 1024, -math.inf)
    return torch.softmax(s, -1) @ v.double()


def peers_of(case, q, k, v, use_flex):
    name, _, _, h, g, _, d, causal, wanted = case
    gqa = h != g
    found = {}

    def sdpa(backend, prepare=lambda x: x):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(prepare(q), prepare(k), v, is_causal=causal, enable_gqa=gqa)
        return run
    if name == "rope":
        found["rope + fa2"] = sdpa(SDPBackend.FLASH_ATTENTION, torch.compile(lambda x: rope(x, 500000.0)))
    elif "fa2" in wanted:
        found["FlashAttention-2"] = sdpa(SDPBackend.FLASH_ATTENTION)
    if "cudnn" in wanted:
        found["cuDNN"] = sdpa(SDPBackend.CUDNN_ATTENTION)
    if "flex" in wanted and use_flex:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        flex = torch.compile(flex_attention)
        mods = {"softcap": lambda s, b, h_, i, j: 50 * torch.tanh(s / 50),
                "alibi": lambda s, b, h_, i, j: s + torch.exp2(-8.0 * (h_ + 1) / 32) * (j - i), "window 1024": None}
        mask = (lambda b, h_, i, j: (i >= j) & (i - j < 1024)) if name == "window 1024" else (lambda b, h_, i, j: i >= j)
        block = create_block_mask(mask, None, None, q.shape[2], k.shape[2], device="cuda")
        found["flex_attention"] = lambda: flex(q, k, v, score_mod=mods[name], block_mask=block, enable_gqa=gqa)
    return found


def milliseconds(run, repeats):
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--flex", action="store_true", help="also flex_attention (compiles for a while)")
    parser.add_argument("--filter", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.manual_seed(int(time.time()))
    torch.zeros(1, device="cuda")
    rows = []
    print("| case | B H/Hkv S D | ours ms | TFLOP/s | peer | peer ms | peer / ours (spread) |\n|---|---|---|---|---|---|---|")
    for case in CASES:
        name, text, b, h, g, s, d, causal, _ = case
        if options.filter not in name:
            continue
        q, k, v = (torch.randn(b, n, s, d, device="cuda", dtype=torch.bfloat16) for n in (h, g, g))
        o, lse = torch.full_like(q, math.nan), torch.full((b, h, s), math.nan, device="cuda")
        body = (HEADER + "; " + text + "; normalize softmax").format(h=h, g=g, d=d)
        kernel = Kernel(options.tool, f"attention peer {{ {body} }}")
        ours = kernel.bind({"q": q, "k": k, "v": v, "o": o, "lse": lse}, s, s, b)
        ours()
        torch.cuda.synchronize()
        error = (o[:1, :1].double() - oracle(name, q, k, v, causal)).abs().max().item()
        assert error < 0.05 and not torch.isnan(o).any() and not torch.isnan(lse).any(), f"{name}: error {error}"
        runs = {"ours": ours, **peers_of(case, q, k, v, options.flex)}
        repeats = max(1, int(20 / max(milliseconds(ours, 3), 0.01) / 4))
        times = {n: [] for n in runs}
        for run in runs.values():
            milliseconds(run, 3)
        for _ in range(options.rounds):
            for n, run in runs.items():
                times[n].append(milliseconds(run, repeats))
        mine = statistics.median(times["ours"])
        flops = 4 * b * h * s * s * d / (2 if causal else 1)
        for n in runs:
            if n == "ours" and len(runs) > 1:
                continue
            ratios = [p / m for p, m in zip(times[n], times["ours"])]
            kind = f"{name}, {'causal' if causal else 'full'}"
            print(f"| {kind} | {b} {h}/{g} {s} {d} | {mine:.3f} | {flops / mine / 1e9:.0f} | {n} | {statistics.median(times[n]):.3f} | "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) |", flush=True)
            rows.append({"case": kind, "batch": b, "heads": h, "kv_heads": g, "length": s, "head_dim": d, "ours_ms": mine, "peer": n,
                         "peer_ms": statistics.median(times[n]), "ratio": statistics.median(ratios), "error": error})
    print(f"\n{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {time.strftime('%Y-%m-%d')}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
