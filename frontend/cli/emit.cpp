// attnfuse emit: readable source, and with -o also the binary, launch.json and a C header.
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "backends/backend.h"
#include "frontend/cli/artifacts.h"
#include "frontend/cli/command.h"
#include "frontend/cli/rotation.h"
#include "passes/passes.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::string spec, target, directory;
  int alignment = 16;
  std::int64_t sq = 0;
  Rotation rotation = Rotation::fuse;
  ScheduleKind schedule = ScheduleKind::automatic;
};

int write_all(const Options& options, const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error)
    return fail({{"file.write",
                  fmt::format("cannot make the folder '{}': {}", options.directory, error.message()),
                  {},
                  "give a writable place"}});
  for (const auto& [name, bytes] : files) {
    const std::string path = (std::filesystem::path(options.directory) / name).string();
    if (auto status = write_file(path, bytes); !status) return fail(status.errors());
    fmt::print("{}\n", path);
  }
  return kDone;
}

using Files = std::vector<std::pair<std::string, std::string>>;

// A kernel's files; kFailed after what went wrong has been printed.
int add_files(const Backend& backend, const TileProgram& program, const Source& source, Files& files) {
  const auto binary = backend.assemble(source, program.target);
  files.emplace_back(program.name + "." + source.extension, source.text);
  files.emplace_back(program.name + ".launch.json", launch_json(program, binary ? &*binary : nullptr));
  files.emplace_back(program.name + ".h", c_header(program));
  if (binary) {
    const std::string_view code(reinterpret_cast<const char*>(binary->bytes.data()), binary->bytes.size());
    files.emplace_back(program.name + "." + binary->format, code);
    return kDone;
  }
  if (binary.errors().front().code != "toolkit.missing") return fail(binary.errors());
  fmt::print(stderr, "no binary: {}\n", render(binary.errors()));
  return kDone;
}

int emit(const Options& options) {
  const auto spec = load_spec(options.spec);
  if (!spec) return kFailed;
  const auto target = find_target(options.target);
  if (!target) return fail(target.errors());
  CompileOptions compile;
  compile.vector_bytes = options.alignment;
  compile.schedule_kind = options.schedule;
  compile.sq = options.sq;
  const auto programs = plan_programs(spec->graph, *target, compile, options.rotation);
  if (!programs) return fail(programs.errors(), spec->text);
  const Backend* backend = find_backend(target->backend);
  std::string text;
  Files files;
  for (const PlannedProgram& planned : *programs) {
    const auto source = backend->emit(planned.program);
    if (!source) return fail(source.errors(), spec->text);
    text += (text.empty() ? "" : "\n") + source->text;
    if (options.directory.empty()) continue;
    if (const int code = add_files(*backend, planned.program, *source, files); code != kDone) return code;
  }
  if (options.directory.empty()) return print_text(text) ? kDone : kFailed;
  return write_all(options, files);
}

}  // namespace

Command emit_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "emit",
      .about = "The kernel's source; with -o also its binary, launch.json and a C header",
      .options = {{"spec", &options->spec, "SPEC", true},
                  {"--target", &options->target, "TARGET", true},
                  {"-o,--output", &options->directory,
                   "Folder for the files; without it the source is printed"},
                  alignment_option(options->alignment),
                  {.name = "--sq",
                   .value = &options->sq,
                   .about = "Query rows of the calls it is for, at most; it takes any number",
                   .range = Range{0, std::numeric_limits<int>::max()}},
                  rotation_option(options->rotation, Sizing::unknown),
                  schedule_option(options->schedule)},
      .action = [options] { return emit(*options); },
  };
}

}  // namespace attnfuse::cli
