// AMD's rules for lanes: those of a wave meet at every cross-lane operation, matrix operation and barrier;
// waves meet at the workgroup's barrier, ended ones excepted.
#pragma once

#include "backends/emulator/workgroup.h"
#include "ir/target.h"

namespace attnfuse::hip {

// Diagnostics: "emulator.diverged", "emulator.operand".
std::unique_ptr<emulator::Machine> make_machine(emulator::Workgroup& group, const Target& target);

}  // namespace attnfuse::hip
