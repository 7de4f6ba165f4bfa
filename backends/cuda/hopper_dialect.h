// CUDA C++ for programs with roles on sm_90a: bulk tensor copies with mbarriers, wgmma, named barriers and
// register budgets.
#pragma once

#include "backends/cuda/dialect.h"

namespace attnfuse::cuda {

class HopperDialect : public CudaDialect {
 public:
  void begin(TileWriter& writer) const override;
  // The compiler would compute the sums with all registers' parts ahead of the loops, and keep them.
  std::string anchor(const std::string& text) const override { return "af_opaque(" + text + ")"; }
  std::string group_barrier(const TileWriter& writer) const override;
  std::string any_lane(const std::string& condition) const override;
  void mended(TileWriter& writer) const override;
  void store(TileWriter& writer, const Store& store) const override;
  void put(TileWriter& writer, const Put& put) const override;
  void acquire(TileWriter& writer, const Acquire& acquire) const override;
  void signal(TileWriter& writer, const Signal& signal) const override;
  void advance(TileWriter& writer, const Advance& advance) const override;
  void mma(TileWriter& writer, const Mma& mma) const override;
  void mma_wait(TileWriter& writer, const MmaWait& wait) const override;
  void map_slot(TileWriter& writer, const MapSlot& map) const override;
  void scale_rows(TileWriter& writer, const ScaleRows& scale) const override;
  void move(TileWriter& writer, const Move& move) const override;
  void scrub(TileWriter& writer, const Scrub& scrub) const override;
  void bulk_store(TileWriter& writer, const BulkStore& store) const override;
  void bulk_drain(TileWriter& writer) const override;
  void roles(TileWriter& writer, const Roles& roles) const override;
  void work_items(TileWriter& writer, const WorkItems& items) const override;
  void doubt(TileWriter& writer, const Doubt& doubt) const override;
  void turn(TileWriter& writer, const Turn& turn) const override;

 private:
  void decode_item(TileWriter& writer) const;
  void find_item(TileWriter& writer) const;
  void hand_out(TileWriter& writer, const WorkItems& items) const;
  void take_entry(TileWriter& writer, const WorkItems& items) const;
  void role_body(TileWriter& writer, const Role& role) const;
  void put_boxes(TileWriter& writer, const Put& put) const;
  void store_sequence(TileWriter& writer, const BulkStore& store, const Tile& tile) const;
};

}  // namespace attnfuse::cuda
