#include "frontend/catalog.h"

#include <algorithm>

#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr const Block* kCatalog[] = {&kRope, &kScale, &kSoftcap, &kAlibi, &kCausal, &kWindow, &kSoftmax};

}  // namespace

std::span<const Block* const> catalog() { return kCatalog; }

const Block* find_block(std::string_view name) {
  for (const Block* block : kCatalog)
    if (block->name == name) return block;
  return nullptr;
}

bool stands_in(const Block& block, Stage stage) {
  return std::ranges::find(block.stages, stage) != block.stages.end();
}

Value BlockInput::index(Axis axis) const {
  return {emitter, emitter.graph.add(Index{axis}, {}, emitter.where)};
}

Value BlockInput::size(Size size) const {
  if (const auto fixed = emitter.graph.info().size(size)) return *fixed;
  return {emitter, emitter.graph.add(SizeOf{size}, {}, emitter.where)};
}

Value BlockInput::query_position() const {
  const Value i = index(Axis::i);
  const Value keys = size(Size::skv), queries = size(Size::sq);
  return i + (keys - queries);
}

}  // namespace attnfuse
