// HIP C++ as a dialect of the tile writer: copies staged through registers, MFMA and WMMA on transposed
// products.
#pragma once

#include "backends/common/c_dialect.h"

namespace attnfuse::hip {

class HipDialect : public CDialect {
 public:
  void begin(TileWriter& writer) const override;
  void end(TileWriter& writer) const override;
  std::string barrier(Scope scope) const override {
    return scope == Scope::warp ? "af_barrier_wave();" : "af_barrier_workgroup();";
  }
  std::string exchange(const std::string& value, int distance) const override;
  std::string raise(const std::string& flag) const override { return "*" + flag + " = 1;"; }
  void put(TileWriter& writer, const Put& put) const override;
  void take(TileWriter& writer, const Take& take) const override;
  void mma(TileWriter& writer, const Mma& mma) const override;
  void move(TileWriter& writer, const Move& move) const override;
  void store(TileWriter& writer, const Store& store) const override;

 protected:
  // A pointer, not a number: the compiler then knows that it leads to global memory.
  std::string argument_pointer() const override { return "void*"; }
  void put_operand(TileWriter& writer, const Put& put) const;
  std::string constant_qualifiers() const override { return "__constant__ const"; }
};

}  // namespace attnfuse::hip
