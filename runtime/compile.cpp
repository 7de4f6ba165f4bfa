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
  Dump(const Graph& graph, const Target& target, Diagnostics& notes) : notes_(notes) {
    const char* directory = std::getenv("ATTNFUSE_DUMP");
    if (!directory || !*directory) return;
    directory_ = std::filesystem::path(directory) / (graph.info().name + "." + target.arch);
    std::error_code error;
    std::filesystem::create_directories(directory_, error);  // where it fails, writing says why
    write("program", "af", print(graph));
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

}  // namespace

Result<Compiled> compile(const Graph& graph, const Backend& backend, const Target& target,
                         const CompileOptions& options, KernelCache& cache) {
  if (auto mistakes = verify(graph); !mistakes.empty()) return mistakes;
  Diagnostics notes;
  Dump dump(graph, target, notes);
  CompileOptions observed = options;
  observed.observe = [&](std::string_view stage, const std::string& text, double seconds) {
    dump.write(stage, stage.substr(0, 5) == "lower" ? "tile" : "af", text);
    if (options.observe) options.observe(stage, text, seconds);
  };
  auto program = compile_to_tiles(graph, target, observed);
  if (!program) return program.errors();
  auto source = source_text(backend, *program);
  if (!source) return source.errors();
  dump.write("source", source->extension, source->text);

  const std::string key =
      fmt::format("{}\n{}\n{}\n{}", target.name, backend.assembler(), source->entry, source->text);
  std::optional<Binary> cached = cache.find(key);
  const bool from_cache = cached.has_value();
  if (!cached) {
    auto assembled = backend.assemble(*source, target);
    if (!assembled) return assembled.errors();
    cached = std::move(assembled).value();
    const Diagnostics stored = cache.store(key, *cached);
    notes.insert(notes.end(), stored.begin(), stored.end());
  }
  dump.write("binary", cached->format, as_text(cached->bytes));
  if (!cached->log.empty()) dump.write("assembler", "log", cached->log);
  return Compiled{std::move(program).value(), std::move(source).value(), std::move(*cached), from_cache,
                  std::move(notes)};
}

Result<Compiled> compile(const Graph& graph, const Target& target, const CompileOptions& options) {
  const Backend* backend = find_backend(target.backend);
  ATTNFUSE_CHECK(backend, "a target without backend: " + target.name);
  return compile(graph, *backend, target, options);
}

}  // namespace attnfuse
