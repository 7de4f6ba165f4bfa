#include "runtime/compile.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ir/analysis.h"
#include "runtime/process.h"

namespace attnfuse {
namespace {

// Writes the stages of one compilation, numbered, where ATTNFUSE_DUMP says; nothing when it says nothing.
class Dump {
 public:
  Dump(const std::string& program, const Target& target, Diagnostics& notes) : notes_(notes) {
    const char* directory = std::getenv("ATTNFUSE_DUMP");
    if (!directory || !*directory) return;
    directory_ = std::filesystem::path(directory) / (program + "." + target.arch);
    std::error_code error;
    std::filesystem::create_directories(directory_, error);  // where it fails, writing says why
  }

  void write(std::string_view stage, std::string_view extension, std::string_view text) {
    if (directory_.empty()) return;
    if (auto status = write_file(directory_ / fmt::format("{:02}-{}.{}", number_++, stage, extension), text);
        !status)
      notes_.insert(notes_.end(), status.errors().begin(), status.errors().end());
  }

 private:
  std::filesystem::path directory_;
  int number_ = 0;
  Diagnostics& notes_;
};

std::string_view as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Source> source_text(const Backend& backend, const TileProgram& program) {
  auto source = backend.emit(program);
  const char* edited = std::getenv("ATTNFUSE_SOURCE");
  if (!source || !edited || !*edited) return source;
  auto text = read_file(edited);
  if (!text) return text.errors();
  return Source{std::move(text).value(), source->entry, source->extension};
}

// From the cache, or by the assembler and then cached.
Result<Binary> assembled(const Backend& backend, const Source& source, const Target& target,
                         KernelCache& cache, bool& from_cache, Diagnostics& notes) {
  const std::string assembler = backend.assembler();
  if (assembler.empty()) return backend.assemble(source, target);
  const std::string key = fmt::format("{}\n{}\n{}\n{}", target.name, assembler, source.entry, source.text);
  if (auto found = cache.find(key)) return from_cache = true, std::move(*found);
  auto binary = backend.assemble(source, target);
  if (!binary) return binary;
  const Diagnostics stored = cache.store(key, *binary);
  notes.insert(notes.end(), stored.begin(), stored.end());
  return binary;
}

// Source text and binary of a program.
Result<Compiled> assembled_program(TileProgram program, const Backend& backend, KernelCache& cache,
                                   Dump& dump, Diagnostics& notes) {
  auto source = source_text(backend, program);
  if (!source) return source.errors();
  dump.write("source", source->extension, source->text);
  bool from_cache = false;
  auto binary = assembled(backend, *source, program.target, cache, from_cache, notes);
  if (!binary) return binary.errors();
  dump.write("binary", binary->format, as_text(binary->bytes));
  if (!binary->log.empty()) dump.write("assembler", "log", binary->log);
  return Compiled{std::move(program), std::move(source).value(), std::move(binary).value(), from_cache,
                  std::move(notes)};
}

Result<Compiled> compile_one(const Graph& graph, const Backend& backend, const Target& target,
                             const CompileOptions& options, KernelCache& cache) {
  Diagnostics notes;
  Dump dump(graph.info().name, target, notes);
  dump.write("program", "af", print(graph));
  CompileOptions observed = options;
  observed.observe = [&](std::string_view stage, const std::string& text, double seconds) {
    dump.write(stage, stage.substr(0, 5) == "lower" ? "tile" : "af", text);
    if (options.observe) options.observe(stage, text, seconds);
  };
  auto program = compile_to_tiles(graph, target, observed);
  if (!program) return program.errors();
  return assembled_program(std::move(program).value(), backend, cache, dump, notes);
}

// Products are waited for where they are issued, which the assembler reports as one of its messages C75xx.
bool is_serialized(const Compiled& compiled) { return compiled.binary.log.find("C75") != std::string::npos; }

// Whether the assembler kept what a schedule with roles promises: everything in registers, products beside
// other work.
bool keeps_promise(const Compiled& compiled) {
  return compiled.program.schedule.groups == 0 ||
         (compiled.binary.resources.spill_bytes <= 0 && !is_serialized(compiled));
}

// A few bytes in memory cost less than going without the machine's own units.
bool nearly_keeps_promise(const Compiled& compiled) {
  constexpr int kFewBytes = 256;
  return compiled.binary.resources.spill_bytes <= kFewBytes && !is_serialized(compiled);
}

}  // namespace

Result<Compiled> compile(const TileProgram& program, const Backend& backend, KernelCache& cache) {
  Diagnostics notes;
  Dump dump(program.name, program.target, notes);
  dump.write("lower", "tile", print(program));
  return assembled_program(program, backend, cache, dump, notes);
}

Result<Compiled> compile(const Graph& graph, const Backend& backend, const Target& target,
                         const CompileOptions& options, KernelCache& cache) {
  if (auto mistakes = verify(graph); !mistakes.empty()) return mistakes;
  if (!options.schedule.source.empty()) return compile_one(graph, backend, target, options, cache);
  const auto choices = schedule_choices(graph, target, options.vector_bytes, kind_for(options), options.sq);
  if (!choices) return choices.errors();
  std::optional<Compiled> best;
  for (const Schedule& schedule : *choices) {
    if (schedule.groups == 0 && best && nearly_keeps_promise(*best)) break;
    CompileOptions chosen = options;
    chosen.schedule = schedule;
    auto compiled = compile_one(graph, backend, target, chosen, cache);
    if (!compiled || keeps_promise(*compiled)) return compiled;
    // The one that keeps most of its promise: for want of a better one, or where it was asked for.
    if (!best || compiled->binary.resources.spill_bytes < best->binary.resources.spill_bytes)
      best = std::move(compiled).value();
  }
  best->notes.push_back(
      {"schedule.spills",
       fmt::format("the kernel keeps {} bytes a thread in memory that should be in registers",
                   best->binary.resources.spill_bytes),
       {},
       "compare with the portable schedule, which may be faster for this program"});
  return std::move(*best);
}

Result<Compiled> compile(const Graph& graph, const Target& target, const CompileOptions& options) {
  const Backend* backend = find_backend(target.backend);
  ATTNFUSE_CHECK(backend, "a target without backend: " + target.name);
  return compile(graph, *backend, target, options);
}

}  // namespace attnfuse
