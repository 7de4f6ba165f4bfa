// The tensors of a case: layouts, numbers and poison, all from the case line and its seed.
#pragma once

#include "conformance/case.h"
#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse::conformance {

// A tensor's place in memory: strides, and elements between an aligned address and the first element.
struct Placement {
  TensorLayout layout;
  std::int64_t offset = 0;
};

// Shape of a tensor of the program at these sizes.
std::vector<std::int64_t> shape_of(const Graph& graph, const TensorInfo& tensor, const Sizes& sizes);

// Tensors that have rows of keys, or of queries; of those of the second score head programs may have none.
inline constexpr const char* kQueryTensors[] = {"q", "q2"};
inline constexpr const char* kKeyTensors[] = {"k", "k2"};
inline constexpr const char* kKeyAndValueTensors[] = {"k", "k2", "v"};

// `name` is that of an attention tensor (q, k2, lse, ...) or of a captured one. A tensor of ragged rows has
// no batch axis.
Placement place(Layout layout, const std::string& name, DType dtype, const std::vector<std::int64_t>& shape);

// Every byte is all ones: NaN in each float type, -1 as an integer.
HostTensor poisoned_tensor(const TensorLayout& layout);

struct Inputs {
  HostTensors tensors;                          // q, k, v, ... and captured tensors; gaps are NaN
  std::map<std::string, std::int64_t> offsets;  // Placement::offset of each
  std::map<std::string, TensorLayout> far;      // on the device, where it is too far apart for the host
  double value_scale = 0;                       // largest finite |v|
};
// In plain storage, whatever the program's; sequences are as long as the longest. See stored.h.
Inputs make_inputs(const Graph& graph, const Case& c);

double largest_magnitude(const HostTensor& tensor);  // among finite elements

// Calls visit(index) for every element of a shape, row major; index is reused.
template <class Visit>
void for_each_index(const std::vector<std::int64_t>& shape, Visit visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t extent : shape)
    if (extent == 0) return;
  while (true) {
    visit(std::span<const std::int64_t>(index));
    std::size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

}  // namespace attnfuse::conformance
