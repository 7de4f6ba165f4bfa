// What the subcommands of the tool share. Exit codes: 0 done, 1 the input or the machine is at fault
// (diagnostics on stderr), 2 wrong usage, 3 an error of ours.
#pragma once

#include <string>
#include <string_view>

#include "frontend/cli/options.h"
#include "ir/graph.h"
#include "passes/passes.h"
#include "runtime/tensor.h"

namespace attnfuse::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInternal = 3;

Command blocks_command();
Command targets_command();
Command show_command();
Command emit_command();
Command run_command();
Command explain_command();
Command conform_command();
Command bench_command();
Command demo_command();

// --schedule automatic | portable | hopper
Option schedule_option(ScheduleKind& kind);
// The same choice as arguments of a command, with a space ahead; "" if automatic.
std::string schedule_arguments(ScheduleKind kind);
inline CompileOptions with_schedule(ScheduleKind kind) {
  CompileOptions options;
  options.schedule_kind = kind;
  return options;
}

// --alignment 2 | 4 | 8 | 16
Option alignment_option(int& bytes);

// A program and the text it came from.
struct Spec {
  std::string text;
  Graph graph;
};
// `spec` is a file, "-" for standard input, or an example's name. Prints diagnostics when there is no graph.
std::optional<Spec> load_spec(const std::string& spec);

// "b=2,sq=1024,skv=1024" in any order; sq = skv when one is missing, b = 1. Diagnostic "shape.syntax".
Result<Sizes> parse_shape(std::string_view text);

// Prints diagnostics on stderr and returns kFailed.
int fail(const Diagnostics& diagnostics, std::string_view source = {});

// The whole file or nothing: written beside `path` and renamed. Diagnostic "file.write".
Status write_file(const std::string& path, std::string_view bytes);

// Text on stdout; false when it could not be written.
bool print_text(std::string_view text);

}  // namespace attnfuse::cli
