// CUDA C++ as a dialect of the tile writer: cp.async copies, shuffles, mma.sync with ldmatrix operands.
#pragma once

#include "backends/common/c_dialect.h"

namespace attnfuse::cuda {

class CudaDialect : public CDialect {
 public:
  void begin(TileWriter& writer) const override;
  void end(TileWriter& writer) const override;
  std::string barrier(Scope scope) const override {
    return scope == Scope::warp ? "__syncwarp();" : "__syncthreads();";
  }
  std::string exchange(const std::string& value, int distance) const override;
  std::string pair_function(const TileProgram& program, ScalarOp op) const override;
  std::string raise(const std::string& flag) const override { return "atomicExch(" + flag + ", 1);"; }
  void chain(TileWriter& writer, const Chain& chain) const override;
  void take(TileWriter& writer, const Take& take) const override;
  void mma(TileWriter& writer, const Mma& mma) const override;
  void move(TileWriter& writer, const Move& move) const override;

 protected:
  std::string constant_qualifiers() const override { return "__device__ const"; }
};

}  // namespace attnfuse::cuda
