// Device time of a kernel of ours on given sizes.
#pragma once

#include "conformance/executor.h"

namespace attnfuse::bench {

struct Measurement {
  double median_ms = 0, min_ms = 0, max_ms = 0;
  int launches = 0;
  double flops = 0;  // of the two matrix products, over allowed pairs
  Schedule schedule;
  double tflops() const { return median_ms > 0 ? flops / median_ms / 1e9 : 0; }
};

// Warms up, then times `launches` launches one by one on random inputs.
Result<Measurement> measure(conformance::Executor& executor, const Graph& graph,
                            const std::string& program_text, const Sizes& sizes, int launches = 20,
                            Rotation rotation = Rotation::automatic);

}  // namespace attnfuse::bench
