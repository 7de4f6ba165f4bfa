#include "backends/cuda/emulator/host_source.h"

#include <fmt/format.h>

#include "backends/cuda/emulator/host_functions.h"
#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/shared_memory.h"
#include "backends/emulator/host_text.h"

namespace attnfuse::cuda {
namespace {

struct Name {
  Operation operation;
  std::string_view name;
};
constexpr Name kNames[] = {
    {Operation::sync_warp, "sync_warp"},
    {Operation::shuffle, "shuffle"},
    {Operation::ballot, "ballot"},
    {Operation::load_matrix, "load_matrix"},
    {Operation::load_matrix_transposed, "load_matrix_transposed"},
    {Operation::store_matrix, "store_matrix"},
    {Operation::multiply_f16, "multiply_f16"},
    {Operation::multiply_bf16, "multiply_bf16"},
    {Operation::raise_registers, "raise_registers"},
    {Operation::lower_registers, "lower_registers"},
    {Operation::sync_threads, "sync_threads"},
    {Operation::sync_named, "sync_named"},
    {Operation::arrive_named, "arrive_named"},
    {Operation::copy, "copy"},
    {Operation::copy_commit, "copy_commit"},
    {Operation::copy_wait, "copy_wait"},
    {Operation::barrier_init, "barrier_init"},
    {Operation::barrier_init_fence, "barrier_init_fence"},
    {Operation::barrier_arrive, "barrier_arrive"},
    {Operation::barrier_test, "barrier_test"},
    {Operation::bulk_load, "bulk_load"},
    {Operation::bulk_store, "bulk_store"},
    {Operation::bulk_commit, "bulk_commit"},
    {Operation::bulk_wait, "bulk_wait"},
    {Operation::bulk_wait_read, "bulk_wait_read"},
    {Operation::proxy_fence, "proxy_fence"},
    {Operation::product_fence, "product_fence"},
    {Operation::product_shared_f16, "product_shared_f16"},
    {Operation::product_shared_bf16, "product_shared_bf16"},
    {Operation::product_registers_f16, "product_registers_f16"},
    {Operation::product_registers_bf16, "product_registers_bf16"},
    {Operation::product_commit, "product_commit"},
    {Operation::product_wait, "product_wait"},
};

}  // namespace

std::string_view name(Operation operation) {
  for (const Name& row : kNames)
    if (row.operation == operation) return row.name;
  return "";
}

std::string host_source(std::string_view source, std::string_view entry, int shared_bytes) {
  std::string text = fmt::format("#define ATTNFUSE_SHARED_BYTES {}\n#define ATTNFUSE_SHARED_BASE {}\n",
                                 shared_bytes, SharedMemory::kBase);
  for (const Name& row : kNames) text += fmt::format("#define OP_{} {}\n", row.name, int(row.operation));
  text += emulator::lane_text();
  text += host_language();
  text += "#line 1 \"kernel.cu\"\n";
  text += with_host_functions(source, host_intrinsics());
  text += emulator::entry_text(entry);
  return text;
}

}  // namespace attnfuse::cuda
