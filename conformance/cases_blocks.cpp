#include <regex>

#include <fmt/format.h>

#include "conformance/examples.h"
#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr BlockText kBlocks[] = {
    {"rope", "rotation", "query rope(theta = 10000) key rope(theta = 10000)"},
    {"rope_interleaved", "rotation",
     "query rope(theta = 500, pairs = interleaved) key rope(theta = 500, pairs = interleaved)"},
    {"rope_partial", "rotation", "query rope(theta = 10000, dims = 16) key rope(theta = 10000, dims = 16)"},
    {"query_scale", "query", "query x * (1 + 0.01 * i)"},
    {"key_gain", "key", "param gain : f32[head_dim] key x * gain[d]"},
    {"value_gate", "value", "param gate : f32[kv_heads, skv] value x * gate[h, j]"},
    {"scale", "scale", "score scale(0.125)"},
    {"softcap", "softcap", "score softcap(5)"},
    {"alibi", "alibi", "score alibi"},
    {"slope", "slope", "param slope : f32[heads] score x + slope[h] * (j - i)"},
    {"bias", "bias", "param bias : f16[batch, heads, sq, skv] score x + bias[b, h, i, j]"},
    {"distance", "distance", "score x - 0.01 * abs(i - j)"},
    {"causal", "mask", "mask causal"},
    {"causal_top_left", "mask", "mask causal(top_left)"},
    {"window", "mask", "mask window(20)"},
    {"prefix", "mask", "mask j < 9 || i >= j"},
    {"documents", "mask", "param ids : i32[batch, skv] mask ids[b, i] == ids[b, j] && i >= j"},
    {"keep", "keep", "param keep : bool[batch, skv] mask keep[b, j]"},
    {"sink", "normalize", "param sink : f32[heads] normalize softmax(sink = sink[h])"},
    // From here on: in random programs; families of their own try them in the suite.
    {"norm", "norm", "param q_norm : f32[head_dim] query norm(weight = q_norm) key norm"},
    {"layer_norm", "norm", "query norm(layer) key norm(layer) value norm(l2, eps = 0.01)"},
    {"yarn", "rotation",
     "query rope(theta = 150000, dims = 16, scaling = yarn(8, 64)) key rope(theta = 150000, dims = 16, "
     "scaling = "
     "yarn(8, 64))"},
    {"axes", "rotation",
     "query rope(dims = 16, pairs = interleaved, axes = axial(5, 3), position = i // 7, position_2 = i % 7) "
     "key "
     "rope(dims = 16, pairs = interleaved, axes = axial(5, 3), position = j // 7, position_2 = j % 7)"},
    {"clip", "clip", "key clip(2) value clip(1)"},
    {"decay", "decay", "score decay"},
    {"relative", "relative",
     "param buckets : f32[heads, 16] score relative_bias(buckets, bidirectional(max_distance = 40))"},
    {"dense", "dense", "param dense : bf16[1, heads, sq, 1] score dense_bias(dense)"},
    {"chunk", "mask", "mask chunk(16)"},
    {"packed", "mask", "param offsets : i32[6] mask packed(offsets) && causal"},
    {"block_list", "mask", "param list : i32[batch, 1, 9, 2] mask block_list(list, 16, 16) || i == j"},
    {"block_mask", "mask", "param seen : bool[heads, 5, 5] mask block_mask(seen, 32, 32)"},
    {"global", "mask", "mask window(9, 4) || global(2)"},
    {"choice", "mask", "param far : bool[heads] mask select(far[h], causal, window(12))"},
    {"sigmoid", "normalize", "score scale(0.3) normalize sigmoid"},
    {"retention", "normalize", "score scale(0.1) normalize retention"},
    {"dropout", "weights", "param seed : i32 weights dropout(0.2, seed)"},
    {"keyed", "weights", "param keyed : f32[kv_heads, skv] weights x * keyed[h // 2, j]"},
    {"gated", "output", "param z : f16[batch, heads, sq, v_head_dim] output gated(z[b, h, i, d])"},
    {"out_norm", "output", "output norm(eps = 0.1)"},
    {"turned_back", "output", "output inverse_rope(dims = 8)"},
};
constexpr std::span<const BlockText> kPaired(kBlocks, 19);
static_assert(std::string_view(kPaired.back().name) == "sink");

std::string block_program(const BlockText& block, const Dims& dims) {
  return program(block.name, dims, block.text);
}

// Fewer heads with the same group size; windows, chunks and blocks that a short sequence can notice.
std::string reduced(std::string text) {
  std::smatch heads, kv_heads;
  const std::regex heads_word(R"(\bheads\s+(\d+))"), kv_word(R"(\bkv_heads\s+(\d+))"),
      length_word(R"(\b(window|chunk|scale_by_position)\((\d+))"), window_word(R"(window\((\d+), \d+)"),
      block_word("key_block = \\d+");
  if (std::regex_search(text, heads, heads_word)) {
    const int total = std::stoi(heads[1]);
    const int shared = std::regex_search(text, kv_heads, kv_word) ? std::stoi(kv_heads[1]) : total;
    const int kept = std::min(shared, 2);
    text = std::regex_replace(text, kv_word, fmt::format("kv_heads {}", kept));
    text = std::regex_replace(text, heads_word, fmt::format("heads {}", kept * std::min(total / shared, 9)));
  }
  text = std::regex_replace(text, window_word, "window($1, 9");
  text = std::regex_replace(text, block_word, "key_block = 16");
  return one_line(std::regex_replace(text, length_word, "$1(24"));
}

}  // namespace

std::span<const BlockText> block_texts() { return kBlocks; }

std::vector<Case> example_cases(CaseSet set) {
  std::vector<Case> cases;
  const Shape quick[] = {{1, 67, 67}, {2, 1, 80}};
  const Shape full[] = {{1, 257, 257}, {2, 1, 1000}, {2, 100, 300}, {1, 1024, 1024}};
  for (const Example& example : examples()) {
    if (example.is_gym()) continue;
    const std::string text = reduced(std::string(example.text));
    for (const Shape& shape : quick) cases.push_back(make_case(text, shape));
    if (set == CaseSet::full)
      for (const Shape& shape : full) cases.push_back(make_case(text, shape));
  }
  return cases;
}

// Each in the dtype of its file at one size, in f32 at another; the masks' own sizes are between.
std::vector<Case> gym_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const Example& example : examples()) {
    if (!example.is_gym()) continue;
    const std::string text = one_line(example.text);
    cases.push_back(make_case(text, {1, 150, 150}));
    if (set == CaseSet::quick) continue;
    cases.push_back(make_case(std::regex_replace(text, std::regex("dtype f16"), "dtype f32"), {2, 75, 139}));
    cases.push_back(make_case(text, {1, 600, 600}));
  }
  return cases;
}

std::vector<Case> block_cases(CaseSet set) {
  std::vector<Case> cases;
  std::size_t number = 0;
  for (const BlockText& block : kPaired) {
    const DType second = ++number % 2 == 0 ? DType::bf16 : DType::f32;
    for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      if (set == CaseSet::quick && dtype != DType::f16 && dtype != second) continue;
      cases.push_back(
          make_case(block_program(block, {.heads = 4, .kv_heads = 2, .dtype = dtype}), {2, 37, 70}));
      if (set == CaseSet::full)
        for (int head_dim : {64, 128})
          for (const Shape& shape : {Shape{1, 128, 128}, Shape{2, 1, 333}, Shape{1, 200, 130}})
            cases.push_back(make_case(
                block_program(block, {.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = dtype}),
                shape));
    }
  }
  return cases;
}

// The full set has every pair on its own. The quick set has one program for every rotation and mask, each
// with one block of every other slot, which holds every pair too, and a part of the pairs on their own.
std::vector<Case> pair_cases(CaseSet set) {
  constexpr std::size_t kQuickPart = 4;
  std::vector<Case> cases;
  std::size_t number = 0;
  for (const BlockText& first : kPaired)
    for (const BlockText& second : kPaired) {
      if (&first >= &second || std::string_view(first.slot) == second.slot) continue;
      const bool small = ++number % kQuickPart == 0 || set == CaseSet::full;
      const std::string name = fmt::format("{}_{}", first.name, second.name);
      const std::string body = fmt::format("{} {}", first.text, second.text);
      if (small) cases.push_back(make_case(program(name, {}, body), {1, 35, 45}));
      if (set == CaseSet::full)
        for (DType dtype : {DType::f16, DType::bf16, DType::f32})
          cases.push_back(
              make_case(program(name, {.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = dtype}, body),
                        {2, 130, 150}));
    }
  const auto in_slot = [](const BlockText& block, std::string_view slot) { return block.slot == slot; };
  for (const BlockText& rotation : kPaired)
    for (const BlockText& mask : kPaired) {
      if (!in_slot(rotation, "rotation") || !in_slot(mask, "mask")) continue;
      std::string body = fmt::format("{} {}", rotation.text, mask.text);
      for (const BlockText& other : kPaired)
        if (!in_slot(other, "rotation") && !in_slot(other, "mask")) body += fmt::format(" {}", other.text);
      cases.push_back(
          make_case(program(fmt::format("all_{}_{}", rotation.name, mask.name), {}, body), {1, 35, 45}));
    }
  return cases;
}

std::vector<Case> rope_cases(CaseSet set) {
  std::vector<Case> cases;
  const std::vector<std::string> settings = {
      "theta = 10000",
      "theta = 10000, pairs = interleaved",
      "theta = 10000, dims = 16",
      "theta = 10000, dims = 16, pairs = interleaved",
      ("theta = 500000, scaling = llama3(factor = 8, low_freq_factor = 1, high_freq_factor = 4, "
       "original_context = 8192)"),
  };
  for (const std::string& setting : settings)
    for (int offset : {0, 700, 100000}) {
      if (set == CaseSet::quick && offset == 100000) continue;
      const std::string rope = offset == 0 ? fmt::format("rope({})", setting)
                                           : fmt::format("rope({}, offset = {})", setting, offset);
      for (DType dtype : {DType::f16, DType::f32}) {
        if (set == CaseSet::quick && (offset == 0) != (dtype == DType::f16)) continue;
        const Dims dims{.heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = dtype};
        const std::string text = program("rotated", dims, fmt::format("query {0} key {0} mask causal", rope));
        cases.push_back(make_case(text, {1, 33, 50}));
        if (set == CaseSet::full) cases.push_back(make_case(text, {1, 900, 900}));
      }
    }
  // Rotating only one side, or twice, or after another block.
  for (const char* body :
       {"query rope(theta = 10000)", "key rope(theta = 10000)",
        "query rope(theta = 10000) query rope(theta = 77) key rope(theta = 10000) key rope(theta = 77)",
        "query x * 0.5 query rope(theta = 10000) query x + 0.25 key rope(theta = 10000)"})
    cases.push_back(make_case(program("rotated", {}, body), {1, 33, 50}));
  return cases;
}

std::vector<Case> softcap_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* cap : {"0.5", "5", "50", "1000"})
    for (DType dtype : {DType::f16, DType::f32}) {
      Case c =
          make_case(program("capped", {.dtype = dtype}, fmt::format("score softcap({}) mask causal", cap)),
                    {1, 40, 66});
      cases.push_back(c);
      if (set == CaseSet::quick && dtype == DType::f32) continue;
      c.data = Data::large_logit;
      cases.push_back(c);
    }
  return cases;
}

std::vector<Case> sink_cases(CaseSet set) {
  std::vector<Case> cases;
  constexpr const char* kSink = "param sink : f32[heads] normalize softmax(sink = sink[h]) ";
  const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = DType::bf16};
  for (const char* mask :
       {"", "mask causal", "mask window(16)", "mask j >= 40 && i < 20", "score softcap(5) mask window(70)"}) {
    const std::string text = program("with_sink", dims, std::string(kSink) + mask);
    for (const Shape& shape : {Shape{1, 50, 50}, Shape{2, 70, 20}, Shape{1, 1, 130}, Shape{1, 5, 0}})
      cases.push_back(make_case(text, shape));
    if (set == CaseSet::full) cases.push_back(make_case(text, {2, 300, 300}));
  }
  Case huge = make_case(program("with_sink", dims, kSink), {1, 20, 33});
  huge.data = Data::large_logit;
  cases.push_back(huge);
  return cases;
}

std::vector<Case> captured_cases(CaseSet set) {
  std::vector<Case> cases;
  struct Captured {
    const char* shape;
    const char* use;
  };
  constexpr Captured kCaptured[] = {
      {"[1]", "score x + t[0]"},
      {"[heads]", "score x * t[h]"},
      {"[batch]", "score x + t[b]"},
      {"[sq]", "score x + t[i]"},
      {"[skv]", "score x + t[j]"},
      {"[heads, skv]", "score x + t[h, j]"},
      {"[heads, 2 * 16]", "score x + t[h, 16 + i - j]"},
      {"[batch, heads, sq, skv]", "score x + t[b, h, i, j]"},
      {"[kv_heads, head_dim]", "key x + t[h, d]"},
      {"[heads, sq, head_dim]", "query x + t[h, i, d]"},
      {"[batch, kv_heads, skv]", "value x * t[b, h, j]"},
  };
  constexpr std::string_view kDtypeNames[] = {"f32", "f16", "bf16"};
  std::size_t number = 0;
  for (const Captured& captured : kCaptured) {
    if (std::string_view(captured.shape) == "[heads, 2 * 16]") {
      // A table of relative positions: indices are clamped to the shape at both ends.
      cases.push_back(make_case(program("table", {.heads = 4, .kv_heads = 2},
                                        "param t : f32[heads, 32] score x + t[h, 16 + i - j] mask causal"),
                                {2, 40, 50}));
      continue;
    }
    // The quick set takes each in one dtype, in turns.
    const std::string_view turn = kDtypeNames[number++ % 3];
    for (std::string_view dtype : kDtypeNames) {
      if (set == CaseSet::quick && dtype != turn) continue;
      const std::string text =
          program("captured", {.heads = 4, .kv_heads = 2},
                  fmt::format("param t : {}{} {} mask causal", dtype, captured.shape, captured.use));
      for (Layout layout : {Layout::bhsd, Layout::mixed, Layout::padded}) {
        if (set == CaseSet::quick && layout == Layout::padded) continue;
        Case c = make_case(text, {2, 19, 40});
        c.layout = layout;
        cases.push_back(c);
      }
    }
  }
  cases.push_back(make_case(program("unused", {}, "param t : f32[heads] mask causal"), {1, 19, 40}));
  cases.push_back(make_case(program("score_free", {}, "param t : f32[skv] score t[j] + x * 0"), {1, 19, 40}));
  cases.push_back(make_case(program("indirect", {}, "param p : i32[skv] param t : f32[64] score x + t[p[j]]"),
                            {1, 19, 40}));
  return cases;
}

}  // namespace attnfuse::conformance
