// Folds over ranges of whole numbers, and the scalars that come of them.
#include <fmt/format.h>

#include "backends/common/tile_writer.h"

namespace attnfuse {
namespace {

// What changes no other value, as text.
const char* identity(ScalarOp op) {
  if (op == ScalarOp::imin) return "2147483647";
  return op == ScalarOp::imax ? "-2147483647 - 1" : "0";
}

std::string combined(ScalarOp op, const std::string& a, const std::string& b) {
  if (op == ScalarOp::iadd) return fmt::format("{} + ({})", a, b);
  return fmt::format("{}({}, {})", op == ScalarOp::imin ? "af_imin" : "af_imax", a, b);
}

}  // namespace

void TileWriter::write(const Fold& s) {
  const bool shared = s.shared.valid();
  for (const Fold::Result& result : s.results)
    out_.line(fmt::format("int {} = {};", result.name, identity(result.op)));
  const std::string begin = scalar(s.begin), end = scalar(s.end);
  out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", s.variable,
                        shared ? begin + " + thread" : begin, end, shared ? threads() : 1));
  body(s.each);
  for (const Fold::Result& result : s.results) {
    const std::string value = scalar(result.value);
    out_.line(fmt::format("{} = {};", result.name, combined(result.op, result.name, value)));
  }
  out_.close();
  if (!shared) return;
  const std::string array = array_of(tile(s.shared)), barrier = dialect_.barrier(Scope::workgroup);
  for (const Fold::Result& result : s.results) {
    out_.line(fmt::format("{}[thread] = {};", array, result.name));
    out_.line(barrier);
    out_.open(fmt::format("for (int span = {}; span > 0; span /= 2)", threads() / 2));
    out_.line(fmt::format("if (thread < span) {0}[thread] = {1};", array,
                          combined(result.op, array + "[thread]", array + "[thread + span]")));
    out_.line(barrier);
    out_.close();
    out_.line(fmt::format("{} = {}[0];", result.name, array));
    out_.line(barrier);
  }
}

void TileWriter::write(const StoreScalars& s) {
  std::string first;
  for (std::size_t dim = 0; dim < s.at.size(); ++dim)
    first += fmt::format("{}{} * args.{}_stride_{}", dim == 0 ? "" : " + ", dialect_.int64(scalar(s.at[dim])),
                         s.output, dim);
  out_.open("if (thread == 0)");
  out_.line(fmt::format("const af_i64 first = {};", first));
  for (std::size_t n = 0; n < s.values.size(); ++n)
    dialect_.store_global(out_, s.output, DType::i32, fmt::format("first + {}", n), scalar(s.values[n]));
  out_.close();
}

}  // namespace attnfuse
