// What the C++ dialects share: pointers, arrays, wide copies. A backend adds its intrinsics.
#pragma once

#include "backends/common/dialect.h"

namespace attnfuse {

class CDialect : public Dialect {
 public:
  std::string unroll() const override { return "#pragma unroll"; }
  std::string roll() const override { return "#pragma unroll 1"; }
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
  std::string is_raised(const std::string& flag) const override { return "*" + flag + " != 0"; }
  int chunk_elements(const TileWriter& writer, const Channel& channel) const override;
  void put(TileWriter& writer, const Put& put) const override;
  void store(TileWriter& writer, const Store& store) const override;

 protected:
  // Type of a tensor's address in the argument struct.
  virtual std::string argument_pointer() const { return "af_u64"; }
  // Qualifiers of a table of constants in device memory.
  virtual std::string constant_qualifiers() const = 0;
  // Declares x[chunk]: elements d0, d0 + 1, ... of row i or j of the source, transformed; zeros unless
  // `inside`.
  void read_chunk(TileWriter& writer, const Channel& channel, int chunk, const std::string& inside,
                  int lanes = 0) const;
  // Header comment, prelude text, argument struct, tables.
  void begin_file(TileWriter& writer, std::string_view types, std::string_view functions) const;
  // Pointers to the shared tiles inside `memory`, an array of bytes; returns the bytes used.
  int shared_tiles(TileWriter& writer, const std::string& memory) const;
};

// The header every generated file starts with: spec, target, schedule, how to regenerate.
void header_comment(TileWriter& writer);
// Fields of the argument block as "type name;" lines.
void argument_fields(TileWriter& writer, const std::string& pointer_type, const std::string& stride_type);

}  // namespace attnfuse
