#include "backends/hip/emulator/matrix.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "backends/emulator/half.h"

namespace attnfuse::hip {
namespace {

using emulator::Half;

struct Place {
  int lane, element;
};

// One instruction. `operand(index, k)` is where a[index][k], and alike b[k][index], lies; `result(m, n)`
// where d does.
struct Instruction {
  Operation operation;
  Half type;
  int wave_size, mn, k;
  int operand_elements, result_elements;
  Place (*operand)(int index, int k);
  Place (*result)(int m, int n);
};

// V_MFMA_F32_16X16X16: four lanes groups of 16; k = 4 * group + element.
Place mfma16_operand(int index, int k) { return {k / 4 * 16 + index, k % 4}; }
Place mfma16_result(int m, int n) { return {m / 4 * 16 + n, m % 4}; }
// V_MFMA_F32_32X32X8: two groups of 32; rows of d come in blocks of 4 per group.
Place mfma32_operand(int index, int k) { return {k / 4 * 32 + index, k % 4}; }
Place mfma32_result(int m, int n) { return {m / 4 % 2 * 32 + n, m / 8 * 4 + m % 4}; }
// V_WMMA_F32_16X16X16 of RDNA 3: every lane holds a whole row; rows of d alternate between the halves.
Place wmma_operand(int index, int k) { return {index, k}; }
Place wmma_result(int m, int n) { return {m % 2 * 16 + n, m / 2}; }
// V_WMMA_F32_16X16X16 of RDNA 4: each half holds eight k and eight rows of d.
Place wmma12_operand(int index, int k) { return {k / 8 * 16 + index, k % 8}; }
Place wmma12_result(int m, int n) { return {m / 8 * 16 + n, m % 8}; }

constexpr Instruction kInstructions[] = {
    {Operation::mfma_32x32x8_f16, Half::f16, 64, 32, 8, 4, 16, mfma32_operand, mfma32_result},
    {Operation::mfma_32x32x8_bf16, Half::bf16, 64, 32, 8, 4, 16, mfma32_operand, mfma32_result},
    {Operation::mfma_16x16x16_f16, Half::f16, 64, 16, 16, 4, 4, mfma16_operand, mfma16_result},
    {Operation::mfma_16x16x16_bf16, Half::bf16, 64, 16, 16, 4, 4, mfma16_operand, mfma16_result},
    {Operation::wmma_f16, Half::f16, 32, 16, 16, 16, 8, wmma_operand, wmma_result},
    {Operation::wmma_bf16, Half::bf16, 32, 16, 16, 16, 8, wmma_operand, wmma_result},
    {Operation::wmma_gfx12_f16, Half::f16, 32, 16, 16, 8, 8, wmma12_operand, wmma12_result},
    {Operation::wmma_gfx12_bf16, Half::bf16, 32, 16, 16, 8, 8, wmma12_operand, wmma12_result},
};

const Instruction* find(Operation operation) {
  for (const Instruction& row : kInstructions)
    if (row.operation == operation) return &row;
  return nullptr;
}

}  // namespace

bool is_matrix(Operation operation) { return find(operation) != nullptr; }

std::string multiply(std::span<const emulator::Call> lanes, bool flush_denormals) {
  const auto operation = Operation(lanes[0].operation);
  const Instruction& row = *find(operation);
  if (int(lanes.size()) != row.wave_size)
    return fmt::format("{} needs a wave of {} lanes, not {}", name(operation), row.wave_size, lanes.size());
  const int n = row.operand_elements;
  const auto operand = [&](int lane) {
    return static_cast<const std::uint16_t*>(lanes[std::size_t(lane)].operands);
  };
  const auto addend = [&](int lane) { return reinterpret_cast<const float*>(operand(lane) + 2 * n); };
  if (n == row.k)  // a whole row per lane: the halves of the wave repeat each other
    for (int lane = 0; lane < 16; ++lane)
      for (int e = 0; e < 2 * n; ++e)
        if (operand(lane)[e] != operand(lane + 16)[e])
          return fmt::format("{}: lane {} does not repeat element {} of operand {} of lane {}",
                             name(operation), lane + 16, e % n, e < n ? 'a' : 'b', lane);
  const auto value = [&](std::uint16_t bits) {
    return emulator::decode(flush_denormals ? emulator::flush_denormal(bits, row.type) : bits, row.type);
  };
  std::vector<float> a(std::size_t(row.mn * row.k)), b(a.size());
  for (int index = 0; index < row.mn; ++index)
    for (int k = 0; k < row.k; ++k) {
      const Place place = row.operand(index, k);
      const auto at = std::size_t(index * row.k + k);
      a[at] = value(operand(place.lane)[place.element]);
      b[at] = value(operand(place.lane)[n + place.element]);
    }
  for (int m = 0; m < row.mn; ++m)
    for (int j = 0; j < row.mn; ++j) {
      const Place place = row.result(m, j);
      float sum = addend(place.lane)[place.element];
      const float *x = &a[std::size_t(m * row.k)], *y = &b[std::size_t(j * row.k)];
      for (int k = 0; k < row.k; ++k) sum += x[k] * y[k];
      static_cast<float*>(lanes[std::size_t(place.lane)].result)[place.element] = sum;
    }
  return {};
}

}  // namespace attnfuse::hip
