#include "backends/plugin.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

namespace attnfuse {
namespace {

class NamedBackend : public Backend {
 public:
  explicit NamedBackend(std::string name, std::vector<Target> targets)
      : name_(std::move(name)), targets_(std::move(targets)) {}
  std::string name() const override { return name_; }
  std::vector<Target> targets() const override { return targets_; }
  Result<Source> emit(const TileProgram&) const override { return Source{}; }
  Result<Binary> assemble(const Source&, const Target&) const override { return Binary{}; }
  int device_count() const override { return 0; }
  Result<std::shared_ptr<Device>> open(int) const override {
    return Diagnostic{"device.none", "none", {}, ""};
  }

 private:
  std::string name_;
  std::vector<Target> targets_;
};

Target target_named(const std::string& backend, const std::string& arch) {
  Target target;
  target.name = backend + ":" + arch;
  target.backend = backend;
  target.arch = arch;
  target.units.emplace_back();
  return target;
}

std::string complaint(const PluginEntry& entry) {
  const Status checked = check_plugin("x.so", entry);
  return checked ? "" : checked.errors().front().code + ": " + checked.errors().front().message;
}

template <int which>
const Backend& backend() {
  static const NamedBackend all[] = {
      NamedBackend("fine", {target_named("fine", "one")}), NamedBackend("a:b", {target_named("a:b", "one")}),
      NamedBackend("spirv", {target_named("spirv", "one")}), NamedBackend("empty", {}),
      NamedBackend("other", {target_named("another", "one")})};
  return all[which];
}

}  // namespace

TEST_CASE("a plugin for other headers, without backend or with a wrong one is refused, and told why") {
  CHECK(complaint({.backend = backend<0>}) == "");
  CHECK(complaint({.version = 7, .backend = backend<0>}) ==
        "plugin.version: 'x.so' was built for version 7 of the plugin interface; this is version 1");
  CHECK(complaint({.size = 8, .backend = backend<0>}).starts_with("plugin.version: "));
  CHECK(complaint({.layout = plugin_layout() + 1, .backend = backend<0>}) ==
        "plugin.version: 'x.so' was built with other headers, or another compiler or standard library");
  CHECK(complaint({}) == "plugin.entry: 'x.so' names no backend");
  CHECK(complaint({.backend = backend<1>}) == "plugin.backend: 'x.so': 'a:b' is no name of a backend");
  CHECK(complaint({.backend = backend<2>}) == "plugin.backend: 'x.so': there is a backend 'spirv' already");
  CHECK(complaint({.backend = backend<3>}) == "plugin.backend: 'x.so': backend 'empty' has no target");
  CHECK(complaint({.backend = backend<4>}) ==
        "plugin.backend: 'x.so': target 'another:one' of backend 'other' has another name");
}

TEST_CASE("a file that is not there, is no shared object or has no entry is a diagnostic") {
  const auto code = [](const std::string& path) {
    const auto loaded = load_plugin(path);
    return loaded ? std::string() : loaded.errors().front().code;
  };
  const std::size_t before = backends().size();
  CHECK(code("no_such_file.so") == "plugin.file");
  CHECK(code("/") == "plugin.file");
  CHECK(code("") == "plugin.file");
  const std::string file = std::filesystem::temp_directory_path() / "attnfuse_plugin_test.so";
  std::ofstream(file) << "this is no shared object";
  CHECK(code(file) == "plugin.file");
  std::filesystem::remove(file);
  // A shared object of somebody else.
  for (const char* path :
       {"/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"})
    if (std::filesystem::exists(path)) CHECK(code(path) == "plugin.entry");
  CHECK(backends().size() == before);
}

}  // namespace attnfuse
