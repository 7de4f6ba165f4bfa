// attnfuse run: executes a program on the user's tensors, or on random ones, and can compare with the
// reference.
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/executor.h"
#include "conformance/stored.h"
#include "frontend/cli/best_device.h"
#include "frontend/cli/command.h"
#include "frontend/cli/rotation.h"
#include "runtime/reference.h"
#include "runtime/safetensors.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::string spec, target, shape, lengths, inputs, outputs;
  std::uint64_t seed = 1;
  bool check = false;
  Rotation rotation = Rotation::automatic;
  ScheduleKind schedule = ScheduleKind::automatic;
};

struct Call {
  conformance::Inputs inputs;  // as they are stored
  Sizes sizes;
  // What they were made from, where they are random.
  std::optional<std::pair<conformance::Case, conformance::Inputs>> made = {};
};

Result<conformance::Case> random_case(const Options& options) {
  conformance::Case c;
  c.seed = options.seed;
  if (!options.lengths.empty()) {
    auto lengths = conformance::parse_lengths(options.lengths);
    if (!lengths) return lengths.errors();
    conformance::set_lengths(c, std::move(lengths).value());
    return c;
  }
  const auto sizes = parse_shape(options.shape);
  if (!sizes) return sizes.errors();
  c.batch = sizes->batch;
  c.sq = sizes->sq;
  c.skv = sizes->skv;
  return c;
}

Result<Call> random_call(const Graph& graph, const Options& options) {
  const auto c = random_case(options);
  if (!c) return c.errors();
  if (const auto wrong = conformance::wrong_lengths(graph, *c))
    return Diagnostic{"run.lengths",
                      "lengths do not suit the program's storage: " + *wrong,
                      {},
                      "with 'storage ragged' every sequence has lengths of its own"};
  conformance::Inputs inputs = conformance::make_inputs(graph, *c);
  conformance::Stored stored = conformance::store(graph, *c, inputs);
  return Call{std::move(stored.inputs), stored.sizes, std::pair{*c, std::move(inputs)}};
}

Result<Call> users_call(const Graph& graph, const Options& options) {
  auto tensors = read_safetensors(options.inputs);
  if (!tensors) return tensors.errors();
  Call call;
  call.inputs.tensors = std::move(tensors).value();
  std::map<std::string, TensorLayout> layouts;
  for (const auto& [name, tensor] : call.inputs.tensors) {
    layouts[name] = tensor.layout;
    call.inputs.offsets[name] = 0;
  }
  const auto sizes = check_inputs(graph, layouts);
  if (!sizes) return sizes.errors();
  call.sizes = *sizes;
  call.inputs.value_scale = conformance::largest_magnitude(call.inputs.tensors.at("v"));
  return call;
}

Result<conformance::Expectation> expected(const Graph& graph, const Call& call) {
  if (graph.info().storage.is_plain()) return conformance::expect(graph, call.inputs);
  if (call.made) return conformance::expect_sequences(graph, call.made->first, call.made->second);
  return Diagnostic{"run.check",
                    "the reference takes your tensors in plain storage only",
                    {},
                    "check the program on random inputs, with --lengths"};
}

int check(const Graph& graph, const Call& call, const conformance::Observed& observed) {
  const auto expectation = expected(graph, call);
  if (!expectation) return fail(expectation.errors());
  const auto judgement = conformance::judge(graph, *expectation, observed.values);
  fmt::print("{}: largest error of o {:.3g}, of lse {:.3g}; {:.2f} of what {} rounding allows\n",
             judgement.equal ? "equals the reference" : "DIFFERS from the reference", judgement.o_error,
             judgement.lse_error, judgement.worst_ratio, name(graph.info().dtype));
  if (judgement.equal) return kDone;
  fmt::print("{}\n", judgement.message);
  return kFailed;
}

// Sequences whose lengths only the device knows are told by the shapes of what holds them.
std::string sizes_text(const Graph& graph, const Call& call) {
  if (graph.info().storage.is_plain())
    return fmt::format("b={} sq={} skv={}", call.sizes.batch, call.sizes.sq, call.sizes.skv);
  std::string text = fmt::format("b={}", call.sizes.batch);
  for (const char* name : {"q", "k", "v"})
    text += fmt::format(" {}=[{}]", name, fmt::join(call.inputs.tensors.at(name).layout.shape, ","));
  return text;
}

int run(Options options) {
  const auto spec = load_spec(options.spec);
  if (!spec) return kFailed;
  if (!options.inputs.empty() + !options.shape.empty() + !options.lengths.empty() != 1)
    return fail({{"run.inputs",
                  "give one of --inputs, --shape and --lengths",
                  {},
                  "--shape b=1,sq=128,skv=128 makes random inputs"}});
  const auto call =
      options.inputs.empty() ? random_call(spec->graph, options) : users_call(spec->graph, options);
  if (!call) return fail(call.errors(), spec->text);

  if (options.target.empty()) {
    auto best = best_device();
    if (!best) return fail(best.errors());
    options.target = *best;
  }
  auto opened = conformance::Executor::open(options.target, with_schedule(options.schedule));
  if (!opened) return fail(opened.errors());
  auto executor = std::move(opened).value();
  auto prepared = executor.prepare(spec->graph, spec->text, call->inputs, call->sizes,
                                   conformance::Layout::bhsd, options.rotation);
  if (!prepared) return fail(prepared.errors(), spec->text);
  if (auto status = executor.launch(*prepared); !status) return fail(status.errors());
  auto observed = executor.read(*prepared);
  if (!observed) return fail(observed.errors());
  ATTNFUSE_CHECK(observed->damage.empty(), observed->damage);
  fmt::print("{} on {} ({}): {}\n", spec->graph.info().name, executor.device().name(), executor.target().name,
             sizes_text(spec->graph, *call));

  const int result = options.check ? check(spec->graph, *call, *observed) : kDone;
  if (!options.outputs.empty())
    if (auto status = write_safetensors(options.outputs, observed->outputs); !status)
      return fail(status.errors());
  return result;
}

}  // namespace

Command run_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "run",
      .about = "Executes a program on your tensors or on random ones",
      .options = {{"spec", &options->spec, "SPEC", true},
                  {"--target", &options->target, "TARGET; the best device present when left out"},
                  {"--shape", &options->shape,
                   "Random inputs of this shape, for example b=2,sq=1024,skv=1024"},
                  {"--lengths", &options->lengths,
                   "Random inputs of sequences of these lengths, queries/keys, for example 17/65,1/130"},
                  {"--seed", &options->seed, "Seed of the random inputs"},
                  {"--inputs", &options->inputs,
                   "Safetensors file with q, k, v, captured tensors and those of the storage form by name"},
                  {"--outputs", &options->outputs, "Safetensors file to write o, lse and other outputs to"},
                  rotation_option(options->rotation, Sizing::known),
                  {"--check", &options->check, "Compare with the double-precision reference"},
                  schedule_option(options->schedule)},
      .action = [options] { return run(*options); },
  };
}

}  // namespace attnfuse::cli
