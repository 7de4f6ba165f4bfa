// Rows of an output from its shares: a thread takes a chunk of a row through all of them, weights by their
// logsumexps, and the first thread of a row adds these up.
#include <fmt/format.h>

#include "backends/common/tile_writer.h"

namespace attnfuse {

void TileWriter::write(const MergeShares& s) {
  constexpr int kChunkBytes = 16;
  const ProgramInfo& info = program_.info;
  const int element = size_in_bytes(info.dtype);
  const bool by_chunks =
      program_.schedule.vector_bytes == kChunkBytes && info.v_head_dim * element % kChunkBytes == 0;
  const int width = by_chunks ? kChunkBytes / element : 1, units = info.v_head_dim / width;
  const auto row = [&](const std::string& tensor, const std::string& entry) {
    return fmt::format("{1} * args.{0}_stride_b + {2} * args.{0}_stride_h + {3} * args.{0}_stride_s", tensor,
                       dialect_.int64(entry), dialect_.int64("h"), dialect_.int64("i"));
  };
  const std::string each_share = "for (int n = 0; n < shares; ++n)", entry = "b * shares + n";
  const std::string lse_of_share = dialect_.load_global(s.from_lse, DType::f32, row(s.from_lse, entry));
  out_.open(
      fmt::format("for (int e = thread; e < {}; e += {})", program_.schedule.block_q * units, threads()));
  out_.line(
      fmt::format("const int i = {} + e / {}, d0 = e % {} * {};", scalar(s.first_row), units, units, width));
  out_.line(fmt::format("if (i >= {}) continue;", scalar(s.row_limit)));
  out_.line("float top = -af_infinity;");
  out_.line(fmt::format("{} top = af_max(top, {});", each_share, lse_of_share));
  out_.comment("a row that no share has keys for: o = 0, lse = -inf");
  out_.line("const float base = top == -af_infinity ? 0.0f : top;");
  out_.line(fmt::format("float sum = 0.0f, x[{0}], part[{0}];", width));
  open_registers(width, "c");
  out_.line("x[c] = 0.0f;");
  out_.close();
  out_.open(each_share);
  out_.line(fmt::format("const float own = {};", lse_of_share));
  out_.line("if (own == -af_infinity) continue;");
  out_.line("const float weight = af_exp(own - base);");
  out_.line("sum += weight;");
  const std::string at = row(s.from, entry) + " + d0";
  if (by_chunks)
    dialect_.load_chunk(out_, "part", s.from, info.dtype, at);
  else
    out_.line(fmt::format("part[0] = {};", dialect_.load_global(s.from, info.dtype, at)));
  open_registers(width, "c");
  out_.line("x[c] += weight * part[c];");
  out_.close();
  out_.close();
  out_.line("const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;");
  open_registers(width, "c");
  out_.line("x[c] *= factor;");
  out_.close();
  const std::string to = row("o", "b") + " + d0";
  if (by_chunks)
    dialect_.store_chunk(out_, "x", "o", info.dtype, to);
  else
    dialect_.store_global(out_, "o", info.dtype, to, "x[0]");
  out_.open("if (d0 == 0)");
  dialect_.store_global(out_, "lse", DType::f32, row("lse", "b"), "top + af_log(sum)");
  out_.close();
  out_.close();
}

}  // namespace attnfuse
