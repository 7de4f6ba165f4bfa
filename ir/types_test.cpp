#include "ir/types.h"

#include <doctest/doctest.h>

#include "ir/target.h"

namespace attnfuse {
namespace {

TEST_CASE("a dtype's name reads back as the dtype") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i32, DType::boolean}) {
    CHECK(dtype_from_name(name(dtype)) == dtype);
    CHECK(size_in_bytes(dtype) >= 1);
  }
  CHECK(dtype_from_name("f64") == std::nullopt);
  CHECK(size_in_bytes(DType::bf16) == 2);
  CHECK(value_type(DType::bf16) == ValueType::f32);
  CHECK(value_type(DType::boolean) == ValueType::boolean);
}

TEST_CASE("axes behave as sets") {
  const Axes query{Axis::b, Axis::h, Axis::i, Axis::d};
  CHECK(Axes{Axis::i, Axis::h}.within(query));
  CHECK_FALSE(Axes{Axis::j}.within(query));
  CHECK((query & Axes{Axis::i, Axis::j}) == Axes{Axis::i});
  CHECK((query | Axes{Axis::j}).has(Axis::j));
  CHECK_FALSE(query.without(Axis::d).has(Axis::d));
  CHECK(to_string(query) == "{b,h,i,d}");
  CHECK(to_string({}) == "{}");
}

TEST_CASE("a target's unit is the first that takes the dtype, and its summary names the best") {
  Target target;
  target.name = "test:one";
  target.warp_size = 16;
  target.units = {{.leaf = "mma", .operands = {DType::f16, DType::bf16}, .m = 16, .n = 8, .k = 16},
                  {.leaf = "fma", .operands = {DType::f16, DType::bf16, DType::f32}}};
  CHECK(matrix_unit(target, DType::bf16).leaf == "mma");
  CHECK(matrix_unit(target, DType::f32).leaf == "fma");
  CHECK(summary(target) == "16 x 8 x 16 f16 bf16 mma, 48 KiB shared, 16 lanes");
  target.units.erase(target.units.begin());
  CHECK(summary(target) == "f16 bf16 f32 fma, 48 KiB shared, 16 lanes");
}

}  // namespace
}  // namespace attnfuse
