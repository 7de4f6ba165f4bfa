// The C++ builder: the .attn language as C++ values.
//
//   auto llama3 = attention("llama3_8b", {.heads = 32, .kv_heads = 8, .head_dim = 128, .dtype = DType::bf16})
//                     .query(rope({.theta = 5e5})).key(rope({.theta = 5e5}))
//                     .score(scale(1 / std::sqrt(128.0))).mask(causal()).normalize(softmax());
//   Result<Graph> graph = llama3.build();
//
// Blocks and expressions apply in the order given. Expressions are functions of the value so far:
//
//   auto program = attention("alibi", {.heads = 12, .head_dim = 64});
//   auto slope = program.param("slope", DType::f32, {Size::heads}, Gradient::wanted);
//   program.score([&](Score x) { return x + slope[x.h()] * (x.j() - x.i()); }).mask(causal()).build();
//
// Diagnostics point at the call that made the line.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/spec.h"
#include "frontend/term.h"

namespace attnfuse {

struct AttentionShape {
  int heads = 1;
  int kv_heads = 0;  // 0: as heads
  int head_dim = 64;
  int v_head_dim = 0;  // 0: as head_dim
  DType dtype = DType::f16;
};

// A block of any line but a mask.
struct BlockCall {
  Expression call;
};

// ---- blocks; the catalog says what they compute -----------------------------------------------------

struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_context = 8192;
};
struct LinearScaling {
  double factor;
};
struct NtkScaling {
  double factor;
};
struct DynamicNtkScaling {
  double factor, original_context;
};
struct NtkByPartsScaling {
  double factor, original_context, beta_fast = 32, beta_slow = 1;
  bool truncate = true;
};
struct YarnScaling {
  double factor, original_context, beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor = {};
  bool truncate = true;
};
struct LongRopeScaling {
  Captured near, far;  // called short and long in text
  double original_context, factor = 1;
  std::optional<double> attention_factor = {};
};
using RopeScaling = std::variant<Llama3Scaling, LinearScaling, NtkScaling, DynamicNtkScaling,
                                 NtkByPartsScaling, YarnScaling, LongRopeScaling>;
// Pairs of each position axis.
struct RopeAxes {
  enum class Layout : std::uint8_t { chunked, interleaved, axial } layout;
  std::vector<int> sections;
};
struct RopeOptions {
  double theta = 10000;
  RotaryPairs pairs = RotaryPairs::half;
  std::optional<int> dims = {};
  std::optional<RopeScaling> scaling = {};
  std::optional<Term> position = {};  // of Query().i(), Key().j(), sizes, captured tensors
  std::optional<Term> offset = {};
  int start = 0;
  std::optional<int> distance = {};
  std::optional<double> denominator = {};
  std::optional<RopeAxes> axes = {};
  std::vector<Term> more_positions = {};  // of the second axis and those after it
};
BlockCall rope(const RopeOptions& options = {});

struct XposOptions {
  double gamma = 0.4, scale_base = 512;
  RotaryPairs pairs = RotaryPairs::half;
  std::optional<int> dims = {};
  std::optional<Term> position = {}, offset = {};
};
BlockCall xpos(const XposOptions& options = {});

enum class NormKind : std::uint8_t { rms, layer, l2 };
struct NormOptions {
  NormKind kind = NormKind::rms;
  std::optional<Captured> weight = {}, bias = {};
  double eps = 1e-6;
  bool unit_offset = false;
  std::optional<Term> inverse = {};
};
BlockCall norm(const NormOptions& options = {});
BlockCall clip(double c);
BlockCall scale_by_position(int length, double scale = 0.1);
BlockCall scale_by_log_position(int length);

enum class Align : std::uint8_t { bottom_right, top_left };

BlockCall scale(double c);
BlockCall scale(const Term& c);  // of sizes that are compiled in
BlockCall softcap(double c);

enum class Distance : std::uint8_t { signed_distance, absolute };
BlockCall alibi(Distance distance = Distance::signed_distance);
BlockCall alibi(const Captured& slopes, Distance distance = Distance::signed_distance);
BlockCall alibi(const Term& slopes, Distance distance = Distance::signed_distance);
// One bucket for every distance; T5's buckets.
BlockCall relative_bias(const Captured& table, Align align = Align::bottom_right);
enum class Buckets : std::uint8_t { bidirectional, causal };
BlockCall relative_bias(const Captured& table, Buckets buckets, int max_distance = 128,
                        Align align = Align::bottom_right);
BlockCall dense_bias(const Captured& bias);
BlockCall decay(Align align = Align::bottom_right);
BlockCall decay(const Term& gamma, Align align = Align::bottom_right);

Term causal(Align align = Align::bottom_right);
Term window(int left, int right = 0, Align align = Align::bottom_right);

Term chunk(int size, Align align = Align::bottom_right);
Term prefix(const Term& length, Align align = Align::bottom_right);
Term document(const Captured& ids);
Term document(const Captured& ids, const Captured& query_ids);
Term packed(const Captured& offsets);
Term length(const Term& keys);
Term global(const Term& tokens, Align align = Align::bottom_right);
Term dilated(int step, Align align = Align::bottom_right);
Term block_mask(const Captured& table, int query_block, int key_block);
Term block_list(const Captured& list, int query_block, int key_block);
Term tree(const Captured& ancestors);
Term tree_path(const Captured& parents, int depth);

BlockCall softmax();
BlockCall softmax_with_sink(const Captured& sink);
BlockCall softmax_with_sink(const Term& sink);
BlockCall softmax_plus_one();
BlockCall sigmoid();
BlockCall sigmoid(const Term& bias);
enum class Relu : std::uint8_t { plain, squared };
BlockCall relu(Relu relu = Relu::plain);
BlockCall relu(const Term& scale, Relu relu = Relu::plain);
BlockCall silu();
BlockCall silu(const Term& scale);
BlockCall retention();
BlockCall no_normalization();

// p: the share that is dropped, a number or a captured one.
BlockCall dropout(const Term& p, const Term& seed);

// lambda: of b and h, or a captured number for every head. The first output block, see the catalog.
BlockCall differential(const Term& lambda);
BlockCall differential(const Captured& lambda);
BlockCall gated(const Term& by);  // of Query().b(), h(), i(), d()
BlockCall inverse_rope(const RopeOptions& options = {});
BlockCall max_logit();

// How sequences lie in memory, see ir/storage.h: one after the other, or keys and values in pages.
StorageForm ragged();
StorageForm paged(std::int64_t page_size);

// ---- programs --------------------------------------------------------------------------------------

enum class Gradient : std::uint8_t { unwanted, wanted };

// The length of one dimension of a captured tensor.
struct Dimension {
  Dimension(Size size) : extent{size} {}  // NOLINT(google-explicit-constructor)
  template <std::integral Number>
  Dimension(Number number) : extent{std::int64_t(number)} {}  // NOLINT(google-explicit-constructor)
  Extent extent;
};

class Attention {
 public:
  Attention(std::string name, const AttentionShape& shape, Where where);

  // Declares a tensor that the program reads.
  Captured param(std::string name, DType dtype, const std::vector<Dimension>& shape,
                 Gradient gradient = Gradient::unwanted, Where where = here());

  Attention storage(const StorageForm& form, const Where& where = here()) const;

  Attention query(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::query, block.call, where);
  }
  Attention key(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::key, block.call, where);
  }
  Attention value(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::value, block.call, where);
  }
  Attention score(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::score, block.call, where);
  }
  Attention normalize(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::normalize, block.call, where);
  }
  Attention weights(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::weights, block.call, where);
  }
  Attention output(const BlockCall& block, const Where& where = here()) const {
    return with(Stage::output, block.call, where);
  }
  Attention mask(const Term& predicate, const Where& where = here()) const {
    return with(Stage::mask, predicate.expression(), where);
  }

  template <std::invocable<Query> Function>
  Attention query(Function function, const Where& where = here()) const {
    return with(Stage::query, Term(function(Query())).expression(), where);
  }
  template <std::invocable<Key> Function>
  Attention key(Function function, const Where& where = here()) const {
    return with(Stage::key, Term(function(Key())).expression(), where);
  }
  template <std::invocable<Key> Function>
  Attention value(Function function, const Where& where = here()) const {
    return with(Stage::value, Term(function(Key())).expression(), where);
  }
  template <std::invocable<Score> Function>
  Attention score(Function function, const Where& where = here()) const {
    return with(Stage::score, Term(function(Score())).expression(), where);
  }
  template <std::invocable<Pair> Function>
  Attention mask(Function function, const Where& where = here()) const {
    return with(Stage::mask, Term(function(Pair())).expression(), where);
  }
  template <std::invocable<Score> Function>
  Attention weights(Function function, const Where& where = here()) const {
    return with(Stage::weights, Term(function(Score())).expression(), where);
  }
  template <std::invocable<Query> Function>
  Attention output(Function function, const Where& where = here()) const {
    return with(Stage::output, Term(function(Query())).expression(), where);
  }

  const Spec& spec() const { return spec_; }
  Result<Graph> build() const;

 private:
  Attention with(Stage stage, Expression expression, const Where& where) const;

  Spec spec_;
};

Attention attention(std::string name, const AttentionShape& shape, Where where = here());

}  // namespace attnfuse
