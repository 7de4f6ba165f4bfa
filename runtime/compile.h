// From a graph to a binary for one target: passes, schedule, lowering, source text, assembler, cache.
//   ATTNFUSE_DUMP=dir     writes every stage to dir/PROGRAM.ARCH/NN-stage.{af,tile,cu,...}
//   ATTNFUSE_SOURCE=file  assembles this text in place of the emitted one (same kernel name and parameters)
#pragma once

#include "backends/backend.h"
#include "passes/passes.h"
#include "runtime/cache.h"

namespace attnfuse {

struct Compiled {
  TileProgram program;
  Source source;
  Binary binary;
  bool from_cache = false;
  Diagnostics notes;  // what did not work but does not matter for the result: an unwritable cache or dump
};

// A graph that breaks a rule, a schedule that does not fit or a missing assembler is a diagnostic.
Result<Compiled> compile(const Graph& graph, const Backend& backend, const Target& target,
                         const CompileOptions& options = {}, KernelCache& cache = KernelCache::standard());

// What follows lowering, for a program that is lowered already.
Result<Compiled> compile(const TileProgram& program, const Backend& backend,
                         KernelCache& cache = KernelCache::standard());

// With the target's own backend.
Result<Compiled> compile(const Graph& graph, const Target& target, const CompileOptions& options = {});

}  // namespace attnfuse
