// Backends in shared objects. A plugin defines one function with
//   ATTNFUSE_PLUGIN(my_backend)      // const Backend& my_backend();
// and leaves what it uses of this library to the program that loads it: its headers must be the program's.
#pragma once

#include <cstdint>
#include <string>

#include "backends/backend.h"

namespace attnfuse {

// Raised when the meaning of what a backend sees changes in a way that sizes do not show.
inline constexpr std::uint64_t kPluginVersion = 1;

// A number that differs when the headers' types, the compiler's or the standard library's layouts do.
constexpr std::uint64_t plugin_layout() {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint64_t part :
       {std::uint64_t(sizeof(TileProgram)), std::uint64_t(sizeof(Statement)), std::uint64_t(sizeof(Tile)),
        std::uint64_t(sizeof(Channel)), std::uint64_t(sizeof(Node)), std::uint64_t(sizeof(Target)),
        std::uint64_t(sizeof(Schedule)), std::uint64_t(sizeof(ParamField)), std::uint64_t(sizeof(Binary)),
        std::uint64_t(sizeof(Launch)), std::uint64_t(sizeof(std::string)),
        std::uint64_t(std::variant_size_v<Statement::Kind>), std::uint64_t(std::variant_size_v<NodeKind>)
#ifdef _GLIBCXX_USE_CXX11_ABI
                                                                 ,
        std::uint64_t(_GLIBCXX_USE_CXX11_ABI)
#endif
       })
    hash = (hash ^ part) * 0x100000001b3ULL;
  return hash;
}

// What the function returns. The first two fields never change.
struct PluginEntry {
  std::uint64_t size = sizeof(PluginEntry);
  std::uint64_t version = kPluginVersion;
  std::uint64_t layout = plugin_layout();
  const Backend& (*backend)() = nullptr;
};
using PluginFunction = const PluginEntry* (*)();
inline constexpr const char* kPluginFunction = "attnfuse_plugin";

#define ATTNFUSE_PLUGIN(backend_function)                                                              \
  extern "C" __attribute__((visibility("default"))) const ::attnfuse::PluginEntry* attnfuse_plugin() { \
    static constexpr ::attnfuse::PluginEntry entry{.backend = (backend_function)};                     \
    return &entry;                                                                                     \
  }

// Adds the plugin's backend to the list of backends(), where it stays; not while others read the list.
// Diagnostics: "plugin.file", "plugin.entry", "plugin.version", "plugin.backend".
Result<const Backend*> load_plugin(const std::string& path);

// What load_plugin asks of an entry and the backend it names.
Status check_plugin(const std::string& path, const PluginEntry& entry);

}  // namespace attnfuse
