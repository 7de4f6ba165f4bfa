#include "conformance/error_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attnfuse::conformance {
namespace {

// The greatest of `at(row, column)` in each block.
template <class At>
ErrorMap blocks(std::string title, std::int64_t rows, std::int64_t columns, At at) {
  ErrorMap map{std::move(title), rows, columns, 0, 0, {}};
  const std::int64_t down = (rows + ErrorMap::kMost - 1) / ErrorMap::kMost;
  const std::int64_t across = (columns + ErrorMap::kMost - 1) / ErrorMap::kMost;
  map.height = (rows + down - 1) / down;
  map.width = (columns + across - 1) / across;
  map.worst.assign(std::size_t(map.height * map.width), 0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      double& worst = map.worst[std::size_t(row / down * map.width + column / across)];
      worst = std::max(worst, at(row, column));
    }
  return map;
}

// Maps of an output [b, h, i, dim]; dim is 1 where it has none.
void add_maps(std::vector<ErrorMap>& maps, const std::string& name, const std::vector<double>& ratios,
              std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  const auto worst = std::ranges::max_element(ratios);
  if (worst == ratios.end() || *worst <= 1) return;
  const std::int64_t at = worst - ratios.begin(), head = at / (rows * dim), b = head / heads;
  const auto ratio = [&](std::int64_t h, std::int64_t i, std::int64_t d) {
    return ratios[std::size_t((h * rows + i) * dim + d)];
  };
  if (dim > 1)
    maps.push_back(blocks(fmt::format("{}[{},{}]: rows x columns", name, b, head % heads), rows, dim,
                          [&](std::int64_t i, std::int64_t d) { return ratio(head, i, d); }));
  maps.push_back(
      blocks(fmt::format("{}[{}]: rows x heads", name, b), rows, heads, [&](std::int64_t i, std::int64_t h) {
        double most = 0;
        for (std::int64_t d = 0; d < dim; ++d) most = std::max(most, ratio(b * heads + h, i, d));
        return most;
      }));
}

}  // namespace

std::vector<ErrorMap> error_maps(const Graph& graph, const Expectation& expectation,
                                 const OutputValues& outputs) {
  const ProgramInfo& info = graph.info();
  const std::int64_t rows = expectation.exact.sizes.sq;
  const ReferenceOutputs &exact = expectation.exact, &naive = expectation.naive;
  std::vector<ErrorMap> maps;
  add_maps(maps, "o", error_ratios(outputs.o, exact.o, naive.o, expectation.o_model), info.heads, rows,
           info.v_head_dim);
  add_maps(maps, "lse", error_ratios(outputs.lse, exact.lse, naive.lse, expectation.lse_model), info.heads,
           rows, 1);
  if (!exact.max_logit.empty())
    add_maps(maps, "max_logit",
             error_ratios(outputs.max_logit, exact.max_logit, naive.max_logit, expectation.max_logit_model),
             info.heads, rows, 1);
  if (!exact.lse2.empty())
    add_maps(maps, "lse2", error_ratios(outputs.lse2, exact.lse2, naive.lse2, expectation.lse2_model),
             info.heads, rows, 1);
  return maps;
}

}  // namespace attnfuse::conformance
