// GLSL compute as a dialect of the tile writer: addresses instead of pointers, subgroup exchange, cooperative
// matrices.
#pragma once

#include <functional>

#include "backends/common/dialect.h"

namespace attnfuse::spirv {

class GlslDialect : public Dialect {
 public:
  void begin(TileWriter& writer) const override;
  void end(TileWriter& writer) const override;
  // Kernels for any device leave it to the driver: CPU drivers compile unrolled code for seconds.
  std::string unroll() const override { return warps_are_subgroups_ ? "[[unroll]]" : ""; }
  std::string type(DType dtype) const override;
  std::string int64(std::string_view value) const override;
  void constant_table(SourceWriter& out, const std::string& name,
                      const std::vector<double>& values) const override;
  std::string load_global(const std::string& tensor, DType dtype, const std::string& offset) const override;
  void store_global(SourceWriter& out, const std::string& tensor, DType dtype, const std::string& offset,
                    const std::string& value) const override;
  void load_chunk(SourceWriter& out, const std::string& array, const std::string& tensor, DType dtype,
                  const std::string& offset) const override;
  void store_chunk(SourceWriter& out, const std::string& array, const std::string& tensor, DType dtype,
                   const std::string& offset) const override;
  std::string barrier(Scope scope) const override;
  std::string exchange(const std::string& value, int distance) const override;
  int exchange_width(const Target& target) const override;
  std::string raise(const std::string& flag) const override { return "atomicOr(" + flag + ", 1);"; }
  std::string is_raised(const std::string& flag) const override { return flag + " != 0"; }
  int chunk_elements(const TileWriter& writer, const Channel& channel) const override;
  void put(TileWriter& writer, const Put& put) const override;
  void store(TileWriter& writer, const Store& store) const override;

  explicit GlslDialect(const TileProgram& program);

 private:
  void extensions(SourceWriter& out) const;
  void argument_block(TileWriter& writer) const;
  void transform_chunk(TileWriter& writer, const Channel& channel, int elements,
                       const std::function<std::string(const std::string& d)>& load) const;

  const TileProgram& program_;
  bool warps_are_subgroups_;
};

// GLSL whose opaque tiles are cooperative matrices of a subgroup: the scores and the output. Operands come
// from shared memory; rows are scaled by loading the factors as a matrix whose columns are all the same.
class CooperativeDialect : public GlslDialect {
 public:
  using GlslDialect::GlslDialect;
  void declare(TileWriter& writer, const Tile& tile) const override;
  void fill(TileWriter& writer, const Fill& fill) const override;
  void mma(TileWriter& writer, const Mma& mma) const override;
  void move(TileWriter& writer, const Move& move) const override;
  void scale_rows(TileWriter& writer, const ScaleRows& scale) const override;
  void store(TileWriter& writer, const Store& store) const override;

 private:
  void move_by_way(TileWriter& writer, const Move& move) const;
  void stage_columns(TileWriter& writer, const Tile& from, const Tile& via, int first, int cols) const;
};

}  // namespace attnfuse::spirv
