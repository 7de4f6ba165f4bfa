// Folder: builds nodes of a graph in simplest form, each at most once. Passes that create expressions build
// them through one, so that equal values are equal ids and constants never survive an operation.
//
// Simplest form: constants folded (i32 exactly, f32 in double precision when the result is finite),
// identities applied, constant factors and offsets collected, operands of commutative operations in id order
// with the constant last. Values are preserved up to rounding, the sign of zero, and intermediate overflow of
// collected constants; NaN and infinity are (x * 0 stays).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

class Folder {
 public:
  // Knows the nodes that `graph` already has. The graph grows through the folder only.
  explicit Folder(Graph& graph);

  Graph& graph() { return *graph_; }
  NodeId add(const NodeKind& kind, std::span<const NodeId> operands, Where where = {});
  NodeId add(const NodeKind& kind, std::initializer_list<NodeId> operands = {}, Where where = {});
  // A leaf with the type and axes that `node` gives it, or a kind that add() infers.
  NodeId add_like(const Node& node, std::span<const NodeId> operands);

  NodeId apply(ScalarOp op, std::span<const NodeId> operands, Where where = {});
  NodeId apply(ScalarOp op, std::initializer_list<NodeId> operands, Where where = {});
  NodeId constant(double value, ValueType type);
  NodeId i32(double value) { return constant(value, ValueType::i32); }
  NodeId truth(bool value) { return constant(value ? 1 : 0, ValueType::boolean); }
  NodeId variable(const std::string& name, ValueType type, Axes axes = {});

  std::optional<double> constant_of(NodeId id) const;

 private:
  // What makes two nodes equal.
  struct Key {
    std::size_t kind;
    std::uint64_t payload;  // what the kind holds
    std::uint64_t leaf;     // type and axes of constants and variables
    std::string name;
    std::vector<NodeId> operands;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const Node& node, std::vector<NodeId> operands);

  // The existing node of that key, or a new one; no rules.
  NodeId unique(const Node& node, std::span<const NodeId> operands);

  Graph* graph_;
  std::map<Key, NodeId> known_;
};

// The rules: a simpler value of op(operands), or an invalid id when it is already simplest. Operands of
// commutative operations are in canonical order.
NodeId simpler(Folder& folder, ScalarOp op, std::span<const NodeId> operands);

bool is_commutative(ScalarOp op);
// The comparison that says the same with its operands exchanged; the op itself when it is not a comparison.
ScalarOp exchanged(ScalarOp op);

}  // namespace attnfuse
