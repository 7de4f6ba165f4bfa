// The masks of the C++ builder.
#include "frontend/call.h"

namespace attnfuse {
namespace {

Term aligned(Call call, Align align) {
  if (align == Align::top_left) call.named("align", make_name("top_left"));
  return Term(call.expression());
}

Term by_blocks(Call call, int query_block, int key_block) {
  return Term(call.positional(argument(query_block)).positional(argument(key_block)).expression());
}

}  // namespace

Term causal(Align align) { return aligned(Call("causal"), align); }

Term window(int left, int right, Align align) {
  Call call("window");
  call.positional(argument(left));
  if (right != 0) call.named("right", argument(right));
  return aligned(std::move(call), align);
}

Term chunk(int size, Align align) { return aligned(Call("chunk").positional(argument(size)), align); }
Term prefix(const Term& length, Align align) {
  return aligned(Call("prefix").positional(length.expression()), align);
}
Term document(const Captured& ids) { return Term(Call("document").positional(argument(ids)).expression()); }
Term document(const Captured& ids, const Captured& query_ids) {
  return Term(
      Call("document").positional(argument(ids)).named("query_ids", argument(query_ids)).expression());
}
Term packed(const Captured& offsets) {
  return Term(Call("packed").positional(argument(offsets)).expression());
}
Term length(const Term& keys) { return Term(Call("length").positional(keys.expression()).expression()); }
Term global(const Term& tokens, Align align) {
  return aligned(Call("global").positional(tokens.expression()), align);
}
Term dilated(int step, Align align) { return aligned(Call("dilated").positional(argument(step)), align); }
Term block_mask(const Captured& table, int query_block, int key_block) {
  return by_blocks(Call("block_mask").positional(argument(table)), query_block, key_block);
}
Term block_list(const Captured& list, int query_block, int key_block) {
  return by_blocks(Call("block_list").positional(argument(list)), query_block, key_block);
}
Term tree(const Captured& ancestors) {
  return Term(Call("tree").positional(argument(ancestors)).expression());
}
Term tree_path(const Captured& parents, int depth) {
  return Term(Call("tree_path").positional(argument(parents)).positional(argument(depth)).expression());
}

}  // namespace attnfuse
