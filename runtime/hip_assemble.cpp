#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "runtime/hip.h"
#include "runtime/library.h"
#include "runtime/process.h"

namespace attnfuse::hip {
namespace {

constexpr int kOldestClang = 16, kNewestClang = 23;

struct Clang {
  std::string path;
  int version = 0;
};

// The major version that `clang --version` reports; 0 when it is no clang.
int clang_version(const std::string& path) {
  const auto result = run_process({path, "--version"});
  if (!result || result->exit_code != 0) return 0;
  constexpr std::string_view kWord = "clang version ";
  const std::size_t at = result->output.find(kWord);
  return at == std::string::npos ? 0 : std::atoi(result->output.c_str() + at + kWord.size());
}

std::optional<Clang> find_clang() {
  std::vector<std::string> names;
  for (int version = kNewestClang; version >= kOldestClang; --version)
    names.push_back(fmt::format("clang++-{}", version));
  names.emplace_back("clang++");
  names.emplace_back("amdclang++");
  for (const std::string& name : names)
    if (const auto path = find_program({name}, {"/opt/rocm/llvm/bin"}))
      if (const int version = clang_version(*path); version >= kOldestClang) return Clang{*path, version};
  return {};
}

const std::optional<Clang>& clang() {
  static const std::optional<Clang> instance = find_clang();
  return instance;
}

// The part of hiprtc that is used.
struct Hiprtc {
  Library library;
  int (*version)(int*, int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char**, const char**) = nullptr;
  int (*destroy)(void**) = nullptr;
  int (*compile)(void*, int, const char**) = nullptr;
  int (*log_size)(void*, std::size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*code_size)(void*, std::size_t*) = nullptr;
  int (*code)(void*, char*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  bool usable() const { return library && library.missing().empty(); }
};

const Hiprtc& hiprtc() {
  static const Hiprtc instance = [] {
    Hiprtc h;
    h.library = Library::open({"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"},
                              {"/opt/rocm/lib"});
    h.library.bind("hiprtcVersion", h.version);
    h.library.bind("hiprtcCreateProgram", h.create);
    h.library.bind("hiprtcDestroyProgram", h.destroy);
    h.library.bind("hiprtcCompileProgram", h.compile);
    h.library.bind("hiprtcGetProgramLogSize", h.log_size);
    h.library.bind("hiprtcGetProgramLog", h.log);
    h.library.bind("hiprtcGetCodeSize", h.code_size);
    h.library.bind("hiprtcGetCode", h.code);
    h.library.bind("hiprtcGetErrorString", h.error_string);
    return h;
  }();
  return instance;
}

Diagnostic refused(const Target& target, const std::string& by, const std::string& log) {
  return {
      "assemble.failed",
      fmt::format("{} refuses the kernel for {}:\n{}", by, target.name, log),
      {},
      "if the kernel's text was not edited, this is a bug; set ATTNFUSE_DUMP to a directory to see the text"};
}

Binary code_object(const Target& target, const std::string& entry, std::vector<std::byte> bytes,
                   std::string log) {
  const Resources resources = resources_from_log(log);
  return {target.name, "hsaco", entry, std::move(bytes), resources, std::move(log)};
}

Result<Binary> assemble_by_clang(const std::string& source, const std::string& entry, const Target& target) {
  auto directory = TemporaryDirectory::create();
  if (!directory) return directory.errors();
  const std::string from = directory->path() / "kernel.hip", to = directory->path() / "kernel.co";
  if (auto status = write_file(from, source); !status) return status.errors();
  auto result = run_process({clang()->path, "-x", "hip", "--offload-arch=" + target.arch,
                             "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-nogpulib", "-nogpuinc",
                             "-Rpass-analysis=kernel-resource-usage", "-c", from, "-o", to});
  if (!result) return result.errors();
  if (result->exit_code != 0) return refused(target, clang()->path, result->output);
  auto contents = read_file(to);
  if (!contents) return contents.errors();
  const auto* data = reinterpret_cast<const std::byte*>(contents->data());
  return code_object(target, entry, {data, data + contents->size()}, result->output);
}

Result<Binary> assemble_in_process(const std::string& source, const std::string& entry,
                                   const Target& target) {
  const Hiprtc& h = hiprtc();
  const std::string arch = "--offload-arch=" + target.arch;
  const char* options[] = {arch.c_str(), "-O3", "-Rpass-analysis=kernel-resource-usage"};
  void* program = nullptr;
  std::string log;
  std::vector<std::byte> bytes;
  int code = h.create(&program, source.c_str(), (entry + ".hip").c_str(), 0, nullptr, nullptr);
  if (code != 0) return refused(target, "hiprtc", h.error_string(code));
  code = h.compile(program, int(std::size(options)), options);
  std::size_t size = 0;
  if (h.log_size(program, &size) == 0 && size > 1) {
    log.resize(size);
    h.log(program, log.data());
    log.resize(std::strlen(log.c_str()));
  }
  if (code == 0) code = h.code_size(program, &size);
  if (code == 0) {
    bytes.resize(size);
    code = h.code(program, reinterpret_cast<char*>(bytes.data()));
  }
  h.destroy(&program);
  if (code != 0) return refused(target, "hiprtc", log.empty() ? h.error_string(code) : log);
  return code_object(target, entry, std::move(bytes), std::move(log));
}

}  // namespace

std::string assembler() {
  if (clang()) return fmt::format("clang {} {}", clang()->path, clang()->version);
  if (!hiprtc().usable()) return "";
  int major = 0, minor = 0;
  hiprtc().version(&major, &minor);
  return fmt::format("hiprtc {}.{}", major, minor);
}

Resources resources_from_log(const std::string& log) {
  const auto after = [&](const char* words) {
    const std::size_t at = log.find(words);
    if (at == std::string::npos) return -1;
    const std::size_t digits = at + std::strlen(words);
    return digits < log.size() && std::isdigit(static_cast<unsigned char>(log[digits]))
               ? std::atoi(log.c_str() + digits)
               : -1;
  };
  const int vector = after(" VGPRs: "), accumulation = after(" AGPRs: ");
  return {vector < 0 ? -1 : vector + std::max(accumulation, 0), after("ScratchSize [bytes/lane]: "),
          after("LDS Size [bytes/block]: ")};
}

Result<Binary> assemble(const std::string& source, const std::string& entry, const Target& target) {
  if (clang()) return assemble_by_clang(source, entry, target);
  if (hiprtc().usable()) return assemble_in_process(source, entry, target);
  return Diagnostic{
      "toolkit.missing",
      fmt::format(
          "neither clang {} or later nor hiprtc is on this machine, so HIP kernels cannot be assembled",
          kOldestClang),
      {},
      "install clang-19 and lld-19, or ROCm"};
}

}  // namespace attnfuse::hip
