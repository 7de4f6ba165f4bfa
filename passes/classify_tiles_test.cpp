#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/folder.h"
#include "passes/passes.h"
#include "passes/random_expression.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

struct Sizes {
  int sq, skv, block_q, block_k;
};

// A mask, its classification, and both evaluated point by point.
class Classified {
 public:
  using Mask = std::function<NodeId(Graph&)>;

  // `limit` is what tensor "limit" [heads] of i32 holds; "allowed" [skv] is true for even keys; "table" [9,
  // 9] and "list" [9, 2] of i32 say which blocks see which.
  explicit Classified(const Mask& mask, int limit = 9) : limit_(limit) {
    graph_.add_tensor({"limit", DType::i32, TensorRole::captured, {{Size::heads}}, false, {}, {}});
    graph_.add_tensor({"allowed", DType::boolean, TensorRole::captured, {{Size::skv}}, false, {}, {}});
    const Extent nine{std::int64_t(9)}, two{std::int64_t(2)};
    graph_.add_tensor({"table", DType::boolean, TensorRole::captured, {nine, nine}, false, {}, {}});
    graph_.add_tensor({"list", DType::i32, TensorRole::captured, {nine, two}, false, {}, {}});
    const NodeId root = mask(graph_);
    classes_ = classify_tiles(graph_, root);
    mask_.emplace(graph_, std::vector{root});
    roots_ = {classes_.first_key, classes_.end_key, classes_.empty, classes_.full};
    for (NodeId id : cone(graph_, roots_))
      if (graph_.node(id).type == ValueType::i32) roots_.push_back(id);
    answers_.emplace(graph_, roots_);
  }

  const TileClasses& classes() const { return classes_; }
  std::string text(NodeId id) const { return expression_text(graph_, id); }

  bool allowed(const Sizes& sizes, int i, int j) {
    EvaluateContext context = surroundings(sizes);
    context.index[std::size_t(Axis::i)] = i;
    context.index[std::size_t(Axis::j)] = j;
    return (*mask_)(context) != 0;
  }

  struct Answer {
    int first, end;  // cut to [0, skv]
    bool empty, full;
  };
  Answer answer(const Sizes& sizes, int q_begin, int k_begin) {
    EvaluateContext context = surroundings(sizes);
    context.leaf = [&](NodeId id) -> double {
      const std::string& name = as<Variable>(graph_.node(id))->name;
      if (name == "q_begin") return q_begin;
      if (name == "q_end") return std::min(q_begin + sizes.block_q, sizes.sq);
      if (name == "k_begin") return k_begin;
      REQUIRE(name == "k_end");
      return std::min(k_begin + sizes.block_k, sizes.skv);
    };
    (*answers_)(context);
    for (std::size_t k = 4; k < roots_.size(); ++k)
      if (answers_->value(k) < INT32_MIN || answers_->value(k) > INT32_MAX)
        FAIL_CHECK("overflow in ", text(roots_[k]));
    const auto bound = [&](std::size_t k) {
      return int(std::clamp(answers_->value(k), 0.0, double(sizes.skv)));
    };
    return {bound(0), bound(1), answers_->value(2) != 0, answers_->value(3) != 0};
  }

  int head = 1;

 private:
  EvaluateContext surroundings(const Sizes& sizes) const {
    EvaluateContext context;
    context.index[std::size_t(Axis::h)] = head;
    context.sizes[std::size_t(Size::batch)] = 1;
    context.sizes[std::size_t(Size::sq)] = sizes.sq;
    context.sizes[std::size_t(Size::skv)] = sizes.skv;
    context.element = [&](TensorId tensor, std::span<const std::int64_t> index) -> double {
      if (tensor.value == 0) return limit_;
      if (tensor.value == 1) return double(index[0] % 2 == 0);
      if (tensor.value == 2) return double((index[0] * 5 + index[1] * 3) % 4 == 0);
      return index[1] == 0 ? double(index[0] * 7 % 5) : index[0] % 2 == 0 ? limit_ : -1;
    };
    return context;
  }

  Graph graph_{ProgramInfo{"masked", 4, 4, 64, 64, DType::f16, {}}};
  int limit_;
  TileClasses classes_;
  std::vector<NodeId> roots_;  // the four answers, then every i32 value they are made of
  std::optional<Evaluator> mask_, answers_;
};

// What the rows of one query tile allow.
struct QueryTile {
  std::vector<std::vector<bool>> rows;
  int first, end;  // hull of the allowed keys
};

QueryTile query_tile(Classified& mask, const Sizes& sizes, int q_begin) {
  QueryTile tile{{}, sizes.skv, 0};
  for (int i = q_begin; i < std::min(q_begin + sizes.block_q, sizes.sq); ++i) {
    std::vector<bool> row;
    for (int j = 0; j < sizes.skv; ++j) {
      row.push_back(mask.allowed(sizes, i, j));
      if (row.back()) tile.first = std::min(tile.first, j), tile.end = std::max(tile.end, j + 1);
    }
    tile.rows.push_back(row);
  }
  return tile;
}

enum class Wanted : std::uint8_t { sound, exact_tiles, exact };

// Every tile against brute force: sound always, tiles empty and full exactly when they are, bounds tight.
void check(Classified& mask, const Sizes& sizes, Wanted wanted) {
  CAPTURE(sizes.sq);
  CAPTURE(sizes.skv);
  CAPTURE(sizes.block_q);
  CAPTURE(sizes.block_k);
  CAPTURE(mask.head);
  for (int q = 0; q < sizes.sq; q += sizes.block_q) {
    CAPTURE(q);
    const QueryTile tile = query_tile(mask, sizes, q);
    const auto [first, end, ignored_empty, ignored_full] = mask.answer(sizes, q, 0);
    const bool is_inside = tile.first >= tile.end || (first <= tile.first && tile.end <= end);
    CHECK_MESSAGE(is_inside, "keys [", tile.first, ", ", tile.end, ") are allowed, bounds are [", first, ", ",
                  end, ")");
    if (wanted == Wanted::exact && tile.first < tile.end) CHECK((first == tile.first && end == tile.end));
    if (wanted == Wanted::exact && tile.first >= tile.end) CHECK(first >= end);
    for (int k = 0; k < sizes.skv; k += sizes.block_k) {
      CAPTURE(k);
      int count = 0, all = 0;
      for (const std::vector<bool>& row : tile.rows)
        for (int j = k; j < std::min(k + sizes.block_k, sizes.skv); ++j) count += row[std::size_t(j)], ++all;
      const auto [first_again, end_again, is_empty, is_full] = mask.answer(sizes, q, k);
      CHECK_MESSAGE((!is_empty || count == 0), "called empty with ", count, " of ", all, " allowed");
      CHECK_MESSAGE((!is_full || count == all), "called full with ", count, " of ", all, " allowed");
      if (wanted == Wanted::sound) continue;
      CHECK(is_empty == (count == 0));
      CHECK(is_full == (count == all));
    }
  }
}

constexpr Sizes kSizes[] = {{16, 16, 4, 4}, {13, 29, 5, 3}, {7, 40, 4, 8},
                            {30, 11, 8, 4}, {1, 23, 4, 8},  {9, 1, 4, 4}};

void check_all(const Classified::Mask& mask, Wanted wanted, int limit = 9) {
  Classified classified(mask, limit);
  CAPTURE(classified.text(classified.classes().first_key));
  CAPTURE(classified.text(classified.classes().end_key));
  CAPTURE(classified.text(classified.classes().empty));
  CAPTURE(classified.text(classified.classes().full));
  for (const Sizes& sizes : kSizes)
    for (classified.head = 0; classified.head < 4; ++classified.head) check(classified, sizes, wanted);
}

NodeId i32(Graph& g, double value) { return g.constant(value, ValueType::i32); }
NodeId row(Graph& g) { return g.index(Axis::i); }
NodeId key(Graph& g) { return g.index(Axis::j); }
NodeId both(Graph& g, NodeId x, NodeId y) { return g.apply(Op::logical_and, {x, y}); }
NodeId either(Graph& g, NodeId x, NodeId y) { return g.apply(Op::logical_or, {x, y}); }

// The row's position among the keys.
NodeId aligned(Graph& g) {
  return g.apply(Op::isub, {g.apply(Op::iadd, {row(g), g.add(SizeOf{Size::skv})}), g.add(SizeOf{Size::sq})});
}
NodeId causal(Graph& g) { return g.apply(Op::ige, {aligned(g), key(g)}); }
NodeId distance(Graph& g) { return g.apply(Op::isub, {aligned(g), key(g)}); }
NodeId window(Graph& g, int width) {
  return both(g, causal(g), g.apply(Op::ilt, {distance(g), i32(g, width)}));
}
NodeId same_chunk(Graph& g, int size) {
  return g.apply(Op::ieq,
                 {g.apply(Op::idiv, {row(g), i32(g, size)}), g.apply(Op::idiv, {key(g), i32(g, size)})});
}
NodeId limit(Graph& g) { return g.add(Gather{{0}}, {g.index(Axis::h)}); }

}  // namespace

TEST_CASE("Causal masks are classified exactly, aligned to either corner") {
  check_all(causal, Wanted::exact);
  check_all([](Graph& g) { return g.apply(Op::ile, {key(g), row(g)}); }, Wanted::exact);
  check_all([](Graph& g) { return g.apply(Op::logical_not, {g.apply(Op::ilt, {row(g), key(g)})}); },
            Wanted::exact);
  CHECK(!Classified(causal).classes().has_holes);
}

TEST_CASE("The complement of a window is bounded by nothing, and its full and empty tiles are known") {
  const Classified::Mask outside = [](Graph& g) { return g.apply(Op::logical_not, {window(g, 6)}); };
  check_all(outside, Wanted::exact_tiles);
  CHECK(Classified(outside).classes().has_holes);
}

TEST_CASE("A mask without the key's position allows all keys of a row or none") {
  check_all([](Graph& g) { return g.apply(Op::ilt, {row(g), limit(g)}); }, Wanted::exact);
}

TEST_CASE("Windows are classified exactly, one-sided, two-sided and through an absolute distance") {
  check_all([](Graph& g) { return window(g, 6); }, Wanted::exact);
  CHECK(!Classified([](Graph& g) { return window(g, 6); }).classes().has_holes);
  check_all(
      [](Graph& g) {
        const NodeId right = g.apply(Op::ige, {distance(g), i32(g, -3)});
        return both(g, right, g.apply(Op::ile, {distance(g), i32(g, 5)}));
      },
      Wanted::exact);
  const Classified::Mask near = [](Graph& g) {
    const NodeId size = g.apply(Op::abs, {g.apply(Op::to_f32, {distance(g)})});
    return g.apply(Op::lt, {size, g.constant(4)});
  };
  check_all(near, Wanted::exact);
  CHECK(!Classified(near).classes().has_holes);
}

TEST_CASE("Chunks are classified exactly") {
  check_all([](Graph& g) { return same_chunk(g, 4); }, Wanted::exact);
  check_all([](Graph& g) { return same_chunk(g, 7); }, Wanted::exact);
  check_all([](Graph& g) { return both(g, same_chunk(g, 5), g.apply(Op::ile, {key(g), row(g)})); },
            Wanted::sound);
}

TEST_CASE("A prefix or causal is classified exactly, and its bounds have no holes") {
  const Classified::Mask prefix = [](Graph& g) {
    return either(g, g.apply(Op::ilt, {key(g), limit(g)}), causal(g));
  };
  for (int length : {0, 3, 9, 100, INT32_MAX, INT32_MIN}) {
    CAPTURE(length);
    check_all(prefix, Wanted::exact, length);
  }
  CHECK(!Classified(prefix).classes().has_holes);
}

TEST_CASE("A captured limit of any size bounds the keys without overflow") {
  for (int length : {-1, 0, 5, 1000, INT32_MAX, INT32_MIN}) {
    CAPTURE(length);
    check_all([](Graph& g) { return g.apply(Op::ile, {key(g), limit(g)}); }, Wanted::exact, length);
    check_all([](Graph& g) { return g.apply(Op::igt, {limit(g), key(g)}); }, Wanted::exact, length);
    check_all([](Graph& g) { return g.apply(Op::ilt, {limit(g), key(g)}); }, Wanted::exact, length);
    check_all([](Graph& g) { return g.apply(Op::ige, {key(g), limit(g)}); }, Wanted::exact, length);
    check_all([](Graph& g) { return g.apply(Op::ige, {g.apply(Op::iadd, {key(g), i32(g, 3)}), limit(g)}); },
              Wanted::exact, length);
    check_all([](Graph& g) { return g.apply(Op::ige, {limit(g), g.apply(Op::iadd, {key(g), i32(g, 3)})}); },
              Wanted::exact, length);
  }
}

TEST_CASE("Global keys beside a window leave holes, and the tiles between are empty") {
  const Classified::Mask mask = [](Graph& g) {
    return both(g, causal(g), either(g, g.apply(Op::ilt, {key(g), i32(g, 2)}), window(g, 5)));
  };
  check_all(mask, Wanted::sound);
  Classified classified(mask);
  CHECK(classified.classes().has_holes);
  const Sizes sizes{64, 64, 8, 8};
  int empty = 0;
  for (int k = 8; k < 48; k += 8) empty += classified.answer(sizes, 56, k).empty;
  CHECK(empty == 5);
}

TEST_CASE("A mask by head bounds each head") {
  check_all(
      [](Graph& g) {
        const NodeId local = g.apply(Op::ilt, {g.index(Axis::h), i32(g, 2)});
        const NodeId others = g.apply(Op::ige, {g.index(Axis::h), i32(g, 3)});
        return either(g, both(g, local, window(g, 4)), both(g, others, causal(g)));
      },
      Wanted::exact);
}

TEST_CASE("Dilated masks are sound, and single rows know their empty keys") {
  const Classified::Mask dilated = [](Graph& g) {
    return both(g, causal(g), g.apply(Op::ieq, {g.apply(Op::imod, {distance(g), i32(g, 3)}), i32(g, 0)}));
  };
  check_all(dilated, Wanted::sound);
  Classified classified(dilated);
  check(classified, {6, 12, 1, 1}, Wanted::exact_tiles);
}

TEST_CASE("Bits of positions are known as far as the ends of a tile agree") {
  // A coordinate of an 8 x 8 image along a Morton curve: every second bit.
  const auto coordinate = [](Graph& g, NodeId x, int first) {
    NodeId sum = i32(g, 0);
    for (int n = 0; n < 3; ++n) {
      const NodeId bit = g.apply(Op::bit_and, {x, i32(g, 1 << (2 * n + first))});
      sum = g.apply(Op::iadd, {sum, g.apply(Op::shift_right, {bit, i32(g, n + first)})});
    }
    return sum;
  };
  const Classified::Mask neighbours = [&](Graph& g) {
    NodeId all = g.constant(1, ValueType::boolean);
    for (int first : {0, 1}) {
      const NodeId away = g.apply(Op::isub, {coordinate(g, row(g), first), coordinate(g, key(g), first)});
      all = both(g, all, g.apply(Op::ile, {away, i32(g, 1)}));
      all = both(g, all, g.apply(Op::ige, {away, i32(g, -1)}));
    }
    return all;
  };
  check_all(neighbours, Wanted::sound);
  Classified classified(neighbours);
  CHECK(classified.classes().has_holes);
  check(classified, {64, 64, 4, 4}, Wanted::exact_tiles);  // squares of 2 x 2
  check(classified, {64, 64, 16, 4}, Wanted::exact_tiles);
  // Of either sign.
  check_all(
      [](Graph& g) {
        const NodeId x = g.apply(Op::isub, {key(g), row(g)});
        const NodeId low = g.apply(Op::ile, {g.apply(Op::bit_and, {x, i32(g, 12)}), i32(g, 4)});
        return both(g, low, g.apply(Op::ilt, {g.apply(Op::shift_right, {x, i32(g, 2)}), i32(g, 2)}));
      },
      Wanted::sound);
}

TEST_CASE("What only data decides is never full and never empty by itself") {
  const Classified::Mask data = [](Graph& g) { return g.add(Gather{{1}}, {key(g)}); };
  check_all(data, Wanted::sound);
  Classified alone(data);
  CHECK(alone.classes().depends_on_data);
  CHECK(!alone.classes().has_holes);
  CHECK(alone.text(alone.classes().empty) == "false");
  CHECK(alone.text(alone.classes().full) == "false");
  check_all([&](Graph& g) { return both(g, data(g), causal(g)); }, Wanted::sound);
  Classified with_causal([&](Graph& g) { return both(g, data(g), causal(g)); });
  CHECK(!with_causal.classes().has_holes);
  const Sizes sizes{16, 16, 4, 4};
  CHECK(with_causal.answer(sizes, 0, 4).empty);
}

namespace {

NodeId block(Graph& g, NodeId position, int size) { return g.apply(Op::idiv, {position, i32(g, size)}); }
NodeId listed(Graph& g, int n) {
  const NodeId selected = g.add(Gather{{3}}, {block(g, row(g), 4), i32(g, n)});
  return g.apply(Op::ieq, {selected, block(g, key(g), 4)});
}

}  // namespace

TEST_CASE("Tables and lists of blocks leave tiles out where a tile lies inside a block") {
  const Classified::Mask table = [](Graph& g) {
    return g.add(Gather{{2}}, {block(g, row(g), 8), block(g, key(g), 4)});
  };
  const Classified::Mask list = [](Graph& g) { return either(g, listed(g, 0), listed(g, 1)); };
  const Classified::Mask with_causal = [&](Graph& g) { return both(g, list(g), causal(g)); };
  for (const Classified::Mask* mask : {&table, &list, &with_causal})
    for (int limit : {2, INT32_MAX, INT32_MIN}) check_all(*mask, Wanted::sound, limit);
  for (const Sizes& sizes : {Sizes{16, 24, 4, 4}, Sizes{13, 29, 4, 2}, Sizes{3, 9, 4, 4}}) {
    Classified by_table(table), by_list(list);
    CHECK(by_table.classes().has_holes);
    CHECK(by_list.classes().has_holes);
    check(by_table, sizes, Wanted::exact_tiles);
    check(by_list, sizes, Wanted::exact_tiles);
  }
}

TEST_CASE("A captured tensor that chooses the mask of a head bounds each head") {
  const Classified::Mask chosen = [](Graph& g) {
    const NodeId far = g.apply(Op::igt, {limit(g), g.index(Axis::h)});
    const NodeId near = g.apply(Op::logical_not, {far});
    return either(g, both(g, far, causal(g)), both(g, near, window(g, 4)));
  };
  check_all(chosen, Wanted::exact, 2);
}

TEST_CASE("Shifts and bits bound keys like the division that they are") {
  check_all(
      [](Graph& g) {
        const NodeId one = Folder(g).apply(Op::shift_right, {row(g), i32(g, 2)});
        return g.apply(Op::ieq, {one, Folder(g).apply(Op::shift_right, {key(g), i32(g, 2)})});
      },
      Wanted::exact);
  check_all(
      [](Graph& g) {
        const NodeId low = Folder(g).apply(Op::bit_and, {key(g), i32(g, 3)});
        return both(g, causal(g), g.apply(Op::ine, {low, i32(g, 1)}));
      },
      Wanted::sound);
}

TEST_CASE("A constant mask is everything or nothing") {
  check_all([](Graph& g) { return g.constant(1, ValueType::boolean); }, Wanted::exact);
  check_all([](Graph& g) { return g.constant(0, ValueType::boolean); }, Wanted::exact);
}

TEST_CASE("Random predicates are classified soundly") {
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Classified classified([&](Graph& g) {
      RandomExpression random(g, seed);
      random.i32_leaves = {row(g),
                           row(g),
                           key(g),
                           key(g),
                           row(g),
                           key(g),
                           g.index(Axis::h),
                           g.add(SizeOf{Size::sq}),
                           g.add(SizeOf{Size::skv}),
                           limit(g)};
      random.boolean_leaves = {causal(g), same_chunk(g, 4), window(g, 3), g.add(Gather{{1}}, {key(g)})};
      return random.boolean(4);
    });
    CAPTURE(classified.text(classified.classes().first_key));
    CAPTURE(classified.text(classified.classes().end_key));
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return int(random() % n); };
    for (int k = 0; k < 3; ++k) {
      classified.head = below(4);
      check(classified, {1 + below(14), 1 + below(18), 1 + below(6), 1 + below(6)}, Wanted::sound);
    }
  }
}

TEST_CASE("Random conjunctions of linear inequalities are never called partial by their bounds alone") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Classified classified([&](Graph& g) {
      RandomExpression random(g, seed);
      const auto inequality = [&] {
        const NodeId slope = g.apply(Op::imul, {row(g), i32(g, random.below(4) - 1)});
        const NodeId right = g.apply(Op::iadd, {slope, i32(g, random.below(12) - 4)});
        return g.apply(random.chance(50) ? Op::ile : Op::igt, {key(g), right});
      };
      return inequality();
    });
    CHECK(!classified.classes().has_holes);
    check(classified, {11, 17, 3, 4}, Wanted::exact);
  }
}

}  // namespace attnfuse
