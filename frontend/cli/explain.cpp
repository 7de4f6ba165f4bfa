// attnfuse explain: how a program is scheduled on a target, and what its mask makes of the score tiles.
#include <fmt/format.h>

#include "backends/backend.h"
#include "bench/work.h"
#include "frontend/cli/command.h"
#include "frontend/cli/rotation.h"
#include "ir/storage.h"
#include "passes/data_bounds.h"
#include "passes/passes.h"
#include "passes/pipelined_tiles.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::string spec, target, shape = "b=1,sq=1024,skv=1024", picture;
  int alignment = 16;
  bool rotation_table = false;
  Rotation rotation = Rotation::automatic;
  ScheduleKind schedule = ScheduleKind::automatic;
};

std::string copy_text(CopyKind copy) {
  switch (copy) {
    case CopyKind::direct:
      return "where it is needed";
    case CopyKind::staged:
      return "through registers, one step ahead";
    case CopyKind::async:
      return "in the background, one step ahead";
    case CopyKind::bulk:
      return "by the copy engine, as far ahead as slots allow";
  }
  return {};
}

std::string schedule_text(const TileProgram& program) {
  const Schedule& s = program.schedule;
  const Target& t = program.target;
  const Footprint& f = program.footprint;
  std::string text = fmt::format("target     {}: {}; {}\n", t.name, t.title, summary(t));
  text += fmt::format("schedule   {} ({}): {} query rows x {} keys a step, {} warps of {} rows\n", s.name,
                      s.source, s.block_q, s.block_k, s.warps, s.rows_per_warp);
  text += fmt::format("products   {}, {} x {} x {}{}\n", program.unit.leaf, program.unit.m, program.unit.n,
                      program.unit.k, program.unit.transposed ? ", transposed" : "");
  text += fmt::format("keys       copied {}, {} bytes at a time\n", copy_text(s.copy), s.vector_bytes);
  if (program.value_parts() > 1)
    text += fmt::format("values     {} workgroups for each tile compute its scores, for {} columns each\n",
                        program.value_parts(), program.value_columns());
  text += fmt::format("threads    {} of {}\n", f.threads, t.max_threads);
  text += fmt::format("shared     {} of {} bytes\n", f.shared_bytes, t.shared_bytes);
  text += fmt::format("registers  {} of {} a thread (estimate)\n", f.registers, t.registers_per_thread);
  return text;
}

// What a storage form asks for and rules out.
std::string storage_text(const Graph& graph) {
  const Storage& storage = graph.info().storage;
  if (storage.is_plain()) return {};
  std::string tensors;
  for (const TensorInfo& tensor : storage_tensors(storage))
    tensors += (tensors.empty() ? "" : ", ") + tensor.name;
  return fmt::format(
      "storage    {}: lengths and places of sequences from {}\n"
      "           transforms run inside attention, and no kernel ahead of it bounds keys\n",
      to_string(storage), tensors);
}

// Why a target's schedule with roles is not used, where the program itself is the reason.
std::string refusal_text(const Graph& graph, const Target& target) {
  if (!target.pipeline) return {};
  const auto optimized = run_graph_passes(graph);
  const std::string why = optimized ? pipeline_refusal(*optimized, target) : "";
  return why.empty() ? "" : fmt::format("           not {}: {}\n", target.pipeline->schedule, why);
}

std::string resources_text(const Backend& backend, const TileProgram& program) {
  const auto source = backend.emit(program);
  if (!source) return render(source.errors()) + "\n";
  const auto binary = backend.assemble(*source, program.target);
  if (!binary) return fmt::format("assembled  no: {}\n", binary.errors().front().message);
  const auto number = [](int value) {
    return value < 0 ? std::string("not reported") : std::to_string(value);
  };
  return fmt::format("assembled  {} bytes of {}; registers {}, spilled bytes {}, shared bytes {}\n",
                     binary->bytes.size(), binary->format, number(binary->resources.registers),
                     number(binary->resources.spill_bytes), number(binary->resources.shared_bytes));
}

std::string tiles_text(const Graph& graph, const bench::TileMap& map, const Sizes& sizes,
                       const Schedule& schedule) {
  using bench::TileClass;
  return fmt::format(
      "tiles      {} of {} x {}: {} empty (not visited), {} full (no mask code), {} partial\n"
      "work       {:.4g} GFLOP at b={} sq={} skv={}\n",
      map.tiles.size(), schedule.block_q, schedule.block_k, map.count(TileClass::empty),
      map.count(TileClass::full), map.count(TileClass::partial), bench::matrix_flops(graph, sizes) / 1e9,
      sizes.batch, sizes.sq, sizes.skv);
}

int explain(const Options& options) {
  const auto spec = load_spec(options.spec);
  if (!spec) return kFailed;
  const auto target = find_target(options.target);
  if (!target) return fail(target.errors());
  const auto sizes = parse_shape(options.shape);
  if (!sizes) return fail(sizes.errors());
  CompileOptions compile;
  compile.vector_bytes = options.alignment;
  compile.schedule_kind = options.schedule;
  compile.sq = sizes->sq;
  if (options.rotation_table) {
    const auto table = rotation_markdown(spec->graph, *target);
    if (!table) return fail(table.errors(), spec->text);
    return print_text(*table) ? kDone : kFailed;
  }
  const auto costs = predict_rotation(spec->graph, *target, compile, {sizes->batch, sizes->sq, sizes->skv});
  if (!costs) return fail(costs.errors(), spec->text);
  const Rotation rotation =
      options.rotation == Rotation::automatic ? choose_rotation(*costs) : options.rotation;
  const auto programs = plan_programs(spec->graph, *target, compile, rotation);
  if (!programs) return fail(programs.errors(), spec->text);
  const TileProgram* const program = &programs->back().program;

  const auto map = bench::tile_map(spec->graph, *sizes, program->schedule.block_q, program->schedule.block_k);
  std::string text = schedule_text(*program) + storage_text(spec->graph) +
                     refusal_text(spec->graph, *target) +
                     resources_text(*find_backend(target->backend), *program) +
                     tiles_text(spec->graph, map, *sizes, program->schedule);
  if (const auto optimized = run_graph_passes(spec->graph); optimized && has_data_bounds(*optimized))
    text += "bounds     of each query tile's keys by a kernel ahead of attention: the mask reads data\n";
  if (costs->size() > 1) text += rotation_text(*costs);
  if (!options.picture.empty()) {
    const std::string title = fmt::format("{} on {}, sq={} skv={}, head 0", program->info.name, target->name,
                                          sizes->sq, sizes->skv);
    if (auto status = write_file(options.picture, bench::svg(map, title)); !status)
      return fail(status.errors());
    text += "picture    " + options.picture + "\n";
  }
  return print_text(text) ? kDone : kFailed;
}

}  // namespace

Command explain_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "explain",
      .about = "Schedule, tile classes, registers and shared memory",
      .options = {{"spec", &options->spec, "SPEC", true},
                  {"--target", &options->target, "TARGET", true},
                  {"--shape", &options->shape, "For example b=1,sq=4096,skv=4096"},
                  alignment_option(options->alignment),
                  rotation_option(options->rotation, Sizing::known),
                  {"--rotation-table", &options->rotation_table,
                   "Only the predicted times of every rotation over many lengths, as a table"},
                  {"--picture", &options->picture, "SVG file of the tile classes of head 0"},
                  schedule_option(options->schedule)},
      .action = [options] { return explain(*options); },
  };
}

}  // namespace attnfuse::cli
