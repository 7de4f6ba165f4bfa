// Graph: one attention program as a dataflow graph.
//
// Vertices are values, edges run user -> operand (out_edges are the operands in order), so a
// topological sort is execution order and the vertices reachable from the outputs are the live set.
// A graph only grows: a pass builds a new one. Every value has a type and the set of axes it depends
// on; the axes decide where it is computed.
//
// A forward program looks like this (llama3, abbreviated):
//   q = input(query) {b,h,i,d}    q' = rope expression of q            -> rounded to the dtype
//   k = input(key)   {b,g,j,d}    k' = rope expression of k
//   x = scores(q', k') {b,h,i,j}  y = score expression of x            (f32)
//   m = mask predicate {b,h,i,j}
//   p = normalize(y, m, [sink])   w = weights expression of p          (p times a factor)
//   o = attend(w, v')  {b,h,i,d}  o' = output expression of o          e = logsumexp(p) {b,h,i}
//   outputs: o', lse
// With two score heads (ir/score_heads.h) there is a second one of all from q to w, on tensors of its own,
// and a second attend of the same v'; o' reads both, and output lse2 is the second e.
//
// A gradient graph (ir/gradient.h) computes the gradients of one: it reads the same tensors, what the forward
// pass saved and the gradients of its outputs.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/scalar_op.h"
#include "ir/types.h"

namespace attnfuse {

struct NodeId {
  std::uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  auto operator<=>(const NodeId&) const = default;
};

struct TensorId {
  std::uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  auto operator<=>(const TensorId&) const = default;
};

// Sizes a program may name. heads, kv_heads, head_dim and v_head_dim are compiled in; batch, sq and skv
// are run-time arguments. The last five are lengths of stored tensors (Storage), which no expression names:
// rows of all sequences together, pages and the longest row of their table, and the ends of sequences.
enum class Size : std::uint8_t {
  batch,
  heads,
  kv_heads,
  sq,
  skv,
  head_dim,
  v_head_dim,
  total_q,
  total_k,
  pages,
  max_pages,
  sequence_ends,  // batch + 1
};
inline constexpr std::size_t kSizeCount = std::size_t(Size::sequence_ends) + 1;
std::string_view name(Size size);

// The length of one dimension of a captured tensor: a named size or a number.
struct Extent {
  std::variant<Size, std::int64_t> value;
  bool operator==(const Extent&) const = default;
};

// The most dimensions that a tensor has.
inline constexpr std::size_t kMaxRank = 8;

// constant: a table the compiler computed; its values are in the graph. Of gradient graphs alone: saved, what
// the forward pass leaves for the backward, and upstream, gradients of outputs.
enum class TensorRole : std::uint8_t { query, key, value, captured, constant, saved, upstream };

struct TensorInfo {
  std::string name;
  DType dtype;
  TensorRole role;
  // query [b,h,sq,head_dim], key [b,g,skv,head_dim], value [b,g,skv,v_head_dim], saved and upstream [b,h,sq]
  // or [b,h,sq,v_head_dim]
  std::vector<Extent> shape;
  bool grad = false;           // its gradient is wanted
  std::vector<double> values;  // of a constant table
  Where where;
};

// ---- node kinds -----------------------------------------------------------------------------

struct Input {
  TensorId tensor;
};  // query, key, value, saved or upstream at its own axes
struct Constant {
  double value;
};  // type in Node::type
struct SizeOf {
  Size size;
};  // i32
struct Index {
  Axis axis;
};  // i32
struct Variable {
  std::string name;
};  // supplied by the surroundings: a scalar or tile element of a tile program
struct Apply {
  ScalarOp op;
};  // elementwise, operands broadcast over missing axes
struct Gather {
  TensorId tensor;
};  // captured tensor; one i32 operand per dimension; indices are clamped to the shape
enum class RotaryPairs : std::uint8_t { half, interleaved };
// The paired element along d inside [0, count): half pairs d with d +- count/2, interleaved d with d^1.
// Elements at or past count map to themselves. Its own adjoint. Operand: any value with axis d.
struct Partner {
  RotaryPairs pairs;
  int count;
};
// max passes NaN over, maximum keeps it.
enum class ReduceOp : std::uint8_t { sum, max, maximum };
std::string_view name(ReduceOp op);
double identity(ReduceOp op);
struct Reduce {
  ReduceOp op;
};  // over d
struct Scores {};  // (query', key') -> {b,h,i,j}: dot product over d
// none: the weights are the scores. retention: the scores divided by max(|sum over j|, 1). What a row is
// divided by is its "lse": 0 for none. Without allowed key both give zeros.
enum class NormalizeKind : std::uint8_t { softmax, softmax_sink, none, retention };
struct Normalize {
  NormalizeKind kind;
};  // (scores, mask[, sink {h}]) -> {b,h,i,j} weights
struct Attend {};     // (weights, value') -> {b,h,i,d}
struct LogSumExp {};  // (weights) -> {b,h,i}: natural log, sink included
struct RowMax {};     // (weights) -> {b,h,i}: the largest score a softmax saw in the row, sink included
struct Output {
  std::string name;
};  // operand: the value; "o" in the dtype, "lse", "lse2" and "max_logit" in f32; of gradient graphs see
    // ir/gradient.h

// Of gradient graphs. Nothing is read where a mask is false, whatever bits are there.
// (a {b,h,i,j}, rows, mask): over j the sum of a * rows {b,g,j,d}, giving {b,h,i,d}; over i, and over the
// query heads of a key head, the sum of a * rows {b,h,i,d}, giving {b,g,j,d}.
struct Contract {
  Axis over;
};
// (x, mask): the sum over these axes, as a broadcast turns into; `row` is how long d is, where it is one of
// them.
struct SumOver {
  Axes over;
  Size row = Size::head_dim;
};
// (x, index..., mask): for every position of `over`, x added to an element of something shaped as the
// captured tensor; the adjoint of Gather. Has no axes itself; only outputs take it.
struct Scatter {
  TensorId tensor;
  Axes over;
  Size row = Size::head_dim;
};

using NodeKind =
    std::variant<Input, Constant, SizeOf, Index, Variable, Apply, Gather, Partner, Reduce, Scores, Normalize,
                 Attend, LogSumExp, RowMax, Output, Contract, SumOver, Scatter>;

struct Node {
  NodeKind kind;
  ValueType type = ValueType::f32;
  Axes axes;
  Where where;
};

// How the rows of sequences lie in memory. No part of what is computed: i, j, sq and skv are a sequence's own
// in every form. ir/storage.h has the tensors that go with each.
struct Storage {
  bool ragged = false;           // all sequences' rows follow each other, without batch axis or padding
  std::optional<int> page_size;  // keys and values lie in pages of so many rows, found through a table

  bool is_plain() const { return !ragged && !page_size; }
  bool operator==(const Storage&) const = default;
};

// What is compiled in.
struct ProgramInfo {
  std::string name;
  int heads = 1;
  int kv_heads = 1;   // divides heads
  int head_dim = 64;  // of query and key
  int v_head_dim = 64;
  DType dtype = DType::f16;
  Where where;
  Storage storage = {};
  int score_heads = 1;  // pairs of queries and keys that weigh the same values: 1 or 2

  // The value of a compiled-in size; none for those of a call.
  std::optional<int> size(Size size) const;
};

// What was moved from may only be assigned to or destroyed.
class Graph {
 public:
  struct Adjacency;  // ir/adjacency.h

  explicit Graph(ProgramInfo info = {});
  Graph(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  const ProgramInfo& info() const { return info_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo& tensor(TensorId id) const { return tensors_.at(id.value); }
  const Adjacency& adjacency() const { return *adjacency_; }
  std::size_t size() const;
  const Node& node(NodeId id) const;
  std::vector<NodeId> operands(NodeId id) const;
  NodeId operand(NodeId id, int position) const;
  const std::vector<NodeId>& outputs() const { return outputs_; }
  NodeId output(std::string_view name) const;  // invalid when absent
  TensorId find_tensor(std::string_view name) const;

  // The same expressions on tensors that lie otherwise.
  Graph with_storage(const Storage& storage) const;

  TensorId add_tensor(TensorInfo info);
  // Appends a node; type and axes follow from the kind and the operands.
  NodeId add(NodeKind kind, std::span<const NodeId> operands, Where where = {});
  NodeId add(NodeKind kind, std::initializer_list<NodeId> operands = {}, Where where = {});

  // Appends a node whose type and axes are given: a copy from another graph, with operands of this one.
  NodeId add_like(const Node& node, std::span<const NodeId> operands);

  // Shorthands used by blocks and passes.
  NodeId constant(double value, ValueType type = ValueType::f32);
  NodeId index(Axis axis) { return add(Index{axis}); }
  NodeId variable(std::string name, ValueType type, Axes axes = {});
  NodeId apply(ScalarOp op, std::initializer_list<NodeId> operands) { return add(Apply{op}, operands); }

 private:
  ProgramInfo info_;
  std::vector<TensorInfo> tensors_;
  std::unique_ptr<Adjacency> adjacency_;
  std::vector<NodeId> outputs_;
};

template <class Kind>
const Kind* as(const Node& node) {
  return std::get_if<Kind>(&node.kind);
}

template <class... Handlers>
struct overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
overloaded(Handlers...) -> overloaded<Handlers...>;

}  // namespace attnfuse
