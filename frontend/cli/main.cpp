// attnfuse: from attention specs to verified kernels. One file per subcommand.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "frontend/cli/command.h"
#include "frontend/cli/plugin.h"

int main(int argc, char** argv) {
  using namespace attnfuse;
  cli::Command tool{
      .name = "attnfuse",
      .about = "Compiles attention written in building blocks to fused kernels and checks them.",
      .commands = {cli::blocks_command(), cli::targets_command(), cli::show_command(), cli::emit_command(),
                   cli::run_command(), cli::explain_command(), cli::conform_command(), cli::bench_command(),
                   cli::demo_command()},
  };
  cli::add_plugin_option(tool);
  const cli::Action action = cli::read_command_line(
      tool, "attnfuse 0.1.0",
      "SPEC is a file, - for standard input, or an example's name (see: attnfuse blocks).\n"
      "TARGET is a backend or one of its architectures (see: attnfuse targets).",
      argc, argv);
  try {
    return action();
  } catch (const InternalError& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return cli::kInternal;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error[memory]: out of host memory\n");
    return cli::kFailed;
  }
}
