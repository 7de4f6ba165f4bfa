#include "frontend/catalog.h"

#include <algorithm>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

// clang-format off: a stage each
constexpr const Block* kCatalog[] = {
    &kRope, &kXpos, &kNorm, &kClip, &kScaleByPosition,
    &kScale, &kSoftcap, &kAlibi, &kRelativeBias, &kDenseBias, &kDecay,
    &kCausal, &kWindow, &kChunk, &kPrefix, &kDocument, &kPacked, &kLength, &kGlobal, &kDilated, &kBlockMask,
    &kBlockList, &kTree, &kTreePath,
    &kSoftmax, &kSoftmaxPlusOne, &kSigmoid, &kRelu, &kSilu, &kRetention, &kNone,
    &kDropout,
    &kDifferential, &kGated, &kInverseRope, &kMaxLogit,
};
// clang-format on

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

Value BlockInput::element(const Arguments& of, std::string_view parameter,
                          std::initializer_list<Value> indices) const {
  const TensorId tensor = of.tensor(parameter);
  const std::vector<Extent> shape = emitter.graph.tensor(tensor).shape;
  ATTNFUSE_CHECK(shape.size() <= indices.size(), "a block has too few indices for a tensor");
  std::vector<NodeId> nodes;
  const Value* index = indices.end() - shape.size();
  for (const Extent& extent : shape) {
    const bool is_one = extent == Extent{std::int64_t(1)};
    nodes.push_back((is_one ? Value(0) : *index).node(emitter));
    ++index;
  }
  return {emitter, emitter.graph.add(Gather{tensor}, nodes, emitter.where)};
}

int BlockInput::extent(std::string_view parameter, std::size_t from_last) const {
  const std::vector<Extent>& shape = emitter.graph.tensor(arguments.tensor(parameter)).shape;
  return int(std::get<std::int64_t>(shape.at(shape.size() - 1 - from_last).value));
}

}  // namespace attnfuse
