#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <utility>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

void fill(StageValues& values) {
  for (std::size_t d = 0; d < values.row.size(); ++d) values.row[d] = std::sin(1.7 * double(d) + 0.3) * 3;
}

// A row, and what becomes of it.
template <class Wanted>
void check_row(const std::string& lines, const At& at, Wanted wanted,
               const std::map<std::string, std::vector<double>>& tensors = {}) {
  CAPTURE(lines);
  const bool is_query = lines.find("query ") != std::string::npos;
  StageValues values(lines);
  fill(values);
  values.tensors = tensors;
  const std::vector<double> expected = wanted(values.row);
  for (std::int64_t d = 0; d < 16; ++d) {
    CAPTURE(d);
    At here = at;
    here.d = d;
    CHECK((is_query ? values.query(here) : values.key(here)) ==
          doctest::Approx(expected[std::size_t(d)]).epsilon(1e-9).scale(1));
  }
}

// ---- rope ---------------------------------------------------------------------------------------------

// Pair p turned by angles[p]; elements first(p) and second(p).
std::vector<double> turned(std::vector<double> row, const std::vector<double>& angles, bool half,
                           double factor = 1, std::size_t distance = 0, std::size_t start = 0) {
  if (distance == 0) distance = angles.size();
  for (std::size_t p = 0; p < angles.size(); ++p) {
    const std::size_t first = half ? p : start + 2 * p, second = half ? p + distance : first + 1;
    const auto z = factor * std::complex(row[first], row[second]) * std::polar(1.0, angles[p]);
    row[first] = z.real();
    row[second] = z.imag();
  }
  return row;
}

std::vector<double> frequencies(double theta, int n, int count) {
  std::vector<double> result;
  for (int p = 0; p < count; ++p) result.push_back(1 / std::pow(theta, double(2 * p) / n));
  return result;
}

template <class Function>
std::vector<double> mapped(std::vector<double> values, Function function) {
  for (std::size_t p = 0; p < values.size(); ++p) values[p] = function(values[p], p);
  return values;
}

TEST_CASE("rope scalings linear and NTK change frequencies as their authors wrote") {
  check_row("key rope(scaling = linear(4))", {.j = 37, .skv = 50}, [](const auto& row) {
    return turned(row, mapped(frequencies(1e4, 16, 8), [](double f, auto) { return 37.0 / 4 * f; }), true);
  });
  const auto ntk = [](double theta, double factor) { return theta * std::pow(factor, 16.0 / 14); };
  check_row("key rope(theta = 500, scaling = ntk(factor = 3))", {.j = 37, .skv = 50}, [&](const auto& row) {
    return turned(row, mapped(frequencies(ntk(500, 3), 16, 8), [](double f, auto) { return 37 * f; }), true);
  });
  for (const auto& [skv, factor] : {std::pair(50, 1.0), std::pair(200, 2 * 200 / 100.0 - 1)})
    check_row("key rope(scaling = dynamic_ntk(2, original_context = 100))", {.j = 37, .skv = skv},
              [&](const auto& row) {
                return turned(
                    row, mapped(frequencies(ntk(1e4, factor), 16, 8), [](double f, auto) { return 37 * f; }),
                    true);
              });
}

// As the YaRN repository and transformers compute it.
std::vector<double> yarn_frequencies(double theta, int n, double factor, double original, double fast,
                                     double slow, bool truncate) {
  const auto correction = [&](double rotations) {
    return n * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = correction(fast), high = correction(slow);
  if (truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, double(n - 1));
  if (low == high) high += 0.001;
  return mapped(frequencies(theta, n, n / 2), [&](double f, std::size_t p) {
    const double ramp = std::min(std::max((double(p) - low) / (high - low), 0.0), 1.0);
    return f / factor * ramp + f * (1 - ramp);
  });
}

TEST_CASE("rope scales by parts, and YaRN grows what it turns") {
  const auto at_91 = [](std::vector<double> f) {
    return mapped(std::move(f), [](double x, auto) { return 91 * x; });
  };
  check_row("key rope(theta = 150, scaling = ntk_by_parts(8, original_context = 256))", {.j = 91, .skv = 99},
            [&](const auto& row) {
              return turned(row, at_91(yarn_frequencies(150, 16, 8, 256, 32, 1, true)), true);
            });
  check_row("key rope(theta = 1e4, pairs = interleaved, scaling = yarn(32, 4096))", {.j = 91, .skv = 99},
            [&](const auto& row) {
              return turned(row, at_91(yarn_frequencies(1e4, 16, 32, 4096, 32, 1, true)), false,
                            0.1 * std::log(32.0) + 1);
            });
  check_row(
      "key rope(theta = 150000, dims = 8, scaling = yarn(factor = 32, original_context = 4096, beta_fast "
      "= 8, beta_slow = 2, attention_factor = 1.25, truncate = no))",
      {.j = 91, .skv = 99}, [&](const auto& row) {
        return turned(row, at_91(yarn_frequencies(150000, 8, 32, 4096, 8, 2, false)), true, 1.25);
      });
}

TEST_CASE("longrope divides every frequency by its own number, another one for long contexts") {
  const std::string lines =
      "param s : f32[8] param l : f32[8] key rope(scaling = longrope(s, l, original_context = 100, factor = "
      "4))";
  std::map<std::string, std::vector<double>> tensors{{"s", {1, 1.5, 2, 2, 3, 3, 4, 5}},
                                                     {"l", {1, 2, 4, 8, 16, 32, 64, 64}}};
  for (std::int64_t skv : {100, 101})
    check_row(
        lines, {.j = 37, .skv = skv},
        [&](const auto& row) {
          const auto& divisors = tensors.at(skv == 100 ? "s" : "l");
          return turned(
              row,
              mapped(frequencies(1e4, 16, 8), [&](double f, std::size_t p) { return 37 * f / divisors[p]; }),
              true, std::sqrt(1 + std::log(4.0) / std::log(100.0)));
        },
        tensors);
}

TEST_CASE("rope sets pairs apart, starts later and divides by what it is told") {
  const auto at_5 = [](double theta, int n, int count) {
    return mapped(frequencies(theta, n, count), [](double f, auto) { return 5 * f; });
  };
  check_row("key rope(dims = 6, distance = 8, denominator = 16)", {.j = 5, .skv = 9},
            [&](const auto& row) { return turned(row, at_5(1e4, 16, 3), true, 1, 8); });
  check_row("key rope(dims = 4, distance = 5)", {.j = 5, .skv = 9},
            [&](const auto& row) { return turned(row, at_5(1e4, 4, 2), true, 1, 5); });
  check_row("key rope(pairs = interleaved, start = 10)", {.j = 5, .skv = 9},
            [&](const auto& row) { return turned(row, at_5(1e4, 6, 3), false, 1, 0, 10); });
  check_row("key rope(pairs = interleaved, start = 4, dims = 8)", {.j = 5, .skv = 9},
            [&](const auto& row) { return turned(row, at_5(1e4, 8, 4), false, 1, 0, 4); });
}

TEST_CASE("rope turns sections of pairs by positions of their own") {
  const std::map<std::string, std::vector<double>> tensors{{"at", {7, 8, 9, 10, 20, 30, 40, 50, 3, 1, 4, 1}}};
  const std::string positions = "position = at[0, j], position_2 = at[1, j], position_3 = at[2, j]";
  const double p0 = 9, p1 = 40, p2 = 4;  // at j = 2
  const auto f = frequencies(1e4, 16, 8);
  check_row(
      "param at : i32[3, skv] key rope(axes = chunked(2, 3, 3), " + positions + ")", {.j = 2, .skv = 4},
      [&](const auto& row) {
        return turned(
            row, {p0 * f[0], p0 * f[1], p1 * f[2], p1 * f[3], p1 * f[4], p2 * f[5], p2 * f[6], p2 * f[7]},
            true);
      },
      tensors);
  // As Qwen3-VL writes it: slices offset:3 * section:3 of the other axes replace those of the first.
  check_row(
      "param at : i32[3, skv] key rope(axes = interleaved(4, 2, 2), " + positions + ")", {.j = 2, .skv = 4},
      [&](const auto& row) {
        return turned(
            row, {p0 * f[0], p1 * f[1], p2 * f[2], p0 * f[3], p1 * f[4], p2 * f[5], p0 * f[6], p0 * f[7]},
            true);
      },
      tensors);
  // Rows and columns of pictures 5 wide.
  const auto g = frequencies(100, 8, 4);
  check_row(
      "query rope(theta = 100, pairs = interleaved, axes = axial(4, 4), position = i // 5, position_2 = i % "
      "5)",
      {.i = 17, .sq = 25, .skv = 25}, [&](const auto& row) {
        return turned(row, {3 * g[0], 3 * g[1], 3 * g[2], 3 * g[3], 2 * g[0], 2 * g[1], 2 * g[2], 2 * g[3]},
                      false);
      });
}

// ---- the other transforms -----------------------------------------------------------------------------

TEST_CASE("xpos grows queries and shrinks keys, pair by pair") {
  const auto zeta = [](std::size_t p) { return (2.0 * double(p) + 0.4 * 16) / (1.4 * 16); };
  const auto half = [&](std::vector<double> row, double steps) {
    return mapped(std::move(row), [&](double x, std::size_t d) { return x * std::pow(zeta(d % 8), steps); });
  };
  check_row("query xpos", {.i = 3, .sq = 10, .skv = 100},
            [&](const auto& row) { return half(row, 93 / 512.0); });
  check_row("key xpos(scale_base = 16, offset = -20)", {.j = 3, .skv = 100},
            [&](const auto& row) { return half(row, 17 / 16.0); });
  check_row("key xpos(gamma = 1, pairs = interleaved, dims = 4)", {.j = 64, .skv = 100}, [](auto row) {
    for (std::size_t d = 0; d < 4; ++d) row[d] *= std::pow(d < 2 ? 0.5 : 0.75, -64 / 512.0);
    return row;
  });
}

TEST_CASE("clip cuts both ways") {
  check_row("query clip(1.5)", {}, [](auto row) {
    return mapped(std::move(row), [](double x, auto) { return x > 1.5 ? 1.5 : x < -1.5 ? -1.5 : x; });
  });
}

TEST_CASE("scale_by_position grows in steps or with the logarithm of the position") {
  for (const auto& [i, steps] : {std::pair(0, 0), std::pair(6, 0), std::pair(7, 1), std::pair(30, 3)})
    check_row("query scale_by_position(8)", {.i = i, .sq = 50, .skv = 50}, [&](const auto& row) {
      return mapped(row, [&](double x, auto) { return x * (std::log(steps + 1.0) * 0.1 + 1); });
    });
  for (const auto& [i, factor] : {std::pair(2, 1.0), std::pair(63, 2.0)})
    check_row("query scale_by_position(8, kind = log_n, position = i)", {.i = i, .sq = 64, .skv = 99},
              [&](const auto& row) { return mapped(row, [&](double x, auto) { return x * factor; }); });
}

double mean(const std::vector<double>& row, double power) {
  double sum = 0;
  for (double x : row) sum += std::pow(x, power);
  return sum / double(row.size());
}

TEST_CASE("norm brings rows to one size, with weights of an element or of a head") {
  check_row("key norm(eps = 0.5)", {}, [](const auto& row) {
    return mapped(row, [&](double x, auto) { return x / std::sqrt(mean(row, 2) + 0.5); });
  });
  check_row("query norm(l2)", {}, [](const auto& row) {
    return mapped(row, [&](double x, auto) { return x / std::sqrt(16 * mean(row, 2) + 1e-6); });
  });
  std::map<std::string, std::vector<double>> tensors;
  for (int k = 0; k < 4 * 16; ++k) tensors["w"].push_back(k * 0.1), tensors["c"].push_back(2 - k);
  check_row(
      "param w : f32[head_dim] param c : f32[kv_heads, head_dim] key norm(layer, weight = w, bias = c)",
      {.g = 2},
      [&](const auto& row) {
        const double mu = mean(row, 1), deviation = std::sqrt(mean(row, 2) - mu * mu + 1e-6);
        return mapped(row, [&](double x, std::size_t d) {
          return (x - mu) / deviation * double(d) * 0.1 + 2 - double(32 + d);
        });
      },
      tensors);
  check_row(
      "param w : f16[16] query norm(weight = w, unit_offset = yes)", {},
      [&](const auto& row) {
        return mapped(row, [&](double x, std::size_t d) {
          return x / std::sqrt(mean(row, 2) + 1e-6) * (1 + double(d) * 0.1);
        });
      },
      tensors);
  check_row("param r : f32[batch, sq] query norm(inverse = r[b, i])", {.i = 1, .sq = 2},
            [](const auto& row) { return mapped(row, [](double x, auto) { return x * 0.75; }); },
            {{"r", {2, 0.75}}});
}

TEST_CASE("norm before rope, after it, and of what another norm left") {
  const auto normed = [](const std::vector<double>& row) {
    return mapped(row, [&](double x, auto) { return x / std::sqrt(mean(row, 2) + 1e-6); });
  };
  const auto angles = mapped(frequencies(1e4, 16, 8), [](double f, auto) { return 5 * f; });
  check_row("key norm; key rope", {.j = 5, .skv = 9},
            [&](const auto& row) { return turned(normed(row), angles, true); });
  check_row("key rope(pairs = interleaved); key norm", {.j = 5, .skv = 9},
            [&](const auto& row) { return normed(turned(row, angles, false)); });
  check_row("query norm; query x + 1; query norm", {}, [&](const auto& row) {
    return normed(mapped(normed(row), [](double x, auto) { return x + 1; }));
  });
}

}  // namespace
}  // namespace attnfuse
