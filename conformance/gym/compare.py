#!/usr/bin/env python3
"""The programs of frontend/examples/gym against the functions of PyTorch's attention-gym that they spell.

compare.py ATTNFUSE [--target TARGET] [--seed N] [NAME...]

Each program runs on TARGET and is compared with dense attention in double precision, to which the package's own mask_mod
or score_mod is applied element by element. Exits with 77 where torch or attn_gym (both on PyPI) are missing.
"""
import argparse
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

SKIPPED = 77
try:
    import torch
    from torch.nn.attention.flex_attention import noop_mask

    from attn_gym import masks as gym_masks
    from attn_gym import mods as gym_mods
except ImportError as reason:
    print(f"skipped: {reason}; pip install torch attn_gym, and give their interpreter as ATTNFUSE_PYTHON")
    sys.exit(SKIPPED)

sys.path.insert(0, str(Path(__file__).parent))
import safetensors_file

PROGRAMS = Path(__file__).parents[2] / "frontend/examples/gym"
# Of outputs beside their largest element; and of the LSE.
TOLERANCE = {"f32": (2e-5, 1e-5), "f16": (2e-3, 5e-5)}
DTYPES = {"f32": torch.float32, "f16": torch.float16}


class Used:
    """A module that remembers which of its functions were asked for."""

    def __init__(self, module):
        self.module, self.names = module, set()

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(self.module, name)

    def unused(self):
        return sorted(n for n in dir(self.module) if re.match("generate_|batchify_", n) and n not in self.names)


masks, mods = Used(gym_masks), Used(gym_mods)


@dataclass
class Row:
    """One program, what it stands for, and the tensors that it captures."""

    name: str
    sq: int
    skv: int
    mask: object = None
    score: object = None
    tensors: dict = field(default_factory=dict)
    # From o, LSE and v to what the program computes where it is no softmax.
    finish: object = None


BATCH, HEADS, DIM = 2, 4, 32


def documents(lengths):
    offsets = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    ids = torch.repeat_interleave(torch.arange(len(lengths), dtype=torch.int32), torch.tensor(lengths))
    return offsets, ids


def rows(q, k):
    """All rows; q and k are drawn for the longest, with as many heads of keys as of queries."""
    causal = masks.causal_mask
    yield Row("causal", 130, 130, causal)
    yield Row("sliding_window", 130, 130, masks.generate_sliding_window(12))
    yield Row("dilated_window", 130, 130, masks.generate_dilated_sliding_window(12, 3))
    is_global = torch.rand(130) < 0.05
    yield Row("global_window", 130, 130, masks.generate_global_sliding_window(6, is_global),
              tensors={"is_global": is_global})
    yield Row("prefix_lm", 130, 130, masks.generate_prefix_lm_mask(20))

    offsets, ids = documents([30, 1, 52, 17, 28])
    yield Row("documents", 128, 128, masks.generate_doc_mask_mod(noop_mask, offsets), tensors={"offsets": offsets})
    yield Row("documents_causal", 128, 128, masks.generate_packed_causal_doc_mask_mod(offsets),
              tensors={"offsets": offsets})
    yield Row("documents_prefix", 128, 128,
              masks.generate_doc_mask_mod(masks.generate_prefix_lm_mask(8), offsets),
              tensors={"offsets": offsets, "document_id": ids})
    offsets, ids = documents([24, 13, 20, 9, 31, 5, 18])
    prefix = torch.tensor([0, 0, 0, 3, 3, 3, 6], dtype=torch.int32)
    yield Row("shared_prefix", 120, 120, masks.generate_shared_prefix_mask_mod(offsets, prefix),
              tensors={"offsets": offsets, "document_id": ids, "prefix_id": prefix})
    interval = torch.tensor([[0, 12], [5, 30], [30, 31], [31, 50], [0, 50]], dtype=torch.int32)
    yield Row("flamingo", 50, 80, masks.generate_vision_cross_attention_mask_mod(interval, 16),
              tensors={"interval": interval})
    yield Row("block_diffusion", 128, 128, masks.generate_block_diffusion_mask(64, 8))

    parents = [-1] + [int(torch.randint(node, ())) for node in range(1, 23)]
    ancestors = masks.build_tree_ancestor_matrix(parents, device="cpu")
    yield Row("jetspec_tree", 23, 60, masks.generate_jetspec_tree_causal_mask_mod(37, ancestors),
              tensors={"ancestors": ancestors})
    yield Row("jetspec_training", 48, 77, masks.generate_jetspec_training_mask_mod(29, 8))

    yield Row("natten", 144, 144, masks.generate_natten(12, 12, 5, 7))
    yield Row("natten_tiled", 128, 128, masks.generate_tiled_natten(16, 8, 7, 5, 4, 4))
    yield Row("natten_morton", 256, 256, masks.generate_morton_natten(16, 16, 5, 7))
    yield Row("batchify", 144, 144, masks.batchify_mask_mod(masks.generate_natten(6, 6, 3, 3), 36))
    # A few rows and keys more than there are tokens.
    yield Row("sliding_tiles_2d", 140, 140, masks.generate_sta_mask_mod_2d((16, 8), (12, 4), (4, 2), 9))
    yield Row("sliding_tiles_3d", 152, 152, masks.generate_sta_mask_mod_3d((4, 6, 6), (3, 4, 2), (1, 2, 2), 6))
    yield Row("svg_spatial", 130, 130, masks.generate_spatial_head_mask_mod(10, 5, 24, 2, True, 16))
    yield Row("svg_temporal", 130, 130, masks.generate_temporal_head_mask_mod(10, 5, 24, 2))
    selected = masks.compute_vsa_topk_indices(q[:, :, :96], k[:, :, :96], tile_numel=16, top_k=2)
    tokens = torch.tensor([16, 16, 16, 16, 12, 9], dtype=torch.int32)
    yield Row("vsa", 96, 96, masks.generate_vsa_mask_mod(selected, 16, tokens),
              tensors={"list": selected.to(torch.int32), "tokens": tokens})

    yield Row("alibi", 130, 130, causal, mods.generate_alibi_bias(HEADS))
    yield Row("softcap", 130, 130, causal, mods.generate_tanh_softcap(2))
    yield Row("sandwich", 128, 128, causal, mods.generate_sandwich_bias(HEADS, 128, d_bar=16))
    away = (torch.arange(256, dtype=torch.float32) - 127).abs()
    table = torch.cos(away[:, None] / 10000 ** (torch.arange(64) / 64)).sum(-1)
    yield Row("sandwich_table", 128, 128, causal, mods.generate_sandwich_bias(HEADS, 128),
              tensors={"bias": table, "factor": HEADS / (8 * torch.arange(1.0, HEADS + 1))})
    adjacency = torch.rand(BATCH, 40, 40) < 0.05
    distance = mods.shortest_path_distances(adjacency, 4)
    spatial = torch.randn(HEADS, 6)
    yield Row("graphormer_spatial", 40, 40, score=mods.generate_graphormer_spatial_bias(spatial, distance),
              tensors={"table": spatial, "distance": distance})
    kinds, lengths = mods.shortest_path_edge_types(adjacency, torch.randint(4, adjacency.shape), 3)
    edge = torch.randn(HEADS, 3, 4)
    yield Row("graphormer_edge", 40, 40, score=mods.generate_graphormer_edge_bias(edge, kinds, lengths),
              tensors={"table": edge, "edge": kinds, "edges": lengths})
    query_rope, key_rope = torch.randn(BATCH, HEADS, 130, 16), torch.randn(BATCH, 1, 130, 16)
    yield Row("mla_rope", 130, 130, causal, mods.generate_mla_rope_score_mod(query_rope, key_rope, HEADS, 0.25),
              tensors={"query_rope": query_rope, "key_rope": key_rope})
    activation = mods.generate_activation_score_mod()
    yield Row("activation", 130, 130, score=activation)
    yield Row("activation_weights", 130, 130, score=activation,
              finish=lambda o, lse, v: mods.undo_softmax(o, lse, v.sum(-2, keepdim=True)))


def over_pairs(mod, sq, skv, scores=None):
    """What a mask_mod or score_mod gives for every b, h, i and j."""
    takes = scores is not None
    for place in (4, 3, 2, 1):  # j innermost
        axes = tuple(0 if n == place else None for n in range(1, 5))
        mod = torch.vmap(mod, in_dims=((0,) if takes else ()) + axes)
    indices = [torch.arange(n) for n in (BATCH, HEADS, sq, skv)]
    return mod(*([scores] if takes else []), *indices)


def expected(row, q, k, v):
    """o, LSE, the share that each pair has or would have in its row."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(DIM)
    if row.score:
        scores = over_pairs(row.score, row.sq, row.skv, scores).double()
    allowed = over_pairs(row.mask or noop_mask, row.sq, row.skv).expand(scores.shape)
    masked = scores.masked_fill(~allowed, -math.inf)
    lse = masked.logsumexp(-1)
    o = torch.nan_to_num(masked.softmax(-1)) @ v
    return o, lse, (scores - lse[..., None]).exp()


def run(attnfuse, target, text, inputs):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "program.attn").write_text(text)
        safetensors_file.write(folder / "in.safetensors", inputs)
        subprocess.run([attnfuse, "run", folder / "program.attn", "--target", target, "--inputs",
                        folder / "in.safetensors", "--outputs", folder / "out.safetensors"],
                       check=True, stdout=subprocess.PIPE)
        return safetensors_file.read(folder / "out.safetensors")


def furthest(got, wanted):
    """Largest difference; what is not finite must be equal."""
    finite = wanted.isfinite()
    if not torch.equal(got.isfinite(), finite) or not torch.equal(got[~finite], wanted[~finite]):
        return math.inf
    return float((got - wanted)[finite].abs().max()) if finite.any() else 0.0


def compare(row, text, dtype, arguments, q, k, v):
    text = re.sub(r"dtype f16", f"dtype {dtype}", text)
    kv_heads = int(re.search(r"kv_heads (\d+)", text)[1])
    cut = [q[:, :, : row.sq], k[:, :kv_heads, : row.skv], v[:, :kv_heads, : row.skv]]
    stored = dict(zip("qkv", (x.to(DTYPES[dtype]) for x in cut)))
    got = run(arguments.attnfuse, arguments.target, text, {**stored, **row.tensors})
    wide = [stored["q"].double()]
    wide += [stored[n].double().repeat_interleave(HEADS // kv_heads, 1) for n in "kv"]
    o, lse, share = expected(row, *wide)
    o_limit, lse_limit = TOLERANCE[dtype]
    # A pair too many or too few moves the LSE by its share at least, which is more than its error.
    told = dtype != "f32" or row.score is not None or float(share[share.isfinite()].min()) > 4 * lse_limit
    if row.finish:
        o, lse = row.finish(o, lse, wide[2]), None
    o_error = furthest(got["o"].double(), o) / max(1.0, float(o.abs().max()))
    lse_error = 0.0 if lse is None else furthest(got["lse"].double(), lse)
    equal = o_error <= o_limit and lse_error <= lse_limit and told
    note = "" if equal else "  DIFFERS" if told else "  the data decide too little"
    print(f"{row.name:<20} {dtype}  o {o_error:.1e} of {o_limit:.0e}, lse {lse_error:.1e} of {lse_limit:.0e}{note}",
          flush=True)
    return equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attnfuse")
    parser.add_argument("--target", default="spirv")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", help="programs; all when left out")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, torch {torch.__version__}")
    torch.manual_seed(arguments.seed)

    # Scores that are not far apart, so that no pair of a row is too small to be seen.
    q, k, v = torch.randn(BATCH, HEADS, 256, DIM) / 2, torch.randn(BATCH, HEADS, 256, DIM), torch.randn(BATCH, HEADS, 256, DIM)
    seen, wrong = set(), []
    for row in rows(q, k):
        seen.add(row.name)
        if arguments.names and row.name not in arguments.names:
            continue
        text = (PROGRAMS / f"{row.name}.attn").read_text()
        for dtype in DTYPES:
            if not compare(row, text, dtype, arguments, q, k, v):
                wrong.append(f"{row.name} {dtype}")
    missing = {file.stem for file in PROGRAMS.glob("*.attn")} ^ seen
    if missing:
        wrong.append(f"programs without a row, or rows without a program: {sorted(missing)}")
    if more := masks.unused() + mods.unused():
        print("this attn_gym has functions that no program spells:", ", ".join(more))
    for problem in wrong:
        print("wrong:", problem)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
