// What a code object costs, counted from its disassembly: registers, spills, and the instructions of the loop
// over key tiles against a cycle model. For machines that are not here: counts rank kernels, they do not time
// them.
#pragma once

#include <string>

#include "runtime/device.h"

namespace attnfuse::hip {

// The loop over key tiles: the smallest one that holds the most matrix instructions. Blocks that a uniform
// branch may skip and that hold neither matrix instructions nor global accesses belong to partial tiles
// (their masks, the search for values that are not finite): only their vector instructions are counted,
// apart.
struct LoopCounts {
  int instructions = 0, bytes = 0;
  int matrix = 0, transcendental = 0, vector = 0, partial_vector = 0;
  int accumulator_moves = 0;
  int shared_bytes = 0;         // per lane
  int narrow_shared_reads = 0;  // other than 16 bytes
  int global_accesses = 0, scratch_accesses = 0, barriers = 0, waits = 0, idle = 0;
};

struct Scorecard {
  std::string target;
  int vector_registers = 0, accumulator_registers = 0, spills = 0, scratch_bytes = 0, shared_bytes = 0;
  bool has_matrix_loop = false;
  std::string matrix_instruction;  // of the loop
  LoopCounts loop;
  double waves_per_simd = 0;
  // Cycles of one wave in one turn of the loop; shared_cycles are of the compute unit.
  double matrix_cycles = 0, vector_cycles = 0, shared_cycles = 0;
  double vector_ratio() const { return vector_cycles / matrix_cycles; }
  double shared_ratio() const;   // shared memory against matrix unit
  double overlap_bound() const;  // share of matrix peak when everything overlaps
  double serial_bound() const;   // when nothing does
};

// Diagnostic "toolkit.missing" without llvm-objdump and llvm-readelf. `threads`: of a workgroup.
Result<Scorecard> score(const Binary& code, const Target& target, int threads);
std::string to_string(const Scorecard& card);

}  // namespace attnfuse::hip
