// ForwardLowering: what every forward kernel needs, whatever its schedule: what the program computes,
// arguments, channels, hoisting, and the statements of scores, softmax and the end of a row. Schedules derive
// from it and arrange these in their own order.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include "ir/score_heads.h"
#include "passes/expressions.h"
#include "passes/forward_tiles.h"
#include "passes/passes.h"

namespace attnfuse {

// What a score head computes. Statements are written for one at a time, the current one.
class HeadLowering {
 protected:
  NodeId attend_, normalize_, scores_, query_, key_, score_root_, sink_;
  NodeId score_value_, weight_value_;
  TensorId q_tensor_, k_tensor_;
  bool score_is_identity_ = false, weight_is_identity_ = true;
  double factor_ = 1;
};

class ForwardLowering : protected HeadLowering {
 protected:
  ForwardLowering(const Graph& graph, const Target& target, const Schedule& schedule, const Around& around,
                  ForwardTiles plan);
  ~ForwardLowering() = default;

  Graph& g() { return program_.expressions; }

  // ---- expressions ----
  NodeId i32(double value) { return g().constant(value, ValueType::i32); }
  NodeId f32(double value) { return g().constant(value, ValueType::f32); }
  NodeId size(Size size) { return g().add(SizeOf{size}); }
  NodeId scalar(const std::string& name) { return g().variable(name, ValueType::i32); }
  // A part of the key coordinate, see Map in ir/tile.h.
  NodeId scalar_along(const char* name) { return g().variable(name, ValueType::i32, {Axis::j}); }
  NodeId op(ScalarOp op, std::initializer_list<NodeId> operands);
  NodeId tile_element(TileId id);
  NodeId first_key_of(const std::string& tile);
  // Tile bounds of classify_tiles for the key tile of that name.
  NodeId bind_tile(NodeId root, const std::string& tile);
  NodeId bind(NodeId root, const std::map<std::string, NodeId>& scalars);
  // exp(factor * (value - max)) as a power of two.
  NodeId exponential(NodeId value, NodeId max);

  // ---- arguments and channels ----
  void add_params();
  ChannelId add_channel(const std::string& name, TileId tile, TensorId source, NodeId value);

  // ---- statements ----
  void add(Body& body, Statement statement) { body.push_back(std::move(statement)); }
  // q_end, key_end, tile_begin, tile_end of the query tile.
  void add_bounds(Body& body);
  // What does not change along the keys.
  void add_hoisted(Body& body) { body.insert(body.end(), before_.begin(), before_.end()); }
  // Row statistics before the first key; the output is zero.
  void clear_rows(Body& body);
  // Scores of tile `k_begin` to probabilities and row statistics; keys are tested where `partial` holds
  // (invalid: nowhere). Follows per_tile_.
  // `between` runs after that many quarters of the exponentials.
  void add_softmax(Body& body, NodeId partial, int quarters = 4, Body between = {});
  // What an element of the second product's left operand is.
  NodeId weight() { return weight_is_identity_ ? tile_element(plan_.scores_rows) : weight_value_; }
  // row_factor = 1 / sum, row_sum = logsumexp; row_max = max_logit where the program has it.
  void finish_rows(Body& body);
  // Row results of the current head, from `first_row` on.
  void store_rows(Body& body, NodeId first_row);
  // lower_output.cpp: what the output expression reads beside the rows of `tile`, fetched ahead, where there
  // is room in registers; for schedules whose last product runs meanwhile.
  void fetch_for_output(Body& body, TileId tile);
  // lower_output.cpp: the output expression over the rows of `tile`, in registers, after their last scaling;
  // `second` holds those of the second score head.
  // Unless `trusted` (invalid: always) holds, elements that are not finite become NaN, whatever the
  // expression.
  void add_output(Body& body, TileId tile, NodeId first_row, NodeId trusted = {}, TileId second = {});
  bool has_output() const { return output_root_ != attend_; }
  bool has_second_head() const { return program_.info.score_heads == 2; }
  // Makes the other score head the current one, its nodes and tiles.
  void swap_heads();
  TileId add_tile(Tile tile);
  // The keys that row i may see, as a predicate over i and j; past the end included.
  NodeId allowed_keys();
  // Where the keys of this workgroup end.
  NodeId key_limit() { return program_.shares ? scalar("key_limit") : size(Size::skv); }

  ForwardTiles plan_;
  TileProgram program_;
  NodeId value_, mask_root_, output_root_;
  std::map<NodeId, NodeId> fetched_;  // parts of the output expression, and tile elements that hold them
  NodeId is_allowed_;
  TensorId v_tensor_;
  TileClasses classes_;
  bool masked_ = false, has_max_logit_ = false;
  Body before_, per_tile_, data_bounds_;

  bool weights_are_positive() const { return is_softmax() && weight_is_identity_; }
  bool is_softmax() const { return kind_ == NormalizeKind::softmax || kind_ == NormalizeKind::softmax_sink; }

 private:
  void read_graph();
  void read_head(const ScoreHead& head);
  void divide_keys(Body& body);
  void use_data_bounds(const std::string& tensor);
  TileId add_vector(const std::string& name, ValueType type, TileAxis axis);
  NodeId hoist_from(NodeId root, const std::string& prefix);
  void lower_scores(const std::string& suffix);
  void add_score_value(Body& body);
  // In place of the softmax, where weights are scores: no maximum, and the output needs no scaling on the
  // way.
  void add_weights(Body& body, NodeId partial, const Body& between);
  void finish_weights(Body& body);
  NodeId within_keys(NodeId mask);

  NormalizeKind kind_ = NormalizeKind::softmax;
  HeadLowering other_;
  bool in_second_ = false;  // the current head is the second
  Hoister hoister_{program_.expressions};
};

// The schedules.
TileProgram lower_portable(const Graph& graph, const Target& target, const Schedule& schedule,
                           const Around& around);
TileProgram lower_pipelined(const Graph& graph, const Target& target, const Schedule& schedule,
                            const Around& around);

}  // namespace attnfuse
