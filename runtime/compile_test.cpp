#include "runtime/compile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "runtime/execute.h"
#include "runtime/machine.h"
#include "runtime/process.h"
#include "runtime/reference.h"
#include "runtime/test_device.h"
#include "runtime/test_environment.h"
#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;
namespace fs = std::filesystem;

namespace {

// Emits the tile program's text and assembles it to itself.
class FakeBackend : public Backend {
 public:
  mutable int assembled = 0;
  bool has_assembler = true;
  std::string version = "fake 1";

  std::string name() const override { return "fake"; }
  std::vector<Target> targets() const override { return {target()}; }
  static Target target() {
    Target t;
    t.name = "fake:one";
    t.backend = "fake";
    t.arch = "one";
    MatrixUnit fma;
    fma.leaf = "fma";
    fma.operands = {DType::f16, DType::bf16, DType::f32};
    t.units = {fma};
    return t;
  }
  std::string assembler() const override { return version; }
  Result<Source> emit(const TileProgram& program) const override {
    return Source{print(program), "kernel", "txt"};
  }
  Result<Binary> assemble(const Source& source, const Target& target) const override {
    if (!has_assembler) return Diagnostic{"toolkit.missing", "no assembler", {}, "install one"};
    ++assembled;
    const auto* data = reinterpret_cast<const std::byte*>(source.text.data());
    return Binary{target.name, "bin", source.entry, {data, data + source.text.size()}, {}, "fine"};
  }
  int device_count() const override { return 0; }
  Result<std::shared_ptr<Device>> open(int) const override {
    return Diagnostic{"device.none", "no device", {}, ""};
  }
};

Graph program() {
  Program p(small(DType::f16));
  return p.finish(p.scores(), p.op(ScalarOp::ige, p.graph.index(Axis::i), p.graph.index(Axis::j)));
}

}  // namespace

TEST_CASE("a second compilation takes the binary from the cache, and anything that matters makes another") {
  const FakeBackend backend;
  KernelCache cache("");
  const Target target = FakeBackend::target();
  const auto first = compile(program(), backend, target, {}, cache);
  REQUIRE_MESSAGE(first.ok(), (first.ok() ? "" : render(first.errors())));
  CHECK(!first->from_cache);
  const auto second = compile(program(), backend, target, {}, cache);
  CHECK(second->from_cache);
  CHECK(second->binary.bytes == first->binary.bytes);
  CHECK(backend.assembled == 1);
  Target other = target;
  other.name = "fake:two";
  CHECK(!compile(program(), backend, other, {}, cache)->from_cache);
  FakeBackend newer;
  newer.version = "fake 2";
  CHECK(!compile(program(), newer, target, {}, cache)->from_cache);
  newer.version.clear();  // depends on more than the source text
  for (int round = 0; round < 2; ++round) CHECK(!compile(program(), newer, target, {}, cache)->from_cache);
}

TEST_CASE("a missing assembler is reported, and nothing is cached for it") {
  FakeBackend backend;
  backend.has_assembler = false;
  KernelCache cache("");
  const auto failed = compile(program(), backend, FakeBackend::target(), {}, cache);
  REQUIRE(!failed.ok());
  CHECK(failed.errors()[0].code == "toolkit.missing");
  backend.has_assembler = true;
  CHECK(!compile(program(), backend, FakeBackend::target(), {}, cache)->from_cache);
}

TEST_CASE("ATTNFUSE_DUMP writes every stage, in order and by kind") {
  const auto directory = TemporaryDirectory::create();
  REQUIRE(directory.ok());
  const Environment dump("ATTNFUSE_DUMP", directory->path().c_str());
  KernelCache cache("");
  const auto compiled = compile(program(), FakeBackend(), FakeBackend::target(), {}, cache);
  REQUIRE(compiled.ok());
  CHECK(compiled->notes.empty());
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(directory->path() / "small.one"))
    names.push_back(file.path().filename());
  std::ranges::sort(names);
  REQUIRE(names.size() >= 5);
  CHECK(names.front() == "00-program.af");
  CHECK(names[names.size() - 1].find("-assembler.log") != std::string::npos);
  CHECK(names[names.size() - 2].find("-binary.bin") != std::string::npos);
  CHECK(names[names.size() - 3].find("-source.txt") != std::string::npos);
  CHECK(names[names.size() - 4].find("-lower-forward.tile") != std::string::npos);
  CHECK(read_file(directory->path() / "small.one" / names[names.size() - 3]).value() ==
        compiled->source.text);
}

TEST_CASE("a dump that cannot be written is a note") {
  const Environment dump("ATTNFUSE_DUMP", "/dev/null/nowhere");
  KernelCache cache("");
  const auto compiled = compile(program(), FakeBackend(), FakeBackend::target(), {}, cache);
  REQUIRE(compiled.ok());
  REQUIRE(!compiled->notes.empty());
  CHECK(compiled->notes[0].code == "file.write");
}

TEST_CASE("ATTNFUSE_SOURCE replaces the kernel's text, and a file that is not there is an error") {
  const auto directory = TemporaryDirectory::create();
  REQUIRE(directory.ok());
  const std::string edited = directory->path() / "edited.txt";
  REQUIRE(write_file(edited, "edited").ok());
  KernelCache cache("");
  {
    const Environment source("ATTNFUSE_SOURCE", edited.c_str());
    CHECK(compile(program(), FakeBackend(), FakeBackend::target(), {}, cache)->binary.bytes.size() == 6);
  }
  const std::string gone = edited + ".gone";
  const Environment source("ATTNFUSE_SOURCE", gone.c_str());
  const auto failed = compile(program(), FakeBackend(), FakeBackend::target(), {}, cache);
  REQUIRE(!failed.ok());
  CHECK(failed.errors()[0].code == "file.read");
}

TEST_CASE("a graph that breaks a rule is reported before anything is done") {
  Program p(small(DType::f16));
  KernelCache cache("");
  CHECK(!compile(p.graph, FakeBackend(), FakeBackend::target(), {}, cache).ok());  // no outputs
}

TEST_CASE("running a program binds its tensors, launches once and gives the outputs back") {
  const FakeBackend backend;
  const auto driver = std::make_shared<FakeDriver>();
  const auto device = make_gpu_device(driver, {FakeBackend::target()});
  KernelCache cache("");
  const HostTensors in = inputs_for(small(DType::f16), {2, 3, 5});
  int launches = 0;
  driver->kernel = [&](const std::vector<std::byte>& params) {
    ++launches;
    // A kernel by hand: lse[0] = v[0], found through the parameters' own description.
    const auto compiled = compile(program(), backend, FakeBackend::target(), {}, cache);
    const auto pointer = [&](const char* tensor) {
      for (const ParamField& field : compiled->program.params)
        if (field.kind == ParamField::Kind::pointer && field.tensor == tensor) {
          std::uintptr_t address = 0;
          std::memcpy(&address, &params[std::size_t(field.offset)], sizeof address);
          return reinterpret_cast<std::byte*>(address);
        }
      return static_cast<std::byte*>(nullptr);
    };
    REQUIRE(pointer("lse"));
    REQUIRE(pointer("v"));
    store_element(DType::f32, pointer("lse"), load_element(DType::f16, pointer("v")));
  };
  const auto out = run(program(), {&backend, device, device->target()}, in, cache);
  REQUIRE_MESSAGE(out.ok(), (out.ok() ? "" : render(out.errors())));
  CHECK(launches == 1);
  CHECK(out->at("o").layout.shape == std::vector<std::int64_t>{2, 4, 3, 16});
  const std::int64_t row[] = {0, 0, 0}, element[] = {0, 0, 0, 0};
  CHECK(out->at("lse").get(row) == in.at("v").get(element));
  CHECK(driver->live == 0);

  const auto none =
      run(program(), {&backend, device, device->target()}, inputs_for(small(DType::f16), {2, 0, 5}), cache);
  REQUIRE(none.ok());
  CHECK(launches == 1);  // no rows, no launch
}

TEST_CASE("running refuses wrong inputs and reports what the device reports") {
  const FakeBackend backend;
  const auto driver = std::make_shared<FakeDriver>();
  const auto device = make_gpu_device(driver, {FakeBackend::target()});
  KernelCache cache("");
  HostTensors in = inputs_for(small(DType::f16), {1, 3, 5});
  for (const char* call : {"allocate", "upload", "download", "load", "launch", "synchronize"}) {
    driver->fail = call;
    const auto out = run(program(), {&backend, device, device->target()}, in, cache);
    CHECK_MESSAGE(!out.ok(), call);
    CHECK_MESSAGE(driver->live == 0, call);
  }
  driver->fail.clear();
  in.at("v").bytes.pop_back();
  CHECK(run(program(), {&backend, device, device->target()}, in, cache).errors()[0].code == "input.bytes");
  in.erase("v");
  CHECK(run(program(), {&backend, device, device->target()}, in, cache).errors()[0].code == "input.missing");
}
