#include "passes/sequence.h"

#include "ir/storage.h"

namespace attnfuse {
namespace {

class Sequences {
 public:
  explicit Sequences(TileProgram& program) : program_(program) {}

  void run() {
    const Storage& storage = program_.info.storage;
    for (TensorInfo& tensor : storage_tensors(storage)) g().add_tensor(std::move(tensor));
    if (storage.ragged) {
      if (program_.has_key_rows()) ends_ = kKeyEnds;
      find();
      measure(kQueryEnds, kFirstQuery, "sq", "longest_q");
    }
    if (storage.page_size)
      let(program_.sequence.measure, "skv", within(element(kKeysUsed, entry()), "longest_k"));
    else if (storage.ragged)
      measure(kKeyEnds, kFirstKey, "skv", "longest_k");
  }

 private:
  Graph& g() { return program_.expressions; }
  NodeId i32(double value) { return g().constant(value, ValueType::i32); }
  NodeId scalar(std::string_view name) { return g().variable(std::string(name), ValueType::i32); }
  NodeId entry() { return g().index(Axis::b); }
  NodeId element(std::string_view tensor, NodeId at) {
    return g().add(Gather{g().find_tensor(tensor)}, {at});
  }
  NodeId within(NodeId length, std::string_view longest) {
    return g().apply(ScalarOp::imin, {g().apply(ScalarOp::imax, {length, i32(0)}), scalar(longest)});
  }
  static void let(Body& body, std::string_view name, NodeId value, bool changes = false) {
    body.emplace_back(Let{std::string(name), value, changes});
  }

  // The sequence's own part of the rows that `tensor` divides.
  void measure(std::string_view tensor, std::string_view first, std::string_view length,
               std::string_view longest) {
    Body& body = program_.sequence.measure;
    let(body, first, element(tensor, entry()));
    const NodeId end = element(tensor, g().apply(ScalarOp::iadd, {entry(), i32(1)}));
    let(body, length, within(g().apply(ScalarOp::isub, {end, scalar(first)}), longest));
  }

  // The tile that sequence `at` starts with.
  NodeId first_tile(NodeId at) {
    const NodeId whole = g().apply(ScalarOp::idiv, {element(ends_, at), i32(program_.schedule.block_q)});
    return g().apply(ScalarOp::iadd, {whole, at});
  }

  // The last sequence that starts at `place` or before: starts ascend strictly.
  void find() {
    Body& body = program_.sequence.find;
    const NodeId above = scalar("above"), middle = scalar("middle"), b = entry();
    const NodeId starts = g().variable("starts_before", ValueType::boolean);
    let(body, "b", i32(0), true);
    let(body, "above", scalar("batch"), true);
    Body halve;
    let(halve, "middle", g().apply(ScalarOp::idiv, {g().apply(ScalarOp::iadd, {b, above}), i32(2)}));
    let(halve, "starts_before", g().apply(ScalarOp::ile, {first_tile(middle), scalar("place")}));
    halve.emplace_back(Assign{"b", g().apply(ScalarOp::select, {starts, middle, b})});
    halve.emplace_back(Assign{"above", g().apply(ScalarOp::select, {starts, above, middle})});
    const NodeId more = g().apply(ScalarOp::igt, {g().apply(ScalarOp::isub, {above, b}), i32(1)});
    body.emplace_back(While{more, std::move(halve)});
    const NodeId tile = g().apply(ScalarOp::isub, {scalar("place"), first_tile(b)});
    let(body, "q_begin", g().apply(ScalarOp::imul, {tile, i32(program_.schedule.block_q)}));
  }

  TileProgram& program_;
  std::string_view ends_ = kQueryEnds;  // of the rows that workgroups divide
};

}  // namespace

void add_sequences(TileProgram& program) { Sequences(program).run(); }

}  // namespace attnfuse
