// rope's parameter `axes`: pairs that turn by different positions (pictures: row and column; video: time, row
// and column). Sections count pairs.
//
//   one          all pairs turn by `position`
//   chunked      the first pairs by the first position, the next by the second, ... (Qwen2-VL: 16, 24, 24)
//   interleaved  pair p by the position number p mod axes, as long as the section has pairs left, else by the
//                first (Qwen3-VL: 24, 20, 20)
//   axial        as chunked, and frequencies start anew on every axis (SAM 2; Flux: 8, 28, 28)
#include <fmt/format.h>

#include <numeric>

#include "frontend/blocks/rope.h"

namespace attnfuse {
namespace {

constexpr int kMostAxes = 4;
constexpr std::string_view kSections[kMostAxes] = {"first", "second", "third", "fourth"};

constexpr Parameter section(std::string_view name, Presence presence) {
  return {.name = name,
          .kind = ParameterKind::integer,
          .presence = presence,
          .about = "pairs of this axis",
          .fallback_about = "no such axis",
          .least = 1,
          .most = 128};
}

constexpr Parameter kParameters[] = {
    section(kSections[0], Presence::required), section(kSections[1], Presence::required),
    section(kSections[2], Presence::optional), section(kSections[3], Presence::optional)};
constexpr Choice kAxes[] = {
    {"one"}, {"chunked", kParameters}, {"interleaved", kParameters}, {"axial", kParameters}};

}  // namespace

std::span<const Choice> rope_axes() noexcept { return kAxes; }

std::optional<PairAxes> PairAxes::read(const BlockInput& input, int pairs) {
  PairAxes axes;
  const std::size_t chosen = input.arguments.choice("axes");
  if (chosen == 0) return axes;
  axes.layout = Layout(chosen - 1);
  const Arguments sections = input.arguments.nested("axes");
  for (std::string_view name : kSections)
    if (sections.has(name)) axes.sections.push_back(sections.integer(name));
  const int total = std::accumulate(axes.sections.begin(), axes.sections.end(), 0);
  if (total == pairs) return axes;
  input.mistake("rope.axes", fmt::format("the sections of axes have {} pairs; {} pairs turn", total, pairs),
                "sections count pairs, two elements each");
  return {};
}

Value PairAxes::choose(const Value& pair, const std::vector<Value>& by_axis) const {
  Value result = by_axis.front();
  if (layout == Layout::interleaved) {
    const int count = int(sections.size());
    for (int axis = 1; axis < count; ++axis) {
      const Value own = mod(pair, count) == axis;
      const Value left = pair < count * sections[std::size_t(axis)];
      result = select(logical_and(own, left), by_axis[std::size_t(axis)], result);
    }
    return result;
  }
  int first = 0;
  for (std::size_t axis = 1; axis < sections.size(); ++axis) {
    first += sections[axis - 1];
    const Value is_past = pair >= first;
    result = select(is_past, by_axis[axis], result);
  }
  return result;
}

}  // namespace attnfuse
