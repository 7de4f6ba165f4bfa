#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/gradient.h"
#include "ir/verify_rules.h"

namespace attnfuse {
namespace {

// Keeps everything that is recursive or quadratic in the size of an expression harmless.
constexpr std::size_t kMaxNodes = 4096;

}  // namespace

Diagnostics verify(const Graph& graph) {
  Report report(graph);
  check_program(report);
  check_tensors(report);
  const std::vector<NodeId> live = cone(graph, graph.outputs());
  if (live.size() > kMaxNodes)
    report.add("program.too-large",
               fmt::format("the program has {} operations; the limit is {}", live.size(), kMaxNodes), {},
               "put tables into captured tensors");
  if (report.found.empty()) check_arity(report, live);
  if (report.found.empty()) check_types(report, live);
  const bool gradient = is_gradient(graph);
  if (report.found.empty() && gradient) check_gradient(report, live);
  if (report.found.empty() && !gradient) check_structure(report, live);
  if (report.found.empty() && !gradient) check_stages(report);
  return std::move(report.found);
}

}  // namespace attnfuse
