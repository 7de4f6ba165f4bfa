#include "ir/graph.h"

#include <limits>

#include "ir/adjacency.h"

namespace attnfuse {
namespace {

constexpr std::string_view kSizeNames[] = {"batch",   "heads",    "kv_heads",   "sq",
                                           "skv",     "head_dim", "v_head_dim", "total_q",
                                           "total_k", "pages",    "max_pages",  "batch + 1"};
static_assert(std::size(kSizeNames) == kSizeCount);

struct Inferred {
  ValueType type = ValueType::f32;
  Axes axes;
};

Axes input_axes(const TensorInfo& tensor) {
  if (tensor.role == TensorRole::key || tensor.role == TensorRole::value)
    return {Axis::b, Axis::g, Axis::j, Axis::d};
  const bool is_row = tensor.shape.size() == 3;  // saved or upstream
  return is_row ? Axes{Axis::b, Axis::h, Axis::i} : Axes{Axis::b, Axis::h, Axis::i, Axis::d};
}

// Type and axes of a new node. Illegal operands give some answer; verify() says what is wrong with them.
Inferred infer(const Graph& graph, const NodeKind& kind, std::span<const NodeId> operands) {
  Axes all;
  for (NodeId operand : operands) all = all | graph.node(operand).axes;
  const Axes first = operands.empty() ? Axes{} : graph.node(operands[0]).axes;
  const ValueType first_type = operands.empty() ? ValueType::f32 : graph.node(operands[0]).type;
  constexpr Axes kScoreAxes{Axis::b, Axis::h, Axis::i, Axis::j};
  return std::visit(
      overloaded{
          [&](const Input& input) {
            const TensorInfo& tensor = graph.tensor(input.tensor);
            return Inferred{value_type(tensor.dtype), input_axes(tensor)};
          },
          [](const Constant&) { return Inferred{}; },
          [](const SizeOf&) { return Inferred{ValueType::i32, {}}; },
          [](const Index& index) { return Inferred{ValueType::i32, {index.axis}}; },
          [](const Variable&) { return Inferred{}; },
          [&](const Apply& apply) { return Inferred{info(apply.op).result, all}; },
          [&](const Gather& gather) { return Inferred{value_type(graph.tensor(gather.tensor).dtype), all}; },
          [&](const Partner&) { return Inferred{first_type, first}; },
          [&](const Reduce&) { return Inferred{first_type, first.without(Axis::d)}; },
          [&](const Scores&) { return Inferred{ValueType::f32, kScoreAxes}; },
          [&](const Normalize&) { return Inferred{ValueType::f32, kScoreAxes}; },
          [](const Attend&) { return Inferred{ValueType::f32, {Axis::b, Axis::h, Axis::i, Axis::d}}; },
          [](const LogSumExp&) { return Inferred{ValueType::f32, {Axis::b, Axis::h, Axis::i}}; },
          [](const RowMax&) { return Inferred{ValueType::f32, {Axis::b, Axis::h, Axis::i}}; },
          [&](const Output&) { return Inferred{first_type, first}; },
          [](const Contract& contract) {
            return Inferred{ValueType::f32, contract.over == Axis::j
                                                ? Axes{Axis::b, Axis::h, Axis::i, Axis::d}
                                                : Axes{Axis::b, Axis::g, Axis::j, Axis::d}};
          },
          [&](const SumOver& sum) {
            Axes left = all;  // the mask's too: it says which positions count
            for (Axis axis : kAllAxes)
              if (sum.over.has(axis)) left = left.without(axis);
            return Inferred{first_type, left};
          },
          [](const Scatter&) { return Inferred{}; },
      },
      kind);
}

}  // namespace

std::string_view name(Size size) { return kSizeNames[std::size_t(size)]; }

std::string_view name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "max", "maximum"};
  return kNames[std::size_t(op)];
}

double identity(ReduceOp op) { return op == ReduceOp::sum ? 0 : -std::numeric_limits<double>::infinity(); }

std::optional<int> ProgramInfo::size(Size size) const {
  switch (size) {
    case Size::heads:
      return heads;
    case Size::kv_heads:
      return kv_heads;
    case Size::head_dim:
      return head_dim;
    case Size::v_head_dim:
      return v_head_dim;
    case Size::batch:
    case Size::sq:
    case Size::skv:
    case Size::total_q:
    case Size::total_k:
    case Size::pages:
    case Size::max_pages:
    case Size::sequence_ends:
      return {};
  }
  ATTNFUSE_CHECK(false, "not a size");
}

Graph::Graph(ProgramInfo info) : info_(std::move(info)), adjacency_(std::make_unique<Adjacency>()) {}
Graph::Graph(const Graph& other)
    : info_(other.info_),
      tensors_(other.tensors_),
      adjacency_(std::make_unique<Adjacency>(*other.adjacency_)),
      outputs_(other.outputs_) {}
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(const Graph& other) { return *this = Graph(other); }
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

std::size_t Graph::size() const { return num_vertices(adjacency_->list); }

const Node& Graph::node(NodeId id) const { return adjacency_->list[id.value]; }

std::vector<NodeId> Graph::operands(NodeId id) const {
  std::vector<NodeId> result;
  const auto& list = adjacency_->list;
  const auto [begin, end] = out_edges(id.value, list);
  result.reserve(std::size_t(end - begin));
  for (auto edge = begin; edge != end; ++edge) result.push_back({std::uint32_t(target(*edge, list))});
  return result;
}

NodeId Graph::operand(NodeId id, int position) const {
  const auto& list = adjacency_->list;
  const auto [begin, end] = out_edges(id.value, list);
  ATTNFUSE_CHECK(position >= 0 && position < end - begin, "a node has no such operand");
  return {std::uint32_t(target(*(begin + position), list))};
}

NodeId Graph::output(std::string_view name) const {
  for (NodeId id : outputs_)
    if (as<Output>(node(id))->name == name) return id;
  return {};
}

Graph Graph::with_storage(const Storage& storage) const {
  Graph result = *this;
  result.info_.storage = storage;
  return result;
}

TensorId Graph::find_tensor(std::string_view name) const {
  for (std::size_t k = 0; k < tensors_.size(); ++k)
    if (tensors_[k].name == name) return {std::uint32_t(k)};
  return {};
}

TensorId Graph::add_tensor(TensorInfo info) {
  tensors_.push_back(std::move(info));
  return {std::uint32_t(tensors_.size() - 1)};
}

NodeId Graph::add_like(const Node& node, std::span<const NodeId> operands) {
  const auto vertex = std::uint32_t(add_vertex(node, adjacency_->list));
  int position = 0;
  for (NodeId operand : operands) {
    ATTNFUSE_CHECK(operand.value < vertex, "an operand does not exist");
    add_edge(vertex, operand.value, Use{position++}, adjacency_->list);
  }
  const NodeId id{vertex};
  if (as<Output>(this->node(id))) outputs_.push_back(id);
  return id;
}

NodeId Graph::add(NodeKind kind, std::span<const NodeId> operands, Where where) {
  for (NodeId operand : operands) ATTNFUSE_CHECK(operand.value < size(), "an operand does not exist");
  const Inferred inferred = infer(*this, kind, operands);
  return add_like({std::move(kind), inferred.type, inferred.axes, std::move(where)}, operands);
}

NodeId Graph::add(NodeKind kind, std::initializer_list<NodeId> operands, Where where) {
  return add(std::move(kind), std::span<const NodeId>(operands.begin(), operands.size()), std::move(where));
}

NodeId Graph::constant(double value, ValueType type) { return add_like({Constant{value}, type, {}, {}}, {}); }

NodeId Graph::variable(std::string name, ValueType type, Axes axes) {
  return add_like({Variable{std::move(name)}, type, axes, {}}, {});
}

}  // namespace attnfuse
