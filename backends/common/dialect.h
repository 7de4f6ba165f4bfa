// Dialect: how one C-like language spells what the tile writer says. A backend implements the pure functions;
// the leaves have generic versions that are right everywhere and that a backend replaces where the machine
// offers more.
#pragma once

#include <string>

#include "backends/common/source_writer.h"
#include "ir/tile.h"

namespace attnfuse {

class TileWriter;

class Dialect {
 public:
  virtual ~Dialect() = default;

  // Everything before the first statement: header comment, prelude, argument block, shared tiles, the
  // kernel's signature, and the scalars thread, lane, warp, block. `end` closes the kernel.
  virtual void begin(TileWriter& writer) const = 0;
  virtual void end(TileWriter& writer) const = 0;

  virtual std::string unroll() const = 0;                       // line before a loop to unroll; empty = none
  virtual std::string roll() const { return ""; }               // line before a loop that runs rarely
  virtual std::string type(DType dtype) const = 0;              // of a stored element
  virtual std::string int64(std::string_view value) const = 0;  // conversion to a 64-bit integer
  // An array of constants, before the kernel.
  virtual void constant_table(SourceWriter& out, const std::string& name,
                              const std::vector<double>& values) const = 0;

  // Element of a tensor as f32, int or bool. offset: 64-bit text, in elements.
  virtual std::string load_global(const std::string& tensor, DType dtype,
                                  const std::string& offset) const = 0;
  virtual void store_global(SourceWriter& out, const std::string& tensor, DType dtype,
                            const std::string& offset, const std::string& value) const = 0;
  // Between an f32 array and the 16 bytes of elements at an aligned offset.
  virtual void load_chunk(SourceWriter& out, const std::string& array, const std::string& tensor, DType dtype,
                          const std::string& offset) const = 0;
  virtual void store_chunk(SourceWriter& out, const std::string& array, const std::string& tensor,
                           DType dtype, const std::string& offset) const = 0;
  virtual std::string barrier(Scope scope) const = 0;
  // Of the threads that run the body at hand: the workgroup's, or a role's (of one group).
  virtual std::string group_barrier(const TileWriter& writer) const;
  // The value that the lane at exclusive-or `distance` holds.
  virtual std::string exchange(const std::string& value, int distance) const = 0;
  // Aligned neighbours among which exchange() works; every lane of the warp must take part.
  virtual int exchange_width(const Target& target) const {
    return target.lane_exchange ? target.warp_size : 1;
  }
  // What a thread adds to the coordinates of a tile, once before a loop over registers.
  virtual std::string anchor(const std::string& text) const { return text; }
  // A function f(x, y, factor) that replaces two f32 values by op of each, times the factor, for less than
  // twice the price of one; empty = none.
  virtual std::string pair_function(const TileProgram&, ScalarOp) const { return ""; }
  virtual std::string raise(const std::string& flag) const = 0;
  virtual std::string is_raised(const std::string& flag) const = 0;
  // Whether any lane of the warp holds true; only for programs with roles.
  virtual std::string any_lane(const std::string& condition) const;
  // After plain stores of a warp to a shared tile that the copy engine reads next.
  virtual void mended(TileWriter& writer) const;

  // ---- leaves -----------------------------------------------------------------------------
  // Elements that one thread copies at once; 1 = element by element.
  virtual int chunk_elements(const TileWriter& writer, const Channel& channel) const;
  virtual void put(TileWriter& writer, const Put& put) const;
  virtual void take(TileWriter& writer, const Take& take) const;
  virtual void mma(TileWriter& writer, const Mma& mma) const;
  virtual void move(TileWriter& writer, const Move& move) const;
  virtual void scale_rows(TileWriter& writer, const ScaleRows& scale) const;
  virtual void fill(TileWriter& writer, const Fill& fill) const;
  virtual void store(TileWriter& writer, const Store& store) const;
  virtual void chain(TileWriter& writer, const Chain& chain) const;  // nothing, where kernels never overlap
  virtual void scrub(TileWriter& writer, const Scrub& scrub) const;
  // Programs with roles: only for machines whose targets have a pipeline.
  virtual void acquire(TileWriter& writer, const Acquire& acquire) const;
  virtual void signal(TileWriter& writer, const Signal& signal) const;
  virtual void advance(TileWriter& writer, const Advance& advance) const;
  virtual void mma_wait(TileWriter& writer, const MmaWait& wait) const;
  virtual void bulk_store(TileWriter& writer, const BulkStore& store) const;
  virtual void map_slot(TileWriter& writer, const MapSlot& map) const;
  virtual void bulk_drain(TileWriter& writer) const;
  virtual void roles(TileWriter& writer, const Roles& roles) const;
  virtual void work_items(TileWriter& writer, const WorkItems& items) const;
  virtual void doubt(TileWriter& writer, const Doubt& doubt) const;
  virtual void turn(TileWriter& writer, const Turn& turn) const;
  // Declaration of a register tile.
  virtual void declare(TileWriter& writer, const Tile& tile) const;
};

}  // namespace attnfuse
