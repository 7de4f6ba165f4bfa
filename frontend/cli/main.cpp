// attnfuse: from attention specs to verified kernels. One file per subcommand.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "frontend/cli/command.h"

int main(int argc, char** argv) {
  using namespace attnfuse;
  CLI::App app{"Compiles attention written in building blocks to fused kernels and checks them.", "attnfuse"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "attnfuse 0.1.0");
  app.footer(
      "SPEC is a file, - for standard input, or an example's name (see: attnfuse blocks).\n"
      "TARGET is a backend or one of its architectures (see: attnfuse targets).");
  cli::Action action;
  for (const auto add : {cli::add_blocks, cli::add_targets, cli::add_show, cli::add_emit, cli::add_run,
                         cli::add_explain, cli::add_conform, cli::add_bench, cli::add_demo})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kDone : cli::kUsage;
  }
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
