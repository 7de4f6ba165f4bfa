#include "ir/storage.h"

#include <doctest/doctest.h>

#include "ir/analysis.h"
#include "ir/test_program.h"
#include "ir/text.h"

namespace attnfuse {
namespace {

std::string shapes(const Storage& storage) {
  std::string text;
  for (const CallTensor& tensor : call_tensors(TestProgram{}.build().with_storage(storage))) {
    text += tensor.name + "[";
    for (const Extent& extent : tensor.shape) text += (text.back() == '[' ? "" : ", ") + to_string(extent);
    text += "] ";
  }
  return text;
}

}  // namespace

TEST_CASE("a call has the tensors of its storage form, in the shapes of that form") {
  CHECK(shapes({}) ==
        "q[batch, heads, sq, head_dim] k[batch, kv_heads, skv, head_dim] v[batch, kv_heads, skv, v_head_dim] "
        "o[batch, heads, sq, v_head_dim] lse[batch, heads, sq] ");
  CHECK(shapes({.ragged = true, .page_size = {}}) ==
        "q[heads, total_q, head_dim] k[kv_heads, total_k, head_dim] v[kv_heads, total_k, v_head_dim] "
        "cu_seqlens_q[batch + 1] cu_seqlens_k[batch + 1] o[heads, total_q, v_head_dim] lse[heads, total_q] ");
  CHECK(
      shapes({.ragged = false, .page_size = 16}) ==
      "q[batch, heads, sq, head_dim] k[pages, kv_heads, 16, head_dim] v[pages, kv_heads, 16, v_head_dim] "
      "page_table[batch, max_pages] seqused_k[batch] o[batch, heads, sq, v_head_dim] lse[batch, heads, sq] ");
  CHECK(shapes({.ragged = true, .page_size = 1}) ==
        "q[heads, total_q, head_dim] k[pages, kv_heads, 1, head_dim] v[pages, kv_heads, 1, v_head_dim] "
        "cu_seqlens_q[batch + 1] page_table[batch, max_pages] seqused_k[batch] "
        "o[heads, total_q, v_head_dim] lse[heads, total_q] ");
}

TEST_CASE("storage changes the text of a graph in one line, and no expression") {
  const Graph plain = TestProgram{}.build();
  const std::string text = print(plain.with_storage({.ragged = true, .page_size = 64}));
  const std::string line = "storage ragged, paged(page_size = 64)\n";
  const std::size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  CHECK(text.substr(0, at) + text.substr(at + line.size()) == print(plain));
}

TEST_CASE("a page without rows, and a captured tensor with the name of the form's own, are refused") {
  const Diagnostics errors = verify(TestProgram{}.build().with_storage({.ragged = false, .page_size = 0}));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == "storage.page-size");
  Graph graph = TestProgram{}.build();
  graph.add_tensor({"page_table", DType::i32, TensorRole::captured, {{Size::batch}}, false, {}, {}});
  CHECK(verify(graph).empty());
  const Diagnostics taken = verify(graph.with_storage({.ragged = false, .page_size = 16}));
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].code == "tensor.name");
}

}  // namespace attnfuse
