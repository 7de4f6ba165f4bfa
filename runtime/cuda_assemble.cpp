#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "runtime/cuda.h"
#include "runtime/library.h"
#include "runtime/process.h"

namespace attnfuse::cuda {
namespace {

// The part of NVRTC that is used.
struct Nvrtc {
  Library library;
  int (*version)(int*, int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(void**) = nullptr;
  int (*compile)(void*, int, const char* const*) = nullptr;
  int (*log_size)(void*, std::size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*cubin_size)(void*, std::size_t*) = nullptr;
  int (*cubin)(void*, char*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  bool usable() const { return library && library.missing().empty(); }
};
constexpr int kInvalidOption = 5;  // nvrtc.h

std::vector<std::string> toolkit_directories(const char* folder) {
  std::vector<std::string> directories;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) directories.push_back(fmt::format("{}/{}", home, folder));
  directories.push_back(fmt::format("/usr/local/cuda/{}", folder));
  return directories;
}

const Nvrtc& nvrtc() {
  static const Nvrtc instance = [] {
    Nvrtc n;
    n.library = Library::open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
                              toolkit_directories("lib64"));
    n.library.bind("nvrtcVersion", n.version);
    n.library.bind("nvrtcCreateProgram", n.create);
    n.library.bind("nvrtcDestroyProgram", n.destroy);
    n.library.bind("nvrtcCompileProgram", n.compile);
    n.library.bind("nvrtcGetProgramLogSize", n.log_size);
    n.library.bind("nvrtcGetProgramLog", n.log);
    n.library.bind("nvrtcGetCUBINSize", n.cubin_size);
    n.library.bind("nvrtcGetCUBIN", n.cubin);
    n.library.bind("nvrtcGetErrorString", n.error_string);
    return n;
  }();
  return instance;
}

std::optional<std::string> nvcc() { return find_program({"nvcc"}, toolkit_directories("bin")); }

Diagnostic refused(const Target& target, const std::string& by, const std::string& log) {
  return {
      "assemble.failed",
      fmt::format("{} refuses the kernel for {}:\n{}", by, target.name, log),
      {},
      "if the kernel's text was not edited, this is a bug; set ATTNFUSE_DUMP to a directory to see the text"};
}

Binary cubin(const Target& target, const std::string& entry, std::vector<std::byte> bytes, std::string log) {
  const Resources resources = resources_from_log(log);
  return {target.name, "cubin", entry, std::move(bytes), resources, std::move(log)};
}

// Quotients to two units in the last place, as exponentials are: exact ones take a call for odd divisors.
constexpr const char* kDivision = "--prec-div=false";

Result<Binary> assemble_in_process(const std::string& source, const std::string& entry,
                                   const Target& target) {
  const Nvrtc& n = nvrtc();
  const std::string arch = "--gpu-architecture=" + target.arch;
  const char* options[] = {arch.c_str(), "--std=c++17", kDivision, "--ptxas-options=-v", "--no-cache"};
  std::string log;
  std::vector<std::byte> bytes;
  int code = 0;
  // Resources are in the log, which a hit in NVRTC's own cache leaves empty. Older versions refuse the last
  // options.
  for (int count : {5, 4, 3}) {
    void* program = nullptr;
    code = n.create(&program, source.c_str(), (entry + ".cu").c_str(), 0, nullptr, nullptr);
    if (code != 0) break;
    code = n.compile(program, count, options);
    std::size_t size = 0;
    if (n.log_size(program, &size) == 0 && size > 1) {
      log.resize(size);
      n.log(program, log.data());
      log.resize(std::strlen(log.c_str()));
    }
    if (code == 0) code = n.cubin_size(program, &size);
    if (code == 0) {
      bytes.resize(size);
      code = n.cubin(program, reinterpret_cast<char*>(bytes.data()));
    }
    n.destroy(&program);
    if (code != kInvalidOption) break;
  }
  if (code != 0) return refused(target, "NVRTC", log.empty() ? n.error_string(code) : log);
  return cubin(target, entry, std::move(bytes), std::move(log));
}

Result<Binary> assemble_by_nvcc(const std::string& program, const std::string& source,
                                const std::string& entry, const Target& target) {
  auto directory = TemporaryDirectory::create();
  if (!directory) return directory.errors();
  const std::string from = directory->path() / "kernel.cu", to = directory->path() / "kernel.cubin";
  if (auto status = write_file(from, source); !status) return status.errors();
  auto result = run_process(
      {program, "-cubin", "-arch=" + target.arch, "-std=c++17", kDivision, "-Xptxas", "-v", "-o", to, from});
  if (!result) return result.errors();
  if (result->exit_code != 0) return refused(target, program, result->output);
  auto contents = read_file(to);
  if (!contents) return contents.errors();
  const auto* data = reinterpret_cast<const std::byte*>(contents->data());
  return cubin(target, entry, {data, data + contents->size()}, result->output);
}

}  // namespace

std::string assembler() {
  if (nvrtc().usable()) {
    int major = 0, minor = 0;
    nvrtc().version(&major, &minor);
    return fmt::format("nvrtc {}.{}", major, minor);
  }
  const auto program = nvcc();
  return program ? "nvcc " + *program : "";
}

Resources resources_from_log(const std::string& log) {
  // The number that stands before (or, for registers, after) each word.
  const auto before = [&](std::string_view words, int absent) {
    const std::size_t at = log.find(words);
    if (at == std::string::npos) return absent;
    std::size_t start = at;
    while (start > 0 && log[start - 1] >= '0' && log[start - 1] <= '9') --start;
    return start == at ? absent : std::atoi(log.c_str() + start);
  };
  const int registers = before(" registers", -1);
  // A kernel without spills or static shared memory may not mention them.
  const int none = registers < 0 ? -1 : 0;
  return {registers, before(" bytes spill stores", none), before(" bytes smem", none)};
}

Result<Binary> assemble(const std::string& source, const std::string& entry, const Target& target) {
  if (nvrtc().usable()) return assemble_in_process(source, entry, target);
  if (const auto program = nvcc()) return assemble_by_nvcc(*program, source, entry, target);
  return Diagnostic{
      "toolkit.missing",
      "neither libnvrtc nor nvcc is on this machine, so CUDA kernels cannot be assembled",
      {},
      "install the CUDA toolkit (NVRTC is enough: libnvrtc.so.12 or .13) and let LD_LIBRARY_PATH or "
      "CUDA_HOME lead to it"};
}

}  // namespace attnfuse::cuda
