#include "frontend/cli/rotation.h"

#include <fmt/format.h>

namespace attnfuse::cli {
namespace {

std::string time_text(double us) {
  return us == 0 ? "-" : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string label(const RotationCost& cost) {
  return std::string(name(cost.rotation)) + (cost.cached ? " + cache" : "");
}

}  // namespace

Option rotation_option(Rotation& rotation, Sizing sizing) {
  std::vector<std::pair<std::string, Rotation>> names;
  std::string about = "Transforms ahead of attention";
  for (const RotationInfo& row : rotations()) {
    if (row.rotation == Rotation::automatic && sizing == Sizing::unknown) continue;
    names.emplace_back(row.name, row.rotation);
    about += fmt::format("; {}: {}", row.name, row.about);
  }
  rotation = sizing == Sizing::known ? Rotation::automatic : Rotation::fuse;
  return {"--rotation", choice(rotation, names), about};
}

std::string rotation_text(std::span<const RotationCost> costs) {
  std::string text = fmt::format("{:<12} {:>10} {:>10} {:>10} {:>10}\n", "rotation, us", "queries", "keys",
                                 "attention", "total");
  for (const RotationCost& cost : costs)
    text += fmt::format("  {:<10} {:>10} {:>10} {:>10} {:>10}\n", label(cost), time_text(cost.query_us),
                        time_text(cost.key_us), time_text(cost.attention_us), time_text(cost.total_us()));
  return text + fmt::format("choice     {}\n", name(choose_rotation(costs)));
}

Result<std::string> rotation_markdown(const Graph& graph, const Target& target) {
  constexpr std::int64_t kTokens = 16384, kDecodeBatch = 16;
  std::string text, rule;
  for (bool decode : {false, true})
    for (std::int64_t length = 128; length <= 32768; length *= decode ? 16 : 4) {
      const CallSizes sizes = decode ? CallSizes{kDecodeBatch, 1, length}
                                     : CallSizes{std::max<std::int64_t>(1, kTokens / length), length, length};
      const auto costs = predict_rotation(graph, target, {}, sizes);
      if (!costs) return costs.errors();
      if (text.empty()) {
        text = "| batch | sq | skv |";
        rule = "|---|---|---|";
        for (const RotationCost& cost : *costs) {
          text += fmt::format(" {} |", label(cost));
          rule += "---|";
        }
        text += " choice |\n" + rule + "---|\n";
      }
      text += fmt::format("| {} | {} | {} |", sizes.batch, sizes.sq, sizes.skv);
      for (const RotationCost& cost : *costs) text += fmt::format(" {} |", time_text(cost.total_us()));
      text += fmt::format(" `{}` |\n", name(choose_rotation(*costs)));
    }
  return text;
}

}  // namespace attnfuse::cli
