// Small pieces of text that the printers of graphs share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

std::string label(const Partner& partner);  // "partner half 128"
// The operation without its operands: "mul", "gather slope", "constant 0.125", "partner half 128".
std::string label(const Graph& graph, NodeId id);

// Shortest text that reads back as the same value: "0.125", "2.0" for f32, "2" for i32, "true".
std::string constant_text(double value, ValueType type);

std::string to_string(const Extent& extent);

// Replaces $0 $1 $2 in a spelling of the scalar-op table.
std::string substituted(std::string_view spelling, const std::vector<std::string>& operands);

}  // namespace attnfuse
