#include "ir/types.h"

namespace attnfuse {
namespace {

struct DTypeRow {
  std::string_view name;
  int bytes;
  ValueType read_as;
};

// In enumerator order.
constexpr DTypeRow kDTypes[] = {
    {"f16", 2, ValueType::f32}, {"bf16", 2, ValueType::f32},     {"f32", 4, ValueType::f32},
    {"i32", 4, ValueType::i32}, {"bool", 1, ValueType::boolean},
};
constexpr std::string_view kValueTypes[] = {"f32", "i32", "bool"};
constexpr std::string_view kAxisNames[] = {"b", "h", "g", "i", "j", "d"};

const DTypeRow& row(DType dtype) { return kDTypes[std::size_t(dtype)]; }

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view name(ValueType type) { return kValueTypes[std::size_t(type)]; }
std::string_view name(Axis axis) { return kAxisNames[std::size_t(axis)]; }
int size_in_bytes(DType dtype) { return row(dtype).bytes; }
ValueType value_type(DType dtype) { return row(dtype).read_as; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (std::size_t k = 0; k < std::size(kDTypes); ++k)
    if (kDTypes[k].name == text) return DType(k);
  return {};
}

std::string to_string(Axes axes) {
  std::string text;
  for (Axis axis : kAllAxes) {
    if (!axes.has(axis)) continue;
    if (!text.empty()) text += ',';
    text += name(axis);
  }
  return "{" + text + "}";
}

}  // namespace attnfuse
