#include "conformance/family.h"

namespace attnfuse::conformance {

// Every choice of the rotation calculus, forced, on every kind of transform. The full set has all
// combinations; the quick set takes heads, shape, layout and dtype in turns.
std::vector<Case> rotation_cases(CaseSet set) {
  constexpr const char* kTransforms[] = {
      "query rope(theta = 10000) key rope(theta = 10000) mask causal",
      "query rope(theta = 500, pairs = interleaved) key rope(theta = 500, pairs = interleaved)",
      "query rope(theta = 10000, dims = 16) key rope(theta = 10000, dims = 24, pairs = interleaved) mask "
      "causal",
      "param at : i32[batch, skv] query rope(theta = 77, offset = 3) key rope(theta = 77, position = at[b, "
      "j])",
      "param gain : f32[kv_heads, head_dim] query x * (1 + 0.01 * i - 0.1 * h) key x * gain[h, d] mask "
      "causal",
      "query x * 0.5 query rope(theta = 10000) query x + 0.25 key rope(theta = 10000) key rope(theta = 77)",
  };
  constexpr Rotation kChoices[] = {Rotation::fuse, Rotation::query, Rotation::key, Rotation::both};
  const Dims dims[] = {{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = DType::f16},
                       {.heads = 5, .kv_heads = 5, .head_dim = 40, .dtype = DType::bf16},
                       {.heads = 6, .kv_heads = 1, .head_dim = 32, .dtype = DType::f32}};
  const Shape shapes[] = {{1, 67, 67}, {2, 1, 90}, {2, 33, 50}, {1, 40, 9}};
  constexpr Layout kLayouts[] = {Layout::bhsd, Layout::mixed, Layout::bshd, Layout::odd};
  std::vector<Case> cases;
  const auto add = [&](const char* body, Rotation rotation, const Dims& d, const Shape& shape,
                       Layout layout) {
    Case c = make_case(program("turned", d, body), shape);
    c.rotation = rotation;
    c.layout = layout;
    cases.push_back(c);
  };
  std::size_t turn = 0;
  for (const char* body : kTransforms)
    for (Rotation rotation : kChoices) {
      if (set == CaseSet::quick) {
        for (int n = 0; n < 2; ++n, ++turn)
          add(body, rotation, dims[turn % 3], shapes[turn % 4], kLayouts[turn / 2 % 4]);
        continue;
      }
      for (const Dims& d : dims)
        for (const Shape& shape : shapes)
          for (Layout layout : kLayouts) add(body, rotation, d, shape, layout);
    }
  for (Rotation rotation : kChoices) {
    Case c = make_case(program("turned", dims[0], kTransforms[0]), {2, 70, 70});
    c.rotation = rotation;
    c.check = Check::repeat;
    cases.push_back(c);
    c.check = Check::decode;
    cases.push_back(c);
    for (std::int64_t skv : {0, 1}) {
      c = make_case(program("turned", dims[0], kTransforms[0]), {1, 3, skv});
      c.rotation = rotation;
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace attnfuse::conformance
