// lower_portable: the portable schedule. One workgroup computes block_q rows of one head: it walks the key
// tiles that the mask allows and keeps scores, probabilities and output next to the threads that own the
// rows.
//
//   put q; put k(first); take q
//   for each key tile:            take k | put v | s = q k^T | take v | put k(next) | scores, mask, softmax |
//   o += p v finish: divide by the row sum, store o and lse
//
// One slot each for K and V is enough: every take is a barrier, and the tile that a put refills was last read
// before it. A second score head follows the first within a key tile, on the same V and through the same slot
// for its keys:
//
//   take k | put v | s = q k^T | take v | put k2 | softmax | o += p v |
//   take k2 | s = q2 k2^T | barrier | put k(next) | softmax | o2 += p v
#include "passes/forward_lowering.h"

namespace attnfuse {
namespace {

class PortableLowering : public ForwardLowering {
 public:
  PortableLowering(const Graph& graph, const Target& target, const Schedule& schedule, const Around& around)
      : ForwardLowering(graph, target, schedule, around, plan_forward_tiles(graph.info(), target, schedule)) {
    program_.unit = matrix_unit(target, graph.info().dtype);
  }

  TileProgram run() {
    add_params();
    channels_ = add_head_channels("");
    v_channel_ = add_channel("v", plan_.value, v_tensor_, value_);
    in_second_head([&] { second_channels_ = add_head_channels("2"); });
    Body& body = program_.body;
    add_bounds(body);
    add(body, Put{channels_.query, scalar("q_begin"), size(Size::sq)});
    if (has_second_head()) add(body, Put{second_channels_.query, scalar("q_begin"), size(Size::sq)});
    add_hoisted(body);
    clear_rows(body);
    in_second_head([&] { clear_rows(body); });
    emit_loop();
    emit_epilogue();
    program_.footprint = footprint_of(program_.tiles, program_.threads());
    return std::move(program_);
  }

 private:
  struct HeadChannels {
    ChannelId query, key;
  };

  HeadChannels add_head_channels(const std::string& suffix) {
    return {add_channel("q" + suffix, plan_.query, q_tensor_, query_),
            add_channel("k" + suffix, plan_.key, k_tensor_, key_)};
  }

  // Where there is one.
  template <class Function>
  void in_second_head(Function statements) {
    if (!has_second_head()) return;
    swap_heads();
    statements();
    swap_heads();
  }

  void take_query(Body& body, ChannelId channel) {
    add(body, Take{channel});
    if (plan_.query_operand.valid()) add(body, Move{plan_.query_operand, plan_.query});
  }

  void emit_loop() {
    TileLoop loop{"k_tile", "k_next", scalar("tile_begin"), scalar("tile_end"), {}, {}, {}};
    if (classes_.has_holes) loop.skip = bind_tile(classes_.empty, "k_next");
    const NodeId skv = size(Size::skv);
    add(loop.before, Put{channels_.key, first_key_of("k_next"), skv});
    take_query(loop.before, channels_.query);
    in_second_head([&] { take_query(loop.before, second_channels_.query); });
    Body& body = loop.body;
    add(body, Let{"k_begin", first_key_of("k_tile")});
    add(body, Take{channels_.key});
    add(body, Put{v_channel_, scalar("k_begin"), skv});
    emit_first_product(body);
    NodeId whole =
        op(ScalarOp::ile, {op(ScalarOp::iadd, {scalar("k_begin"), i32(program_.schedule.block_k)}), skv});
    if (masked_) whole = op(ScalarOp::logical_and, {whole, bind_tile(classes_.full, "k_tile")});
    add(body, Let{"full", whole});
    add(body, Take{v_channel_});
    const NodeId partial = op(ScalarOp::logical_not, {g().variable("full", ValueType::boolean)});
    if (masked_) add(body, If{partial, {{Scrub{plan_.value, "has_nonfinite"}}, {Barrier{}}}});
    const Statement next{If{op(ScalarOp::ilt, {scalar("k_next"), scalar("tile_end")}),
                            {{Put{channels_.key, first_key_of("k_next"), skv}}}}};
    if (has_second_head())
      add(body, Put{second_channels_.key, scalar("k_begin"), skv});
    else
      body.push_back(next);
    emit_weights(body, partial, per_tile_);
    in_second_head([&] {
      add(body, Take{second_channels_.key});
      emit_first_product(body);
      add(body, Barrier{});
      body.push_back(next);
      emit_weights(body, partial, {});
    });
    add(program_.body, loop);
  }

  void emit_first_product(Body& body) {
    add(body, Fill{plan_.scores, 0});
    add(body,
        Mma{plan_.scores, plan_.query_operand.valid() ? plan_.query_operand : plan_.query, plan_.key, false});
  }

  // From scores to the second product; `first` is what they need of this tile of keys.
  void emit_weights(Body& body, NodeId partial, const Body& first) {
    if (program_.unit.opaque) {
      add(body, Move{plan_.scores_shared, plan_.scores});
      add(body, Barrier{Scope::warp});
      add(body, Move{plan_.scores_rows, plan_.scores_shared});
    }
    body.insert(body.end(), first.begin(), first.end());
    add_softmax(body, partial);
    scale_output(body);
    emit_second_product(body);
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
      add(body, Map{weights, weight()});
    } else {
      weights = plan_.weights_shared;
      if (!weight_is_identity_) add(body, Map{plan_.scores_rows, weight()});
      add(body, Move{weights, plan_.scores_rows});
      add(body, Barrier{Scope::warp});
    }
    add(body, Mma{plan_.output, weights, plan_.value, true});
  }

  void emit_epilogue() {
    Body& body = program_.body;
    const NodeId q_begin = scalar("q_begin"), sq = size(Size::sq);
    finish_rows(body);
    scale_output(body);
    if (has_output()) {
      const TileId rows = finished_rows(body);
      TileId second;
      in_second_head([&] {
        finish_rows(body);
        scale_output(body);
        second = finished_rows(body);
      });
      add_output(body, rows, q_begin, {}, second);
      add(body, Store{rows, "o", q_begin, sq, {}});
    } else {
      add(body, Store{plan_.output, "o", q_begin, sq, plan_.scores_shared});
    }
    Body rows;
    store_rows(rows, q_begin);
    in_second_head([&] { store_rows(rows, q_begin); });
    if (program_.value_parts() == 1)
      body.insert(body.end(), rows.begin(), rows.end());
    else  // all parts have them
      add(body, If{op(ScalarOp::ieq, {scalar("value_begin"), i32(0)}), rows});
    if (!masked_ || has_output()) return;
    add(body, Barrier{});
    add(body, restore({}));
  }

  // What Scrub removed, to the output or to the rows of the tile `to`.
  Restore restore(TileId to) {
    return {"o",
            "has_nonfinite",
            v_tensor_,
            allowed_keys(),
            first_key_of("tile_begin"),
            scalar("key_end"),
            scalar("q_begin"),
            size(Size::sq),
            {},
            to,
            !weights_are_positive()};
  }

  // The head's output for the output expression.
  TileId finished_rows(Body& body) {
    const TileId rows = output_rows(body);
    if (masked_) {
      add(body, Barrier{});
      add(body, restore(rows));
    }
    return rows;
  }

  // The output where threads can address it.
  TileId output_rows(Body& body) {
    if (!program_.unit.opaque) return plan_.output;
    Tile rows = program_.tile(plan_.output);
    rows.name += "_rows";
    rows.layout = rows_of_threads(program_.target, program_.schedule, rows.cols);
    const TileId id = add_tile(std::move(rows));
    add(body, Move{id, plan_.output, plan_.scores_shared});
    return id;
  }

  HeadChannels channels_, second_channels_;
  ChannelId v_channel_;
};

}  // namespace

TileProgram lower_portable(const Graph& graph, const Target& target, const Schedule& schedule,
                           const Around& around) {
  return PortableLowering(graph, target, schedule, around).run();
}

Result<TileProgram> lower_forward(const Graph& graph, const Target& target, const Schedule& schedule,
                                  const Around& around) {
  return schedule.groups > 0 ? lower_pipelined(graph, target, schedule, around)
                             : lower_portable(graph, target, schedule, around);
}

}  // namespace attnfuse
