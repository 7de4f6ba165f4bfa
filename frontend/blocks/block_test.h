// For tests: values of a program's stages at single points, through ir's evaluate.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse {

struct At {
  std::int64_t b = 0, h = 0, g = 0, i = 0, j = 0, d = 0;
  std::int64_t batch = 1, sq = 1, skv = 1;
};

class StageValues {
 public:
  // The lines of a program with 8 query and 4 key/value heads of 16 elements.
  explicit StageValues(const std::string& lines, int heads = 8)
      : StageValues(
            parse_one("attention t { heads " + std::to_string(heads) + " kv_heads " +
                      std::to_string(heads % 4 == 0 ? 4 : 1) + " head_dim 16 dtype f32 " + lines + " }"),
            lines) {}

  // x[d] of the query, key or value row; the score.
  std::vector<double> row = std::vector<double>(16);
  // What the second score head's weights make of the values, by d.
  std::vector<double> second_result = std::vector<double>(16);
  double score = 0;
  // Captured tensors, the last index fastest; what they lack is 0 beyond all.
  std::map<std::string, std::vector<double>> tensors;

  double query(const At& at) { return value(graph_.operand(find<Scores>(graph_), 0), at); }
  double key(const At& at) { return value(graph_.operand(find<Scores>(graph_), 1), at); }
  double scored(const At& at) { return value(graph_.operand(find<Normalize>(graph_), 0), at); }
  bool allowed(const At& at) { return value(graph_.operand(find<Normalize>(graph_), 1), at) != 0; }
  // Of an unnormalized weight `score`; of an output row.
  double weight(const At& at) { return value(graph_.operand(find<Attend>(graph_), 0), at); }
  double output(const At& at) { return value(graph_.operand(graph_.output("o"), 0), at); }
  double sink(const At& at) { return value(graph_.operand(find<Normalize>(graph_), 2), at); }
  const Graph& graph() const { return graph_; }

 private:
  StageValues(const Result<Graph>& graph, const std::string& lines) {
    REQUIRE_MESSAGE(graph, lines << "\n" << render(graph.errors()));
    graph_ = *graph;
  }

  static std::int64_t mate(const Partner& partner, std::int64_t d) {
    if (d >= partner.count) return d;
    if (partner.pairs == RotaryPairs::interleaved) return d % 2 == 0 ? d + 1 : d - 1;
    return (d + partner.count / 2) % partner.count;
  }

  std::size_t extent(const Extent& extent, const EvaluateContext& context) const {
    if (const auto* number = std::get_if<std::int64_t>(&extent.value)) return std::size_t(*number);
    const Size size = std::get<Size>(extent.value);
    return std::size_t(graph_.info().size(size).value_or(int(context.sizes[std::size_t(size)])));
  }

  double value(NodeId root, const At& at) {
    EvaluateContext context;
    const std::int64_t indices[] = {at.b, at.h, at.g, at.i, at.j, at.d};
    std::ranges::copy(indices, context.index);
    context.sizes[std::size_t(Size::batch)] = at.batch;
    context.sizes[std::size_t(Size::sq)] = at.sq;
    context.sizes[std::size_t(Size::skv)] = at.skv;
    context.leaf = [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (as<Scores>(node) || as<Normalize>(node)) return score;
      const bool is_second = as<Attend>(node) && id != find<Attend>(graph_);
      if (is_second) return second_result[std::size_t(at.d)];
      if (as<Input>(node) || as<Attend>(node)) return row[std::size_t(at.d)];
      At other = at;
      if (as<Reduce>(node)) {
        double sum = 0;
        for (other.d = 0; other.d < std::int64_t(row.size()); ++other.d)
          sum += value(graph_.operand(id, 0), other);
        return sum;
      }
      const auto* partner = as<Partner>(node);
      REQUIRE(partner);
      other.d = mate(*partner, at.d);
      return value(graph_.operand(id, 0), other);
    };
    context.element = [&](TensorId id, std::span<const std::int64_t> index) {
      const TensorInfo& info = graph_.tensor(id);
      std::size_t offset = 0;
      for (std::size_t k = 0; k < index.size(); ++k)
        offset = offset * extent(info.shape[k], context) + std::size_t(index[k]);
      return tensors.at(info.name).at(offset);
    };
    return evaluate(graph_, root, context);
  }

  Graph graph_;
};

}  // namespace attnfuse
