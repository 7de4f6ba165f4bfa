// lower_forward: the portable schedule. One workgroup computes block_q rows of one head: it walks the key
// tiles that the mask allows and keeps scores, probabilities and output next to the threads that own the
// rows.
//
//   put q; put k(first); take q
//   for each key tile:            take k | put v | s = q k^T | take v | put k(next) | scores, mask, softmax |
//   o += p v finish: divide by the row sum, store o and lse
//
// One slot each for K and V is enough: every take is a barrier, and the tile that a put refills was last read
// before it.
#include <fmt/format.h>

#include <cmath>

#include "ir/algorithm.h"
#include "passes/expressions.h"
#include "passes/forward_tiles.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ForwardLowering {
 public:
  ForwardLowering(const Graph& graph, const Target& target, const Schedule& schedule)
      : plan_(plan_forward_tiles(graph.info(), target, schedule)) {
    program_.name = "attention_" + graph.info().name;  // never a keyword
    program_.info = graph.info();
    program_.target = target;
    program_.schedule = schedule;
    program_.expressions = graph;
    program_.unit = matrix_unit(target, graph.info().dtype);
    program_.tiles = plan_.tiles;
  }

  TileProgram run() {
    read_graph();
    add_outputs();
    add_params();
    add_channels();
    lower_scores();
    emit_prologue();
    emit_loop();
    emit_epilogue();
    program_.footprint = footprint_of(program_.tiles, program_.threads());
    return std::move(program_);
  }

 private:
  Graph& g() { return program_.expressions; }

  // -- what the program says ------------------------------------------------------------------

  void read_graph() {
    const NodeId o = g().output("o");
    const NodeId attend = g().operand(o, 0);
    normalize_ = g().operand(attend, 0);
    value_ = g().operand(attend, 1);
    scores_ = find<Scores>(g());
    query_ = g().operand(scores_, 0);
    key_ = g().operand(scores_, 1);
    score_root_ = g().operand(normalize_, 0);
    mask_root_ = g().operand(normalize_, 1);
    if (std::get<Normalize>(g().node(normalize_).kind).kind == NormalizeKind::softmax_sink)
      sink_ = g().operand(normalize_, 2);
    for (std::uint32_t t = 0; t < g().tensors().size(); ++t) {
      if (g().tensor({t}).role == TensorRole::query) q_tensor_ = {t};
      if (g().tensor({t}).role == TensorRole::key) k_tensor_ = {t};
      if (g().tensor({t}).role == TensorRole::value) v_tensor_ = {t};
    }
    const auto* constant = as<Constant>(g().node(mask_root_));
    masked_ = constant == nullptr || constant->value == 0;
  }

  void add_outputs() {
    program_.outputs.push_back({"o", program_.info.dtype, true});
    program_.outputs.push_back({"lse", DType::f32, false});
  }

  // -- arguments ------------------------------------------------------------------------------

  void add_field(ParamField field, int bytes) {
    program_.param_bytes = (program_.param_bytes + bytes - 1) / bytes * bytes;
    field.offset = program_.param_bytes;
    program_.param_bytes += bytes;
    program_.params.push_back(std::move(field));
  }

  void add_tensor_fields(const std::string& tensor, const std::vector<std::string>& dims) {
    add_field({ParamField::Kind::pointer, tensor + "_ptr", tensor, 0, Size::sq, 0}, 8);
    for (std::size_t dim = 0; dim < dims.size(); ++dim)
      add_field({ParamField::Kind::stride, tensor + "_stride_" + dims[dim], tensor, int(dim), Size::sq, 0},
                8);
  }

  void add_params() {
    for (TensorId id : {q_tensor_, k_tensor_, v_tensor_})
      add_tensor_fields(g().tensor(id).name, {"b", "h", "s"});
    add_tensor_fields("o", {"b", "h", "s"});
    add_tensor_fields("lse", {"b", "h", "s"});
    for (const TensorInfo& tensor : g().tensors()) {
      if (tensor.role != TensorRole::captured) continue;
      std::vector<std::string> dims;
      for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) dims.push_back(std::to_string(dim));
      add_tensor_fields(tensor.name, dims);
    }
    for (Size size : {Size::batch, Size::sq, Size::skv})
      add_field({ParamField::Kind::size, std::string(name(size)), "", 0, size, 0}, 4);
    program_.param_bytes = (program_.param_bytes + 7) / 8 * 8;
  }

  // -- channels -------------------------------------------------------------------------------

  ChannelId add_channel(const std::string& name, TileId tile, TensorId source, NodeId value) {
    Channel channel{name, tile, source, {}, program_.schedule.copy, program_.schedule.vector_bytes};
    if (as<Input>(g().node(value)) == nullptr) {
      channel.transform = value;
      channel.kind = CopyKind::direct;  // the expression runs between load and store
    }
    program_.channels.push_back(channel);
    return {int(program_.channels.size()) - 1};
  }

  void add_channels() {
    q_channel_ = add_channel("q", plan_.query, q_tensor_, query_);
    k_channel_ = add_channel("k", plan_.key, k_tensor_, key_);
    v_channel_ = add_channel("v", plan_.value, v_tensor_, value_);
  }

  // -- expressions ----------------------------------------------------------------------------

  NodeId i32(double value) { return g().constant(value, ValueType::i32); }
  NodeId f32(double value) { return g().constant(value, ValueType::f32); }
  NodeId size(Size size) { return g().add(SizeOf{size}); }
  NodeId scalar(const std::string& name) { return g().variable(name, ValueType::i32); }
  NodeId op(ScalarOp op, std::initializer_list<NodeId> operands) {
    // Bounds of plain programs are constants: keep them readable.
    std::vector<double> values;
    for (NodeId operand : operands)
      if (const auto* constant = as<Constant>(g().node(operand))) values.push_back(constant->value);
    const ScalarOpInfo& row = info(op);
    if (values.size() == operands.size() && row.result == ValueType::i32) return i32(row.value(values));
    return g().apply(op, operands);
  }
  NodeId tile_element(TileId id) {
    const Tile& tile = program_.tile(id);
    const Axes axes = tile.cols == 1 ? Axes{Axis::b, Axis::h, tile.row.axis}
                                     : Axes{Axis::b, Axis::h, tile.row.axis, tile.col.axis};
    return g().variable(tile.name, ValueType::f32, axes);
  }

  // A vector beside the scores: one value per row or per column.
  TileId add_vector(const std::string& name, ValueType type, TileAxis axis) {
    const Tile& scores = program_.tile(plan_.scores_rows);
    const bool per_row = axis == TileAxis::row;
    Tile tile = scores;
    tile.name = name;
    tile.type = type == ValueType::i32       ? DType::i32
                : type == ValueType::boolean ? DType::boolean
                                             : DType::f32;
    tile.rows = per_row ? scores.rows : 1;
    tile.cols = per_row ? 1 : scores.cols;
    tile.layout = vector_along(std::get<FragmentLayout>(scores.layout), axis);
    program_.tiles.push_back(tile);
    return {int(program_.tiles.size()) - 1};
  }

  // Computes what does not change along the loop before it, what changes by key once per tile.
  NodeId hoist_from(NodeId root, const std::string& prefix) {
    const Hoisted hoisted = hoister_.run(root, prefix);
    for (const auto& value : hoisted.scalars) before_.push_back({Let{value.name, value.value}});
    for (const auto& value : hoisted.rows)
      before_.push_back(
          {Map{add_vector(value.name, g().node(value.value).type, TileAxis::row), value.value}});
    for (const auto& value : hoisted.columns)
      per_tile_.push_back(
          {Map{add_vector(value.name, g().node(value.value).type, TileAxis::col), value.value}});
    return hoisted.root;
  }

  void lower_scores() {
    const NodeId s = tile_element(plan_.scores_rows);
    const NodeId with_tile = substitute(g(), score_root_, {{scores_, s}});
    const Peeled peeled = peel_factor(g(), with_tile);
    factor_ = peeled.factor;
    score_value_ = hoist_from(peeled.rest, "score");
    score_is_identity_ = score_value_ == s;
    if (masked_) mask_value_ = hoist_from(mask_root_, "mask");
    if (sink_.valid()) sink_ = hoist_from(sink_, "sink");
  }

  // -- the kernel -----------------------------------------------------------------------------

  void add(Body& body, decltype(Statement::kind) statement) { body.push_back({std::move(statement)}); }

  void emit_prologue() {
    Body& body = program_.body;
    const NodeId q_begin = scalar("q_begin");
    const double block_q = program_.schedule.block_q, block_k = program_.schedule.block_k;
    add(body,
        Let{"q_end", op(ScalarOp::imin, {op(ScalarOp::iadd, {q_begin, i32(block_q)}), size(Size::sq)})});
    NodeId first = i32(0), end = size(Size::skv);
    if (masked_) {
      classes_ = classify_tiles(g(), mask_root_);
      first = op(ScalarOp::imax, {classes_.first_key, i32(0)});
      end = op(ScalarOp::imin, {classes_.end_key, end});
    }
    add(body, Let{"key_end", end});
    add(body, Let{"tile_begin", op(ScalarOp::idiv, {first, i32(block_k)})});
    add(body, Let{"tile_end", op(ScalarOp::idiv,
                                 {op(ScalarOp::iadd, {scalar("key_end"), i32(block_k - 1)}), i32(block_k)})});
    add(body, Put{q_channel_, q_begin, size(Size::sq)});
    body.insert(body.end(), before_.begin(), before_.end());
    add(body, Fill{plan_.output, 0});
    add(body, Fill{plan_.row_sum, 0});
    if (sink_.valid())
      add(body, Map{plan_.row_max, op(ScalarOp::mul, {sink_, f32(1 / factor_)})});
    else
      add(body, Fill{plan_.row_max, -kInfinity});
  }

  NodeId first_key_of(const std::string& tile) {
    return op(ScalarOp::imul, {scalar(tile), i32(program_.schedule.block_k)});
  }

  void emit_loop() {
    TileLoop loop{"k_tile", "k_next", scalar("tile_begin"), scalar("tile_end"), {}, {}, {}};
    if (classes_.has_holes) loop.skip = bind_tile(classes_.empty, "k_next");
    const NodeId skv = size(Size::skv);
    add(loop.before, Put{k_channel_, first_key_of("k_next"), skv});
    add(loop.before, Take{q_channel_});
    if (plan_.query_operand.valid()) add(loop.before, Move{plan_.query_operand, plan_.query});
    Body& body = loop.body;
    add(body, Let{"k_begin", first_key_of("k_tile")});
    add(body, Take{k_channel_});
    add(body, Put{v_channel_, scalar("k_begin"), skv});
    add(body, Fill{plan_.scores, 0});
    add(body,
        Mma{plan_.scores, plan_.query_operand.valid() ? plan_.query_operand : plan_.query, plan_.key, false});
    NodeId whole =
        op(ScalarOp::ile, {op(ScalarOp::iadd, {scalar("k_begin"), i32(program_.schedule.block_k)}), skv});
    if (masked_) whole = op(ScalarOp::logical_and, {whole, bind_tile(classes_.full, "k_tile")});
    add(body, Let{"full", whole});
    add(body, Take{v_channel_});
    const NodeId partial = op(ScalarOp::logical_not, {g().variable("full", ValueType::boolean)});
    if (masked_) add(body, If{partial, {{Scrub{plan_.value, "has_nonfinite"}}, {Barrier{}}}});
    add(body, If{op(ScalarOp::ilt, {scalar("k_next"), scalar("tile_end")}),
                 {{Put{k_channel_, first_key_of("k_next"), skv}}}});
    emit_softmax(body, partial);
    emit_second_product(body);
    add(program_.body, loop);
  }

  // Tile bounds of classify_tiles for the key tile of that name.
  NodeId bind_tile(NodeId root, const std::string& tile) {
    const NodeId begin = first_key_of(tile);
    const NodeId end = op(ScalarOp::iadd, {begin, i32(program_.schedule.block_k)});
    std::map<NodeId, NodeId> bound;
    for (std::uint32_t v = 0; v < g().size(); ++v)
      if (const auto* variable = as<Variable>(g().node({v}))) {
        if (variable->name == "k_begin") bound[{v}] = begin;
        if (variable->name == "k_end") bound[{v}] = end;
      }
    return substitute(g(), root, bound);
  }

  void emit_softmax(Body& body, NodeId partial) {
    const TileId rows = plan_.scores_rows;
    if (program_.unit.opaque) {
      add(body, Move{plan_.scores_shared, plan_.scores});
      add(body, Barrier{Scope::warp});
      add(body, Move{rows, plan_.scores_shared});
    }
    body.insert(body.end(), per_tile_.begin(), per_tile_.end());
    const NodeId s = tile_element(rows);
    if (!score_is_identity_) add(body, Map{rows, score_value_});
    const NodeId inside = op(ScalarOp::ilt, {g().index(Axis::j), size(Size::skv)});
    const NodeId allowed = masked_ ? op(ScalarOp::logical_and, {inside, mask_value_}) : inside;
    add(body, If{partial, {{Map{rows, op(ScalarOp::select, {allowed, s, f32(-kInfinity)})}}}});

    const NodeId row_max = tile_element(plan_.row_max);
    const NodeId safe = tile_element(plan_.row_max_safe);
    add(body, Map{plan_.row_max_before, row_max});
    add(body, RowReduce{plan_.row_max, rows, ReduceOp::max, true, true});
    // A row without any allowed key so far: exp2(-inf - 0) = 0 instead of exp2(-inf - -inf).
    add(body, Map{plan_.row_max_safe,
                  op(ScalarOp::select, {op(ScalarOp::eq, {row_max, f32(-kInfinity)}), f32(0), row_max})});
    add(body, Map{plan_.row_factor, exponential(tile_element(plan_.row_max_before), safe)});
    add(body,
        Map{plan_.row_sum, op(ScalarOp::mul, {tile_element(plan_.row_sum), tile_element(plan_.row_factor)})});
    add(body, Map{rows, exponential(s, safe)});
    add(body, RowReduce{plan_.row_sum, rows, ReduceOp::sum, true, false});
    scale_output(body);
  }

  // exp(factor * (value - max)) as a power of two. With a factor below 1 the product cannot overflow and one
  // fused multiply-add does it; else the difference comes first.
  NodeId exponential(NodeId value, NodeId max) {
    const NodeId scale = f32(factor_ * kLog2E);
    if (factor_ * kLog2E <= 1)
      return op(ScalarOp::exp2,
                {op(ScalarOp::sub, {op(ScalarOp::mul, {value, scale}), op(ScalarOp::mul, {max, scale})})});
    return op(ScalarOp::exp2, {op(ScalarOp::mul, {op(ScalarOp::sub, {value, max}), scale})});
  }

  void scale_output(Body& body) {
    if (!program_.unit.opaque) {
      add(body, ScaleRows{plan_.output, plan_.row_factor});
      return;
    }
    add(body, Barrier{Scope::warp});  // the last factors have been read
    add(body, Move{plan_.row_factor_shared, plan_.row_factor});
    add(body, Barrier{Scope::warp});
    add(body, ScaleRows{plan_.output, plan_.row_factor_shared});
  }

  void emit_second_product(Body& body) {
    TileId weights = plan_.weights;
    if (weights.valid()) {
      add(body, Map{weights, tile_element(plan_.scores_rows)});
    } else {
      weights = plan_.weights_shared;
      add(body, Move{weights, plan_.scores_rows});
      add(body, Barrier{Scope::warp});
    }
    add(body, Mma{plan_.output, weights, plan_.value, true});
  }

  void emit_epilogue() {
    Body& body = program_.body;
    const NodeId q_begin = scalar("q_begin"), sq = size(Size::sq);
    const NodeId sum = tile_element(plan_.row_sum), row_max = tile_element(plan_.row_max);
    add(body, LaneReduce{plan_.row_sum, plan_.scores_rows, ReduceOp::sum});
    if (sink_.valid()) {
      add(body, Map{plan_.row_max_safe,
                    op(ScalarOp::select, {op(ScalarOp::eq, {row_max, f32(-kInfinity)}), f32(0), row_max})});
      const NodeId sink = op(ScalarOp::mul, {sink_, f32(1 / factor_)});
      add(body,
          Map{plan_.row_sum, op(ScalarOp::add, {sum, exponential(sink, tile_element(plan_.row_max_safe))})});
    }
    // A row without any allowed key: o = 0, lse = -inf.
    add(body, Map{plan_.row_factor, op(ScalarOp::select, {op(ScalarOp::eq, {sum, f32(0)}), f32(0),
                                                          op(ScalarOp::div, {f32(1), sum})})});
    add(body, Map{plan_.row_sum,
                  op(ScalarOp::add, {op(ScalarOp::mul, {row_max, f32(factor_)}), op(ScalarOp::log, {sum})})});
    scale_output(body);
    add(body, Store{plan_.output, "o", q_begin, sq, plan_.scores_shared});
    add(body, Store{plan_.row_sum, "lse", q_begin, sq, {}});
    if (!masked_) return;
    const NodeId allowed =
        op(ScalarOp::logical_and, {op(ScalarOp::ilt, {g().index(Axis::j), size(Size::skv)}), mask_root_});
    const NodeId first_key = op(ScalarOp::imul, {scalar("tile_begin"), i32(program_.schedule.block_k)});
    add(body, Barrier{});
    add(body, Restore{"o", "has_nonfinite", v_tensor_, allowed, first_key, scalar("key_end"), q_begin, sq});
  }

  ForwardTiles plan_;
  TileProgram program_;
  NodeId normalize_, value_, scores_, query_, key_, score_root_, mask_root_, sink_;
  NodeId score_value_, mask_value_;
  TensorId q_tensor_, k_tensor_, v_tensor_;
  ChannelId q_channel_, k_channel_, v_channel_;
  TileClasses classes_;
  Hoister hoister_{program_.expressions};
  bool masked_ = false, score_is_identity_ = false;
  double factor_ = 1;
  Body before_, per_tile_;
};

}  // namespace

Result<TileProgram> lower_forward(const Graph& graph, const Target& target, const Schedule& schedule) {
  return ForwardLowering(graph, target, schedule).run();
}

}  // namespace attnfuse
