#include "passes/data_bounds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/tile_ranges.h"

namespace attnfuse {
namespace {

constexpr int kLength = 40;  // of queries and keys

// Captured tensors by name: "ids" in runs, "mixed" in any order, "reach" up to some key, "keep" mostly false,
// "weight" positive for the first half.
struct Data {
  explicit Data(unsigned seed) : random(seed) {
    int document = 0;
    for (int n = 0; n < kLength; ++n) {
      if (below(6) == 0) ++document;
      ids.push_back(document);
      mixed.push_back((below(4) - 2) * 1000000000);
      reach.push_back(below(kLength + 10) - 5);
      keep.push_back(below(9) == 0);
      weight.push_back(n < kLength / 2 ? 1.5 : -0.5);
    }
  }
  int below(int bound) { return int(random() % unsigned(bound)); }
  double element(const std::string& name, std::int64_t at) const {
    const auto n = std::size_t(at);
    if (name == "ids") return ids[n];
    if (name == "mixed") return mixed[n];
    if (name == "reach") return reach[n];
    if (name == "keep") return keep[n];
    return weight[n];
  }
  std::mt19937 random;
  std::vector<int> ids, mixed, reach, keep;
  std::vector<double> weight;
};

Graph program(const std::string& mask) {
  const std::string text =
      "attention bounded { heads 2 kv_heads 1 head_dim 64 dtype f16 param ids : i32[skv] param mixed : "
      "i32[skv] "
      "param reach : i32[sq] param keep : bool[skv] param weight : f32[skv] mask " +
      mask + " }";
  const auto graph = parse_one(text);
  REQUIRE(graph);
  const auto optimized = run_graph_passes(*graph);
  REQUIRE(optimized);
  return *optimized;
}

// Evaluates the mask and what is known of a tile, with folds taken over the tile point by point.
class Tiles {
 public:
  Tiles(const std::string& mask, const Data& data) : graph_(program(mask)) {
    context_.sizes[std::size_t(Size::batch)] = 1;
    context_.sizes[std::size_t(Size::sq)] = context_.sizes[std::size_t(Size::skv)] = kLength;
    context_.element = [&](TensorId id, std::span<const std::int64_t> at) {
      return data.element(graph_.tensor(id).name, at[0]);
    };
    context_.leaf = [&](NodeId id) { return scalars_.at(as<Variable>(graph_.node(id))->name); };
    mask_ = graph_.operand(find<Normalize>(graph_), 1);
    Folder folder(graph_);
    truth_ = TileRanges(folder, &folds_).truth(mask_);
  }

  int fold_count() const { return int(folds_.size()); }

  struct Known {
    bool may, must, some, all;
  };
  Known tile(int q_begin, int q_end, int k_begin, int k_end) {
    scalars_ = {{"q_begin", q_begin}, {"q_end", q_end}, {"k_begin", k_begin}, {"k_end", k_end}};
    for (const TileFold& fold : folds_) {
      const bool by_row = fold.axis == Axis::i;
      double& result = scalars_[fold.name] = fold.op == ScalarOp::imin ? INT32_MAX : INT32_MIN;
      for (int n = by_row ? q_begin : k_begin; n < (by_row ? q_end : k_end); ++n) {
        const double value = at(fold.value, n, n);
        result = fold.op == ScalarOp::imin ? std::min(result, value) : std::max(result, value);
      }
    }
    Known known{at(truth_.may, 0, 0) != 0, at(truth_.must, 0, 0) != 0, false, true};
    for (int i = q_begin; i < q_end; ++i)
      for (int j = k_begin; j < k_end; ++j) {
        const bool allowed = at(mask_, i, j) != 0;
        known.some = known.some || allowed;
        known.all = known.all && allowed;
      }
    return known;
  }

 private:
  double at(NodeId id, int i, int j) {
    context_.index[std::size_t(Axis::i)] = i;
    context_.index[std::size_t(Axis::j)] = j;
    return evaluate(graph_, id, context_);
  }

  Graph graph_;
  NodeId mask_;
  std::vector<TileFold> folds_;
  TileRanges::Truth truth_;
  EvaluateContext context_;
  std::map<std::string, double> scalars_;
};

enum class Wanted : std::uint8_t { sound, exact };

void check(const std::string& mask, Wanted wanted) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const Data data(seed);
    Tiles tiles(mask, data);
    CHECK(tiles.fold_count() > 0);
    for (int rows : {4, 16})
      for (int keys : {3, 8})
        for (int q = 0; q < kLength; q += rows)
          for (int k = 0; k < kLength; k += keys) {
            CAPTURE(mask);
            CAPTURE(seed);
            CAPTURE(q);
            CAPTURE(k);
            const auto known = tiles.tile(q, std::min(q + rows, kLength), k, std::min(k + keys, kLength));
            CHECK((known.may || !known.some));
            CHECK((!known.must || known.all));
            if (wanted == Wanted::sound) continue;
            CHECK(known.may == known.some);
            CHECK(known.must == known.all);
          }
  }
}

}  // namespace

TEST_CASE("With the data at hand, tiles of documents in runs are empty or whole exactly when they are") {
  check("ids[i] == ids[j]", Wanted::exact);
  check("keep[j]", Wanted::exact);
  check("weight[j] > 0", Wanted::exact);
  check("j <= reach[i]", Wanted::exact);
}

TEST_CASE("What is said of a tile holds for data in any order and any size, and for nested predicates") {
  for (const char* mask :
       {"mixed[i] == mixed[j]", "ids[i] == ids[j] && i >= j", "mixed[i] < mixed[j] || j < 4",
        "!(keep[j] && i >= j) && ids[i] != ids[j]", "ids[i] // 2 == ids[j] // 2", "keep[i] || keep[j]",
        "ids[i] - ids[j] <= 1 && mixed[j] != mixed[i]", "j <= reach[i] && j >= reach[i] - 7",
        "(keep[j] || i % 3 == 0) && ids[min(i, j)] >= 1"})
    check(mask, Wanted::sound);
}

TEST_CASE("Only masks whose data depend on a row alone, or on a key alone, have bounds to find") {
  CHECK(has_data_bounds(program("ids[i] == ids[j] && i >= j")));
  CHECK(has_data_bounds(program("keep[j]")));
  CHECK(!has_data_bounds(program("i >= j")));
  CHECK(!has_data_bounds(program("keep[(i + j) // 2]")));
}

TEST_CASE("The table of bounds has heads only where the mask tells them apart, and a name of its own") {
  const Graph common = program("keep[j]"), each = program("keep[j] && h == 1");
  CHECK(data_bounds_tensor(common, "t").shape.at(1) == Extent{std::int64_t(1)});
  CHECK(data_bounds_tensor(each, "t").shape.at(1) == Extent{Size::heads});
  const auto taken = parse_one(
      "attention bounded { heads 2 kv_heads 1 head_dim 64 dtype f16 param key_bounds : bool[skv] mask "
      "key_bounds[j] "
      "}");
  REQUIRE(taken);
  CHECK(data_bounds_name(*taken) != "key_bounds");
}

}  // namespace attnfuse
