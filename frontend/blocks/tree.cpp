// tree(ancestors) and tree_path(parents, depth): drafts of speculative decoding as a tree (Medusa, 2024;
// EAGLE, 2024). The last sq keys are the draft's tokens, in the order of the queries; every query sees all
// keys before them, and of the draft itself and its ancestors. `ancestors` holds the truth for every pair; or
// `parents` holds the number of every token's parent (a root's: -1) and paths are followed up `depth` steps.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr TensorAxis kPairs[] = {{"batch", Size::batch}, {"sq", Size::sq}, {"sq", Size::sq}};
constexpr TensorAxis kTokens[] = {{"batch", Size::batch}, {"sq", Size::sq}};
constexpr Parameter kAncestors[] = {
    {.name = "ancestors",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "whether a token (row) sees a token (column) of the draft",
     .axes = kPairs,
     .type = ValueType::boolean,
     .least_rank = 2},
};
constexpr Parameter kPath[] = {
    {.name = "parents",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "parent of every token of the draft, -1 of a root",
     .axes = kTokens,
     .type = ValueType::i32},
    {.name = "depth",
     .kind = ParameterKind::integer,
     .presence = Presence::required,
     .about = "steps from the deepest token to its root, or more",
     .least = 0,
     .most = 64},
};

Value draft_token(const BlockInput& input) {
  const Value before = input.size(Size::skv) - input.size(Size::sq);
  return input.index(Axis::j) - before;
}

Value expand_table(const BlockInput& input) {
  const Value token = draft_token(input);
  const Value is_before = token < 0;
  const Value sees = input.element("ancestors", {input.index(Axis::b), input.index(Axis::i), token});
  return logical_or(is_before, sees);
}

Value expand_path(const BlockInput& input) {
  const Value b = input.index(Axis::b), token = draft_token(input);
  Value ancestor = input.index(Axis::i);
  Value any = token <= -1;
  for (int step = 0; step <= input.arguments.integer("depth"); ++step) {
    const Value is_ancestor = token == ancestor;
    any = logical_or(any, is_ancestor);
    // A root's parent stays outside the draft.
    const Value parent = input.element("parents", {b, ancestor});
    ancestor = select(ancestor < 0, -1, parent);
  }
  return any;
}

}  // namespace

constinit const Block kTree{
    .name = "tree",
    .stages = kStages,
    .parameters = kAncestors,
    .about = "A draft's tokens see what came before it, themselves and their ancestors, by a table.",
    .math = "t < 0 || ancestors[b, i, t], t = j - (skv - sq)",
    .latex = "t < 0 \\lor A_{b, i, t}, \\quad t = j - (S_{kv} - S_q)",
    .source = "Medusa (2024), EAGLE (2024)",
    .expand = expand_table,
};

constinit const Block kTreePath{
    .name = "tree_path",
    .stages = kStages,
    .parameters = kPath,
    .about = "A draft's tokens see what came before it, themselves and their ancestors, by parents.",
    .math = "t < 0 || t is i, its parent, ... (up to depth steps), t = j - (skv - sq)",
    .latex = R"(t < 0 \lor t \in \{ i, \pi(i), \pi(\pi(i)), \ldots \}, \quad t = j - (S_{kv} - S_q))",
    .source = "Medusa (2024), EAGLE (2024)",
    .expand = expand_path,
};

}  // namespace attnfuse
