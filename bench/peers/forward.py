#!/usr/bin/env python3
"""Times our kernels beside PyTorch's own on the same tensors, in one process.

    forward.py --library build/release/lib/libattnfuse_c.so --out DIR [--rows TEXT,...] [--peers cudnn,flex,fa2] [--seconds S]

Every row: our result is checked against f32 on the first and the last head and against cuDNN's where it computes the same; then
all contestants run in random order, again and again, each call behind a flush of the L2 cache and a pause that hides the host.
Reported: medians, the spread of the rounds' medians, peer time over our time, clocks and power under load. DIR gets forward.json
and forward.md, written anew after every row. A row that fails, or a peer that does, is reported and does not stop the others.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attnfuse
import rows as table

# Relative to the norm of the reference; lse absolute.
MAX_ERROR, MAX_LSE_ERROR, MAX_PEER_ERROR = 5e-3, 2e-2, 8e-3
FLUSH_BYTES = 256 << 20
PAUSE_CYCLES = 500_000  # about 0.3 ms: longer than any contestant's host time
SMI_FIELDS = "clocks.sm,clocks.mem,power.draw,temperature.gpu"

torch = None  # imported by main, so that --help and --list need none


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300] if text else ''}"


# ---- the reference ------------------------------------------------------------------------------------------------------------


def rope_tables(row):
    """cos and sin, [length, head_dim], half pairs."""
    frequency = row.theta ** (-torch.arange(0, row.head_dim, 2, device="cuda", dtype=torch.float64) / row.head_dim)
    angle = row.positions(torch).double()[:, None] * frequency
    return angle.cos().repeat(1, 2).float(), angle.sin().repeat(1, 2).float()


def transformed(x, weight, cos, sin):
    """Norm and rotation of the row's program, in f32, rounded once. weight, cos: None where it has none."""
    wide = x.float()
    if weight is not None:
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.float()
    if cos is not None:
        a, b = wide.chunk(2, -1)
        wide = wide * cos + torch.cat((-b, a), -1) * sin
    return wide.to(x.dtype)


def transform_of(row, captured):
    """(q, k) -> both as the product takes them; tables are made here."""
    cos, sin = rope_tables(row) if row.has_rope else (None, None)
    q_norm, k_norm = captured.get("q_norm"), captured.get("k_norm")
    return lambda q, k: (transformed(q, q_norm, cos, sin), transformed(k, k_norm, cos, sin))


def reference(row, q, k, v, captured, b, h):
    """o and lse of one head in f32, and the share of pairs that are visible."""
    g = h // (row.heads // row.kv_heads)
    q1, k1, v1 = q[b, h], k[b, g], v[b, g].float()
    if row.has_rope or row.has_norm:
        q1, k1 = transform_of(row, captured)(q1, k1)
    score, mask = row.score(torch), row.mask(torch, captured)
    j = torch.arange(row.length, device="cuda")
    outputs, sums, visible = [], [], 0
    for begin in range(0, row.length, 2048):
        i = torch.arange(begin, min(begin + 2048, row.length), device="cuda")[:, None]
        s = (q1[i[:, 0]].float() @ k1.float().T) / math.sqrt(row.head_dim)
        if score:
            s = score(s, b, h, i, j)
        if mask:
            seen = mask(b, h, i, j)
            s = s.masked_fill(~seen, -math.inf)
            visible += int(seen.sum())
        else:
            visible += s.numel()
        lse = torch.logsumexp(s, -1)
        if row.has_sink:
            lse = torch.logaddexp(lse, captured["sink"][h])
        outputs.append(torch.exp(s - lse[:, None]) @ v1)
        sums.append(lse)
    return torch.cat(outputs), torch.cat(sums), visible / row.length**2


def relative_error(found, wanted):
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


# ---- contestants --------------------------------------------------------------------------------------------------------------


def make_cudnn(row, q, k, v, captured, device):
    return make_sdpa(row, q, k, v, captured, "CUDNN_ATTENTION")


def make_fa2(row, q, k, v, captured, device):
    return make_sdpa(row, q, k, v, captured, "FLASH_ATTENTION")


def make_sdpa(row, q, k, v, captured, backend_name):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend, causal, grouped = getattr(SDPBackend, backend_name), row.program != "full", row.heads != row.kv_heads
    attention = torch.nn.functional.scaled_dot_product_attention
    prepare = make_transform(row, captured)

    def run():
        q1, k1 = prepare(q, k)
        with sdpa_kernel(backend):
            return attention(q1, k1, v, is_causal=causal, enable_gqa=grouped)
    return run


def make_transform(row, captured):
    """(q, k) -> both transformed, by one compiled function."""
    if not row.has_rope and not row.has_norm:
        return lambda q, k: (q, k)
    return torch.compile(transform_of(row, captured), dynamic=False)


def make_flex(row, q, k, v, captured, device):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    score, mask, grouped, sink = row.score(torch), row.mask(torch, captured), row.heads != row.kv_heads, captured.get("sink")
    block = create_block_mask(mask, None, None, row.length, row.length, device="cuda") if mask else None
    prepare = make_transform(row, captured)
    if sink is None:
        flex = torch.compile(flex_attention, dynamic=False)
        return lambda: flex(*prepare(q, k), v, score_mod=score, block_mask=block, enable_gqa=grouped)

    def with_sink(q, k, v):
        o, lse = flex_attention(q, k, v, score_mod=score, block_mask=block, enable_gqa=grouped, return_lse=True)
        return (o * torch.sigmoid(lse - sink[:, None])[..., None]).to(o.dtype)
    compiled = torch.compile(with_sink, dynamic=False)
    return lambda: compiled(*prepare(q, k), v)


def make_plain(row, q, k, v, captured, device):
    return make_ours(row, q, k, v, device, "causal")


def make_rope(row, q, k, v, captured, device):
    return make_ours(row, q, k, v, device, "rope")


def make_ours(row, q, k, v, device, name):
    """Our kernel for the same shape without what makes the program special: what that costs."""
    program = device.compile(row.text(name))
    o, lse = program.outputs(q, v)
    launch = program.bind({"q": q, "k": k, "v": v, "o": o, "lse": lse})

    def run():
        launch()
        return None
    return run


MAKERS = {"cudnn": make_cudnn, "flex": make_flex, "fa2": make_fa2, "plain": make_plain, "rope": make_rope}
TITLES = {"cudnn": "cuDNN", "flex": "flex_attention", "fa2": "FlashAttention-2", "plain": "ours, plain causal", "rope": "ours, RoPE and causal"}


# ---- measuring ----------------------------------------------------------------------------------------------------------------


class Stopwatch:
    def __init__(self):
        self.flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        self.pause = getattr(torch.cuda, "_sleep", lambda cycles: None)

    def record(self, run):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.flush.zero_()
        self.pause(PAUSE_CYCLES)
        start.record()
        run()
        end.record()
        return start, end

    def estimate(self, run, calls=3):
        events = [self.record(run) for _ in range(calls)]
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in events)

    def compare(self, contestants, rounds, seconds):
        """name -> the rounds' medians in ms, and calls per round."""
        estimates = {name: self.estimate(run) for name, run in contestants.items()}
        one_of_each = sum(t + 0.5 for t in estimates.values()) / 1000
        calls = max(4, min(40, int(seconds / rounds / one_of_each)))
        medians = {name: [] for name in contestants}
        for _ in range(rounds):
            events = {name: [] for name in contestants}
            for _ in range(calls):
                for name in random.sample(list(contestants), len(contestants)):
                    events[name].append(self.record(contestants[name]))
            torch.cuda.synchronize()
            for name, pairs in events.items():
                medians[name].append(statistics.median(a.elapsed_time(b) for a, b in pairs))
        return medians, calls


def clocks(run):
    """What nvidia-smi says while `run` keeps the GPU busy; where there is none, why."""
    try:
        uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
        gpu = f"GPU-{uuid}" if uuid else str(torch.cuda.current_device())
        smi = subprocess.Popen(["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits", "-i", gpu],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        give_up = time.time() + 10
        while smi.poll() is None and time.time() < give_up:
            for _ in range(20):
                run()
            torch.cuda.synchronize()
        if smi.poll() is None:
            smi.kill()
        values = smi.communicate()[0].strip().splitlines()[0].split(",")
        return {name: float(value) for name, value in zip(SMI_FIELDS.split(","), values)}
    except Exception as error:  # a measurement without clocks is one still
        return {"missing": first_line(error)}


class Failed(Exception):
    pass


def check_ours(row, launch, q, k, v, o, lse, captured):
    o.fill_(math.nan)
    lse.fill_(math.nan)
    launch()
    torch.cuda.synchronize()
    if torch.isnan(o).any() or torch.isnan(lse).any():
        raise Failed(f"NaN in {int(torch.isnan(o).sum())} elements of o and {int(torch.isnan(lse).sum())} of lse")
    heads = [(0, 0)] if row.batch * row.heads == 1 else [(0, 0), (row.batch - 1, row.heads - 1)]
    wanted = [(b, h, *reference(row, q, k, v, captured, b, h)) for b, h in heads]
    errors = {"o": max(relative_error(o[b, h], w) for b, h, w, _, _ in wanted),
              "lse": max((lse[b, h] - w).abs().max().item() for b, h, _, w, _ in wanted)}
    if not (errors["o"] < MAX_ERROR and errors["lse"] < MAX_LSE_ERROR):
        raise Failed(f"wrong result: o is off by {errors['o']:.2e} of its norm (limit {MAX_ERROR}), lse by {errors['lse']:.2e} "
                     f"(limit {MAX_LSE_ERROR})")
    first, first_lse = o.clone(), lse.clone()
    launch()
    torch.cuda.synchronize()
    errors["same_bits"] = torch.equal(first, o) and torch.equal(first_lse, lse)
    return errors, wanted


def make_peers(row, wanted_peers, q, k, v, o, captured, wanted, device, result):
    """The peers that run and compute the same."""
    torch._dynamo.reset()  # what was compiled for other rows
    contestants = {}
    for peer in row.peers:
        if peer not in wanted_peers:
            continue
        try:
            begin = time.time()
            run = MAKERS[peer](row, q, k, v, captured, device)
            found = run()
            torch.cuda.synchronize()
            notes = {"prepared_s": time.time() - begin}
            if found is not None:
                notes["error"] = max(relative_error(found[b, h], w) for b, h, w, _, _ in wanted)
                notes["against_ours"] = relative_error(found, o)
                limit = MAX_PEER_ERROR if peer in ("cudnn", "fa2") else 2 * MAX_PEER_ERROR
                if not (notes["error"] < limit and notes["against_ours"] < 2 * limit):
                    raise Failed(f"computes something else: {notes['error']:.2e} from the reference, {notes['against_ours']:.2e} from ours")
            contestants[peer] = run
            result["peers"][peer] = notes
        except Exception as error:
            say(f"   {TITLES[peer]} left out: {first_line(error)}")
            result["left_out"][peer] = first_line(error)
    return contestants


def measure_row(row, device, stopwatch, options):
    result = {"name": row.name, **{f: getattr(row, f) for f in ("group", "program", "batch", "heads", "kv_heads", "length", "head_dim",
                                                                "v_head_dim", "lengths")}, "text": row.text(), "peers": {}, "left_out": {}}
    begin = time.time()
    program = device.compile(row.text())
    result["compiled_s"] = time.time() - begin
    q = torch.randn(row.batch, row.heads, row.length, row.head_dim, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(row.batch, row.kv_heads, row.length, row.head_dim, device="cuda", dtype=torch.bfloat16)
    v = torch.randn(row.batch, row.kv_heads, row.length, row.v_head_dim, device="cuda", dtype=torch.bfloat16)
    captured = row.captured(torch)
    o, lse = program.outputs(q, v)
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    if row.lengths:  # packed sequences have no batch axis
        tensors = {name: tensor[0] for name, tensor in tensors.items()}
    launch = program.bind({**tensors, **captured, **row.sequence_ends(torch)})
    result["kernels"] = launch.kernels()
    result["errors"], wanted = check_ours(row, launch, q, k, v, o, lse, captured)
    visible = 0.5 if row.program in ("causal", "rope", "softcap", "alibi", "sink") else wanted[0][4]
    contestants = {"ours": launch, **make_peers(row, options.peers, q, k, v, o, captured, wanted, device, result)}
    del wanted
    result["clocks_before"] = clocks(launch)
    medians, result["calls"] = stopwatch.compare(contestants, options.rounds, options.row_seconds)
    result["clocks_after"] = clocks(launch)
    ours = medians.pop("ours")
    flops = 2 * row.batch * row.heads * row.length**2 * (row.head_dim + row.v_head_dim) * visible
    result["ours"] = {"ms": statistics.median(ours), "spread": max(ours) / min(ours) - 1, "rounds": ours,
                      "tflops": flops / statistics.median(ours) / 1e9}
    for peer, times in medians.items():
        ratios = [theirs / mine for theirs, mine in zip(times, ours)]
        result["peers"][peer].update(ms=statistics.median(times), spread=max(times) / min(times) - 1, rounds=times,
                                     ratio=statistics.median(ratios), ratio_min=min(ratios), ratio_max=max(ratios))
    return result


# ---- launches: host time, recording -------------------------------------------------------------------------------------------


def measure_launches(device):
    """Host time of a launch through the C interface, and a recorded graph's results."""
    row = table.Row("launch", "causal", 1, 4, 4, 128, 128, ())
    q, k, v = (torch.randn(1, 4, 128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    program = device.compile(row.text())
    o, lse = program.outputs(q, v)
    launch = program.bind({"q": q, "k": k, "v": v, "o": o, "lse": lse})
    result = {}
    for _ in range(50):
        launch()
    torch.cuda.synchronize()
    expected = o.clone()
    pointer, function, handle = launch.call_pointer, launch.function, launch.handle
    samples, statuses = [], 0
    for _ in range(20):  # short bursts: a full queue would make the host wait
        begin = time.perf_counter()
        for _ in range(100):
            statuses |= function(handle, pointer)
        samples.append((time.perf_counter() - begin) * 1e4)
        torch.cuda.synchronize()
    result["host_us"], result["failed"] = statistics.median(samples), bool(statuses)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        launch()
        launch()
    for _ in range(3):
        o.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        result["recorded"] = result.get("recorded", True) and torch.equal(o, expected)
    return result


# ---- reports ------------------------------------------------------------------------------------------------------------------


def shape_text(r):
    dims = str(r["head_dim"]) if r["head_dim"] == r["v_head_dim"] else f"{r['head_dim']}/{r['v_head_dim']}"
    return f"{r['batch']} {r['heads']}/{r['kv_heads']} {r['length']} {dims}"


def markdown(report):
    lines = [f"# Forward, one {report['device']}, {report['date']}", "",
             f"PyTorch {report['torch']}, CUDA {report['cuda']}, target {report['target']}; bf16. Medians of {report['rounds']} rounds in "
             "random order, L2 flushed before every call; the range of the rounds' ratios in brackets. Every row was checked against f32 "
             "before it was timed.", "",
             "| program | B H/Hkv S D | ours ms | TFLOP/s | schedule | peer | peer ms | peer / ours |", "|---|---|---|---|---|---|---|---|"]
    for r in report["rows"]:
        title = f"{r['group']}: {r['program']}"
        if "ours" not in r:
            lines.append(f"| {title} | {shape_text(r)} | failed: {r['failed']} | | | | | |")
            continue
        mine = f"| {title} | {shape_text(r)} | {r['ours']['ms']:.4f} | {r['ours']['tflops']:.0f} | {r['kernels'][-1]['schedule']} "
        timed = {peer: p for peer, p in r["peers"].items() if "ms" in p}
        for peer, p in timed.items():
            lines.append(f"{mine}| {TITLES[peer]} | {p['ms']:.4f} | {p['ratio']:.3f} ({p['ratio_min']:.3f}-{p['ratio_max']:.3f}) |")
        if not timed:
            lines.append(f"{mine}| | | |")
    for r in report["rows"]:
        for peer, why in r.get("left_out", {}).items():
            lines += ["", f"{TITLES[peer]} left out of {r['name']}: {why}"]
    if report.get("launch"):
        lines += ["", f"Launches: {json.dumps(report['launch'])}"]
    loads = [r["clocks_after"] for r in report["rows"] if "clocks.sm" in r.get("clocks_after", {})]
    if loads:
        lines += ["", f"Under load: {min(c['clocks.sm'] for c in loads):.0f}-{max(c['clocks.sm'] for c in loads):.0f} MHz, "
                  f"memory {loads[0]['clocks.mem']:.0f} MHz, {min(c['power.draw'] for c in loads):.0f}-"
                  f"{max(c['power.draw'] for c in loads):.0f} W, up to {max(c['temperature.gpu'] for c in loads):.0f} C."]
    return "\n".join(lines) + "\n"


def write(report, folder):
    for name, text in (("forward.json", json.dumps(report, indent=1)), ("forward.md", markdown(report))):
        path = os.path.join(folder, name)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.replace(path + ".new", path)


def say_row(r):
    say(f"   ours {r['ours']['ms']:.4f} ms, {r['ours']['tflops']:.0f} TFLOP/s, spread {r['ours']['spread']:.1%}, error {r['errors']['o']:.1e}, "
        f"lse {r['errors']['lse']:.0e}{'' if r['errors']['same_bits'] else ', OTHER BITS THE SECOND TIME'}; "
        + "; ".join(f"{k['schedule']} ({k['source']}) {k['registers']} registers, {k['spill_bytes']} spilled" for k in r["kernels"]))
    for peer, p in r["peers"].items():
        if "ms" in p:
            say(f"   {TITLES[peer]} {p['ms']:.4f} ms: {p['ratio']:.3f} ({p['ratio_min']:.3f}-{p['ratio_max']:.3f})")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libattnfuse_c.so")
    parser.add_argument("--out", help="folder for forward.json and forward.md")
    parser.add_argument("--rows", default="", help="only rows whose names contain one of these, comma-separated")
    parser.add_argument("--peers", default="cudnn,flex,plain,rope", help="of %s (default: cudnn,flex,plain,rope)" % ",".join(MAKERS))
    parser.add_argument("--also", default="", help="peers to try in every plain row too, such as fa2,flex")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no row after this time")
    parser.add_argument("--row-seconds", type=float, default=1.5, help="timing of one row (default 1.5)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the rows and their programs, and stop")
    options = parser.parse_args()
    options.peers = set(filter(None, (options.peers + "," + options.also).split(",")))
    if unknown := options.peers - set(MAKERS):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    wanted = [text for text in options.rows.split(",") if text]
    options.rows = [row for row in table.ROWS if not wanted or any(text in row.name for text in wanted)]
    if not options.rows:
        parser.error("no row has such a name; --list prints them")
    also = tuple(filter(None, options.also.split(",")))
    for row in options.rows:
        if row.group == "plain":
            row.peers = tuple(dict.fromkeys(row.peers + also))
    if not options.list and not (options.library and options.out):
        parser.error("--library and --out are needed")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def start(options):
    """The device, and the report's head."""
    global torch
    import torch._dynamo  # binds torch as well
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        try:
            setattr(torch._dynamo.config, limit, 4096)  # every row is another shape
        except Exception:
            pass
    torch.zeros(1, device="cuda")  # makes PyTorch's context current
    device = attnfuse.Library(os.path.abspath(options.library)).device()
    report = {"device": torch.cuda.get_device_name(), "target": device.target, "torch": torch.__version__, "cuda": torch.version.cuda,
              "date": time.strftime("%Y-%m-%d"), "rounds": options.rounds, "seed": options.seed, "rows": [], "launch": None}
    say(f"{report['device']}, {report['target']}, PyTorch {report['torch']}, CUDA {report['cuda']}")
    return device, report


def main():
    options = read_options()
    if options.list:
        for row in options.rows:
            print(f"# {row.name}: {', '.join(row.peers)}\n{row.text()}")
        return 0
    began, failed = time.time(), 0
    device, report = start(options)
    os.makedirs(options.out, exist_ok=True)
    stopwatch = Stopwatch()
    for number, row in enumerate(options.rows, 1):
        if time.time() - began > options.seconds:
            say(f"time is up: {len(options.rows) - number + 1} rows left out")
            report["rows_left_out"] = [left.name for left in options.rows[number - 1:]]
            break
        say(f"{number}/{len(options.rows)} {row.name} ({time.time() - began:.0f} s)")
        try:
            report["rows"].append(measure_row(row, device, stopwatch, options))
            say_row(report["rows"][-1])
        except Exception as error:
            failed += 1
            say(f"   FAILED: {error}")
            if not isinstance(error, (Failed, attnfuse.Error)):
                traceback.print_exc()
            report["rows"].append({**{f: getattr(row, f) for f in ("name", "group", "program", "batch", "heads", "kv_heads", "length",
                                                                   "head_dim", "v_head_dim")}, "failed": first_line(error)})
            if "illegal memory access" in str(error) or "unspecified launch failure" in str(error):
                say("the CUDA context is lost: stopping")
                break
        finally:
            torch.cuda.empty_cache()
            write(report, options.out)
    try:  # last: a recording that fails can spoil what follows
        report["launch"] = measure_launches(device)
        say(f"launches: {report['launch']}")
        if report["launch"]["failed"] or not report["launch"]["recorded"]:
            raise Failed("a launch failed, or a recorded graph gave other results")
    except Exception as error:
        failed += 1
        report["launch"] = {**(report["launch"] or {}), "failed": first_line(error)}
        say(f"launches FAILED: {error}")
    write(report, options.out)
    say(f"wrote {options.out}/forward.md and forward.json")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
