#include "passes/parameters.h"

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {

void add_field(TileProgram& program, ParamField field) {
  const int step = alignment(field.kind);
  field.offset = (program.param_bytes + step - 1) / step * step;
  program.param_bytes = field.offset + size_in_bytes(field.kind);
  program.params.push_back(std::move(field));
}

void add_tensor_fields(TileProgram& program, const std::string& tensor,
                       const std::vector<std::string>& dims) {
  add_field(program, {ParamField::Kind::pointer, tensor + "_ptr", tensor});
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    add_field(program, {ParamField::Kind::stride, tensor + "_stride_" + dims[dim], tensor, int(dim)});
}

void add_captured_fields(TileProgram& program, const TensorInfo& tensor) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) dims.push_back(std::to_string(dim));
  add_tensor_fields(program, tensor.name, dims);
}

void add_captured_fields(TileProgram& program, const std::vector<NodeId>& roots) {
  const Graph& graph = program.expressions;
  std::vector<TensorId> read;
  for (NodeId id : cone(graph, roots))
    if (const auto* gather = as<Gather>(graph.node(id)))
      if (std::ranges::find(read, gather->tensor) == read.end()) read.push_back(gather->tensor);
  for (TensorId id : read)
    if (graph.tensor(id).role == TensorRole::captured) add_captured_fields(program, graph.tensor(id));
}

std::string unused_name(const Graph& graph, std::string name) {
  while (graph.find_tensor(name).valid()) name += "_";
  return name;
}

void add_size_fields(TileProgram& program) {
  for (Size size : {Size::batch, Size::sq, Size::skv})
    add_field(program, {ParamField::Kind::size, std::string(name(size)), "", 0, size});
  if (program.info.storage.ragged) {
    const Size total = program.has_key_rows() ? Size::total_k : Size::total_q;
    add_field(program, {ParamField::Kind::size, std::string(name(total)), "", 0, total});
  }
  if (program.shares) add_field(program, {ParamField::Kind::shares, "shares", ""});
  program.param_bytes = (program.param_bytes + 7) / 8 * 8;
}

}  // namespace attnfuse
