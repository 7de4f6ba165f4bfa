// ldmatrix, stmatrix and mma.sync, element by element, from the PTX ISA's fragment figures.
#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/emulator/warp.h"
#include "backends/emulator/half.h"

namespace attnfuse::cuda {

using emulator::Half;

// 8x8 matrices of 16-bit elements. Lane 8 m + r names row r of matrix m; lane l holds of each matrix the
// elements (l / 4, 2 (l % 4)) and the next in the row, or in the column when transposed.
void move_matrices(emulator::Workgroup& group, SharedMemory& shared, int first) {
  constexpr int kSize = 8, kRowBytes = 2 * kSize;
  const emulator::Call& call = group.call(first);
  const auto operation = Operation(call.operation);
  for (int m = 0; m < call.immediate; ++m) {
    std::uint16_t matrix[kSize][kSize];
    std::uint32_t rows[kSize];
    for (int r = 0; r < kSize; ++r) {
      const int lane = first + m * kSize + r;
      const std::string who = fmt::format("{} of thread {}", name(operation), lane);
      rows[r] = shared.address(words(group.call(lane).operands)[0], kRowBytes, kRowBytes, who);
      if (operation != Operation::store_matrix)
        std::memcpy(matrix[r], shared.read(rows[r], kRowBytes, who), kRowBytes);
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      const int row = lane / 4, col = lane % 4 * 2;
      const emulator::Call& mine = group.call(first + lane);
      if (operation == Operation::store_matrix) {
        const auto pair = std::uint32_t(words(mine.operands)[1 + m]);
        std::memcpy(&matrix[row][col], &pair, sizeof pair);
        continue;
      }
      const bool transposed = operation == Operation::load_matrix_transposed;
      const std::uint16_t low = transposed ? matrix[col][row] : matrix[row][col];
      const std::uint16_t high = transposed ? matrix[col + 1][row] : matrix[row][col + 1];
      static_cast<std::uint32_t*>(mine.result)[m] = std::uint32_t(low) | std::uint32_t(high) << 16;
    }
    if (operation == Operation::store_matrix)
      for (int r = 0; r < kSize; ++r)
        shared.write(first + m * kSize + r, rows[r], std::as_bytes(std::span(matrix[r])));
  }
}

// m16n8k16: d[16][8] += a[16][16] b[16][8]. With g = lane / 4 and t = lane % 4, register pair p of a holds
// row g + 8 (p % 2), columns 2 t + 8 (p / 2) and the next; of b, rows 2 t + 8 p and the next of column g;
// registers c of d, row g + 8 (c / 2), column 2 t + c % 2.
void multiply(emulator::Workgroup& group, int first) {
  const Half type =
      Operation(group.call(first).operation) == Operation::multiply_f16 ? Half::f16 : Half::bf16;
  const auto half = [&](int lane, int pair, int n) {
    return emulator::decode(std::uint16_t(words(group.call(first + lane).operands)[pair] >> 16 * n), type);
  };
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kWarp; ++lane)
    for (int n = 0; n < 2; ++n) {
      const int g = lane / 4, t = lane % 4;
      for (int p = 0; p < 4; ++p) a[g + 8 * (p % 2)][2 * t + n + 8 * (p / 2)] = half(lane, p, n);
      for (int p = 0; p < 2; ++p) b[2 * t + n + 8 * p][g] = half(lane, 4 + p, n);
    }
  for (int lane = 0; lane < kWarp; ++lane)
    for (int c = 0; c < 4; ++c) {
      const int row = lane / 4 + 8 * (c / 2), col = lane % 4 * 2 + c % 2;
      float& d = static_cast<float*>(group.call(first + lane).result)[c];
      for (int k = 0; k < 16; ++k) d += a[row][k] * b[k][col];
    }
}

}  // namespace attnfuse::cuda
