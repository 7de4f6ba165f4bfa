// Expressions of a tile program as C-like text: precedence-aware, values used more than once get a name.
#include <fmt/format.h>

#include <cmath>

#include "backends/common/tile_writer.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

struct Text {
  std::string text;
  Precedence precedence = Precedence::primary;
};

std::string_view type_name(ValueType type) {
  switch (type) {
    case ValueType::f32:
      return "float";
    case ValueType::i32:
      return "int";
    case ValueType::boolean:
      return "bool";
  }
  return "";
}

class ExpressionWriter {
 public:
  ExpressionWriter(TileWriter& writer, const Surroundings& surroundings, NodeId root)
      : writer_(writer),
        graph_(writer.program().expressions),
        surroundings_(surroundings),
        uses_(use_counts(graph_, {root})) {}

  Text visit(NodeId id) {
    if (const auto found = named_.find(id); found != named_.end())
      return {found->second, Precedence::primary};
    const Node& node = graph_.node(id);
    Text text = write(id, node);
    if (uses_.at(id) > 1 && is_worth_a_name(node)) {
      const std::string name = writer_.out().temporary();
      writer_.out().line(fmt::format("const {} {} = {};", type_name(node.type), name, text.text));
      named_[id] = name;
      return {name, Precedence::primary};
    }
    return text;
  }

 private:
  static bool is_worth_a_name(const Node& node) {
    return as<Apply>(node) != nullptr || as<Gather>(node) != nullptr;
  }

  Text write(NodeId id, const Node& node) {
    return std::visit(
        overloaded{[&](const Constant& c) { return constant(c.value, node.type); },
                   [&](const SizeOf& s) { return size(s.size); },
                   [&](const Index& index) { return Text{surroundings_.index(index.axis)}; },
                   [&](const Variable& variable) { return Text{surroundings_.variable(variable.name)}; },
                   [&](const Apply& apply) { return application(id, apply.op); },
                   [&](const Gather& gather) { return gathered(id, gather.tensor); },
                   [&](const Input&) { return Text{surroundings_.input(id)}; },
                   [&](const Partner&) { return Text{surroundings_.input(id)}; },
                   [&](const Reduce&) { return Text{surroundings_.input(id)}; },
                   [&](const auto&) -> Text {
                     fail_check("elementwise", __FILE__, __LINE__,
                                "not an elementwise value: " + std::to_string(id.value));
                   }},
        node.kind);
  }

  static Text constant(double value, ValueType type) {
    switch (type) {
      case ValueType::f32:
        return {literal(value), value < 0 ? Precedence::unary : Precedence::primary};
      case ValueType::i32:
        return {fmt::format("{}", std::int64_t(value)), value < 0 ? Precedence::unary : Precedence::primary};
      case ValueType::boolean:
        return {value != 0 ? "true" : "false"};
    }
    return {};
  }

  Text size(Size which) const {
    const ProgramInfo& info = writer_.program().info;
    switch (which) {
      case Size::batch:
        return {"batch"};
      case Size::sq:
        return {"sq"};
      case Size::skv:
        return {"skv"};
      case Size::heads:
        return {std::to_string(info.heads)};
      case Size::kv_heads:
        return {std::to_string(info.kv_heads)};
      case Size::head_dim:
        return {std::to_string(info.head_dim)};
      case Size::v_head_dim:
        return {std::to_string(info.v_head_dim)};
      case Size::total_q:
      case Size::total_k:
      case Size::pages:
      case Size::max_pages:
      case Size::sequence_ends:
        break;
    }
    ATTNFUSE_CHECK(false, "a size that kernels do not read");
  }

  Text application(NodeId id, ScalarOp op) {
    const ScalarOpInfo& row = info(op);
    std::vector<std::string> operands;
    int position = 0;
    for (NodeId operand : graph_.operands(id)) {
      Text text = visit(operand);
      const bool leftmost =
          position == 0 && row.precedence != Precedence::unary && row.precedence != Precedence::ternary;
      const bool binds = leftmost ? text.precedence >= row.precedence : text.precedence > row.precedence;
      operands.push_back(row.precedence == Precedence::primary || binds ? text.text : "(" + text.text + ")");
      ++position;
    }
    std::string result;
    for (std::size_t at = 0; at < row.spelling.size(); ++at) {
      if (row.spelling[at] == '$')
        result += operands.at(std::size_t(row.spelling[++at] - '0'));
      else
        result += row.spelling[at];
    }
    return {result, row.precedence};
  }

  Text gathered(NodeId id, TensorId tensor) {
    const TensorInfo& info = graph_.tensor(tensor);
    const std::vector<NodeId> indices = graph_.operands(id);
    if (info.role == TensorRole::constant) {  // tables hold f32
      const std::string element = fmt::format("{}[{}]", info.name, clamped(indices.at(0), info.shape.at(0)));
      return {info.dtype == DType::f32 ? element : fmt::format("int({})", element)};
    }
    std::string offset;
    for (std::size_t dim = 0; dim < indices.size(); ++dim)
      offset += fmt::format("{}{} * args.{}_stride_{}", dim == 0 ? "" : " + ",
                            writer_.dialect().int64(clamped(indices[dim], info.shape[dim])), info.name, dim);
    if (offset.empty()) offset = writer_.dialect().int64("0");
    return {writer_.dialect().load_global(info.name, info.dtype, offset)};
  }

  // Gathers never leave the tensor, also for keys past the end that a mask removes afterwards.
  std::string clamped(NodeId index, const Extent& extent) {
    const Text text = visit(index);
    if (const auto* own = as<Index>(graph_.node(index)); own != nullptr && covers(extent, own->axis))
      return text.text;
    const std::string last = std::visit(
        overloaded{
            [](std::int64_t n) { return std::to_string(n - 1); },
            [&](Size s) { return s == Size::sequence_ends ? std::string("batch") : size(s).text + " - 1"; }},
        extent.value);
    return fmt::format("af_imax(af_imin({}, {}), 0)", text.text, last);
  }

  // Workgroup coordinates are always inside their own size.
  static bool covers(const Extent& extent, Axis axis) {
    const auto* size = std::get_if<Size>(&extent.value);
    if (size == nullptr) return false;
    return (axis == Axis::b && (*size == Size::batch || *size == Size::sequence_ends)) ||
           (axis == Axis::h && *size == Size::heads) ||
           (axis == Axis::g && (*size == Size::kv_heads || *size == Size::heads));
  }

  TileWriter& writer_;
  const Graph& graph_;
  const Surroundings& surroundings_;
  std::map<NodeId, int> uses_;
  std::map<NodeId, std::string> named_;
};

}  // namespace

std::string literal(double value) {
  if (std::isinf(value)) return value > 0 ? "af_infinity" : "-af_infinity";
  std::string text = fmt::format("{}", float(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string TileWriter::expression(NodeId root, const Surroundings& surroundings) {
  return ExpressionWriter(*this, surroundings, root).visit(root).text;
}

std::string TileWriter::scalar(NodeId root) {
  const Surroundings uniform{[](const std::string& name) { return name; },
                             [](Axis axis) { return std::string(attnfuse::name(axis)); },
                             {}};
  return expression(root, uniform);
}

bool TileWriter::reads_index(NodeId root, Axis axis) const {
  for (NodeId id : cone(program_.expressions, {root}))
    if (const auto* index = as<Index>(program_.expressions.node(id)); index != nullptr && index->axis == axis)
      return true;
  return false;
}

bool TileWriter::reads_coordinate(NodeId root, Axis axis) const {
  return reads_index(root, axis) || reads_variable(root, fmt::format("{}_at", name(axis)));
}

bool TileWriter::reads_variable(NodeId root, std::string_view name) const {
  for (NodeId id : cone(program_.expressions, {root}))
    if (const auto* variable = as<Variable>(program_.expressions.node(id));
        variable != nullptr && variable->name == name)
      return true;
  return false;
}

}  // namespace attnfuse
