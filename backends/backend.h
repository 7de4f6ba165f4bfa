// Backend: turns a TileProgram into text, text into a binary, and opens devices.
// Validated means emittable: for a program that passed verify(), emit succeeds or returns a diagnostic.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/tile.h"
#include "runtime/device.h"

namespace attnfuse {

struct Source {
  std::string text;
  std::string entry;      // kernel name
  std::string extension;  // "cu", "hip", "comp"
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<Target> targets() const = 0;
  virtual Result<Source> emit(const TileProgram& program) const = 0;
  // Missing assembler: diagnostic "toolkit.missing" that names what to install.
  virtual Result<Binary> assemble(const Source& source, const Target& target) const = 0;
  // Name and version of the assembler on this machine: a cached binary is found again only under the same
  // one. Empty: binaries are not cached, as they depend on more than the source text.
  virtual std::string assembler() const { return {}; }
  virtual int device_count() const = 0;
  // "device.none", "driver.missing" or "backend.compiled-out": three messages.
  virtual Result<std::shared_ptr<Device>> open(int ordinal) const = 0;
  // The device that the calling thread uses, within the context that is current on it where the driver has
  // contexts; the first device where nothing is current.
  virtual Result<std::shared_ptr<Device>> open_current() const { return open(0); }
};

// The explicit list, in order of preference, then what was added.
std::span<const Backend* const> backends();
// For backends from elsewhere (backends/plugin.h); not while others read the list.
void add_backend(const Backend& backend);
const Backend* find_backend(std::string_view name);

std::vector<Target> all_targets();
// "cuda:sm_90a", or "cuda" alone for the backend's first device or first target.
Result<Target> find_target(std::string_view name);

}  // namespace attnfuse
