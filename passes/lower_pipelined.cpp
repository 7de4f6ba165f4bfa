// lower_pipelined: the schedule for machines with a copy engine and matrix products that run beside other
// work. A workgroup stays and takes query tiles, the longest first. Its threads have roles:
//
//   keys, values   copy the tiles that the mask allows, last first; one loader does both where something is
//                  transformed, each key tile before the value tile of the step before
//   scheduler      hands out query tiles and loads their queries, as many ahead as there are slots
//   transform      in place of the scheduler's load when queries are transformed, and nothing else is
//   storer         writes an output tile from the slot of its query, and frees the slot
//   consumer       groups of 64 rows: scores, softmax, output
//
// Values that a row may not see have weight 0, which does not undo a NaN or an infinity. Masked programs look
// for the trace that these leave in an output tile, rather than at every value tile: a tile in doubt is
// computed again, carefully. Then the values that the mask cuts are zeroed where they are not finite, and the
// storer gives them back to the rows that may see them.
//
// A consumer issues the scores of one key tile, then the output product of the tile before, and computes the
// softmax of the first while the second runs. Groups take turns in issuing, so that one's softmax runs beside
// the other's products. The first tile is the one that the mask cuts in causal programs: tiles that are cut
// and tiles that are whole have a loop each.
#include <algorithm>
#include <limits>

#include "ir/algorithm.h"
#include "passes/columns.h"
#include "passes/forward_lowering.h"
#include "passes/parameters.h"
#include "passes/pipelined_tiles.h"

namespace attnfuse {
namespace {

constexpr int kWorkSlots = 4;
constexpr int kWarp = 32;  // threads that signal together

// Stages of the channels.
constexpr int kFilled = 0, kClean = 1;  // values are cleaned in masked programs
enum QueryStage : std::uint8_t { kQueryFilled, kQueryWritten, kQueryFree };

class PipelinedLowering : public ForwardLowering {
 public:
  PipelinedLowering(const Graph& graph, const Target& target, const Schedule& schedule, const Around& around)
      : ForwardLowering(graph, target, schedule, around,
                        plan_pipelined_tiles(graph.info(), target, schedule)) {
    program_.unit = target.pipeline->product;
    group_threads_ = target.pipeline->group_threads;
    // The output waits for the scaling of the step before where registers are short; see issue_output.
    scales_late_ = program_.info.v_head_dim > 128;
  }

  TileProgram run() {
    split_preset();
    add_channels();
    add_arguments();
    Roles roles;
    for (const Place& place : places_) roles.roles.push_back(producer(place));
    const int producers = program_.threads() - group_threads_ * groups();
    Role consumers{
        "consumer", producers, group_threads_ * groups(), groups(), program_.schedule.consumer_registers,
        consumer()};
    roles.roles.push_back(std::move(consumers));
    add(program_.body, std::move(roles));
    program_.footprint = pipelined_footprint(program_.info, program_.target, program_.schedule);
    return std::move(program_);
  }

 private:
  int groups() const { return program_.schedule.groups; }
  // A row may not see all values of a tile: the mask cuts them, or the rows past the end are another
  // sequence's, or of a page that is not full.
  bool cuts_values() const { return masked_ || !program_.info.storage.is_plain(); }
  bool is_ragged() const { return program_.info.storage.ragged; }
  // Queries are transformed by threads that do nothing else.
  bool transforms_beside() const { return program_.schedule.transform_registers > 0; }
  int consumer_warps() const { return groups() * group_threads_ / kWarp; }
  // Signals that a role's hand-over takes: one a warp, or one of a single thread.
  static int signals(int threads) { return (threads + kWarp - 1) / kWarp; }

  enum class Job : std::uint8_t { loader, keys, values, scheduler, storer, transform };
  struct Place {
    Job job;
    int first_thread, threads;
  };

  // Who works where among the producer threads, a warp each: one thread that waits would keep the others of
  // its warp waiting.
  void place_producers() {
    int warp = 0;
    const auto place = [&](Job job, int threads) {
      places_.push_back({job, kWarp * warp, threads});
      warp += (threads + kWarp - 1) / kWarp;
    };
    const int careful = cuts_values() ? kWarp : 1;
    place(loads_by_warp_ ? Job::loader : Job::keys, loads_by_warp_ ? kWarp : 1);
    place(Job::storer, careful);
    if (!loads_by_warp_) place(Job::values, careful);
    place(Job::scheduler, 1);
    if (transforms_beside()) places_.push_back({Job::transform, group_threads_, group_threads_});
  }

  Role producer(const Place& place) {
    const int budget = place.job == Job::transform ? program_.schedule.transform_registers
                                                   : program_.schedule.producer_registers;
    const auto role = [&](const char* name, Body body) {
      return Role{name, place.first_thread, place.threads, 1, budget, std::move(body)};
    };
    switch (place.job) {
      case Job::loader:
        return role("loader", loader());
      case Job::keys:
        return role("keys", keys());
      case Job::values:
        return role("values", values());
      case Job::scheduler:
        return role("scheduler", scheduler());
      case Job::storer:
        return role("storer", storer());
      case Job::transform:
        return role("transform", transform());
    }
    ATTNFUSE_CHECK(false, "a producer without a job");
  }

  int threads_of(Job job) const {
    int count = 0;
    for (const Place& place : places_)
      if (place.job == job) count += place.threads;
    return count;
  }

  // score = c x + bias, or - bias, with a bias that does not read x: the product starts from bias / c, which
  // costs nothing beside it, while an addition after it would delay the softmax.
  void split_preset() {
    const auto* apply = as<Apply>(g().node(score_value_));
    if (apply == nullptr || (apply->op != ScalarOp::add && apply->op != ScalarOp::sub)) return;
    const bool negative = apply->op == ScalarOp::sub;
    for (int side : {0, 1}) {
      if (negative && side == 1) return;
      NodeId bias = g().operand(score_value_, 1 - side);
      const Peeled product = peel_factor(g(), g().operand(score_value_, side));
      if (!is_score(product.rest) || reads_score(bias) || (product.factor != 1 && !is_softmax())) continue;
      bias = split_positions(g(), bias);
      if (negative || product.factor != 1)
        bias = op(ScalarOp::mul, {bias, f32((negative ? -1 : 1) / product.factor)});
      // The most negative number stands for minus infinity in some masks, and must not become it.
      if (product.factor < 1 && reads_keys(bias))
        bias = op(ScalarOp::max, {bias, f32(std::numeric_limits<float>::lowest())});
      factor_ *= product.factor;
      preset_ = bias;
      score_is_identity_ = true;
      return;
    }
  }

  // A tensor's elements that differ from key to key.
  bool reads_keys(NodeId root) {
    for (NodeId id : cone(g(), {root}))
      if (as<Gather>(g().node(id)) != nullptr && g().node(id).axes.has(Axis::j)) return true;
    for (const Statement& statement : per_tile_)
      if (const auto* map = std::get_if<Map>(&statement.kind))
        for (NodeId id : cone(g(), {map->value}))
          if (as<Gather>(g().node(id)) != nullptr) return true;
    return false;
  }

  bool is_score(NodeId id) {
    const auto* variable = as<Variable>(g().node(id));
    return variable != nullptr && variable->name == program_.tile(plan_.scores_rows).name;
  }
  bool reads_score(NodeId root) {
    for (NodeId id : cone(g(), {root}))
      if (is_score(id)) return true;
    return false;
  }

  // -- channels and arguments -------------------------------------------------------------------

  bool is_transformed(NodeId value) { return as<Input>(g().node(value)) == nullptr; }

  void add_channels() {
    transforms_query_ = is_transformed(query_);
    loads_by_warp_ =
        (transforms_query_ && !transforms_beside()) || is_transformed(key_) || is_transformed(value_);
    place_producers();
    const int consumers = consumer_warps();
    const Schedule& schedule = program_.schedule;
    q_ = query_channel(consumers);
    k_ = channel("k", plan_.key, k_tensor_, key_, schedule.kv_slots, {{"filled", 1}, {"free", consumers}});
    std::vector<ChannelStage> value_stages = {{"filled", 1}, {"free", consumers}};
    if (cuts_values()) value_stages.insert(value_stages.begin() + 1, {"clean", 1});
    v_ = channel("v", plan_.value, v_tensor_, value_, schedule.kv_slots, value_stages);
    value_free_ = int(value_stages.size()) - 1;
    Channel work{"work", {}, {}, {}, CopyKind::direct};
    work.slots = kWorkSlots;
    int readers = consumers;
    for (const Place& place : places_)
      if (place.job != Job::scheduler) readers += signals(place.threads);
    work.stages = {{"posted", 1}, {"free", readers}};
    program_.channels.push_back(work);
    work_ = {int(program_.channels.size()) - 1};
  }

  ChannelId channel(const char* name, TileId tile, TensorId source, NodeId value, int slots,
                    std::vector<ChannelStage> stages) {
    const ChannelId id = add_channel(name, tile, source, value);
    Channel& channel = program_.channels.back();
    if (channel.kind != CopyKind::direct || !channel.transform.valid()) channel.kind = CopyKind::bulk;
    channel.slots = slots;
    channel.stages = std::move(stages);
    return id;
  }

  // Threads that transform find the rows in their slot where no column needs all of its row, else they fetch
  // them.
  ChannelId query_channel(int consumers) {
    const Job filler = transforms_beside() ? Job::transform : Job::loader;
    std::vector<ChannelStage> stages = {
        {"filled", transforms_query_ ? threads_of(filler) : 1}, {"written", consumers}, {"free", 1}};
    std::vector<ColumnGroup> columns = transforms_beside() ? query_columns() : std::vector<ColumnGroup>{};
    if (!columns.empty()) stages.insert(stages.begin(), {"loaded", 1});
    query_loaded_ = columns.empty() ? 0 : 1;
    const ChannelId id = channel("q", plan_.query, q_tensor_, query_, program_.schedule.query_slots, stages);
    if (!columns.empty()) program_.channels.back().kind = CopyKind::bulk;
    program_.channels.back().columns = std::move(columns);
    return id;
  }
  std::vector<ColumnGroup> query_columns() {
    return slot_columns(g(), query_, program_.info.head_dim, group_threads_);
  }
  int query_stage(QueryStage stage) const { return query_loaded_ + stage; }

  void add_arguments() {
    for (ChannelId id : {q_, k_, v_})
      if (program_.channel(id).kind == CopyKind::bulk)
        add_map(g().tensor(program_.channel(id).source).name, program_.channel(id).tile);
    add_map("o", plan_.scores_shared);
    add_params();
    ParamField counter{ParamField::Kind::counter, "counter", "", 0, Size::sq, 0};
    add_field(program_, counter);
    program_.param_bytes = (program_.param_bytes + 63) / 64 * 64;
  }

  void add_map(const std::string& tensor, TileId id) {
    const Tile& tile = program_.tile(id);
    ParamField field{ParamField::Kind::tensor_map, tensor + "_map", tensor, 0, Size::sq, 0};
    field.box_rows = tile.rows;
    if (const auto page_size = program_.info.storage.page_size;
        page_size && tensor != "o" && !is_query(tensor))
      field.box_rows = std::min(field.box_rows, *page_size);
    field.box_columns = kSwizzleBytes / size_in_bytes(tile.type);
    add_field(program_, field);
  }

  bool is_query(const std::string& tensor) { return tensor == g().tensor(q_tensor_).name; }

  // -- walking the key tiles --------------------------------------------------------------------

  NodeId lower_by(const std::string& name, double step) {
    return op(ScalarOp::isub, {scalar(name), i32(step)});
  }
  NodeId at_least(const std::string& name, NodeId bound) { return op(ScalarOp::ige, {scalar(name), bound}); }

  // k_tile is the first tile to visit: the last one. There is always one, if need be one without allowed key.
  void start_walk(Body& body) {
    add_bounds(body);
    add(body, Let{"k_tile", op(ScalarOp::imax, {lower_by("tile_end", 1), scalar("tile_begin")}), true});
    skip_empty(body, ScalarOp::igt);
  }
  // k_tile is the next one, below tile_begin after the last.
  void next_tile(Body& body) {
    add(body, Assign{"k_tile", lower_by("k_tile", 1)});
    skip_empty(body, ScalarOp::ige);
  }
  void skip_empty(Body& body, ScalarOp compare) {
    if (!classes_.has_holes) return;
    const NodeId more = op(compare, {scalar("k_tile"), scalar("tile_begin")});
    add(body, While{op(ScalarOp::logical_and, {more, bind_tile(classes_.empty, "k_tile")}),
                    {{Assign{"k_tile", lower_by("k_tile", 1)}}}});
  }
  NodeId has_tile() { return at_least("k_tile", scalar("tile_begin")); }

  // Every element of the tile may be seen by rows [first, end).
  NodeId is_full(const std::string& tile, const char* first, const char* end) {
    NodeId whole =
        op(ScalarOp::ile,
           {op(ScalarOp::iadd, {first_key_of(tile), i32(program_.schedule.block_k)}), key_limit()});
    if (!masked_) return whole;
    const NodeId full =
        bind(bind_tile(classes_.full, tile), {{"q_begin", scalar(first)}, {"q_end", scalar(end)}});
    return op(ScalarOp::logical_and, {whole, full});
  }
  NodeId negated(NodeId condition) { return op(ScalarOp::logical_not, {condition}); }

  // -- producers --------------------------------------------------------------------------------

  Body items(WorkItems::Part part, Body body) {
    Body result;
    add(result, WorkItems{work_, part, cuts_values(), std::move(body)});
    return result;
  }
  NodeId careful() { return g().variable("careful", ValueType::boolean); }

  void fill(Body& body, ChannelId id, NodeId first_row, NodeId limit, int free_stage,
            bool each_thread = false) {
    add(body, Acquire{id, free_stage});
    add(body, Put{id, first_row, limit});
    if (program_.channel(id).kind != CopyKind::bulk) add(body, Signal{id, kFilled, true, each_thread});
    add(body, Advance{id});
  }

  // Elements that threads store are read again by other threads, the storer: a thread answers for its own.
  void fill_queries(Body& body) {
    fill(body, q_, scalar("q_begin"), size(Size::sq), query_stage(kQueryFree), true);
  }
  void fill_keys(Body& body) { fill(body, k_, first_key_of("k_tile"), size(Size::skv), 1); }

  // The values of `tile`; in a careful run without what is not finite, if some row may not see all of them.
  void fill_values(Body& body, const std::string& tile) {
    if (!cuts_values()) return fill(body, v_, first_key_of(tile), size(Size::skv), value_free_);
    add(body, Acquire{v_, value_free_});
    add(body, Put{v_, first_key_of(tile), size(Size::skv)});
    if (program_.channel(v_).kind != CopyKind::bulk) add(body, Signal{v_, kFilled, true});
    Body when_careful;  // consumers wait for this role then, which waits for the copy
    add(when_careful, Acquire{v_, kFilled});
    add(when_careful,
        If{negated(is_full(tile, "q_begin", "q_end")), {{Scrub{plan_.value, "has_nonfinite"}}}});
    add(body, If{careful(), std::move(when_careful)});
    add(body, Signal{v_, kClean});
    add(body, Advance{v_});
  }

  // `visit` for every tile of the walk.
  Body walk(Body visit) {
    Body body;
    start_walk(body);
    next_tile(visit);
    add(body, While{has_tile(), std::move(visit)});
    return body;
  }

  Body keys() {
    Body visit;
    fill_keys(visit);
    return items(WorkItems::Part::takes, walk(std::move(visit)));
  }

  Body values() {
    Body visit;
    fill_values(visit, "k_tile");
    return items(WorkItems::Part::takes, walk(std::move(visit)));
  }

  Body loader() {
    Body body;
    start_walk(body);
    if (transforms_query_ && loads_by_warp_) fill_queries(body);
    fill_keys(body);
    add(body, Let{"v_tile", scalar("k_tile"), true});
    next_tile(body);
    Body step;
    fill_keys(step);
    fill_values(step, "v_tile");
    add(step, Assign{"v_tile", scalar("k_tile")});
    next_tile(step);
    add(body, While{has_tile(), std::move(step)});
    fill_values(body, "v_tile");
    return items(WorkItems::Part::takes, std::move(body));
  }

  Body scheduler() {
    Body body;
    if (!transforms_query_ || query_loaded_ > 0) fill_queries(body);
    return items(WorkItems::Part::hands_out, std::move(body));
  }

  Body transform() {
    Body body;
    if (query_loaded_ == 0) {
      fill_queries(body);
    } else {
      add(body, Acquire{q_, 0});
      add(body, MapSlot{q_, scalar("q_begin")});
      add(body, Signal{q_, query_stage(kQueryFilled), true, true});
      add(body, Advance{q_});
    }
    return items(WorkItems::Part::takes, std::move(body));
  }

  Body storer() {
    Body body;
    add(body, Acquire{q_, query_stage(kQueryWritten)});
    if (cuts_values()) add(body, Doubt{work_, plan_.scores_shared});
    if (cuts_values() && !has_output()) add(body, If{careful(), restore()});
    add(body, BulkStore{q_, "o", scalar("q_begin"), cuts_values() ? work_ : ChannelId{},
                        is_ragged() ? size(Size::sq) : NodeId{}});
    add(body, Signal{q_, query_stage(kQueryFree)});
    add(body, Advance{q_});
    Body result = items(WorkItems::Part::finishes, std::move(body));
    add(result, BulkDrain{});
    return result;
  }

  // Of the tiles that were cleaned.
  Body restore() {
    Body visit, cut;
    const NodeId begin = first_key_of("k_tile");
    const NodeId end =
        op(ScalarOp::imin, {op(ScalarOp::iadd, {begin, i32(program_.schedule.block_k)}), scalar("key_end")});
    add(cut, Restore{"o",
                     "has_nonfinite",
                     v_tensor_,
                     mask_root_,
                     begin,
                     end,
                     scalar("q_begin"),
                     size(Size::sq),
                     plan_.scores_shared,
                     {},
                     !weights_are_positive()});
    add(visit, If{negated(is_full("k_tile", "q_begin", "q_end")), std::move(cut)});
    return walk(std::move(visit));
  }

  // -- consumers --------------------------------------------------------------------------------

  void issue_scores(Body& body) {
    if (preset_.valid()) {
      body.insert(body.end(), per_tile_.begin(), per_tile_.end());
      add(body, Map{plan_.scores, preset_});
    }
    add(body, Acquire{k_, kFilled});
    if (takes_turns_) add(body, Turn{false});
    add(body, Mma{plan_.scores, plan_.query, plan_.key, false, true, !preset_.valid()});
  }
  void acquire_values(Body& body) { add(body, Acquire{v_, kFilled, cuts_values() ? kClean : -1}); }
  void issue_output(Body& body) {
    if (scales_late_) add(body, ScaleRows{plan_.output, plan_.row_factor});
    acquire_values(body);
    const TileId weights = first_weights_.valid() ? first_weights_ : plan_.weights;
    add(body, Mma{plan_.output, weights, plan_.value, true, true, false});
  }
  void release(Body& body, ChannelId id, int stage) {
    add(body, Signal{id, stage});
    add(body, Advance{id});
  }
  void softmax(Body& body, NodeId partial, int quarters = 4, Body between = {}) {
    if (!preset_.valid()) body.insert(body.end(), per_tile_.begin(), per_tile_.end());
    add_softmax(body, partial, quarters, std::move(between));
  }
  void to_weights(Body& body) { add(body, Map{plan_.weights, weight()}); }

  // Scores of k_tile beside the output product of the tile before.
  Body step(bool cut) {
    Body body;
    add(body, Let{"k_begin", first_key_of("k_tile")});
    takes_turns_ = program_.schedule.take_turns;
    issue_scores(body);
    issue_output(body);
    if (takes_turns_) add(body, Turn{true});
    add(body, MmaWait{1, plan_.scores});
    release(body, k_, 1);
    const int first = program_.schedule.exponentials_first;
    Body output_is_there;
    add(output_is_there,
        MmaWait{0, plan_.output, first > 0 ? plan_.scores_rows : plan_.row_factor, first > 0 ? first : 4});
    release(output_is_there, v_, value_free_);
    softmax(body, cut ? g().constant(1, ValueType::boolean) : NodeId{}, first, std::move(output_is_there));
    to_weights(body);
    if (!scales_late_) add(body, ScaleRows{plan_.output, plan_.row_factor});
    next_tile(body);
    return body;
  }

  void first_tile(Body& body) {
    add(body, Let{"k_begin", first_key_of("k_tile")});
    takes_turns_ = false;
    issue_scores(body);
    clear_rows(body);
    add(body, MmaWait{0, plan_.scores});
    release(body, k_, 1);
    softmax(body, negated(is_full("k_tile", "group_begin", "group_end")));
    to_weights(body);
    next_tile(body);
  }

  // The first tile, of which the first group sees at most half where the mask follows the diagonal: products
  // of half the keys, and of half the values beside the next tile, which is whole or does not exist.
  void first_tiles(Body& body) {
    if (!program_.schedule.trims || !passes_tiles() || !score_is_identity_ || !weight_is_identity_ ||
        preset_.valid() || !per_tile_.empty())
      return first_tile(body);
    const int half_tile = program_.schedule.block_k / 2;
    const NodeId half_end = op(ScalarOp::iadd, {first_key_of("k_tile"), i32(half_tile)});
    add(body, Let{"next_tile", lower_by("k_tile", 1)});
    const NodeId next_is_full =
        op(ScalarOp::logical_or, {op(ScalarOp::ilt, {scalar("next_tile"), scalar("tile_begin")}),
                                  is_full("next_tile", "group_begin", "group_end")});
    const NodeId trims = op(
        ScalarOp::logical_and,
        {op(ScalarOp::ieq, {scalar("group"), i32(0)}),
         op(ScalarOp::logical_and, {op(ScalarOp::ile, {scalar("group_key_end"), half_end}), next_is_full})});
    const NodeId trimmed = g().variable("trimmed", ValueType::boolean);
    add(body, Let{"trimmed", trims});
    Body half, whole, alone;
    const ForwardTiles all = plan_;
    plan_.scores = plan_.scores_rows = plan_.scores_half;
    plan_.weights = plan_.weights_half;
    first_tile(half);
    plan_ = all;
    add(alone, Map{plan_.weights, tile_element(plan_.scores_half), {0, 2}});
    add(alone, Map{plan_.weights, f32(0), {2, 4}});
    add(half, If{negated(has_tile()), std::move(alone)});
    first_weights_ = plan_.weights_half;
    add(half, If{has_tile(), step(false)});
    first_weights_ = {};
    add(body, If{trimmed, std::move(half)});
    first_tile(whole);
    add(body, If{negated(trimmed), std::move(whole)});
  }

  bool passes_tiles() const { return masked_ && groups() > 1 && !classes_.has_holes; }
  // Tiles that no row of this group sees, though others of the workgroup do.
  void pass_tiles(Body& body) {
    if (!passes_tiles()) return;
    Body pass;
    add(pass, Acquire{k_, kFilled});
    release(pass, k_, 1);
    if (program_.schedule.take_turns) {
      add(pass, Turn{false});
      add(pass, Turn{true});
    }
    acquire_values(pass);
    release(pass, v_, value_free_);
    add(pass, Assign{"k_tile", lower_by("k_tile", 1)});
    const NodeId unseen = op(ScalarOp::ige, {first_key_of("k_tile"), scalar("group_key_end")});
    add(body, Let{"group_key_end", bind(classes_.end_key, {{"q_begin", scalar("group_begin")},
                                                           {"q_end", scalar("group_end")}})});
    add(body, While{op(ScalarOp::logical_and,
                       {op(ScalarOp::igt, {scalar("k_tile"), scalar("tile_begin")}), unseen}),
                    std::move(pass)});
  }

  Body consumer() {
    Body body;
    start_walk(body);
    const double rows = group_rows(program_.target);
    add(body, Let{"group_begin",
                  groups() == 1 ? scalar("q_begin")
                                : op(ScalarOp::iadd,
                                     {scalar("q_begin"), op(ScalarOp::imul, {scalar("group"), i32(rows)})})});
    add(body, Let{"group_end", op(ScalarOp::imin,
                                  {op(ScalarOp::iadd, {scalar("group_begin"), i32(rows)}), size(Size::sq)})});
    pass_tiles(body);
    add_hoisted(body);
    add(body, Acquire{q_, query_stage(kQueryFilled)});
    first_tiles(body);
    Body loops;
    const NodeId full = is_full("k_tile", "group_begin", "group_end");
    if (masked_) add(loops, While{op(ScalarOp::logical_and, {has_tile(), negated(full)}), step(true)});
    add(loops, While{masked_ ? op(ScalarOp::logical_and, {has_tile(), full}) : has_tile(), step(false)});
    if (masked_)
      add(body, While{has_tile(), std::move(loops)});
    else
      body.insert(body.end(), loops.begin(), loops.end());
    finish(body);
    return items(WorkItems::Part::takes, std::move(body));
  }

  // The last output product; sums and logsumexp beside it.
  void finish(Body& body) {
    issue_output(body);
    finish_rows(body);
    if (has_output()) fetch_for_output(body, plan_.output);
    add(body, MmaWait{0, plan_.output, plan_.row_sum});
    release(body, v_, value_free_);
    add(body, ScaleRows{plan_.output, plan_.row_factor});
    if (has_output() && cuts_values()) add(body, If{careful(), restore_rows()});
    add_output(body, plan_.output, scalar("group_begin"), cuts_values() ? careful() : NodeId{});
    add(body, Move{plan_.scores_shared, plan_.output});
    add(body, Signal{q_, query_stage(kQueryWritten), true});
    add(body, Advance{q_});
    // Last: the signal waits for stores before it.
    store_rows(body, scalar("group_begin"));
  }

  // What the storer does for programs without an output expression, ahead of it: of the tiles that were
  // cleaned.
  Body restore_rows() {
    const NodeId begin =
        op(ScalarOp::imul, {op(ScalarOp::idiv, {g().index(Axis::j), i32(program_.schedule.block_k)}),
                            i32(program_.schedule.block_k)});
    const NodeId end = op(ScalarOp::iadd, {begin, i32(program_.schedule.block_k)});
    NodeId is_full = op(ScalarOp::ile, {end, size(Size::skv)});
    if (masked_)
      is_full =
          op(ScalarOp::logical_and, {is_full, bind(classes_.full, {{"k_begin", begin}, {"k_end", end}})});
    Body body;
    add(body, Restore{"o", "", v_tensor_, op(ScalarOp::logical_and, {mask_root_, negated(is_full)}),
                      first_key_of("tile_begin"), scalar("key_end"), scalar("group_begin"),
                      scalar("group_end"), plan_.scores_shared, plan_.output, !weights_are_positive()});
    return body;
  }

  std::vector<Place> places_;
  ChannelId q_, k_, v_, work_;
  NodeId preset_;
  TileId first_weights_;  // of the output product of the first tile, where they are half a tile
  int group_threads_ = 0, value_free_ = 1;
  int query_loaded_ = 0;  // stages before the transform of queries
  bool transforms_query_ = false, loads_by_warp_ = false;
  bool scales_late_ = false, takes_turns_ = false;
};

}  // namespace

TileProgram lower_pipelined(const Graph& graph, const Target& target, const Schedule& schedule,
                            const Around& around) {
  return PipelinedLowering(graph, target, schedule, around).run();
}

}  // namespace attnfuse
