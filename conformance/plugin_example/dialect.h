// How C++ for one thread spells what the tile writer says.
#pragma once

#include "backends/common/c_dialect.h"

namespace cpp_backend {

class CppDialect : public attnfuse::CDialect {
 public:
  void begin(attnfuse::TileWriter& writer) const override;
  void end(attnfuse::TileWriter& writer) const override;
  std::string unroll() const override { return ""; }
  std::string roll() const override { return ""; }
  std::string barrier(attnfuse::Scope) const override { return "// one thread: nothing to wait for"; }
  std::string exchange(const std::string& value, int) const override { return value; }
  std::string raise(const std::string& flag) const override { return "*" + flag + " = 1;"; }

 protected:
  std::string constant_qualifiers() const override { return "static const"; }
};

}  // namespace cpp_backend
