#include <algorithm>
#include <utility>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/rotation.h"

namespace attnfuse {
namespace {

// The tile bounds of one head as numbers. What captured tensors hold is not known: numbers read as zero,
// truths as true.
class TileCounter {
 public:
  TileCounter(Graph graph, const Schedule& schedule, const CallSizes& sizes)
      : graph_(std::move(graph)), schedule_(schedule), sizes_(sizes) {
    const NodeId normalize = find<Normalize>(graph_);
    classes_ = classify_tiles(graph_, graph_.operand(normalize, 1));
    bounds_.emplace(graph_, std::vector{classes_.first_key, classes_.end_key});
    empty_.emplace(graph_, std::vector{classes_.empty});
    context_.sizes[std::size_t(Size::batch)] = sizes.batch;
    context_.sizes[std::size_t(Size::sq)] = sizes.sq;
    context_.sizes[std::size_t(Size::skv)] = sizes.skv;
    context_.element = [this](TensorId id, std::span<const std::int64_t>) {
      return graph_.tensor(id).dtype == DType::boolean ? 1.0 : 0.0;
    };
    context_.leaf = [this](NodeId id) -> double {
      const std::string& name = as<Variable>(graph_.node(id))->name;
      if (name == "q_begin") return double(q_begin_);
      if (name == "q_end") return double(std::min(q_begin_ + schedule_.block_q, sizes_.sq));
      if (name == "k_begin") return double(k_begin_);
      return double(std::min(k_begin_ + schedule_.block_k, sizes_.skv));
    };
  }
  TileCounter(const TileCounter&) = delete;
  TileCounter& operator=(const TileCounter&) = delete;

  double count() {
    double visited = 0;
    for (q_begin_ = 0; q_begin_ < sizes_.sq; q_begin_ += schedule_.block_q) {
      (*bounds_)(context_);
      const auto key = [&](std::size_t k) {
        return std::int64_t(std::clamp(bounds_->value(k), 0.0, double(sizes_.skv)));
      };
      const std::int64_t block = schedule_.block_k, first = key(0) / block * block, end = key(1);
      if (!classes_.has_holes) {
        visited += double(std::max<std::int64_t>(0, (end - first + block - 1) / block));
        continue;
      }
      for (k_begin_ = first; k_begin_ < end; k_begin_ += block) visited += (*empty_)(context_) == 0;
    }
    return visited;
  }

 private:
  Graph graph_;
  const Schedule& schedule_;
  const CallSizes& sizes_;
  TileClasses classes_;
  std::optional<Evaluator> bounds_, empty_;
  EvaluateContext context_;
  std::int64_t q_begin_ = 0, k_begin_ = 0;
};

}  // namespace

double visited_tiles(const Graph& graph, const Schedule& schedule, const CallSizes& sizes) {
  return TileCounter(graph, schedule, sizes).count() * double(sizes.batch) * graph.info().heads;
}

}  // namespace attnfuse
