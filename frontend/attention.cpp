#include "frontend/attention.h"

#include "frontend/expand.h"

namespace attnfuse {
namespace {

void place(Expression& expression, const Where& where) {
  expression.where = where;
  for (Expression& operand : expression.operands) place(operand, where);
}

}  // namespace

Attention::Attention(std::string name, const AttentionShape& shape, Where where) {
  spec_.info.name = std::move(name);
  spec_.info.heads = shape.heads;
  spec_.info.kv_heads = shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  spec_.info.head_dim = shape.head_dim;
  spec_.info.v_head_dim = shape.v_head_dim == 0 ? shape.head_dim : shape.v_head_dim;
  spec_.info.dtype = shape.dtype;
  spec_.info.where = std::move(where);
}

Captured Attention::param(std::string name, DType dtype, const std::vector<Dimension>& shape,
                          Gradient gradient, Where where) {
  Param param{name, dtype, {}, gradient == Gradient::wanted, std::move(where)};
  for (const Dimension& dimension : shape) param.shape.push_back(dimension.extent);
  spec_.params.push_back(std::move(param));
  return Captured(std::move(name));
}

StorageForm ragged() { return {}; }
StorageForm paged(std::int64_t page_size) { return {page_size, {}}; }

Attention Attention::storage(const StorageForm& form, const Where& where) const {
  Attention result = *this;
  result.spec_.storage.push_back({form.page_size, where});
  return result;
}

Attention Attention::with(Stage stage, Expression expression, const Where& where) const {
  place(expression, where);
  Attention result = *this;
  result.spec_.lines.push_back({stage, std::move(expression)});
  return result;
}

Result<Graph> Attention::build() const { return expand(spec_); }

Attention attention(std::string name, const AttentionShape& shape, Where where) {
  return {std::move(name), shape, std::move(where)};
}

}  // namespace attnfuse
