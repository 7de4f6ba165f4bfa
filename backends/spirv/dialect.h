// GLSL compute as a dialect of the tile writer: buffer references for 64-bit addresses, subgroup shuffles, and
// cooperative matrices where the program's unit is opaque.
#pragma once

#include "backends/common/dialect.h"

namespace attnfuse::spirv {

class GlslDialect : public Dialect {
 public:
  void begin(TileWriter& writer) const override;
  void end(TileWriter& writer) const override;
  std::string unroll() const override { return "[[unroll]]"; }
  std::string type(DType dtype) const override;
  std::string int64(std::string_view value) const override;
  void constant_table(SourceWriter& out, const std::string& name, const std::vector<double>& values) const override;
  std::string load_global(const std::string& tensor, DType dtype, const std::string& offset) const override;
  void store_global(SourceWriter& out, const std::string& tensor, DType dtype, const std::string& offset,
                    const std::string& value) const override;
  // Warps of the tile program are not subgroups of the device: every barrier is the workgroup's.
  std::string barrier(Scope) const override { return "memoryBarrierBuffer(); barrier();"; }
  std::string exchange(const std::string& value, int distance) const override;
  std::string raise(const std::string& flag) const override { return "atomicExchange(" + flag + ", 1);"; }
  std::string is_raised(const std::string& flag) const override { return flag + " != 0"; }

  // Cooperative matrices: cooperative.cpp.
  void declare(TileWriter& writer, const Tile& tile) const override;
  void fill(TileWriter& writer, const Fill& fill) const override;
  void move(TileWriter& writer, const Move& move) const override;
  void mma(TileWriter& writer, const Mma& mma) const override;
  void scale_rows(TileWriter& writer, const ScaleRows& scale) const override;
  void store(TileWriter& writer, const Store& store) const override;
};

}  // namespace attnfuse::spirv
