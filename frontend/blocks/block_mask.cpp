// block_mask(table, query_block, key_block): blocks of keys that blocks of queries see, one truth value each:
// table[b, h, i // query_block, j // key_block] (block-sparse attention; sliding tiles). Tiles of scores that
// lie inside one block are not visited where it is false.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr TensorAxis kAxes[] = {
    {"batch", Size::batch}, {"heads", Size::heads}, {"query_blocks"}, {"key_blocks"}};
constexpr Parameter kParameters[] = {
    {.name = "table",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "whether queries of a block see keys of a block",
     .axes = kAxes,
     .type = ValueType::boolean,
     .least_rank = 2},
    kQueryBlockParameter,
    kKeyBlockParameter,
};

Value expand(const BlockInput& input) {
  const Value row = floor_div(input.index(Axis::i), input.arguments.value("query_block"));
  const Value column = floor_div(input.index(Axis::j), input.arguments.value("key_block"));
  return input.element("table", {input.index(Axis::b), input.index(Axis::h), row, column});
}

}  // namespace

constinit const Block kBlockMask{
    .name = "block_mask",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Blocks of keys that each block of queries sees, by a table of truth values.",
    .math = "table[b, h, i // query_block, j // key_block]",
    .latex = R"(T_{b, h, \lfloor i / m \rfloor, \lfloor j / n \rfloor})",
    .source = "block-sparse attention; sliding tile attention (2025)",
    .expand = expand,
};

}  // namespace attnfuse
