// Statements that pass elements of output rows from thread to thread: what Scrub removed, given back, and
// partners along the head dim.
#include <fmt/format.h>

#include <algorithm>

#include "backends/common/tile_writer.h"

namespace attnfuse {

void TileWriter::open_rolled(const std::string& header) {
  if (const std::string roll = dialect_.roll(); !roll.empty()) out_.line(roll);
  out_.open(header);
}

// A thread takes columns: it looks at the values of every key, and adds the few that are not finite to the
// rows that may see them.
void TileWriter::write(const Restore& s) {
  const ProgramInfo& info = program_.info;
  const bool in_place = s.in.valid(), to_registers = s.to.valid();
  const std::string raised = s.flag.empty() ? "" : dialect_.is_raised(s.flag);
  out_.open(raised.empty() ? "" : fmt::format("if ({})", in_place ? dialect_.any_lane(raised) : raised));
  if (to_registers && !in_place) define_base(s.output, "h");
  const std::string rows = fmt::format("for (int i = {0}; i < {0} + {1} && i < {2}; ++i)",
                                       scalar(s.first_row), program_.schedule.block_q, scalar(s.row_limit));
  // The output's element at i and d: its address, and how it is written.
  std::string at, element;
  if (in_place) {
    const Tile& memory = tile(s.in);
    at = shared_index(memory, fmt::format("i - {}", memory.row.base), "d");
    element = fmt::format("{}[{}]", array_of(memory), at);
  } else {
    at = fmt::format("{} + {} * args.{}_stride_s + d", base_of(s.output), dialect_.int64("i"), s.output);
  }
  const auto load = [&] {
    return in_place ? fmt::format("af_from_{}({})", name(tile(s.in).type), element)
                    : dialect_.load_global(s.output, info.dtype, at);
  };
  const auto store = [&](const std::string& value) {
    if (in_place)
      out_.line(fmt::format("{} = af_to_{}({});", element, name(tile(s.in).type), value));
    else
      dialect_.store_global(out_, s.output, info.dtype, at, value);
  };
  open_rolled(fmt::format("for (int d = thread; d < {}; d += {})", program_.value_columns(), threads()));
  if (to_registers) {
    open_rolled(
        in_place ? fmt::format("for (int i = {0}; i < {0} + {1}; ++i)", scalar(s.first_row), tile(s.to).rows)
                 : rows);
    store("0.0f");
    out_.close();
  }
  open_rolled(fmt::format("for (int j = {}; j < {}; ++j)", scalar(s.begin), scalar(s.end)));
  for (const Channel& channel : program_.channels)
    if (channel.source == s.value) {
      const std::string value = source_element(channel);
      out_.line(fmt::format("const float v_jd = {};", value));
    }
  out_.line("if (af_is_finite_f32(v_jd)) continue;");
  open_rolled(rows);
  out_.open(fmt::format("if ({})", scalar(s.mask)));
  // A number's bits: compilers may take x - x for 0.
  store(s.is_nan ? "af_from_bits(0x7fc00000u) /* NaN */" : load() + " + v_jd");
  for (int n = 0; n < 4; ++n) out_.close();
  if (to_registers) {
    out_.line(dialect_.group_barrier(*this));
    const Tile& to = tile(s.to);
    open_elements(to, in_place ? NodeId{} : s.row_limit);
    out_.line(fmt::format("{}[r] += {};", to.name, load()));
    close_elements();
    out_.line(dialect_.group_barrier(*this));
  } else if (in_place) {
    dialect_.mended(*this);
  }
  out_.close();
}

// For each register r, with i and d, that lies inside the output. No limit: rows all do.
void TileWriter::open_elements(const Tile& tile, NodeId row_limit) {
  out_.open("");
  const std::string row = fmt::format("{} + {}", tile.row.base, thread_position(tile, TileAxis::row));
  out_.line(fmt::format("const int i_at = {}, d_at = {};", dialect_.anchor(row),
                        dialect_.anchor(thread_position(tile, TileAxis::col))));
  const std::string limit = row_limit.valid() ? scalar(row_limit) : "";
  open_registers(std::get<FragmentLayout>(tile.layout).register_count());
  out_.line(fmt::format("const int i = i_at + {}, d = d_at + {};",
                        register_position(tile, TileAxis::row, "r"),
                        register_position(tile, TileAxis::col, "r")));
  std::string outside = limit.empty() ? "" : fmt::format("i >= {}", limit);
  if (tile.cols > program_.value_columns())
    outside += fmt::format("{}d >= {}", outside.empty() ? "" : " || ", program_.value_columns());
  if (!outside.empty()) out_.line(fmt::format("if ({}) continue;", outside));
}
void TileWriter::close_elements() {
  out_.close();
  out_.close();
}

namespace {

// Registers [first, end), each of which takes register r + by, or r ^ by.
struct Run {
  int first, end, by;
  bool exchanges;
};

// The longest one from `first` on.
Run run_from(const std::vector<int>& partners, int first) {
  const auto count = int(partners.size()), partner = partners[std::size_t(first)];
  const auto length = [&](auto&& expected) {
    int end = first;
    while (end < count && partners[std::size_t(end)] == expected(end)) ++end;
    return end;
  };
  const Run shifted{first, length([&](int r) { return r + partner - first; }), partner - first, false};
  const Run exchanged{first, length([&](int r) { return r ^ partner ^ first; }), partner ^ first, true};
  return exchanged.end > shifted.end ? exchanged : shifted;
}

}  // namespace

void TileWriter::write(const PairColumns& s) {
  const Tile &to = tile(s.to), &from = tile(s.from);
  if (!s.output.empty()) {
    out_.open("");
    define_base(s.output, "h");
    dialect_.store(*this, Store{s.from, s.output, s.first_row, s.row_limit, {}});
    out_.line(dialect_.barrier(Scope::workgroup));
    dialect_.fill(*this, Fill{s.to, 0});
    open_elements(from, s.row_limit);
    const std::string at = fmt::format("{} + {} * args.{}_stride_s + {}", base_of(s.output),
                                       dialect_.int64("i"), s.output, partner_index(s.partner, "d"));
    out_.line(fmt::format("{}[r] = {};", to.name, dialect_.load_global(s.output, program_.info.dtype, at)));
    close_elements();
    out_.line(dialect_.barrier(Scope::workgroup));
    out_.close();
    return;
  }
  const std::vector<int> partners = paired_registers(std::get<FragmentLayout>(from.layout), s.partner);
  for (int r = 0; r < int(partners.size());) {
    const Run run = run_from(partners, r);
    open_loop(fmt::format("for (int r = {}; r < {}; ++r)", run.first, run.end));
    out_.line(fmt::format("{}[r] = {}[{}];", to.name, from.name,
                          run.by == 0     ? "r"
                          : run.exchanges ? fmt::format("r ^ {}", run.by)
                          : run.by > 0    ? fmt::format("r + {}", run.by)
                                          : fmt::format("r - {}", -run.by)));
    out_.close();
    r = run.end;
  }
}

}  // namespace attnfuse
