#include "backends/emulator/compile.h"

#include <fmt/format.h>

#include "runtime/process.h"

namespace attnfuse::emulator {
namespace {

// Vectors of _Float16 and __bf16 need a recent clang.
const std::vector<std::string> kCompilers = {"clang++-19", "clang++-20", "clang++-18", "clang++-17",
                                             "clang++"};

}  // namespace

Result<Binary> compile_for_host(const std::string& text, const std::string& entry, const Target& target) {
  const std::optional<std::string> clang = find_program(kCompilers);
  if (!clang)
    return Diagnostic{"toolkit.missing",
                      "no clang++ to compile emitted source for this machine",
                      {},
                      "install clang 17 or newer (Debian: clang-19)"};
  Result<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return directory.errors();
  const std::string input = directory->path() / "kernel.cpp", output = directory->path() / "kernel.so";
  if (Status written = write_file(input, text); !written) return written.errors();
  // No contraction: products and sums round as the source says. Unaligned vectors are the source's own
  // business.
  std::vector<std::string> command = {*clang,
                                      "-x",
                                      "c++",
                                      "-std=c++17",
                                      "-O1",
                                      "-fPIC",
                                      "-shared",
                                      "-w",
                                      "-ffp-contract=off",
                                      "-fno-math-errno",
                                      "-fno-exceptions",
                                      "-o",
                                      output,
                                      input,
                                      "-lm"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    command.insert(command.begin() + 1, "-march=x86-64-v3");
#endif
  const Result<ProcessResult> process = run_process(command);
  if (!process) return process.errors();
  if (process->exit_code != 0)
    return Diagnostic{"assemble.failed",
                      fmt::format("{} rejected {} for {}:\n{}", *clang, entry, target.name, process->output),
                      {},
                      ""};
  const Result<std::string> image = read_file(output);
  if (!image) return image.errors();
  Binary binary;
  binary.target = target.name;
  binary.format = "host-so";
  binary.entry = entry;
  const auto* bytes = reinterpret_cast<const std::byte*>(image->data());
  binary.bytes.assign(bytes, bytes + image->size());
  binary.log = process->output;
  return binary;
}

}  // namespace attnfuse::emulator
