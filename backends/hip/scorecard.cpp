#include "backends/hip/scorecard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "runtime/process.h"

namespace attnfuse::hip {
namespace {

// Figures of one compute unit. Matrix cycles follow from the number of passes; the rest from the instruction
// sets.
struct Unit {
  std::string_view arch;
  int simds;
  double matrix_cycles, vector_cycles, transcendental_cycles;
  int registers, granule, max_waves;
};
constexpr Unit kUnits[] = {
    {"gfx90a", 4, 64, 4, 16, 512, 8, 8},    {"gfx942", 4, 32, 4, 16, 512, 8, 8},
    {"gfx1030", 2, 0, 1, 4, 1024, 16, 16},  {"gfx1100", 2, 32, 1, 4, 1536, 24, 16},
    {"gfx1201", 2, 16, 1, 4, 1536, 24, 16},
};
constexpr double kSharedBytesPerCycle = 128;

struct Instruction {
  long address = 0;
  std::string name, operands;
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool starts(const std::string& text, std::string_view part) { return text.starts_with(part); }

bool is_matrix(const Instruction& i) { return has(i.name, "mfma") || has(i.name, "wmma"); }
bool is_global(const Instruction& i) {
  for (const char* prefix : {"global_load", "global_store", "flat_", "buffer_load", "buffer_store"})
    if (starts(i.name, prefix)) return true;
  return false;
}
bool is_transcendental(const Instruction& i) {
  for (const char* prefix : {"v_exp", "v_log", "v_rcp", "v_rsq", "v_sqrt", "v_sin", "v_cos"})
    if (starts(i.name, prefix)) return true;
  return false;
}

// "\tv_mfma_... v[0:15], ...   // 000000001A40: D3CD8000 ..."
std::vector<Instruction> parse(const std::string& text) {
  std::vector<Instruction> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t comment = line.rfind("// ");
    if (line.empty() || line[0] != '\t' || comment == std::string::npos) continue;
    const std::size_t space = std::min(line.find_first_of(" /", 1), line.size());
    result.push_back({std::strtol(line.c_str() + comment + 3, nullptr, 16), line.substr(1, space - 1),
                      line.substr(space, comment - space)});
  }
  return result;
}

// Where a branch leads: its operand counts words after the next instruction.
long branch_target(const Instruction& i) {
  const long words = std::strtol(i.operands.c_str(), nullptr, 10);
  return i.address + 4 + 4 * (words >= 0x8000 ? words - 0x10000 : words);
}
bool is_branch(const Instruction& i) { return starts(i.name, "s_branch") || starts(i.name, "s_cbranch"); }

// Bytes that one lane moves to or from shared memory.
int shared_bytes(const std::string& name) {
  const int both = has(name, "2addr") || has(name, "read2") || has(name, "write2") ? 2 : 1;
  if (has(name, "permute") || has(name, "swizzle")) return 4;
  for (const auto& [suffix, bytes] :
       {std::pair{"b128", 16}, {"b96", 12}, {"b64", 8}, {"b32", 4}, {"16", 2}, {"8", 1}})
    if (has(name, suffix)) return both * bytes;
  return 4;
}

LoopCounts count(std::span<const Instruction> loop) {
  LoopCounts c;
  c.instructions = int(loop.size());
  c.bytes = int(loop.back().address - loop.front().address) + 4;
  long partial_until = 0;  // address where the block of partial tiles ends
  for (std::size_t n = 0; n < loop.size(); ++n) {
    const Instruction& i = loop[n];
    if (starts(i.name, "s_cbranch") && !has(i.name, "exec") && branch_target(i) > i.address) {
      const bool partial =
          std::none_of(loop.begin() + std::ptrdiff_t(n), loop.end(), [&](const Instruction& x) {
            return x.address < branch_target(i) && (is_global(x) || is_matrix(x));
          });
      if (partial) partial_until = std::max(partial_until, branch_target(i));
    }
    if (i.address < partial_until) {
      c.partial_vector += starts(i.name, "v_");
      continue;
    }
    if (is_matrix(i))
      ++c.matrix;
    else if (has(i.name, "accvgpr"))
      ++c.accumulator_moves;
    else if (is_transcendental(i))
      ++c.transcendental;
    else if (starts(i.name, "v_"))
      ++c.vector;
    else if (starts(i.name, "ds_")) {
      c.shared_bytes += shared_bytes(i.name);
      c.narrow_shared_reads +=
          (starts(i.name, "ds_read") || starts(i.name, "ds_load")) && !has(i.name, "b128");
    } else if (starts(i.name, "scratch_"))
      ++c.scratch_accesses;
    else if (is_global(i))
      ++c.global_accesses;
    else if (starts(i.name, "s_barrier"))
      c.barriers += !has(i.name, "wait");  // gfx12 splits a barrier into signal and wait
    else if (starts(i.name, "s_wait"))
      ++c.waits;
    else if (i.name == "s_nop")
      ++c.idle;
  }
  return c;
}

// Between a backward branch and its target: most matrix instructions, then fewest others.
std::span<const Instruction> matrix_loop(std::span<const Instruction> all) {
  std::span<const Instruction> best;
  std::ptrdiff_t best_count = 0;
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (!is_branch(all[n]) || branch_target(all[n]) > all[n].address) continue;
    const auto begin =
        std::ranges::find_if(all, [&](const Instruction& i) { return i.address == branch_target(all[n]); });
    const auto first = std::size_t(begin - all.begin());
    const std::span<const Instruction> loop = all.subspan(first, n + 1 - first);
    const std::ptrdiff_t count = std::count_if(loop.begin(), loop.end(), is_matrix);
    if (count > best_count || (count == best_count && count > 0 && loop.size() < best.size())) {
      best = loop;
      best_count = count;
    }
  }
  return best;
}

int note(const std::string& notes, const std::string& key) {
  const std::size_t at = notes.find("." + key + ":");
  return at == std::string::npos ? 0 : std::atoi(notes.c_str() + at + key.size() + 2);
}

Result<std::string> output_of(const std::vector<std::string>& names, std::vector<std::string> arguments) {
  const std::optional<std::string> program =
      find_program(names, {"/opt/rocm/llvm/bin", "/usr/lib/llvm-19/bin"});
  if (!program)
    return Diagnostic{
        "toolkit.missing", names.back() + " is not on this machine", {}, "install llvm-19, or ROCm"};
  arguments.insert(arguments.begin(), *program);
  const Result<ProcessResult> result = run_process(arguments);
  if (!result) return result.errors();
  if (result->exit_code != 0) return Diagnostic{"process.failed", *program + ": " + result->output, {}, ""};
  return result->output;
}

}  // namespace

double Scorecard::shared_ratio() const { return shared_cycles / (matrix_cycles * waves_per_simd); }
double Scorecard::overlap_bound() const { return 1 / std::max({1.0, vector_ratio(), shared_ratio()}); }
double Scorecard::serial_bound() const { return 1 / (1 + vector_ratio()); }

Result<Scorecard> score(const Binary& code, const Target& target, int threads) {
  const auto* const unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return u.arch == target.arch; });
  ATTNFUSE_CHECK(unit != std::end(kUnits), "no cost figures for " + target.arch);
  Result<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return directory.errors();
  const std::string file = directory->path() / "kernel.co";
  if (Status written =
          write_file(file, {reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size()});
      !written)
    return written.errors();
  const Result<std::string> notes = output_of({"llvm-readelf-19", "llvm-readelf"}, {"--notes", file});
  if (!notes) return notes.errors();
  const Result<std::string> text = output_of({"llvm-objdump-19", "llvm-objdump"}, {"-d", file});
  if (!text) return text.errors();

  Scorecard card;
  card.target = target.name;
  card.accumulator_registers = note(*notes, "agpr_count");
  card.vector_registers = note(*notes, "vgpr_count");  // both kinds together
  card.spills = note(*notes, "vgpr_spill_count") + note(*notes, "sgpr_spill_count");
  card.scratch_bytes = note(*notes, "private_segment_fixed_size");
  card.shared_bytes = note(*notes, "group_segment_fixed_size");
  const int registers = (card.vector_registers + unit->granule - 1) / unit->granule * unit->granule;
  const int waves = threads / target.warp_size;
  const int by_registers = std::min(unit->registers / std::max(registers, 1), unit->max_waves);
  const double by_shared =
      std::floor(double(target.shared_bytes) / std::max(card.shared_bytes, 1)) * waves / unit->simds;
  card.waves_per_simd = std::min<double>(by_registers, by_shared);

  const std::vector<Instruction> all = parse(*text);
  const std::span<const Instruction> loop = matrix_loop(all);
  card.has_matrix_loop = !loop.empty();
  if (loop.empty()) return card;
  card.matrix_instruction = std::ranges::find_if(loop, is_matrix)->name;
  card.loop = count(loop);
  card.matrix_cycles = card.loop.matrix * unit->matrix_cycles;
  card.vector_cycles = (card.loop.vector + card.loop.accumulator_moves) * unit->vector_cycles +
                       card.loop.transcendental * unit->transcendental_cycles;
  card.shared_cycles =
      card.loop.shared_bytes * target.warp_size / kSharedBytesPerCycle * card.waves_per_simd * unit->simds;
  return card;
}

std::string to_string(const Scorecard& card) {
  std::string text = fmt::format(
      "{}: {} registers ({} accumulation), {} spills, {} bytes of scratch, {} of shared, {} waves a SIMD",
      card.target, card.vector_registers, card.accumulator_registers, card.spills, card.scratch_bytes,
      card.shared_bytes, card.waves_per_simd);
  if (!card.has_matrix_loop) return text + "; no matrix loop";
  const LoopCounts& c = card.loop;
  return text + fmt::format(
                    "\n  loop {} instructions, {} bytes: {} {}, {} transcendental, {} vector (+{} of partial "
                    "tiles), {} accumulator moves, "
                    "{} bytes of shared a lane, {} global, {} barriers, {} waits, {} nops\n"
                    "  vector/matrix {:.2f}, shared/matrix {:.2f}, of peak: {:.2f} overlapped, {:.2f} serial",
                    c.instructions, c.bytes, c.matrix, card.matrix_instruction, c.transcendental, c.vector,
                    c.partial_vector, c.accumulator_moves, c.shared_bytes, c.global_accesses, c.barriers,
                    c.waits, c.idle, card.vector_ratio(), card.shared_ratio(), card.overlap_bound(),
                    card.serial_bound());
}

}  // namespace attnfuse::hip
