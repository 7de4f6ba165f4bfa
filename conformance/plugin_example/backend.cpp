// A backend for the machine that compiles it: plain C++ through the system's compiler, one thread to a
// workgroup, products by multiply and add.
#include <fmt/format.h>

#include <cstdlib>

#include "backends/common/tile_writer.h"
#include "backends/plugin.h"
#include "conformance/plugin_example/device.h"
#include "conformance/plugin_example/dialect.h"
#include "runtime/process.h"

namespace cpp_backend {
namespace {

using namespace attnfuse;

Target host() {
  Target target;
  target.name = "cpp:host";
  target.backend = "cpp";
  target.arch = "host";
  target.title = "this machine, as plain C++";
  // One thread to a workgroup: it needs no barriers, and its registers are memory.
  target.warp_size = 1;
  target.max_threads = 1;
  target.registers_per_thread = 1 << 16;
  target.shared_bytes = 256 * 1024;
  target.max_grid_x = 1 << 30;
  target.copy = CopyKind::direct;
  MatrixUnit fma;
  fma.leaf = "fma";
  fma.operands = {DType::f16, DType::bf16, DType::f32};
  target.units = {fma};
  // dtypes, head dims, query rows, keys, warps
  target.schedules = {{fma.operands, 8, 256, 16, 32, 1}};
  // Rough: enough for the choice of kernels that transform ahead.
  target.rates = {.cores = 1,
                  .matrix_tflops = 0.002,
                  .scalar_tops = 0.002,
                  .special_tops = 0.0002,
                  .shared_tbps = 0.02,
                  .memory_gbps = 10,
                  .launch_us = 20};
  return target;
}

std::string compiler() {
  const char* chosen = std::getenv("CXX");
  return find_program({chosen != nullptr ? chosen : "c++", "c++", "g++", "clang++"}).value_or("");
}

class CppBackend : public Backend {
 public:
  std::string name() const override { return "cpp"; }
  std::vector<Target> targets() const override { return {host()}; }

  Result<Source> emit(const TileProgram& program) const override {
    const CppDialect dialect;
    return Source{TileWriter(program, dialect).write(), program.name, "cpp"};
  }

  Result<Binary> assemble(const Source& source, const Target& target) const override {
    const std::string command = compiler();
    if (command.empty())
      return Diagnostic{"toolkit.missing", "there is no C++ compiler", {}, "install one, or set CXX"};
    auto directory = TemporaryDirectory::create();
    if (!directory) return directory.errors();
    const std::string from = directory->path() / "kernel.cpp", to = directory->path() / "kernel.so";
    if (auto written = write_file(from, source.text); !written) return written.errors();
    // -ffp-contract=off: what is rounded between a product and a sum does not depend on the machine.
    auto compiled = run_process(
        {command, "-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o", to, from, "-lm"});
    if (!compiled) return compiled.errors();
    if (compiled->exit_code != 0)
      return Diagnostic{"assemble.failed",
                        fmt::format("{} rejected {}:\n{}", command, source.entry, compiled->output),
                        {},
                        ""};
    auto image = read_file(to);
    if (!image) return image.errors();
    Binary binary{target.name, "so", source.entry, {}, {}, compiled->output};
    const auto* bytes = reinterpret_cast<const std::byte*>(image->data());
    binary.bytes.assign(bytes, bytes + image->size());
    return binary;
  }

  int device_count() const override { return 1; }
  Result<std::shared_ptr<Device>> open(int ordinal) const override {
    if (ordinal == 0) return make_device(host());
    return Diagnostic{"device.none", "this machine is one device, number 0", {}, "use ordinal 0"};
  }
};

const Backend& backend() {
  static const CppBackend instance;
  return instance;
}

}  // namespace
}  // namespace cpp_backend

ATTNFUSE_PLUGIN(cpp_backend::backend)
