// Programs with roles: slots that go round, products that are waited for, tiles that are repeated.
#include <algorithm>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"

namespace attnfuse::conformance {
namespace {

using Schedules = Mutation::Schedules;
using Devices = Mutation::Devices;

bool is_acquire(const TileProgram& program, const Statement& statement, std::string_view channel,
                std::string_view stage) {
  const auto* acquire = std::get_if<Acquire>(&statement.kind);
  if (acquire == nullptr) return false;
  const Channel& of = program.channel(acquire->channel);
  return of.name == channel && of.stages.at(std::size_t(acquire->stage)).name == stage;
}

// ---- the mutations ------------------------------------------------------------------------------

// The statement also declares the slot, so that it must stay.
TextEdit slot_not_awaited(const TileProgram& program) {
  for (const Statement& statement : program.body)
    if (const auto* roles = std::get_if<Roles>(&statement.kind))
      if (std::ranges::find(roles->roles, "keys", &Role::name) != roles->roles.end())
        return {"af_wait(k_free + k_slot, k_phase ^ 1);", ""};
  return {};
}

bool keys_not_awaited(TileProgram& program) {
  return erase_statements(program.body,
                          [&](const Statement& s) { return is_acquire(program, s, "k", "filled"); });
}

bool product_not_awaited(TileProgram& program) {
  return erase_statements(program.body, [&](const Statement& statement) {
    const auto* wait = std::get_if<MmaWait>(&statement.kind);
    return wait != nullptr && wait->ready.valid() && program.tile(wait->ready).name == "s";
  });
}

bool slot_given_back_too_early(TileProgram& program) {
  bool changed = false;
  const auto hasten = [&](Body& body) {
    const auto taken =
        std::ranges::find_if(body, [&](const Statement& s) { return is_acquire(program, s, "k", "filled"); });
    const auto given = std::find_if(taken, body.end(), [&](const Statement& s) {
      const auto* signal = std::get_if<Signal>(&s.kind);
      return signal != nullptr && program.channel(signal->channel).name == "k";
    });
    if (given == body.end()) return;
    std::rotate(taken + 1, given, given + 1);
    changed = true;
  };
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* loop = std::get_if<While>(&statement.kind)) hasten(loop->body);
    out.push_back(std::move(statement));
  });
  return changed;
}

bool tile_not_doubted(TileProgram& program) {
  return erase_statements(program.body,
                          [](const Statement& s) { return std::holds_alternative<Doubt>(s.kind); });
}

constexpr Mutation kMutations[] = {
    {.name = "slot-not-awaited",
     .broken = "keys are copied into a slot that is still read",
     .family = "repeat",
     .text = slot_not_awaited,
     .schedules = Schedules::roles,
     .devices = Devices::watched},
    {.name = "keys-not-awaited",
     .broken = "a product starts before its keys have come",
     .family = "repeat",
     .program = keys_not_awaited,
     .schedules = Schedules::roles,
     .devices = Devices::watched},
    {.name = "product-not-awaited",
     .broken = "scores are read while the product computes them",
     .family = "repeat",
     .program = product_not_awaited,
     .schedules = Schedules::roles,
     .devices = Devices::watched},
    {.name = "slot-given-back-too-early",
     .broken = "a slot is free again before the product reads it",
     .family = "shares",
     .program = slot_given_back_too_early,
     .schedules = Schedules::roles,
     .devices = Devices::watched},
    {.name = "tile-not-doubted",
     .broken = "rows that a masked value spoiled are not computed again",
     .family = "poison",
     .program = tile_not_doubted,
     .schedules = Schedules::roles},
};

}  // namespace

std::span<const Mutation> role_mutations() { return kMutations; }

std::span<const Mutation> mutations() {
  static const std::vector<Mutation> all = [] {
    std::vector<Mutation> joined;
    for (const auto rows : {row_mutations(), mask_mutations(), value_mutations(), head_mutations(),
                            memory_mutations(), role_mutations()})
      joined.insert(joined.end(), rows.begin(), rows.end());
    return joined;
  }();
  return all;
}

}  // namespace attnfuse::conformance
