// Safetensors files: the user's tensors in, o and lse out. A file is taken from strangers: whatever it holds,
// reading gives tensors or a diagnostic, and never allocates more than the file really has.
#pragma once

#include <iosfwd>
#include <string>

#include "ir/diagnostic.h"
#include "runtime/tensor.h"

namespace attnfuse {

// Diagnostics: "file.read", "safetensors.truncated", "safetensors.header", "safetensors.duplicate",
// "safetensors.dtype", "safetensors.size", "safetensors.offsets".
Result<HostTensors> read_safetensors(const std::string& path);
Result<HostTensors> read_safetensors(std::istream& stream, const std::string& name);

// Dense, row major. The file is complete or absent ("file.write").
std::string safetensors_bytes(const HostTensors& tensors);
Status write_safetensors(const std::string& path, const HostTensors& tensors);

}  // namespace attnfuse
