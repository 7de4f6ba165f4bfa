#include "backends/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace attnfuse {
namespace {

Diagnostic problem(const char* code, std::string message, std::string fix) {
  return {code, std::move(message), {}, std::move(fix)};
}

constexpr const char* kRebuild = "build the plugin again, with the headers of this program";

Status check_backend(const std::string& path, const Backend& backend) {
  const std::string name = backend.name();
  const auto wrong = [&](const std::string& what) {
    return problem("plugin.backend", fmt::format("'{}': {}", path, what),
                   R"(name the backend "mine" and its targets "mine:arch")");
  };
  if (name.empty() || name.find(':') != std::string::npos)
    return wrong(fmt::format("'{}' is no name of a backend", name));
  if (find_backend(name) != nullptr) return wrong(fmt::format("there is a backend '{}' already", name));
  const std::vector<Target> targets = backend.targets();
  if (targets.empty()) return wrong(fmt::format("backend '{}' has no target", name));
  for (const Target& target : targets) {
    if (target.backend != name || target.name != name + ":" + target.arch)
      return wrong(fmt::format("target '{}' of backend '{}' has another name", target.name, name));
    if (target.units.empty()) return wrong(fmt::format("target '{}' has no matrix unit", target.name));
  }
  return Unit{};
}

}  // namespace

Status check_plugin(const std::string& path, const PluginEntry& entry) {
  if (entry.size != sizeof(PluginEntry) || entry.version != kPluginVersion)
    return problem("plugin.version",
                   fmt::format("'{}' was built for version {} of the plugin interface; this is version {}",
                               path, entry.version, kPluginVersion),
                   kRebuild);
  if (entry.layout != plugin_layout())
    return problem(
        "plugin.version",
        fmt::format("'{}' was built with other headers, or another compiler or standard library", path),
        kRebuild);
  if (entry.backend == nullptr)
    return problem("plugin.entry", fmt::format("'{}' names no backend", path),
                   "write ATTNFUSE_PLUGIN(function), see backends/plugin.h");
  return check_backend(path, entry.backend());
}

Result<const Backend*> load_plugin(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (error || !std::filesystem::is_regular_file(file, error))
    return problem("plugin.file", fmt::format("there is no file '{}'", path),
                   "give the path of a backend's shared object");
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return problem("plugin.file", fmt::format("cannot load '{}': {}", path, reason ? reason : "no reason"),
                   "give a shared object for this machine; what it leaves undefined is this program's");
  }
  const auto function = reinterpret_cast<PluginFunction>(dlsym(library, kPluginFunction));
  if (function == nullptr) {
    dlclose(library);
    return problem("plugin.entry", fmt::format("'{}' has no function {}", path, kPluginFunction),
                   "write ATTNFUSE_PLUGIN(function), see backends/plugin.h");
  }
  // It stays loaded, whatever is wrong: what it returns lies inside.
  const PluginEntry* entry = function();
  if (entry == nullptr)
    return problem("plugin.entry", fmt::format("'{}' has no entry", path),
                   "write ATTNFUSE_PLUGIN(function), see backends/plugin.h");
  if (const Status checked = check_plugin(path, *entry); !checked) return checked.errors();
  const Backend& backend = entry->backend();
  add_backend(backend);
  return &backend;
}

}  // namespace attnfuse
