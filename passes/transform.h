// Transforms of query, key and value, apart from the attention that reads them: a kernel of their own (the
// pre-pass) and the program that is left. Used where a transform inside attention would be repeated more
// often than a pass through memory costs; passes/rotation.h says when.
#pragma once

#include "passes/passes.h"

namespace attnfuse {

// The expression of a role in a program, and its input tensor.
NodeId transform_of(const Graph& graph, TensorRole role);
TensorId tensor_of(const Graph& graph, TensorRole role);
bool has_transform(const Graph& graph, TensorRole role);
std::string_view name(TensorRole role);

// The program that attention is when the inputs of `roles` are transformed already: their expressions become
// plain inputs of the same name, whose elements a pre-pass has rounded to the program's dtype.
Graph split_transform(const Graph& graph, std::span<const TensorRole> roles);

// How a pre-pass is cut: rows per workgroup, so that a thread has one chunk, or one pair of chunks.
Schedule transform_schedule(const ProgramInfo& info, TensorRole role, const Target& target, int vector_bytes);

// What a workgroup of the pre-pass takes.
Rows transform_rows(const ProgramInfo& info, TensorRole role);

// Which rows a pre-pass takes: all, or those that the newest sq positions add to a cache whose other rows are
// transformed already.
enum class TransformRows : std::uint8_t { all, newest };

// The pre-pass: rows of the role's input through its expression to the output `transform_output`, of the
// same shape and the program's dtype. `graph` is what run_graph_passes gives.
Result<TileProgram> lower_transform(const Graph& graph, TensorRole role, const Target& target,
                                    const Schedule& schedule, TransformRows rows = TransformRows::all);
// Passes, schedule and lowering of a pre-pass.
Result<TileProgram> compile_transform(const Graph& graph, TensorRole role, const Target& target,
                                      const CompileOptions& options, TransformRows rows = TransformRows::all);
std::string transform_output(const Graph& graph, TensorRole role);

}  // namespace attnfuse
