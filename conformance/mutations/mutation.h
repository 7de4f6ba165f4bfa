// Mutations: kernels broken on purpose, each in one way, with the family of cases that must notice. What the
// suite says about a device is worth what it catches here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/tile.h"

namespace attnfuse::conformance {

// An edit of emitted text: `find` must occur exactly once. Empty: this kernel has nothing of the kind.
struct TextEdit {
  std::string find, replace;
};

struct Mutation {
  // Which schedules have what it breaks.
  enum class Schedules : std::uint8_t { all, portable, roles };
  // watched: it may touch memory of others, or show only under some order of threads, which devices that
  // watch kernels report (Device::watches_kernels); other devices might crash, or be lucky.
  enum class Devices : std::uint8_t { all, watched };

  std::string_view name;
  std::string_view broken;      // what is wrong, in words
  std::string_view family;      // of cases; among its quick ones there must be one that fails
  std::string_view among = {};  // text in the lines of the cases that it is about; empty: all of the family
  // One of both. `program` says whether there was something to break.
  bool (*program)(TileProgram& program) = nullptr;
  TextEdit (*text)(const TileProgram& program) = nullptr;
  Schedules schedules = Schedules::all;
  Devices devices = Devices::all;
};

// By what they break: rows of scores and their sums, which keys are seen, transforms and captured tensors,
// two score heads, memory and barriers, programs with roles.
std::span<const Mutation> row_mutations();
std::span<const Mutation> mask_mutations();
std::span<const Mutation> value_mutations();
std::span<const Mutation> head_mutations();
std::span<const Mutation> memory_mutations();
std::span<const Mutation> role_mutations();

// All of them, in that order.
std::span<const Mutation> mutations();

}  // namespace attnfuse::conformance
