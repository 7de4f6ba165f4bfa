// Two score heads: what belongs to which, and what is made of both.
#include <algorithm>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"
#include "ir/algorithm.h"

namespace attnfuse::conformance {
namespace {

using Devices = Mutation::Devices;

bool reads_second_output(const Graph& graph, NodeId root) {
  return std::ranges::any_of(cone(graph, {root}), [&](NodeId id) {
    const auto* variable = as<Variable>(graph.node(id));
    return variable != nullptr && variable->name.starts_with("o2");
  });
}

// ---- the mutations ------------------------------------------------------------------------------

bool second_head_added(TileProgram& program) {
  return replace_in_statements(program, [](Graph& graph, NodeId id) {
    const bool is_difference = is_apply(graph, id, ScalarOp::sub) &&
                               !reads_second_output(graph, graph.operand(id, 0)) &&
                               reads_second_output(graph, graph.operand(id, 1));
    if (!is_difference) return NodeId{};
    return graph.apply(ScalarOp::add, {graph.operand(id, 0), graph.operand(id, 1)});
  });
}

bool second_head_reads_first_keys(TileProgram& program) {
  const auto channel_named = [&](std::string_view name) {
    const auto found = std::ranges::find(program.channels, name, &Channel::name);
    return ChannelId{found == program.channels.end() ? -1 : int(found - program.channels.begin())};
  };
  const ChannelId first = channel_named("k"), second = channel_named("k2");
  bool changed = false;
  const auto redirect = [&](auto* statement) {
    if (statement == nullptr || statement->channel.value != second.value) return;
    statement->channel = first;
    changed = true;
  };
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    redirect(std::get_if<Put>(&statement.kind));
    redirect(std::get_if<Take>(&statement.kind));
    out.push_back(std::move(statement));
  });
  return changed;
}

bool second_lse_is_the_first(TileProgram& program) {
  TileId first;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (const auto* store = std::get_if<Store>(&statement.kind); store != nullptr && store->output == "lse")
      first = store->from;
    out.push_back(std::move(statement));
  });
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* store = std::get_if<Store>(&statement.kind); store != nullptr && store->output == "lse2") {
      store->from = first;
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

// The second head's keys lie where the first's of the next tile go.
bool next_keys_too_early(TileProgram& program) {
  bool changed = false;
  const auto puts_keys = [&](const Statement& statement) {
    const auto* condition = std::get_if<If>(&statement.kind);
    if (condition == nullptr || condition->body.size() != 1) return false;
    const auto* put = std::get_if<Put>(&condition->body.front().kind);
    return put != nullptr && program.channel(put->channel).name == "k";
  };
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* loop = std::get_if<TileLoop>(&statement.kind)) {
      Body& body = loop->body;
      for (std::size_t n = 0; n + 1 < body.size(); ++n)
        if (std::holds_alternative<Barrier>(body[n].kind) && puts_keys(body[n + 1])) {
          body.erase(body.begin() + std::ptrdiff_t(n));
          changed = true;
        }
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

constexpr Mutation kMutations[] = {
    {.name = "second-head-added",
     .broken = "lambda loses its sign: the second head's result is added",
     .family = "differential",
     .program = second_head_added},
    {.name = "second-head-reads-first-keys",
     .broken = "the second head's queries meet the first head's keys",
     .family = "differential",
     .program = second_head_reads_first_keys},
    {.name = "second-lse-is-the-first",
     .broken = "lse2 is the first head's",
     .family = "differential",
     .program = second_lse_is_the_first},
    {.name = "next-keys-too-early",
     .broken = "the first head's next keys are put where the second's are still read",
     .family = "differential",
     .program = next_keys_too_early,
     .devices = Devices::watched},
};

}  // namespace

std::span<const Mutation> head_mutations() { return kMutations; }

}  // namespace attnfuse::conformance
