// Addresses, rows and columns that are read and written, barriers.
#include <fmt/format.h>

#include <algorithm>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"

namespace attnfuse::conformance {
namespace {

using Schedules = Mutation::Schedules;
using Devices = Mutation::Devices;

bool is_put_of(const TileProgram& program, const Statement& statement, std::string_view channel) {
  const auto* put = std::get_if<Put>(&statement.kind);
  return put != nullptr && program.channel(put->channel).name == channel;
}

bool is_scrub(const Statement& s) { return std::holds_alternative<Scrub>(s.kind); }
bool is_barrier(const Statement& s) {
  const auto* barrier = std::get_if<Barrier>(&s.kind);
  return barrier != nullptr && barrier->scope == Scope::workgroup;
}

// The limit of the rows that stores to an output write moves.
bool move_row_limit(TileProgram& program, std::string_view output, int by) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* store = std::get_if<Store>(&statement.kind); store != nullptr && store->output == output) {
      Graph& graph = program.expressions;
      store->row_limit = graph.apply(ScalarOp::iadd, {store->row_limit, graph.constant(by, ValueType::i32)});
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

// The barrier ahead of a statement of that kind, in the same body.
template <class Kind>
bool erase_barrier_ahead_of(TileProgram& program) {
  bool changed = false;
  const auto clean = [&](Body& body) {
    for (std::size_t n = 0; n + 1 < body.size(); ++n)
      if (is_barrier(body[n]) && std::holds_alternative<Kind>(body[n + 1].kind)) {
        body.erase(body.begin() + std::ptrdiff_t(n));
        changed = true;
      }
  };
  clean(program.body);
  return changed;
}

// ---- the mutations ------------------------------------------------------------------------------

TextEdit heads_interleaved(const TileProgram& program) {
  const int group = program.info.heads / program.info.kv_heads;
  if (group == 1 || program.info.kv_heads == 1 || program.rows) return {};
  return {fmt::format("const int g = h / {};", group),
          fmt::format("const int g = h % {};", program.info.kv_heads)};
}

TextEdit batch_stride_ignored(const TileProgram& program) {
  if (program.rows) return {};
  return {"af_i64(b) * args.k_stride_b + ", ""};
}

TextEdit offsets_of_32_bits(const TileProgram& program) {
  if (program.rows) return {};
  return {"af_i64(g) * args.k_stride_h;", "af_i64(g * int(args.k_stride_h));"};
}

bool key_strides_of_values(TileProgram& program) {
  if (program.rows) return false;
  bool changed = false;
  for (ParamField& field : program.params) {
    if (field.kind != ParamField::Kind::stride || (field.tensor != "k" && field.tensor != "v")) continue;
    field.name = (field.tensor == "k" ? "v" : "k") + field.name.substr(1);
    changed = true;
  }
  return changed;
}

bool captured_strides_swapped(TileProgram& program) {
  std::vector<ParamField*> strides;
  for (ParamField& field : program.params)
    if (field.kind == ParamField::Kind::stride && field.tensor == "t") strides.push_back(&field);
  if (strides.size() < 2 || has_roles(program)) return false;
  std::swap(strides.front()->name, strides.back()->name);
  return true;
}

bool row_past_the_end_written(TileProgram& program) { return move_row_limit(program, "o", 1); }
bool last_row_not_written(TileProgram& program) { return move_row_limit(program, "lse", -1); }

bool columns_past_the_end(TileProgram& program) {
  constexpr int kPadded = 16;
  const int past = program.info.v_head_dim;
  // Where no tile has more columns, nothing asks.
  const bool is_asked = std::ranges::any_of(
      program.tiles, [&](const Tile& tile) { return tile.name == "o" && tile.cols > past; });
  if (program.rows || !is_asked || past % kPadded == 0) return false;
  program.info.v_head_dim += kPadded - past % kPadded;
  return true;
}

bool value_past_the_end_read(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (is_put_of(program, statement, "v")) {
      Graph& graph = program.expressions;
      NodeId& limit = std::get<Put>(statement.kind).row_limit;
      limit = graph.apply(ScalarOp::iadd, {limit, graph.constant(1, ValueType::i32)});
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

// The limit of the rows that are stored is where they start, if no tile is visited.
bool rows_without_keys_unwritten(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* store = std::get_if<Store>(&statement.kind)) {
      Graph& graph = program.expressions;
      const auto scalar = [&](const char* name) { return graph.variable(name, ValueType::i32); };
      const NodeId tiles = graph.apply(ScalarOp::isub, {scalar("tile_end"), scalar("tile_begin")});
      const NodeId rows = graph.constant(program.schedule.block_q, ValueType::i32);
      const NodeId end =
          graph.apply(ScalarOp::iadd, {scalar("q_begin"), graph.apply(ScalarOp::imul, {tiles, rows})});
      store->row_limit = graph.apply(ScalarOp::imin, {store->row_limit, end});
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool values_not_scrubbed(TileProgram& program) { return erase_statements(program.body, is_scrub); }
bool values_not_restored(TileProgram& program) {
  return erase_statements(program.body,
                          [](const Statement& s) { return std::holds_alternative<Restore>(s.kind); });
}

bool infinity_keeps_its_sign(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* restore = std::get_if<Restore>(&statement.kind); restore != nullptr && restore->is_nan) {
      restore->is_nan = false;
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool barrier_missing_after_scrub(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* partial = std::get_if<If>(&statement.kind); partial != nullptr && partial->body.size() == 2 &&
                                                          is_scrub(partial->body[0]) &&
                                                          is_barrier(partial->body[1])) {
      partial->body.pop_back();
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool barrier_missing_before_restore(TileProgram& program) { return erase_barrier_ahead_of<Restore>(program); }

constexpr Mutation kMutations[] = {
    {.name = "heads-interleaved",
     .broken = "kv head = h % kv_heads",
     .family = "groups",
     .text = heads_interleaved,
     .schedules = Schedules::portable},
    {.name = "batch-stride-ignored",
     .broken = "keys of every batch entry are those of the first",
     .family = "layouts",
     .text = batch_stride_ignored,
     .schedules = Schedules::portable},
    {.name = "offsets-of-32-bits",
     .broken = "where a head of keys starts is computed in 32 bits",
     .family = "big_stride",
     .text = offsets_of_32_bits,
     .schedules = Schedules::portable,
     .devices = Devices::watched},
    {.name = "key-strides-of-values",
     .broken = "keys are addressed by the strides of values, and the other way round",
     .family = "layouts",
     .among = "mixed",
     .program = key_strides_of_values,
     .schedules = Schedules::portable,
     .devices = Devices::watched},
    {.name = "captured-strides-swapped",
     .broken = "the first stride of a captured tensor is taken for the last",
     .family = "captured",
     .among = "mixed",
     .program = captured_strides_swapped,
     .schedules = Schedules::portable,
     .devices = Devices::watched},
    {.name = "row-past-the-end-written",
     .broken = "one row of the output is written past its end",
     .family = "shapes",
     .program = row_past_the_end_written,
     .schedules = Schedules::portable},
    {.name = "last-row-not-written",
     .broken = "the last row of the LSE is not written",
     .family = "shapes",
     .program = last_row_not_written},
    {.name = "columns-past-the-end",
     .broken = "head dims are rounded up to what the matrix unit takes",
     .family = "head_dims",
     .program = columns_past_the_end,
     .schedules = Schedules::portable},
    {.name = "value-past-the-end-read",
     .broken = "a value past the end is multiplied by zero",
     .family = "shapes",
     .among = "attention open",
     .program = value_past_the_end_read,
     .schedules = Schedules::portable},
    {.name = "rows-without-keys-unwritten",
     .broken = "tiles of rows that see no tile of keys are not written",
     .family = "empty_row",
     .program = rows_without_keys_unwritten,
     .schedules = Schedules::portable},
    {.name = "values-not-scrubbed",
     .broken = "masked values are multiplied by zero",
     .family = "poison",
     .program = values_not_scrubbed},
    {.name = "values-not-restored",
     .broken = "values that are not finite are lost to the rows that see them",
     .family = "poison",
     .among = "poison_seen",
     .program = values_not_restored},
    {.name = "infinity-keeps-its-sign",
     .broken = "an infinite value seen by a negative weight keeps its sign",
     .family = "normalizers",
     .among = "poison_seen",
     .program = infinity_keeps_its_sign},
    {.name = "barrier-missing-after-scrub",
     .broken = "the product starts before all values are scrubbed",
     .family = "poison",
     .program = barrier_missing_after_scrub,
     .schedules = Schedules::portable,
     .devices = Devices::watched},
    {.name = "barrier-missing-before-restore",
     .broken = "values are given back to rows that are not stored yet",
     .family = "poison",
     .among = "poison_seen",
     .program = barrier_missing_before_restore,
     .schedules = Schedules::portable,
     .devices = Devices::watched},
};

}  // namespace

std::span<const Mutation> memory_mutations() { return kMutations; }

}  // namespace attnfuse::conformance
