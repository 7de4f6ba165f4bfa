"""What forward.py times: programs as .attn text, the same meaning for flex_attention and for the reference, and shapes."""
import dataclasses

# The lines of each program after its header. {d} is head_dim.
SCALE = "score scale(1 / sqrt({d}))"
CAUSAL = "mask causal"
NORM = "param q_norm : bf16[head_dim]\nparam k_norm : bf16[head_dim]\nquery norm(rms, weight = q_norm)\nkey norm(rms, weight = k_norm)"
RAGGED = "storage ragged"
ROPE = "query rope(theta = {theta})\nkey rope(theta = {theta})"
PROGRAMS = {
    "full": [SCALE],
    "causal": [SCALE, CAUSAL],
    "rope": [ROPE, SCALE, CAUSAL],
    "softcap": [SCALE, "score softcap(50)", CAUSAL],
    "alibi": [SCALE, "score alibi", CAUSAL],
    "window": [SCALE, "mask causal && window({window})"],
    "prefix": [SCALE, "mask causal || j < {prefix}"],
    "document": ["param ids : i32[batch, skv]", SCALE, "mask causal && ids[b, i] == ids[b, j]"],
    "chunk": [SCALE, "mask causal && i // {chunk} == j // {chunk}"],
    "sink": ["param sink : f32[heads]", SCALE, CAUSAL, "normalize softmax(sink = sink)"],
    "gemma2": [ROPE, SCALE, "score softcap(50)", "mask causal && window({window})"],
    "qwen3": [NORM, ROPE, SCALE, CAUSAL],
    "gemma3_packed": [RAGGED, NORM, ROPE, SCALE, "mask causal && window({window})"],
    "gpt_oss_packed": [RAGGED, "param sink : f32[heads]", ROPE, SCALE, "mask causal && window({window})", "normalize softmax(sink = sink)"],
    "gpt_oss": ["param sink : f32[heads]", ROPE, SCALE, "mask causal && window({window})", "normalize softmax(sink = sink)"],
}


@dataclasses.dataclass
class Row:
    group: str  # of the table
    program: str
    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int
    peers: tuple
    v_head_dim: int = 0  # 0: head_dim
    theta: float = 500000.0
    window: int = 1024
    prefix: int = 2048
    chunk: int = 1024
    lengths: tuple = ()  # of sequences that are packed into one batch entry of `length` rows

    def __post_init__(self):
        self.v_head_dim = self.v_head_dim or self.head_dim

    @property
    def name(self):
        dims = f"{self.head_dim}" if self.v_head_dim == self.head_dim else f"{self.head_dim}/{self.v_head_dim}"
        return f"{self.group} {self.program} B{self.batch} {self.heads}/{self.kv_heads} S{self.length} D{dims}"

    @property
    def has_rope(self):
        return ROPE in PROGRAMS[self.program]

    @property
    def has_norm(self):
        return NORM in PROGRAMS[self.program]

    @property
    def has_sink(self):
        return self.program in ("sink", "gpt_oss", "gpt_oss_packed")

    def positions(self, torch):
        """Of every row in its sequence."""
        lengths = self.lengths or (self.length,)
        return torch.cat([torch.arange(own, device="cuda") for own in lengths])

    def sequence_ends(self, torch):
        """The storage form's tensors."""
        if not self.lengths:
            return {}
        ends = torch.tensor((0, *self.lengths), device="cuda").cumsum(0).to(torch.int32)
        return {"cu_seqlens_q": ends, "cu_seqlens_k": ends}

    def text(self, program=None):
        lines = PROGRAMS[program or self.program]
        header = f"heads {self.heads}  kv_heads {self.kv_heads}  head_dim {self.head_dim}  v_head_dim {self.v_head_dim}  dtype bf16"
        values = dict(d=self.head_dim, theta=f"{self.theta:.0f}", window=self.window, prefix=self.prefix, chunk=self.chunk)
        body = "\n  ".join(line.format(**values).replace("\n", "\n  ") for line in lines)
        if not any("normalize" in line for line in lines):
            body += "\n  normalize softmax"
        return f"attention bench_{self.program} {{\n  {header}\n  {body}\n}}\n"

    def captured(self, torch):
        """Tensors that the program captures."""
        if self.program == "document":
            ids = torch.arange(self.length, device="cuda", dtype=torch.int32) // self.chunk
            return {"ids": ids.expand(self.batch, -1).contiguous()}
        captured = {}
        if self.has_sink:
            captured["sink"] = torch.randn(self.heads, device="cuda")
        if self.has_norm:
            for name in ("q_norm", "k_norm"):
                captured[name] = (1 + 0.2 * torch.randn(self.head_dim, device="cuda")).bfloat16()
        return captured

    def score(self, torch):
        """(scaled score, b, h, i, j) -> score, on scalars (flex_attention) and tensors (the reference); or None."""
        if self.program in ("softcap", "gemma2"):
            return lambda s, b, h, i, j: 50 * torch.tanh(s / 50)
        if self.program == "alibi":
            slopes = torch.exp2(-8.0 * torch.arange(1, self.heads + 1, device="cuda", dtype=torch.float32) / self.heads)
            return lambda s, b, h, i, j: s + slopes[h] * (j - i)
        return None

    def mask(self, torch, captured):
        """(b, h, i, j) -> visible; or None."""
        window, prefix, chunk = self.window, self.prefix, self.chunk
        if self.lengths:
            ids = torch.repeat_interleave(torch.arange(len(self.lengths), device="cuda"), torch.tensor(self.lengths, device="cuda"))
            return lambda b, h, i, j: (i >= j) & (i - j < window) & (ids[i] == ids[j])
        if self.program == "document":
            ids = captured["ids"][0].contiguous()
            return lambda b, h, i, j: (i >= j) & (ids[i] == ids[j])
        return {
            "full": None,
            "window": lambda b, h, i, j: (i >= j) & (i - j < window),
            "gemma2": lambda b, h, i, j: (i >= j) & (i - j < window),
            "gpt_oss": lambda b, h, i, j: (i >= j) & (i - j < window),
            "prefix": lambda b, h, i, j: (i >= j) | (j < prefix),
            "chunk": lambda b, h, i, j: (i >= j) & (i // chunk == j // chunk),
        }.get(self.program, lambda b, h, i, j: i >= j)


def plain(program, batch, heads, kv_heads, length, head_dim, peers=("cudnn",), **more):
    return Row("plain", program, batch, heads, kv_heads, length, head_dim, peers, **more)


def variant(program, peers=("flex",), **more):
    return Row("variant", program, 2, 32, 8, 8192, 128, peers, **more)


PACKED = (3001, 517, 1999, 4096, 64, 1203, 2750, 811, 1, 1942)

# The order is that of importance: what a time budget does not reach comes last.
ROWS = [
    plain("causal", 4, 32, 8, 4096, 128),
    plain("causal", 1, 32, 8, 16384, 128),
    plain("causal", 32, 32, 8, 512, 128),
    plain("full", 4, 32, 8, 4096, 128),
    plain("causal", 1, 32, 32, 16384, 64),
    plain("causal", 4, 16, 16, 4096, 256),
    Row("rope", "rope", 4, 32, 8, 4096, 128, ("cudnn", "flex")),
    variant("softcap"),
    variant("window"),
    plain("causal", 16, 32, 8, 1024, 128),
    plain("causal", 8, 32, 8, 2048, 128),
    plain("causal", 2, 32, 8, 8192, 128),
    plain("causal", 32, 32, 32, 512, 64),
    plain("causal", 4, 32, 32, 4096, 64),
    plain("full", 1, 32, 32, 16384, 64),
    plain("full", 4, 16, 16, 4096, 256),
    plain("causal", 1, 16, 16, 16384, 256),
    plain("causal", 4, 32, 32, 4096, 96),
    plain("full", 2, 32, 8, 8192, 128),
    plain("full", 1, 32, 8, 16384, 128),
    variant("sink", ("flex", "plain")),
    variant("alibi"),
    variant("document"),
    variant("prefix"),
    variant("chunk"),
    Row("rope", "rope", 32, 32, 8, 512, 128, ("cudnn", "flex")),
    Row("rope", "rope", 1, 32, 8, 16384, 128, ("cudnn", "flex")),
    Row("rope", "rope", 16, 32, 8, 1024, 128, ("cudnn", "flex")),
    Row("rope", "rope", 8, 32, 8, 2048, 128, ("cudnn", "flex")),
    Row("rope", "rope", 2, 32, 8, 8192, 128, ("cudnn", "flex")),
    Row("model", "gemma2", 2, 16, 8, 8192, 256, ("flex",), theta=10000.0, window=4096),
    Row("model", "gpt_oss", 2, 64, 8, 8192, 64, ("flex",), theta=150000.0, window=128),
    Row("model", "qwen3", 2, 32, 8, 8192, 128, ("cudnn", "flex"), theta=1e6),
    Row("model", "qwen3", 32, 32, 8, 512, 128, ("cudnn", "flex"), theta=1e6),
    Row("model", "qwen3", 8, 32, 8, 2048, 128, ("rope",), theta=1e6),
    Row("model", "gemma3_packed", 1, 8, 4, sum(PACKED), 256, ("flex",), theta=10000.0, window=1024, lengths=PACKED),
    Row("model", "gpt_oss_packed", 1, 64, 8, sum(PACKED), 64, ("flex",), theta=150000.0, window=128, lengths=PACKED),
    Row("model", "causal", 1, 128, 128, 4096, 192, ("cudnn", "flex"), v_head_dim=128),
]
