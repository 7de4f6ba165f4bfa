// block_list(list, query_block, key_block): the blocks of keys that each block of queries selected at run
// time, by number; -1 selects nothing. list[b, h, i // query_block, n], n up to a number known at compile
// time (mixture of block attention, MoBA, 2025; native sparse attention, NSA, 2025; top-k selections of VSA).
// Tiles of scores that lie inside one block of queries visit selected keys alone.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr int kMostSelected = 128;  // each is a comparison in the kernel
constexpr Stage kStages[] = {Stage::mask};
constexpr TensorAxis kAxes[] = {
    {"batch", Size::batch}, {"heads", Size::heads}, {"query_blocks"}, {"selected", {}, true, kMostSelected}};
constexpr Parameter kParameters[] = {
    {.name = "list",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "numbers of the selected blocks, at most 128; -1 for none",
     .axes = kAxes,
     .type = ValueType::i32,
     .least_rank = 2},
    kQueryBlockParameter,
    kKeyBlockParameter,
};

Value expand(const BlockInput& input) {
  const Value b = input.index(Axis::b), h = input.index(Axis::h);
  const Value row = floor_div(input.index(Axis::i), input.arguments.value("query_block"));
  const Value column = floor_div(input.index(Axis::j), input.arguments.value("key_block"));
  Value any = Value::constant(0, ValueType::boolean);
  for (int n = 0; n < input.extent("list", 0); ++n) {
    const Value selected = input.element("list", {b, h, row, n}) == column;
    any = n == 0 ? selected : logical_or(any, selected);
  }
  return any;
}

}  // namespace

constinit const Block kBlockList{
    .name = "block_list",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Blocks of keys that each block of queries selected, by number.",
    .math = "any n: list[b, h, i // query_block, n] == j // key_block",
    .latex = R"(\exists n: L_{b, h, \lfloor i / m \rfloor, n} = \lfloor j / k \rfloor)",
    .source = "MoBA (2025), NSA (2025), VSA (2025)",
    .expand = expand,
};

}  // namespace attnfuse
