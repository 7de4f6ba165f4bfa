"""AttnFuse on PyTorch's tensors, through the C interface (runtime/attnfuse.h).

    library = attnfuse.Library("build/release/lib/libattnfuse_c.so")
    program = library.device().compile(open("llama3_8b.attn").read())
    o, lse = program(q, k, v)                   # on the current stream; captured tensors by name: program(q, k, v, sink=sink)
    launch = program.bind({"q": q, "k": k, "v": v, "o": o, "lse": lse})
    launch()                                    # again and again on the same tensors, for a few microseconds of host time
"""
import ctypes

MAX_RANK = 8
VERSION = 1
OK = 0


class Error(RuntimeError):
    """`status` is the C interface's number, the text its words."""

    def __init__(self, status, name, message):
        super().__init__(f"{name}: {message}")
        self.status = status


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK)]


class _Call(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("tensors", ctypes.POINTER(_Tensor)), ("tensor_count", ctypes.c_size_t),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t)]


class _TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("is_output", ctypes.c_int32), ("shape", ctypes.c_int64 * MAX_RANK)]


class _KernelInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("schedule", ctypes.c_char_p),
                ("source", ctypes.c_char_p), ("block_q", ctypes.c_int32), ("block_k", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("registers", ctypes.c_int32), ("spill_bytes", ctypes.c_int32), ("shared_bytes", ctypes.c_int32)]


# Argument types; every one of these returns a status.
_P = ctypes.c_void_p
_SIGNATURES = {
    "attnfuse_device_open": [ctypes.c_char_p, ctypes.POINTER(_P)],
    "attnfuse_compile": [_P, ctypes.c_char_p, _P, ctypes.POINTER(_P)],
    "attnfuse_tensor_at": [_P, ctypes.c_size_t, ctypes.POINTER(_TensorInfo)],
    "attnfuse_supports": [_P, ctypes.POINTER(_Call)],
    "attnfuse_workspace_bytes": [_P, ctypes.POINTER(_Call), ctypes.POINTER(ctypes.c_size_t)],
    "attnfuse_launch": [_P, ctypes.POINTER(_Call)],
    "attnfuse_kernels": [_P, ctypes.POINTER(_Call), ctypes.POINTER(_KernelInfo), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)],
}


def _torch():
    import torch
    return torch


def _dtypes():
    torch = _torch()
    return [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.bool]  # by the C interface's numbers


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name, arguments in _SIGNATURES.items():
            function = getattr(self.c, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        for name in ("attnfuse_device_close", "attnfuse_program_release"):
            getattr(self.c, name).argtypes, getattr(self.c, name).restype = [_P], None
        for name in ("attnfuse_device_name", "attnfuse_device_target"):
            getattr(self.c, name).argtypes, getattr(self.c, name).restype = [_P], ctypes.c_char_p
        self.c.attnfuse_tensor_count.argtypes, self.c.attnfuse_tensor_count.restype = [_P], ctypes.c_size_t
        self.c.attnfuse_status_name.argtypes, self.c.attnfuse_status_name.restype = [ctypes.c_int], ctypes.c_char_p
        self.c.attnfuse_last_error.argtypes, self.c.attnfuse_last_error.restype = [], ctypes.c_char_p
        self.c.attnfuse_version.argtypes, self.c.attnfuse_version.restype = [], ctypes.c_uint32
        if self.c.attnfuse_version() != VERSION:
            raise RuntimeError(f"{path} has version {self.c.attnfuse_version()} of the C interface, not {VERSION}")

    def check(self, status):
        if status != OK:
            raise Error(status, self.c.attnfuse_status_name(status).decode(), self.c.attnfuse_last_error().decode())

    def device(self, target=None):
        """target None: the CUDA device whose context is current, so touch it first (torch.zeros(1, device="cuda"))."""
        return Device(self, target)


class Device:
    def __init__(self, library, target=None):
        self.library, self.handle = library, _P()
        library.check(library.c.attnfuse_device_open(target.encode() if target else None, ctypes.byref(self.handle)))
        self.name = library.c.attnfuse_device_name(self.handle).decode()
        self.target = library.c.attnfuse_device_target(self.handle).decode()

    def __del__(self):
        if self.handle:
            self.library.c.attnfuse_device_close(self.handle)

    def compile(self, text):
        return Program(self, text)


class Program:
    def __init__(self, device, text):
        self.library, self.handle = device.library, _P()
        self.library.check(self.library.c.attnfuse_compile(device.handle, text.encode(), None, ctypes.byref(self.handle)))
        self.tensors = [self._tensor_at(n) for n in range(self.library.c.attnfuse_tensor_count(self.handle))]
        self.names = [t.name.decode() for t in self.tensors]

    def __del__(self):
        if self.handle:
            self.library.c.attnfuse_program_release(self.handle)

    def _tensor_at(self, index):
        info = _TensorInfo(ctypes.sizeof(_TensorInfo))
        self.library.check(self.library.c.attnfuse_tensor_at(self.handle, index, ctypes.byref(info)))
        return info

    def outputs(self, q, v):
        """Empty tensors for "o" and "lse"."""
        torch = _torch()
        batch, heads, sq, _ = q.shape
        return (torch.empty(batch, heads, sq, v.shape[-1], device=q.device, dtype=q.dtype),
                torch.empty(batch, heads, sq, device=q.device, dtype=torch.float32))

    def bind(self, tensors):
        return Launch(self, tensors)

    def __call__(self, q, k, v, **captured):
        o, lse = self.outputs(q, v)
        self.bind({"q": q, "k": k, "v": v, "o": o, "lse": lse, **captured})()
        return o, lse


class Launch:
    """One call of a program: its tensors are kept, its workspace belongs to it. Calling it launches on the current stream."""

    def __init__(self, program, tensors):
        torch, dtypes = _torch(), _dtypes()
        self.program, self.tensors = program, dict(tensors)
        self.array = (_Tensor * len(tensors))()
        # In the program's order, which is found fastest.
        order = sorted(tensors, key=lambda name: program.names.index(name) if name in program.names else len(program.names))
        for entry, name in zip(self.array, order):
            tensor = tensors[name]
            if tensor.dim() > MAX_RANK:
                raise ValueError(f"tensor '{name}' has {tensor.dim()} dimensions, the limit is {MAX_RANK}")
            if tensor.dtype not in dtypes:
                raise ValueError(f"tensor '{name}' is {tensor.dtype}; programs know {', '.join(map(str, dtypes))}")
            entry.name, entry.data, entry.dtype, entry.rank = name.encode(), tensor.data_ptr(), dtypes.index(tensor.dtype), tensor.dim()
            entry.shape[:tensor.dim()], entry.strides[:tensor.dim()] = tensor.shape, tensor.stride()
        self.call = _Call(ctypes.sizeof(_Call), self.array, len(tensors))
        self.call_pointer = ctypes.byref(self.call)
        c = program.library.c
        needed = ctypes.c_size_t()
        program.library.check(c.attnfuse_workspace_bytes(program.handle, self.call_pointer, ctypes.byref(needed)))
        self.workspace = None
        if needed.value:
            self.workspace = torch.empty(needed.value, dtype=torch.uint8, device=tensors["q"].device)
            self.call.workspace, self.call.workspace_bytes = self.workspace.data_ptr(), needed.value
        self.function, self.handle = c.attnfuse_launch, program.handle
        self.on_cuda = tensors["q"].is_cuda

    def __call__(self):
        if self.on_cuda:
            self.call.stream = _torch().cuda.current_stream(self.tensors["q"].device).cuda_stream
        status = self.function(self.handle, self.call_pointer)
        if status != OK:
            self.program.library.check(status)

    def kernels(self):
        """What it launches, in order, as dictionaries."""
        c, count = self.program.library.c, ctypes.c_size_t()
        self.program.library.check(c.attnfuse_kernels(self.handle, self.call_pointer, None, 0, ctypes.byref(count)))
        infos = (_KernelInfo * count.value)()
        if count.value:
            infos[0].struct_size = ctypes.sizeof(_KernelInfo)
            self.program.library.check(c.attnfuse_kernels(self.handle, self.call_pointer, infos, count.value, ctypes.byref(count)))
        text = lambda value: value.decode() if isinstance(value, bytes) else value
        return [{name: text(getattr(info, name)) for name, _ in _KernelInfo._fields_[1:]} for info in infos]
