#include "passes/forward_lowering.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/algorithm.h"
#include "ir/storage.h"
#include "passes/data_bounds.h"
#include "passes/parameters.h"
#include "passes/sequence.h"

namespace attnfuse {
namespace {

constexpr double kLog2E = std::numbers::log2e;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

ForwardLowering::ForwardLowering(const Graph& graph, const Target& target, const Schedule& schedule,
                                 const Around& around, ForwardTiles plan)
    : plan_(std::move(plan)) {
  program_.name = "attention_" + graph.info().name;  // never a keyword
  program_.info = graph.info();
  program_.target = target;
  program_.schedule = schedule;
  program_.expressions = graph;
  program_.tiles = plan_.tiles;
  read_graph();
  program_.outputs = outputs_of(graph);
  add_sequences(program_);
  if (masked_) classes_ = classify_tiles(g(), mask_root_);
  program_.shares = around.shares_keys;
  if (!around.data_bounds.empty()) use_data_bounds(around.data_bounds);
  is_allowed_ = within_keys(masked_ ? mask_root_ : NodeId{});
  lower_scores("");
  if (!has_second_head()) return;
  swap_heads();
  lower_scores("2");
  swap_heads();
}

// -- what the program says ----------------------------------------------------------------------

void ForwardLowering::read_graph() {
  output_root_ = g().operand(g().output("o"), 0);
  has_max_logit_ = g().output("max_logit").valid();
  const std::vector<ScoreHead> heads = score_heads(g());
  for (auto head = heads.rbegin(); head != heads.rend(); ++head) {
    other_ = static_cast<const HeadLowering&>(*this);
    read_head(*head);
  }
  value_ = g().operand(attend_, 1);
  mask_root_ = g().operand(normalize_, 1);
  for (std::uint32_t t = 0; t < g().tensors().size(); ++t)
    if (g().tensor({t}).role == TensorRole::value) v_tensor_ = {t};
  masked_ = is_masked(g());
}

void ForwardLowering::read_head(const ScoreHead& head) {
  attend_ = head.attend;
  normalize_ = head.normalize;
  scores_ = head.scores;
  q_tensor_ = head.query;
  k_tensor_ = head.key;
  query_ = g().operand(scores_, 0);
  key_ = g().operand(scores_, 1);
  score_root_ = g().operand(normalize_, 0);
  kind_ = std::get<Normalize>(g().node(normalize_).kind).kind;
  if (kind_ == NormalizeKind::softmax_sink) sink_ = g().operand(normalize_, 2);
}

void ForwardLowering::swap_heads() {
  std::swap(static_cast<HeadLowering&>(*this), other_);
  std::swap(static_cast<HeadTiles&>(plan_), plan_.second);
  in_second_ = !in_second_;
}

// The bounds of the query tile at hand, as scalars that the tile classes read.
void ForwardLowering::use_data_bounds(const std::string& tensor) {
  const TensorId table = g().add_tensor(data_bounds_tensor(g(), tensor));
  const NodeId tile = op(ScalarOp::idiv, {scalar("q_begin"), i32(program_.schedule.block_q)});
  const NodeId head = data_bounds_differ_by_head(g()) ? g().index(Axis::h) : i32(0);
  for (std::size_t n = 0; n < kDataBounds.size(); ++n)
    add(data_bounds_, Let{std::string(kDataBounds[n]),
                          g().add(Gather{table}, {g().index(Axis::b), head, tile, i32(double(n))})});
  classes_.first_key = op(ScalarOp::imax, {classes_.first_key, scalar("seen_begin")});
  classes_.end_key = op(ScalarOp::imin, {classes_.end_key, scalar("seen_end")});
  const NodeId open = op(ScalarOp::logical_and, {op(ScalarOp::ige, {scalar("k_begin"), scalar("open_begin")}),
                                                 op(ScalarOp::ile, {scalar("k_end"), scalar("open_end")})});
  classes_.full = op(ScalarOp::logical_or, {classes_.full, open});
}

// -- arguments ----------------------------------------------------------------------------------

void ForwardLowering::add_params() {
  const auto strides = [&](RowSide side) { return row_map(program_.info.storage, side).strides(); };
  for (const TensorInfo& tensor : g().tensors())
    if (tensor.role == TensorRole::query || tensor.role == TensorRole::key ||
        tensor.role == TensorRole::value)
      add_tensor_fields(program_, tensor.name,
                        strides(tensor.role == TensorRole::query ? RowSide::query : RowSide::key));
  for (const OutputInfo& output : program_.outputs)
    add_tensor_fields(program_, output.name, strides(RowSide::query));
  for (const TensorInfo& tensor : g().tensors())
    if (tensor.role == TensorRole::captured) add_captured_fields(program_, tensor);
  add_size_fields(program_);
}

ChannelId ForwardLowering::add_channel(const std::string& name, TileId tile, TensorId source, NodeId value) {
  Channel channel{name, tile, source, {}, program_.schedule.copy, program_.schedule.vector_bytes};
  if (as<Input>(g().node(value)) == nullptr) {
    channel.transform = value;
    channel.kind = CopyKind::direct;  // the expression runs between load and store
  }
  program_.channels.push_back(channel);
  return {int(program_.channels.size()) - 1};
}

// -- expressions --------------------------------------------------------------------------------

NodeId ForwardLowering::op(ScalarOp op, std::initializer_list<NodeId> operands) {
  // Bounds of plain programs are constants, and a factor of one is none: keep them readable.
  std::vector<double> values;
  for (NodeId operand : operands)
    if (const auto* constant = as<Constant>(g().node(operand))) values.push_back(constant->value);
  const ScalarOpInfo& row = info(op);
  if (values.size() == operands.size() && row.result == ValueType::i32) return i32(row.value(values));
  const auto* last = as<Constant>(g().node(*std::prev(operands.end())));
  if (op == ScalarOp::mul && last != nullptr && last->value == 1) return *operands.begin();
  return g().apply(op, operands);
}

NodeId ForwardLowering::tile_element(TileId id) {
  const Tile& tile = program_.tile(id);
  const Axes axes = tile.cols == 1 ? Axes{Axis::b, Axis::h, tile.row.axis}
                                   : Axes{Axis::b, Axis::h, tile.row.axis, tile.col.axis};
  return g().variable(tile.name, ValueType::f32, axes);
}

NodeId ForwardLowering::first_key_of(const std::string& tile) {
  return op(ScalarOp::imul, {scalar(tile), i32(program_.schedule.block_k)});
}

NodeId ForwardLowering::bind(NodeId root, const std::map<std::string, NodeId>& scalars) {
  std::map<NodeId, NodeId> bound;
  for (std::uint32_t v = 0; v < g().size(); ++v)
    if (const auto* variable = as<Variable>(g().node({v})))
      if (const auto found = scalars.find(variable->name); found != scalars.end()) bound[{v}] = found->second;
  return substitute(g(), root, bound);
}

NodeId ForwardLowering::bind_tile(NodeId root, const std::string& tile) {
  const NodeId begin = first_key_of(tile);
  return bind(root,
              {{"k_begin", begin}, {"k_end", op(ScalarOp::iadd, {begin, i32(program_.schedule.block_k)})}});
}

// A vector beside the scores: one value per row or per column.
TileId ForwardLowering::add_vector(const std::string& name, ValueType type, TileAxis axis) {
  const Tile& scores = program_.tile(plan_.scores_rows);
  const bool per_row = axis == TileAxis::row;
  Tile tile = scores;
  tile.name = name;
  tile.type = type == ValueType::i32 ? DType::i32 : type == ValueType::boolean ? DType::boolean : DType::f32;
  tile.rows = per_row ? scores.rows : 1;
  tile.cols = per_row ? 1 : scores.cols;
  tile.layout = vector_along(std::get<FragmentLayout>(scores.layout), axis);
  return add_tile(std::move(tile));
}

TileId ForwardLowering::add_tile(Tile tile) {
  program_.tiles.push_back(std::move(tile));
  return {int(program_.tiles.size()) - 1};
}

// Computes what does not change along the loop before it, what changes by key once per tile.
NodeId ForwardLowering::hoist_from(NodeId root, const std::string& prefix) {
  const Hoisted hoisted = hoister_.run(root, prefix);
  for (const auto& value : hoisted.scalars) before_.emplace_back(Let{value.name, value.value});
  for (const auto& value : hoisted.rows)
    before_.emplace_back(Map{add_vector(value.name, g().node(value.value).type, TileAxis::row), value.value});
  for (const auto& value : hoisted.columns)
    per_tile_.emplace_back(
        Map{add_vector(value.name, g().node(value.value).type, TileAxis::col), value.value});
  return hoisted.root;
}

void ForwardLowering::lower_scores(const std::string& suffix) {
  const NodeId s = tile_element(plan_.scores_rows);
  const NodeId with_tile = substitute(g(), score_root_, {{scores_, s}});
  const Peeled peeled = is_softmax() ? peel_factor(g(), with_tile) : Peeled{with_tile};
  factor_ = peeled.factor;
  score_value_ = hoist_from(peeled.rest, "score" + suffix);
  score_is_identity_ = score_value_ == s;
  if (!in_second_) is_allowed_ = hoist_from(is_allowed_, "mask");
  if (sink_.valid() && program_.shares)  // one share has it
    sink_ = op(ScalarOp::select, {op(ScalarOp::ieq, {scalar("share"), i32(0)}), sink_, f32(-kInfinity)});
  if (sink_.valid()) sink_ = hoist_from(sink_, "sink" + suffix);
  const NodeId weights = substitute(g(), g().operand(attend_, 0), {{normalize_, s}});
  weight_is_identity_ = weights == s;
  weight_value_ = hoist_from(weights, "weight" + suffix);
}

// mask && j < skv. A bound on j of the row's own, and the end of the keys, is one comparison of the
// register's part of j with what is left of the bound for this thread.
NodeId ForwardLowering::within_keys(NodeId mask) {
  const NodeId j = g().index(Axis::j), skv = key_limit();
  // A captured bound may be any i32: below -1 is no key either, and keeps the difference small.
  const auto up_to = [&](NodeId bound) {
    return op(ScalarOp::ile, {scalar_along("j_step"), op(ScalarOp::isub, {bound, scalar_along("j_at")})});
  };
  const auto within = [&](std::initializer_list<NodeId> bounds) {
    return op(ScalarOp::imax, {op(ScalarOp::imin, bounds), i32(-1)});
  };
  const NodeId last = op(ScalarOp::isub, {skv, i32(1)});
  if (!mask.valid()) return up_to(last);
  const auto* compare = as<Apply>(g().node(mask));
  const auto is_bound = [&](ScalarOp ops, int side) {
    if (compare == nullptr || compare->op != ops) return false;
    const auto* index = as<Index>(g().node(g().operand(mask, side)));
    return index != nullptr && index->axis == Axis::j &&
           g().node(g().operand(mask, 1 - side)).axes.within({Axis::b, Axis::h, Axis::i});
  };
  if (is_bound(ScalarOp::ile, 0)) return up_to(within({g().operand(mask, 1), last}));
  if (is_bound(ScalarOp::ige, 1)) return up_to(within({g().operand(mask, 0), last}));
  return op(ScalarOp::logical_and, {op(ScalarOp::ilt, {j, skv}), mask});
}

// exp(factor * (value - max)) as a power of two. With a factor below 1 the product cannot overflow and one
// fused multiply-add does it; else the difference comes first.
NodeId ForwardLowering::exponential(NodeId value, NodeId max) {
  const NodeId scale = f32(factor_ * kLog2E);
  if (factor_ * kLog2E <= 1)
    return op(ScalarOp::exp2,
              {op(ScalarOp::sub, {op(ScalarOp::mul, {value, scale}), op(ScalarOp::mul, {max, scale})})});
  return op(ScalarOp::exp2, {op(ScalarOp::mul, {op(ScalarOp::sub, {value, max}), scale})});
}

// -- statements ---------------------------------------------------------------------------------

void ForwardLowering::add_bounds(Body& body) {
  const double block_q = program_.schedule.block_q, block_k = program_.schedule.block_k;
  add(body, Let{"q_end",
                op(ScalarOp::imin, {op(ScalarOp::iadd, {scalar("q_begin"), i32(block_q)}), size(Size::sq)})});
  body.insert(body.end(), data_bounds_.begin(), data_bounds_.end());
  NodeId first = i32(0), end = size(Size::skv);
  if (masked_) {
    first = op(ScalarOp::imax, {classes_.first_key, i32(0)});
    end = op(ScalarOp::imin, {classes_.end_key, end});
  }
  const bool shares = program_.shares;
  const std::string last = shares ? "last_key_end" : "key_end", begin = shares ? "first_tile" : "tile_begin";
  add(body, Let{last, end});
  add(body, Let{begin, op(ScalarOp::idiv, {first, i32(block_k)})});
  add(body, Let{shares ? "last_tile_end" : "tile_end",
                op(ScalarOp::idiv, {op(ScalarOp::iadd, {scalar(last), i32(block_k - 1)}), i32(block_k)})});
  if (shares) divide_keys(body);
}

// The tiles of this share. Of one without any, whatever tile is visited lies past the limit.
void ForwardLowering::divide_keys(Body& body) {
  const NodeId block_k = i32(program_.schedule.block_k), shares = scalar("shares");
  const NodeId tiles =
      op(ScalarOp::imax, {op(ScalarOp::isub, {scalar("last_tile_end"), scalar("first_tile")}), i32(0)});
  const NodeId rounded = op(ScalarOp::isub, {op(ScalarOp::iadd, {tiles, shares}), i32(1)});
  add(body, Let{"share_tiles", op(ScalarOp::idiv, {rounded, shares})});
  add(body,
      Let{"tile_begin", op(ScalarOp::iadd, {scalar("first_tile"),
                                            op(ScalarOp::imul, {scalar("share"), scalar("share_tiles")})})});
  add(body,
      Let{"tile_end", op(ScalarOp::imin, {op(ScalarOp::iadd, {scalar("tile_begin"), scalar("share_tiles")}),
                                          scalar("last_tile_end")})});
  const NodeId end = op(ScalarOp::imul, {scalar("tile_end"), block_k});
  add(body, Let{"key_end", op(ScalarOp::imin, {scalar("last_key_end"), end})});
  add(body, Let{"key_limit", op(ScalarOp::imin, {size(Size::skv), end})});
}

void ForwardLowering::clear_rows(Body& body) {
  add(body, Fill{plan_.output, 0});
  add(body, Fill{plan_.row_sum, 0});
  if (sink_.valid())
    add(body, Map{plan_.row_max, op(ScalarOp::mul, {sink_, f32(1 / factor_)})});
  else
    add(body, Fill{plan_.row_max, -kInfinity});
}

// The score expression. Where the element reaches it through one hyperbolic tangent alone, this is a step of
// its own: machines have better ways for many of them than for each.
void ForwardLowering::add_score_value(Body& body) {
  if (score_is_identity_) return;
  const TileId rows = plan_.scores_rows;
  const NodeId s = tile_element(rows);
  const auto is_element = [&](NodeId id) {
    const auto* variable = as<Variable>(g().node(id));
    return variable != nullptr && variable->name == program_.tile(rows).name;
  };
  const auto reads = [&](NodeId root) { return std::ranges::any_of(cone(g(), {root}), is_element); };
  for (NodeId id : cone(g(), {score_value_})) {
    const auto* apply = as<Apply>(g().node(id));
    if (apply == nullptr || apply->op != ScalarOp::tanh || !reads(id)) continue;
    const NodeId closed = substitute(g(), score_value_, {{id, f32(0)}});
    if (reads(closed)) break;
    const Peeled inner = peel_factor(g(), g().operand(id, 0));
    const NodeId outer = substitute(g(), score_value_, {{id, s}});
    if (!is_element(inner.rest)) add(body, Map{rows, inner.rest});
    add(body, Map{rows, op(ScalarOp::tanh, {op(ScalarOp::mul, {s, f32(inner.factor)})})});
    if (!is_element(outer)) add(body, Map{rows, outer});
    return;
  }
  add(body, Map{rows, score_value_});
}

void ForwardLowering::add_weights(Body& body, NodeId partial, const Body& between) {
  const TileId rows = plan_.scores_rows;
  add_score_value(body);
  if (partial.valid()) {
    const Map masking{rows, op(ScalarOp::select, {is_allowed_, tile_element(rows), f32(0)})};
    if (as<Constant>(g().node(partial)) != nullptr)
      add(body, masking);
    else
      add(body, If{partial, {{masking}}});
  }
  add(body, Map{plan_.row_factor, f32(1)});
  body.insert(body.end(), between.begin(), between.end());
  if (kind_ == NormalizeKind::retention)
    add(body, RowReduce{plan_.row_sum, rows, ReduceOp::sum, true, false});
}

void ForwardLowering::finish_weights(Body& body) {
  if (kind_ == NormalizeKind::none)
    return add(body, Fill{plan_.row_factor, 1});  // no tile may have been visited
  add(body, LaneReduce{plan_.row_sum, plan_.scores_rows, ReduceOp::sum});
  // max(|sum|, 1) that keeps NaN.
  const NodeId magnitude = op(ScalarOp::abs, {tile_element(plan_.row_sum)});
  const NodeId divisor = op(ScalarOp::select, {op(ScalarOp::lt, {magnitude, f32(1)}), f32(1), magnitude});
  add(body, Map{plan_.row_factor, op(ScalarOp::div, {f32(1), divisor})});
  add(body, Map{plan_.row_sum, op(ScalarOp::log, {divisor})});
}

void ForwardLowering::add_softmax(Body& body, NodeId partial, int quarters, Body between) {
  if (!is_softmax()) return add_weights(body, partial, between);
  const TileId rows = plan_.scores_rows;
  const NodeId s = tile_element(rows);
  add_score_value(body);
  if (partial.valid()) {
    const Map masking{rows, op(ScalarOp::select, {is_allowed_, s, f32(-kInfinity)})};
    if (as<Constant>(g().node(partial)) != nullptr)
      add(body, masking);
    else
      add(body, If{partial, {{masking}}});
  }

  const NodeId row_max = tile_element(plan_.row_max);
  const NodeId safe = tile_element(plan_.row_max_safe);
  add(body, Map{plan_.row_max_before, row_max});
  // Only who asks for the maximum itself is told of a NaN by it; the sum keeps them in any case.
  const ReduceOp largest = has_max_logit_ ? ReduceOp::maximum : ReduceOp::max;
  add(body, RowReduce{plan_.row_max, rows, largest, true, true});
  // A row without any allowed key so far: exp2(-inf - 0) = 0 instead of exp2(-inf - -inf).
  add(body, Map{plan_.row_max_safe,
                op(ScalarOp::select, {op(ScalarOp::eq, {row_max, f32(-kInfinity)}), f32(0), row_max})});
  add(body, Map{plan_.row_factor, exponential(tile_element(plan_.row_max_before), safe)});
  add(body,
      Map{plan_.row_sum, op(ScalarOp::mul, {tile_element(plan_.row_sum), tile_element(plan_.row_factor)})});
  if (quarters > 0) add(body, Map{rows, exponential(s, safe), {0, quarters}});
  body.insert(body.end(), between.begin(), between.end());
  if (quarters < 4) add(body, Map{rows, exponential(s, safe), {quarters, 4}});
  add(body, RowReduce{plan_.row_sum, rows, ReduceOp::sum, true, false});
}

void ForwardLowering::finish_rows(Body& body) {
  if (!is_softmax()) return finish_weights(body);
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
  const NodeId max_logit = op(ScalarOp::mul, {row_max, f32(factor_)});
  add(body, Map{plan_.row_sum, op(ScalarOp::add, {max_logit, op(ScalarOp::log, {sum})})});
  if (has_max_logit_) add(body, Map{plan_.row_max, max_logit});
}

void ForwardLowering::store_rows(Body& body, NodeId first_row) {
  add(body, Store{plan_.row_sum, in_second_ ? "lse2" : "lse", first_row, size(Size::sq), {}});
  if (has_max_logit_ && !in_second_)
    add(body, Store{plan_.row_max, "max_logit", first_row, size(Size::sq), {}});
}

NodeId ForwardLowering::allowed_keys() {
  return op(ScalarOp::logical_and, {op(ScalarOp::ilt, {g().index(Axis::j), size(Size::skv)}), mask_root_});
}

}  // namespace attnfuse
