// A conformance case is one printable line: what is computed, on which data, in which layout, and what is
// checked. The line alone reruns it:
//   window b=2 sq=33 skv=65 layout=bhsd data=normal check=value seed=7 :: attention t { heads 4 ... }
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "passes/rotation.h"

namespace attnfuse::conformance {

// How q, k, v, o and captured tensors lie in memory. Gaps hold NaN.
enum class Layout : std::uint8_t {
  bhsd,       // contiguous
  bshd,       // heads inside rows
  sbhd,       // batch and heads inside rows
  padded,     // gaps after rows, heads and the last row; still aligned
  offset,     // contiguous, starting one element past an aligned address
  odd,        // row stride one more than the head dim, starting one element past an aligned address
  broadcast,  // k and v have batch stride 0
  mixed,      // every tensor differently
  far,        // kv heads of k and v, and heads of captured matrices, are more than 2^31 elements apart; needs
              // gigabytes of address space
};

enum class Data : std::uint8_t {
  normal,
  large_logit,    // scores in the thousands
  real,           // channel means, outliers: what trained models produce
  big_value,      // values near the end of the f16 range
  uniform,        // keys are zero: the average of the allowed values
  poison_masked,  // NaN, infinity and huge values in k and v where no query looks
  poison_seen,    // NaN and infinity where some queries look and others do not
  poison_others,  // NaN in k and v of every second sequence
};

enum class Check : std::uint8_t {
  value,      // equals the reference
  repeat,     // and ten more launches give the same bits
  decode,     // and the last query alone, with the same keys, gives the last row
  same_bits,  // and gives the bits of the same case without poison
  shift,      // and so does the program with a constant added to all scores, the LSE moved by it
  reverse,    // and so does the call with the keys in reverse; of programs that do not read j
  merge,      // and so do two calls on parts of the keys together; of programs that do not read j
  alone,      // and each batch entry alone gives the same bits; of programs that do not read b
  chunk,  // and the last third of each ragged sequence's queries alone, with the same keys, gives their rows
  page_order,  // and gives the bits of the same case with its pages in order
};

// How pages of keys and values are numbered. Pages and entries of the table that are not in use hold garbage.
enum class Pages : std::uint8_t {
  shuffled,
  ordered,
  shared,  // shuffled, and sequences begin with the same page, where they fill one
};

// Of one sequence. Written q/kv.
struct Lengths {
  std::int64_t q = 0, kv = 0;
  bool operator==(const Lengths&) const = default;
};

template <class Kind>
struct KindInfo {
  Kind kind;
  std::string_view name;
  std::string_view about;
};
std::span<const KindInfo<Layout>> layouts();
std::span<const KindInfo<Data>> data_kinds();
std::span<const KindInfo<Check>> checks();
std::span<const KindInfo<Pages>> page_kinds();
std::string_view name(Layout layout);
std::string_view name(Data data);
std::string_view name(Check check);
std::string_view name(Pages pages);

struct Case {
  std::string family;
  std::int64_t batch = 1, sq = 1, skv = 1;
  Layout layout = Layout::bhsd;
  Data data = Data::normal;
  Check check = Check::value;
  // Each in the line only when it is another.
  Rotation rotation = Rotation::automatic;
  std::vector<Lengths> lengths =
      {};  // of sequences; none: all are sq/skv. Else b, sq and skv follow from them
  Pages pages = Pages::shuffled;
  std::uint64_t seed = 1;
  std::string program;  // one line of .attn text
  bool operator==(const Case&) const = default;
};

std::string to_line(const Case& c);
// Sets the lengths, and b, sq and skv with them.
void set_lengths(Case& c, std::vector<Lengths> lengths);
// "5/7,0/33"; diagnostics "case.syntax".
Result<std::vector<Lengths>> parse_lengths(std::string_view text);
// Those of every sequence.
std::vector<Lengths> lengths_of(const Case& c);

// "case.syntax", "case.unknown-word": the inverse of to_line. Fields may be left out and reordered.
Result<Case> parse_line(std::string_view line);

// One line of .attn text: line ends and runs of blanks become one blank, comments disappear.
std::string one_line(std::string_view program);

}  // namespace attnfuse::conformance
