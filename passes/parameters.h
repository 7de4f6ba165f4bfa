// The argument block of a tile program, field by field: each is aligned and follows the one before.
#pragma once

#include <string>
#include <vector>

#include "ir/tile.h"

namespace attnfuse {

void add_field(TileProgram& program, ParamField field);
// The address, and a stride for each of `dims`: "q_stride_b", ...
void add_tensor_fields(TileProgram& program, const std::string& tensor, const std::vector<std::string>& dims);
// A captured tensor, whose dimensions have numbers.
void add_captured_fields(TileProgram& program, const TensorInfo& tensor);
// Those of the captured tensors that `roots` read, each once.
void add_captured_fields(TileProgram& program, const std::vector<NodeId>& roots);
// batch, sq and skv, and of ragged programs the total of the rows that workgroups divide; the block ends here
// or at a tensor map.
void add_size_fields(TileProgram& program);
// For a tensor that kernels hand on to each other: `name`, or what it takes for no tensor of the graph to
// have it.
std::string unused_name(const Graph& graph, std::string name);

}  // namespace attnfuse
