#include "ir/target.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/diagnostic.h"

namespace attnfuse {

const MatrixUnit& matrix_unit(const Target& target, DType dtype) {
  for (const MatrixUnit& unit : target.units)
    if (std::ranges::find(unit.operands, dtype) != unit.operands.end()) return unit;
  ATTNFUSE_CHECK(false, fmt::format("target {} has no unit for {}", target.name, name(dtype)));
}

std::string summary(const Target& target) {
  ATTNFUSE_CHECK(!target.units.empty(), "target " + target.name + " has no matrix unit");
  const MatrixUnit& unit = target.units.front();
  std::string text = unit.is_fma() ? "" : fmt::format("{} x {} x {} ", unit.m, unit.n, unit.k);
  for (DType dtype : unit.operands) text += fmt::format("{} ", name(dtype));
  return text +
         fmt::format("{}, {} KiB shared, {} lanes", unit.leaf, target.shared_bytes / 1024, target.warp_size);
}

}  // namespace attnfuse
