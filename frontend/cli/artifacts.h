// What a caller of an emitted kernel needs to know, for programs (launch.json) and for C and C++ (a header).
#pragma once

#include <string>

#include "ir/tile.h"
#include "runtime/device.h"

namespace attnfuse::cli {

// `binary` may be null: then there are no measured resources.
std::string launch_json(const TileProgram& program, const Binary* binary);

// The argument block as a struct whose offsets the compiler checks, and the launch's numbers.
std::string c_header(const TileProgram& program);

}  // namespace attnfuse::cli
