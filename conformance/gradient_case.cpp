#include "conformance/gradient_case.h"

#include <algorithm>
#include <cmath>

#include "conformance/case.h"
#include "conformance/random.h"
#include "frontend/expand.h"
#include "ir/gradient.h"
#include "runtime/evaluate_gradient.h"
#include "runtime/reference.h"

namespace attnfuse::conformance {
namespace {

std::vector<double> normal_numbers(std::int64_t count, const std::string& name, std::uint64_t seed) {
  Random random(hash_of(name.c_str(), seed));
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = random.normal();
  return numbers;
}

// Rows without an allowed key have nothing that moves.
double loss(const ReferenceOutputs& outputs, const NamedValues& upstream) {
  double sum = 0;
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    const auto found = upstream.find(name);
    for (std::size_t n = 0; found != upstream.end() && n < values.size(); ++n)
      if (std::isfinite(values[n])) sum += found->second[n] * values[n];
  };
  add("o", outputs.o);
  add("lse", outputs.lse);
  add("max_logit", outputs.max_logit);
  return sum;
}

}  // namespace

Spec differentiable(Spec spec) {
  const auto as_f32 = [](DType dtype) { return value_type(dtype) == ValueType::f32 ? DType::f32 : dtype; };
  const int group = spec.info.heads / spec.info.kv_heads;
  Spec small = spec;
  for (Spec* made : {&spec, &small}) {
    made->info.dtype = DType::f32;
    made->storage.clear();
    for (Param& param : made->params) {
      param.dtype = as_f32(param.dtype);
      param.grad = param.dtype == DType::f32;
    }
  }
  small.info.kv_heads = std::min(spec.info.kv_heads, 2);
  small.info.heads = std::min(group, 2) * small.info.kv_heads;
  return expand(small) ? small : spec;
}

Result<GradientCase> make_gradient_case(const Spec& spec, const Sizes& sizes, std::uint64_t seed) {
  const auto graph = expand(spec);
  if (!graph) return graph.errors();
  Case data;
  data.batch = sizes.batch;
  data.sq = sizes.sq;
  data.skv = sizes.skv;
  data.seed = seed;
  GradientCase c{*graph, make_inputs(*graph, data).tensors, {}, sizes};
  const std::int64_t rows = sizes.batch * graph->info().heads * sizes.sq;
  c.upstream["o"] = normal_numbers(rows * graph->info().v_head_dim, "do", seed);
  for (const char* name : {"lse", "max_logit"})
    if (graph->output(name).valid()) c.upstream[name] = normal_numbers(rows, name, seed);
  return c;
}

Change move_tensor(const GradientCase& c, const NamedValues& gradients, const std::string& tensor,
                   std::uint64_t seed) {
  constexpr double kStep = 1e-5;
  HostTensors above = c.inputs, below = c.inputs;
  const std::vector<double>& gradient = gradients.at(tensor);
  const std::vector<double> direction = normal_numbers(std::int64_t(gradient.size()), tensor, seed);
  Change change{0, 0, 0};
  std::size_t n = 0;
  for_each_index(c.inputs.at(tensor).layout.shape, [&](std::span<const std::int64_t> index) {
    const double value = c.inputs.at(tensor).get(index);
    above.at(tensor).set(index, value + kStep * direction[n]);
    below.at(tensor).set(index, value - kStep * direction[n]);
    const double step = above.at(tensor).get(index) - below.at(tensor).get(index);
    change.predicted += gradient[n] * step;
    change.scale += std::abs(gradient[n] * step);
    ++n;
  });
  change.found = loss(reference(c.graph, above).value(), c.upstream) -
                 loss(reference(c.graph, below).value(), c.upstream);
  return change;
}

NamedValues graph_gradients(const GradientCase& c, const Graph& gradient, const NamedValues& saved) {
  NamedValues rows = saved;
  for (const auto& [name, values] : c.upstream) rows[gradient_name(name)] = values;
  const auto outputs = evaluate_gradient(gradient, c.inputs, rows);
  ATTNFUSE_CHECK(outputs, "inputs that the reference takes and the gradient graph does not");
  NamedValues gradients;
  for (const TensorInfo& tensor : c.graph.tensors())
    if (const auto found = outputs->find(gradient_name(tensor.name)); found != outputs->end())
      gradients[tensor.name] = found->second;
  return gradients;
}

Difference compare_gradients(const NamedValues& got, const NamedValues& wanted) {
  Difference difference;
  for (const auto& [name, values] : wanted) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.size() != values.size()) return {INFINITY, name};
    double largest = 0, worst = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (std::isnan(values[n]) && std::isnan(found->second[n])) continue;
      largest = std::max(largest, std::abs(values[n]));
      const double error = std::abs(values[n] - found->second[n]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    const double relative = worst == 0 ? 0 : worst / std::max(largest, 1e-6);
    if (relative > difference.worst) difference = {relative, name};
  }
  return difference;
}

}  // namespace attnfuse::conformance
