/* attnfuse.h is C99. Fills and reads a call as C code does; attnfuse_test.cpp calls it. */
#include "runtime/attnfuse.h"

attnfuse_tensor attnfuse_test_tensor(const char* name, void* data, int32_t dtype, int32_t rank,
                                     const int64_t* shape);

attnfuse_tensor attnfuse_test_tensor(const char* name, void* data, int32_t dtype, int32_t rank,
                                     const int64_t* shape) {
  attnfuse_tensor tensor = {name, data, dtype, rank, {0}, {0}};
  int64_t stride = 1;
  int32_t axis;
  for (axis = rank - 1; axis >= 0; --axis) {
    tensor.shape[axis] = shape[axis];
    tensor.strides[axis] = stride;
    stride *= shape[axis];
  }
  return tensor;
}
