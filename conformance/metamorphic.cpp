#include "conformance/metamorphic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnfuse::conformance {
namespace {

HostTensor part_of(const HostTensor& tensor, const std::vector<std::size_t>& dims, std::int64_t first,
                   std::int64_t count, bool reversed) {
  std::vector<std::int64_t> shape = tensor.layout.shape;
  for (std::size_t dim : dims) shape[dim] = count;
  HostTensor part = HostTensor::zeros(TensorLayout::contiguous(tensor.layout.dtype, shape));
  for_each_index(shape, [&](std::span<const std::int64_t> index) {
    std::vector<std::int64_t> from(index.begin(), index.end());
    for (std::size_t dim : dims) from[dim] = first + (reversed ? count - 1 - index[dim] : index[dim]);
    part.set(index, tensor.get(from));
  });
  return part;
}

}  // namespace

Inputs part_of(const Graph& graph, const Inputs& inputs, Size size, std::int64_t first, std::int64_t count,
               bool reversed) {
  Inputs part = inputs;
  part.far.clear();
  for (const TensorInfo& tensor : graph.tensors()) {
    std::vector<std::size_t> dims;
    for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim)
      if (tensor.shape[dim] == Extent{size}) dims.push_back(dim);
    if (tensor.role == TensorRole::constant || dims.empty()) continue;
    part.tensors.at(tensor.name) = part_of(inputs.tensors.at(tensor.name), dims, first, count, reversed);
    part.offsets.at(tensor.name) = 0;
  }
  return part;
}

OutputValues merged(const OutputValues& a, const OutputValues& b, std::int64_t v_head_dim) {
  OutputValues all = a;
  for (std::size_t row = 0; row < a.lse.size(); ++row) {
    const double most = std::max(a.lse[row], b.lse[row]);
    const bool is_empty = most == -std::numeric_limits<double>::infinity();
    const double of_a = is_empty ? 0 : std::exp(a.lse[row] - most);
    const double of_b = is_empty ? 0 : std::exp(b.lse[row] - most);
    const double sum = of_a + of_b;
    all.lse[row] = is_empty ? most : most + std::log(sum);
    for (std::int64_t d = 0; d < v_head_dim; ++d) {
      const std::size_t n = row * std::size_t(v_head_dim) + std::size_t(d);
      all.o[n] = is_empty ? 0 : (of_a * a.o[n] + of_b * b.o[n]) / sum;
    }
  }
  return all;
}

std::string with_shifted_scores(const std::string& program, double by) {
  const std::size_t end = program.rfind('}');
  ATTNFUSE_CHECK(end != std::string::npos, "a program ends with }");
  return fmt::format("{}score x + {} }}", program.substr(0, end), by);
}

}  // namespace attnfuse::conformance
