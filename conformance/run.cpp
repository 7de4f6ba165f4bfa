#include "conformance/run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "conformance/metamorphic.h"
#include "conformance/stored.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {
namespace {

constexpr int kRepeats = 10;

// The last query of `inputs`, with the same keys.
Inputs last_query(const Inputs& inputs) {
  Inputs last = inputs;
  for (const char* name : kQueryTensors) {
    if (last.tensors.count(name) == 0) continue;
    HostTensor& query = last.tensors.at(name);
    const TensorLayout from = query.layout;
    const std::int64_t rows = from.shape[2];
    query.layout.shape[2] = 1;
    const auto skipped = std::size_t((rows - 1) * from.strides[2]) * std::size_t(size_in_bytes(from.dtype));
    query.bytes.erase(query.bytes.begin(), query.bytes.begin() + std::ptrdiff_t(skipped));
    query.bytes.resize(std::size_t(query.layout.span_elements()) * std::size_t(size_in_bytes(from.dtype)));
  }
  return last;
}

bool close(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(a));
}

// The oracle's own two answers for the last row, so that the device's two are compared through it.
std::string differs_from_last_row(const ProgramInfo& info, const ReferenceOutputs& all,
                                  const ReferenceOutputs& one) {
  const std::int64_t rows = all.sizes.sq, heads = all.sizes.batch * info.heads, dim = info.v_head_dim;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t last = head * rows + rows - 1;
    if (!close(all.lse[std::size_t(last)], one.lse[std::size_t(head)]))
      return fmt::format("lse of the last query alone is {}, among others {}", one.lse[std::size_t(head)],
                         all.lse[std::size_t(last)]);
    for (std::int64_t d = 0; d < dim; ++d)
      if (!close(all.o[std::size_t(last * dim + d)], one.o[std::size_t(head * dim + d)]))
        return "o of the last query alone differs from its row among others";
  }
  return {};
}

// The queries of each sequence without the first `skipped`, in plain storage of `rows` rows.
Inputs later_queries(const Inputs& inputs, std::int64_t rows, const std::vector<std::int64_t>& skipped) {
  Inputs later = inputs;
  for (const char* name : kQueryTensors) {
    if (inputs.tensors.count(name) == 0) continue;
    const HostTensor& from = inputs.tensors.at(name);
    std::vector<std::int64_t> shape = from.layout.shape;
    shape[2] = rows;
    HostTensor to = HostTensor::zeros(TensorLayout::contiguous(from.layout.dtype, shape));
    for_each_index(shape, [&](std::span<const std::int64_t> index) {
      const std::int64_t row = index[2] + skipped[std::size_t(index[0])];
      if (row < from.layout.shape[2]) to.set(index, from.get(std::array{index[0], index[1], row, index[3]}));
    });
    later.tensors.at(name) = std::move(to);
  }
  return later;
}

// The oracle's answers for the rows of each sequence from `skipped` on, among all rows and alone.
std::string differs_from_rows(const ProgramInfo& info, const Case& whole, const ReferenceOutputs& all,
                              const Case& part, const ReferenceOutputs& some,
                              const std::vector<std::int64_t>& skipped) {
  const OutputRows among(info, whole), alone(info, part);
  const std::vector<Lengths> lengths = lengths_of(part);
  const std::int64_t dim = info.v_head_dim;
  for (std::int64_t b = 0; b < part.batch; ++b)
    for (std::int64_t h = 0; h < info.heads; ++h)
      for (std::int64_t i = 0; i < lengths[std::size_t(b)].q; ++i) {
        const std::int64_t x = among.at(b, h, i + skipped[std::size_t(b)]), y = alone.at(b, h, i);
        bool same = close(all.lse[std::size_t(x)], some.lse[std::size_t(y)]);
        for (std::int64_t d = 0; d < dim; ++d)
          same = same && close(all.o[std::size_t(x * dim + d)], some.o[std::size_t(y * dim + d)]);
        if (!same) return fmt::format("row {} of the last queries of sequence {} differs alone", i, b);
      }
  return {};
}

class CaseRun {
 public:
  CaseRun(Executor& executor, const Case& c, Outcome& outcome)
      : executor_(executor), case_(c), outcome_(outcome) {}

  void run() {
    auto graph = parse_one(case_.program, case_.family);
    if (!graph) return fail(render(graph.errors(), case_.program));
    if (const auto wrong = wrong_lengths(*graph, case_)) return fail(*wrong);
    const Inputs inputs = make_inputs(*graph, case_);
    auto observed = judged_run(*graph, case_, inputs);
    if (!observed) return;
    switch (case_.check) {
      case Check::value:
        return;
      case Check::repeat:
        return check_repeat(*graph, inputs, *observed);
      case Check::decode:
        return check_decode(*graph, inputs);
      case Check::same_bits:
        return check_same_bits(*graph, *observed);
      case Check::shift:
        return check_shift(inputs);
      case Check::reverse:
        return judge_against_first(
            *graph, watched_run(*graph, case_, part_of(*graph, inputs, Size::skv, 0, case_.skv, true)),
            "with the keys in reverse: ");
      case Check::merge:
        return check_merge(*graph, inputs);
      case Check::alone:
        return check_alone(*graph, inputs, *observed);
      case Check::chunk:
        return check_chunk(*graph, inputs);
      case Check::page_order:
        return check_page_order(*graph, inputs, *observed);
    }
  }

 private:
  void fail(std::string message) {
    outcome_.verdict = Verdict::failed;
    outcome_.message = std::move(message);
  }

  std::optional<Observed> watched_run(const Graph& graph, const Case& c, const Inputs& inputs) {
    auto observed = executor_.run(graph, c, inputs);
    if (!observed) {
      // Not every machine has that many addresses.
      const bool is_too_far =
          case_.layout == Layout::far && observed.errors().front().code == "device.out-of-memory";
      outcome_.verdict = is_too_far || is_refusal(observed.errors()) ? Verdict::skipped : Verdict::failed;
      outcome_.message = render(observed.errors(), c.program);
      return std::nullopt;
    }
    if (!observed->damage.empty()) {
      fail(observed->damage);
      return std::nullopt;
    }
    return std::move(observed).value();
  }

  std::optional<Observed> judged_run(const Graph& graph, const Case& c, const Inputs& inputs) {
    const bool is_plain = graph.info().storage.is_plain();
    auto expected = is_plain ? expect(graph, inputs) : expect_sequences(graph, c, inputs);
    if (!expected) {
      fail(render(expected.errors(), c.program));
      return std::nullopt;
    }
    auto observed = watched_run(graph, c, inputs);
    if (!observed) return std::nullopt;
    const Judgement judgement = judge(graph, *expected, observed->values);
    outcome_.worst_ratio = std::max(outcome_.worst_ratio, judgement.worst_ratio);
    if (!judgement.equal) {
      fail(judgement.message);
      outcome_.maps = error_maps(graph, *expected, observed->values);
      return std::nullopt;
    }
    expected_ = std::move(expected).value();
    return observed;
  }

  // Outputs of another call that must be those of the first.
  void judge_against_first(const Graph& graph, const std::optional<Observed>& observed,
                           const std::string& what) {
    if (!observed) return;
    const Judgement judgement = judge(graph, *expected_, observed->values);
    outcome_.worst_ratio = std::max(outcome_.worst_ratio, judgement.worst_ratio);
    if (!judgement.equal) fail(what + judgement.message);
  }

  void check_shift(const Inputs& inputs) {
    constexpr double kShift = 8;
    Case shifted = case_;
    shifted.program = with_shifted_scores(case_.program, kShift);
    const auto graph = parse_one(shifted.program);
    if (!graph) return fail(render(graph.errors(), shifted.program));
    auto observed = watched_run(*graph, shifted, inputs);
    if (!observed) return;
    for (double& lse : observed->values.lse) lse -= kShift;
    for (double& lse : observed->values.lse2) lse -= kShift;
    judge_against_first(*graph, observed, "with all scores moved: ");
  }

  void check_merge(const Graph& graph, const Inputs& inputs) {
    std::vector<Observed> parts;
    const std::int64_t middle = case_.skv * 2 / 5;
    for (const auto& [first, count] : {std::pair{std::int64_t(0), middle}, {middle, case_.skv - middle}}) {
      Case part = case_;
      part.skv = count;
      auto observed = watched_run(graph, part, part_of(graph, inputs, Size::skv, first, count));
      if (!observed) return;
      parts.push_back(std::move(*observed));
    }
    parts[0].values = merged(parts[0].values, parts[1].values, graph.info().v_head_dim);
    judge_against_first(graph, parts[0], "merged from two parts of the keys: ");
  }

  void check_alone(const Graph& graph, const Inputs& inputs, const Observed& all) {
    Case one = case_;
    one.batch = 1;
    OutputValues joined;
    for (std::int64_t b = 0; b < case_.batch; ++b) {
      const auto observed = watched_run(graph, one, part_of(graph, inputs, Size::batch, b, 1));
      if (!observed) return;
      joined.o.insert(joined.o.end(), observed->values.o.begin(), observed->values.o.end());
      joined.lse.insert(joined.lse.end(), observed->values.lse.begin(), observed->values.lse.end());
    }
    if (joined.o != all.values.o || joined.lse != all.values.lse)
      fail("batch entries alone give other bits than together");
  }

  void check_repeat(const Graph& graph, const Inputs& inputs, const Observed& first) {
    for (int n = 0; n < kRepeats; ++n) {
      const auto again = watched_run(graph, case_, inputs);
      if (!again) return;
      if (again->bits != first.bits)
        return fail(fmt::format("launch {} gave other bits than the first", n + 2));
    }
  }

  void check_decode(const Graph& graph, const Inputs& inputs) {
    if (case_.sq < 1) return;
    const ReferenceOutputs all = expected_->exact;
    Case one = case_;
    one.sq = 1;
    if (!judged_run(graph, one, last_query(inputs))) {
      outcome_.message = "last query alone: " + outcome_.message;
      return;
    }
    if (const std::string difference = differs_from_last_row(graph.info(), all, expected_->exact);
        !difference.empty())
      fail(difference);
  }

  void check_same_bits(const Graph& graph, const Observed& first) {
    Case clean = case_;
    clean.data = Data::normal;
    const auto observed = watched_run(graph, clean, make_inputs(graph, clean));
    if (observed && observed->bits != first.bits) fail("other bits than without poison");
  }

  void check_page_order(const Graph& graph, const Inputs& inputs, const Observed& first) {
    Case ordered = case_;
    ordered.pages = Pages::ordered;
    const auto observed = watched_run(graph, ordered, inputs);
    if (observed && observed->bits != first.bits) fail("other bits than with pages in order");
  }

  // Causal programs that align at the end see the same keys from the same rows.
  void check_chunk(const Graph& graph, const Inputs& inputs) {
    if (!graph.info().storage.ragged) return fail("only ragged sequences have chunks of their own lengths");
    const ReferenceOutputs all = expected_->exact;
    std::vector<Lengths> lengths = lengths_of(case_);
    std::vector<std::int64_t> skipped;
    for (Lengths& own : lengths) {
      skipped.push_back(own.q - (own.q + 2) / 3);
      own.q -= skipped.back();
    }
    Case last = case_;
    set_lengths(last, lengths);
    if (!judged_run(graph, last, later_queries(inputs, last.sq, skipped))) {
      outcome_.message = "last queries alone: " + outcome_.message;
      return;
    }
    if (const std::string difference =
            differs_from_rows(graph.info(), case_, all, last, expected_->exact, skipped);
        !difference.empty())
      fail(difference);
  }

  Executor& executor_;
  const Case& case_;
  Outcome& outcome_;
  std::optional<Expectation> expected_;  // of the last run that was judged
};

}  // namespace

Outcome run_case(Executor& executor, const Case& c) {
  Outcome outcome{.tested = c, .verdict = Verdict::passed, .message = {}, .worst_ratio = 0, .seconds = 0};
  const auto begin = std::chrono::steady_clock::now();
  try {
    CaseRun(executor, c, outcome).run();
  } catch (const InternalError& error) {
    outcome.verdict = Verdict::failed;
    outcome.message = std::string("internal error: ") + error.what();
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

bool is_refusal(const Diagnostics& diagnostics) {
  constexpr std::string_view kRefusals[] = {"schedule.does-not-fit", "target.", "toolkit.missing",
                                            "launch.too-long"};
  return std::ranges::any_of(diagnostics, [&](const Diagnostic& diagnostic) {
    return std::ranges::any_of(kRefusals,
                               [&](std::string_view prefix) { return diagnostic.code.starts_with(prefix); });
  });
}

Summary summarize(const std::vector<Outcome>& outcomes) {
  Summary summary;
  for (const Outcome& outcome : outcomes) {
    switch (outcome.verdict) {
      case Verdict::passed:
        ++summary.passed;
        break;
      case Verdict::failed:
        ++summary.failed;
        break;
      case Verdict::skipped:
        ++summary.skipped;
        break;
    }
    if (outcome.worst_ratio > summary.worst_ratio) {
      summary.worst_ratio = outcome.worst_ratio;
      summary.worst_line = to_line(outcome.tested);
    }
  }
  return summary;
}

std::string to_string(const Summary& summary) {
  return fmt::format("{} passed, {} failed, {} skipped; worst error {:.2f} of its budget", summary.passed,
                     summary.failed, summary.skipped, summary.worst_ratio);
}

}  // namespace attnfuse::conformance
