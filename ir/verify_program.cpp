#include <algorithm>
#include <cctype>
#include <set>

#include "ir/gradient.h"
#include "ir/storage.h"
#include "ir/verify_rules.h"

namespace attnfuse {
namespace {

constexpr int kMinHeadDim = 8, kMaxHeadDim = 576, kHeadDimStep = 8;
constexpr int kMaxHeads = 65535;
constexpr std::int64_t kMaxExtent = INT32_MAX;

bool is_identifier(std::string_view text) {
  const auto word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, word);
}

void check_heads(Report& report) {
  const ProgramInfo& info = report.graph.info();
  if (info.heads < 1 || info.heads > kMaxHeads) {
    report.add("program.heads",
               fmt::format("heads is {}; it must lie between 1 and {}", info.heads, kMaxHeads), info.where);
    return;
  }
  if (info.kv_heads >= 1 && info.heads % info.kv_heads == 0) return;
  std::string divisors;
  for (int k = 1; k <= info.heads; ++k)
    if (info.heads % k == 0) divisors += fmt::format("{}{}", divisors.empty() ? "" : ", ", k);
  report.add("program.kv-heads",
             fmt::format("kv_heads is {}, which does not divide heads ({})", info.kv_heads, info.heads),
             info.where, "use one of " + divisors);
}

void check_head_dim(Report& report, std::string_view name, int value) {
  if (value >= kMinHeadDim && value <= kMaxHeadDim && value % kHeadDimStep == 0) return;
  const int below = std::clamp(value / kHeadDimStep * kHeadDimStep, kMinHeadDim, kMaxHeadDim);
  const int above = std::clamp(below + kHeadDimStep, kMinHeadDim, kMaxHeadDim);
  const bool inside = value > kMinHeadDim && value < kMaxHeadDim;
  report.add("program.head-dim",
             fmt::format("{} is {}; it must be a multiple of {} between {} and {}", name, value, kHeadDimStep,
                         kMinHeadDim, kMaxHeadDim),
             report.graph.info().where,
             inside ? fmt::format("pad the tensors to {}", above)
                    : fmt::format("use {}", value < kMinHeadDim ? kMinHeadDim : kMaxHeadDim));
}

struct RoleRow {
  TensorRole role;
  std::string_view name;
  Size shape[4];
};
constexpr RoleRow kRoles[] = {
    {TensorRole::query, "query", {Size::batch, Size::heads, Size::sq, Size::head_dim}},
    {TensorRole::key, "key", {Size::batch, Size::kv_heads, Size::skv, Size::head_dim}},
    {TensorRole::value, "value", {Size::batch, Size::kv_heads, Size::skv, Size::v_head_dim}},
};

void check_input(Report& report, const RoleRow& row) {
  const ProgramInfo& info = report.graph.info();
  int count = 0;
  for (const TensorInfo& tensor : report.graph.tensors()) {
    if (tensor.role != row.role) continue;
    ++count;
    if (tensor.dtype != info.dtype)
      report.add("tensor.dtype",
                 fmt::format("{} \"{}\" is {}, but the program is {}", row.name, tensor.name,
                             name(tensor.dtype), name(info.dtype)),
                 tensor.where);
    std::vector<Extent> wanted;
    std::string text;
    for (Size size : row.shape) {
      wanted.push_back({size});
      text += fmt::format("{}{}", text.empty() ? "" : ", ", name(size));
    }
    if (tensor.shape != wanted)
      report.add("tensor.shape", fmt::format("{} \"{}\" must have shape [{}]", row.name, tensor.name, text),
                 tensor.where);
  }
  const int wanted = row.role == TensorRole::value ? 1 : info.score_heads;
  if (count != wanted)
    report.add("program.input",
               fmt::format("the program has {} {} tensors; it needs exactly {}", count, row.name,
                           wanted == 1 ? "one" : "two"),
               info.where);
}

// Number of elements, or -1 when an extent is a run-time size.
std::int64_t element_count(const Graph& graph, const TensorInfo& tensor) {
  std::int64_t count = 1;
  for (const Extent& extent : tensor.shape) {
    const Size* size = std::get_if<Size>(&extent.value);
    const std::optional<int> fixed = size ? graph.info().size(*size) : std::nullopt;
    if (size && !fixed) return -1;
    count *= size ? *fixed : std::get<std::int64_t>(extent.value);
    if (count > kMaxExtent) return -1;
  }
  return count;
}

void check_extents(Report& report, const TensorInfo& tensor) {
  if (tensor.shape.size() > kMaxRank)
    report.add(
        "tensor.rank",
        fmt::format("\"{}\" has {} dimensions; the limit is {}", tensor.name, tensor.shape.size(), kMaxRank),
        tensor.where);
  for (const Extent& extent : tensor.shape) {
    const std::int64_t* number = std::get_if<std::int64_t>(&extent.value);
    if (number && (*number < 1 || *number > kMaxExtent))
      report.add("tensor.extent",
                 fmt::format("\"{}\" has a dimension of {}; it must lie between 1 and {}", tensor.name,
                             *number, kMaxExtent),
                 tensor.where);
  }
}

// Integers and truth values do not change continuously.
void check_grad(Report& report, const TensorInfo& tensor) {
  if (!tensor.grad || value_type(tensor.dtype) == ValueType::f32) return;
  report.add("tensor.grad",
             fmt::format("\"{}\" is {}, which has no gradient", tensor.name, name(tensor.dtype)),
             tensor.where, "leave out `grad`, or declare the tensor f32, f16 or bf16");
}

// Outputs, which a gradient graph has as tensors, and what expressions call something else.
std::set<std::string_view> reserved_names(const Graph& graph) {
  std::set<std::string_view> names{"x"};
  if (!is_gradient(graph)) names.insert({"o", "lse", "lse2"});
  for (Axis axis : kAllAxes) names.insert(name(axis));
  for (Size size :
       {Size::batch, Size::heads, Size::kv_heads, Size::sq, Size::skv, Size::head_dim, Size::v_head_dim})
    names.insert(name(size));
  return names;
}

void check_storage(Report& report) {
  const Storage& storage = report.graph.info().storage;
  if (storage.page_size && *storage.page_size < 1)
    report.add("storage.page-size",
               fmt::format("page_size is {}; a page holds at least one row", *storage.page_size),
               report.graph.info().where, "give the rows of a page of keys, such as 16");
}

}  // namespace

void check_program(Report& report) {
  const ProgramInfo& info = report.graph.info();
  if (!is_identifier(info.name))
    report.add("program.name",
               fmt::format("\"{}\" is not a name of letters, digits and underscores", info.name), info.where,
               "kernels and files are named after the program");
  check_heads(report);
  check_head_dim(report, "head_dim", info.head_dim);
  if (info.v_head_dim != info.head_dim) check_head_dim(report, "v_head_dim", info.v_head_dim);
  if (value_type(info.dtype) != ValueType::f32)
    report.add("program.dtype",
               fmt::format("dtype is {}; attention runs in f16, bf16 or f32", name(info.dtype)), info.where);
  if (info.score_heads < 1 || info.score_heads > 2)
    report.add("program.score-heads", fmt::format("score_heads is {}; it is 1 or 2", info.score_heads),
               info.where);
  check_storage(report);
}

void check_tensors(Report& report) {
  for (const RoleRow& row : kRoles) check_input(report, row);
  std::set<std::string_view> names = reserved_names(report.graph);
  const std::vector<TensorInfo> stored = storage_tensors(report.graph.info().storage);
  for (const TensorInfo& tensor : stored) names.insert(tensor.name);
  for (const TensorInfo& tensor : report.graph.tensors()) {
    if (!is_identifier(tensor.name) || !names.insert(tensor.name).second)
      report.add(
          "tensor.name",
          fmt::format("\"{}\" is taken, or not a name of letters, digits and underscores", tensor.name),
          tensor.where);
    check_extents(report, tensor);
    check_grad(report, tensor);
    if (tensor.role != TensorRole::constant) continue;
    const std::int64_t count = element_count(report.graph, tensor);
    if (count != std::int64_t(tensor.values.size()))
      report.add(
          "tensor.values",
          fmt::format("constant \"{}\" has {} values for its shape", tensor.name, tensor.values.size()),
          tensor.where);
  }
}

}  // namespace attnfuse
