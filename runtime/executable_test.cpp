#include "runtime/executable.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "runtime/reference.h"
#include "runtime/test_device.h"
#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

template <class T>
T read_at(const std::vector<std::byte>& block, std::size_t offset) {
  T value;
  std::memcpy(&value, &block.at(offset), sizeof value);
  return value;
}

ParamField field(ParamField::Kind kind, const char* tensor, int offset, int dim = 0, Size size = Size::sq) {
  ParamField f;
  f.kind = kind;
  f.tensor = tensor;
  f.offset = offset;
  f.dim = dim;
  f.size = size;
  f.box_rows = f.box_columns = 64;
  return f;
}

Target engine_target() {
  Target target;
  target.name = "fake:engine";
  target.compute_units = 3;
  target.pipeline = PipelineUnits{};
  return target;
}

class RecordingDriver : public FakeDriver {
 public:
  std::vector<std::vector<std::byte>> blocks;
  std::vector<Launch> launches;
  int allocations = 0;
  int allocate(std::uint64_t& address, std::size_t bytes) override {
    ++allocations;
    return FakeDriver::allocate(address, bytes);
  }
  int launch(void* function, const Launch& launch, const void* params, std::size_t bytes) override {
    const int code = FakeDriver::launch(function, launch, params, bytes);
    blocks.push_back(launched);
    launches.push_back(launch);
    return code;
  }
  int encode(EncodedTensorMap&, const TensorMap&, bool& supported) override {
    supported = true;
    return 0;
  }
};

// Plans made by hand, and what they were asked for.
class HandPlanner : public Planner {
 public:
  using Make = std::function<Plan(int, Access)>;
  HandPlanner(Make make, std::vector<std::pair<int, Access>>& asked)
      : make_(std::move(make)), asked_(asked) {}
  int variant(const Sizes& sizes) const override { return sizes.skv > 100 ? 1 : 0; }
  Result<Plan> plan(int variant, Access access) override {
    asked_.emplace_back(variant, access);
    return make_(variant, access);
  }

 private:
  Make make_;
  std::vector<std::pair<int, Access>>& asked_;
};

struct Fixture {
  std::shared_ptr<RecordingDriver> driver = std::make_shared<RecordingDriver>();
  std::shared_ptr<Device> device = make_gpu_device(driver, {engine_target()});
  Machine machine{nullptr, device, engine_target()};
  std::vector<std::pair<int, Access>> asked;

  static Graph graph() {
    Program p(small(DType::f16));
    p.graph.add_tensor(declared("slope", DType::f32, TensorRole::captured, {{Size::heads}}));
    return p.finish(p.scores(), p.all());
  }

  std::shared_ptr<const Kernel> kernel(std::vector<ParamField> params, int groups = 0) const {
    Kernel k;
    k.program.info = small(DType::f16);
    k.program.expressions = graph();
    k.program.outputs = outputs_of(k.program.expressions);
    k.program.target = engine_target();
    k.program.schedule.groups = groups;
    k.program.params = std::move(params);
    k.program.param_bytes = 256;
    k.module = device->load({"fake:engine", "cubin", "kernel", std::vector<std::byte>(4), {}, ""}).value();
    return std::make_shared<const Kernel>(std::move(k));
  }

  std::shared_ptr<Executable> executable(HandPlanner::Make make) {
    return Executable::prepare(graph(), machine, std::make_unique<HandPlanner>(std::move(make), asked))
        .value();
  }

  // q [2,4,3,8], k [2,2,5,8], v [2,2,5,16], slope [4], o [2,4,3,16], lse [2,4,3].
  static DeviceTensors tensors(std::int64_t skv = 5) {
    const auto half = [](std::vector<std::int64_t> shape) {
      return TensorLayout::contiguous(DType::f16, std::move(shape));
    };
    return {{"q", {half({2, 4, 3, 8}), 0x1000}},
            {"k", {half({2, 2, skv, 8}), 0x2000}},
            {"v", {half({2, 2, skv, 16}), 0x3000}},
            {"slope", {TensorLayout::contiguous(DType::f32, {4}), 0x4000}},
            {"o", {half({2, 4, 3, 16}), 0x5000}},
            {"lse", {TensorLayout::contiguous(DType::f32, {2, 4, 3}), 0x6004}}};
  }
};

using Kind = ParamField::Kind;

}  // namespace

TEST_CASE("a launch binds tensors, strides and sizes by the program's parameters, on the caller's stream") {
  Fixture f;
  const auto executable = f.executable([&](int, Access) {
    return Plan{
        {{f.kernel({field(Kind::pointer, "k", 0), field(Kind::stride, "o", 8, 1),
                    field(Kind::size, "", 16, 0, Size::batch), field(Kind::size, "", 20, 0, Size::skv),
                    field(Kind::pointer, "lse", 24), field(Kind::pointer, "slope", 32)})}}};
  });
  CHECK(executable->tensor_names() == std::vector<std::string>{"q", "k", "v", "slope", "o", "lse"});
  const auto tensors = executable->bind(Fixture::tensors()).value();
  LaunchSite site;
  site.stream = &f;
  REQUIRE(executable->launch(tensors, site).ok());
  REQUIRE(f.driver->blocks.size() == 1);
  const auto& block = f.driver->blocks[0];
  CHECK(read_at<std::uint64_t>(block, 0) == 0x2000);
  CHECK(read_at<std::int64_t>(block, 8) == 48);
  CHECK(read_at<std::int32_t>(block, 16) == 2);
  CHECK(read_at<std::int32_t>(block, 20) == 5);
  CHECK(read_at<std::uint64_t>(block, 24) == 0x6004);
  CHECK(read_at<std::uint64_t>(block, 32) == 0x4000);
  CHECK(f.driver->launches[0].stream == &f);
  CHECK(!f.driver->launches[0].overlaps_previous);
  CHECK(f.driver->entered == 0);
}

TEST_CASE("a step that groups queries sees the heads that share keys as rows") {
  Fixture f;
  const auto executable = f.executable([&](int, Access) {
    return Plan{{{.kernel = f.kernel({field(Kind::stride, "q", 0, 0), field(Kind::stride, "q", 8, 1),
                                      field(Kind::stride, "q", 16, 2), field(Kind::stride, "k", 24, 1),
                                      field(Kind::size, "", 32, 0, Size::sq)}),
                  .groups_queries = true}}};
  });
  DeviceTensors tensors = Fixture::tensors();
  tensors["q"].layout = {DType::f16, {2, 4, 1, 8}, {100, 24, 7, 1}};
  tensors["o"].layout = TensorLayout::contiguous(DType::f16, {2, 4, 1, 16});
  tensors["lse"].layout = TensorLayout::contiguous(DType::f32, {2, 4, 1});
  REQUIRE(executable->launch(executable->bind(tensors).value()).ok());
  const auto& block = f.driver->blocks.at(0);
  CHECK(read_at<std::int64_t>(block, 0) == 100);
  CHECK(read_at<std::int64_t>(block, 8) == 48);
  CHECK(read_at<std::int64_t>(block, 16) == 24);
  CHECK(read_at<std::int32_t>(block, 32) == 2);
  CHECK(read_at<std::int64_t>(block, 24) == 40);
}

TEST_CASE("more keys than the device's driver takes are refused before anything starts") {
  Fixture f;
  f.machine.target.most_key_elements = 16 * 50;
  const auto executable =
      f.executable([&](int, Access) { return Plan{{{f.kernel({field(Kind::size, "", 0)})}}}; });
  CHECK(executable->launch(executable->bind(Fixture::tensors(50)).value()).ok());
  const auto refused = executable->launch(executable->bind(Fixture::tensors(51)).value());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.errors()[0].code == "launch.too-long");
  CHECK(refused.errors()[0].message.find("51 keys of head_dim 16") == 0);
  CHECK(f.driver->launches.size() == 1);
}

TEST_CASE("calls that the copy engine cannot take get a plan of their own, made once") {
  Fixture f;
  const auto executable = f.executable([&](int, Access access) {
    const bool roles = access == Access::copy_engine;
    return Plan{{{f.kernel({field(Kind::size, "", 0)}, roles ? 2 : 0)}}};
  });
  const auto launch = [&](const DeviceTensors& tensors) {
    const auto bound = executable->bind(tensors).value();
    REQUIRE(executable->supports(bound).ok());
    REQUIRE(executable->launch(bound).ok());
    return (*executable->plan_for(bound))->steps[0].kernel->program.schedule.groups;
  };
  using Asked = std::vector<std::pair<int, Access>>;
  CHECK(f.asked == Asked{{0, Access::copy_engine}});
  CHECK(launch(Fixture::tensors()) == 2);
  CHECK(f.driver->launches.back().grid[0] == 3);  // compute units
  DeviceTensors broadcast = Fixture::tensors();
  broadcast["k"].layout.strides[1] = 0;
  CHECK(launch(broadcast) == 0);
  CHECK(f.driver->launches.back().grid[0] == 8);
  DeviceTensors odd = Fixture::tensors();
  odd["v"].address += 2;
  for (int n = 0; n < 2; ++n) CHECK(launch(odd) == 0);
  CHECK(launch(Fixture::tensors(200)) == 2);
  CHECK(f.asked ==
        Asked{{0, Access::copy_engine}, {0, Access::vector}, {0, Access::element}, {1, Access::copy_engine}});
}

TEST_CASE("a plan without roles serves every aligned call") {
  Fixture f;
  const auto executable =
      f.executable([&](int, Access) { return Plan{{{f.kernel({field(Kind::size, "", 0)})}}}; });
  DeviceTensors broadcast = Fixture::tensors();
  broadcast["k"].layout.strides[1] = 0;
  REQUIRE(executable->launch(executable->bind(broadcast).value()).ok());
  CHECK(f.asked.size() == 1);
}

TEST_CASE("steps hand tensors on in the workspace") {
  Fixture f;
  const auto executable = f.executable([&](int, Access) {
    Plan plan;
    plan.steps.push_back({f.kernel({field(Kind::pointer, "k", 0), field(Kind::pointer, "out", 8)}),
                          {{"out", "k rotated"}},
                          false});
    plan.steps.push_back({f.kernel({field(Kind::pointer, "k", 0), field(Kind::stride, "k", 8, 1)}),
                          {{"k", "k rotated"}},
                          true});
    plan.workspace = {
        {"other", DType::f32, {{Size::batch}, {std::int64_t(3)}}},
        {"k rotated", DType::f16, {{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::head_dim}}}};
    return plan;
  });
  const Sizes sizes{2, 3, 5};
  CHECK(executable->workspace_bytes(sizes).value() == 256 + 512);
  const auto tensors = executable->bind(Fixture::tensors()).value();
  REQUIRE(executable->launch(tensors, {nullptr, 0x10000, 768}).ok());
  REQUIRE(f.driver->blocks.size() == 2);
  CHECK(read_at<std::uint64_t>(f.driver->blocks[0], 0) == 0x2000);
  CHECK(read_at<std::uint64_t>(f.driver->blocks[0], 8) == 0x10100);
  CHECK(read_at<std::uint64_t>(f.driver->blocks[1], 0) == 0x10100);
  CHECK(read_at<std::int64_t>(f.driver->blocks[1], 8) == 40);
  CHECK(!f.driver->launches[0].overlaps_previous);
  CHECK(f.driver->launches[1].overlaps_previous);

  CHECK(
      render(executable->launch(tensors, {nullptr, 0x10010, 768}).errors()) ==
      "error[launch.workspace]: this call needs a workspace of 768 bytes at a multiple of 256, and gets 768 "
      "bytes at 0x10010\n  fix: ask for workspace_bytes and allocate them");
  CHECK(executable->launch(tensors, {nullptr, 0x10000, 767}).errors()[0].code == "launch.workspace");
  CHECK(executable->launch(tensors, {}).errors()[0].code == "launch.workspace");
  CHECK(f.driver->blocks.size() == 2);
}

TEST_CASE("launches after the first allocate nothing on the device, and each stream has its counters") {
  Fixture f;
  const auto executable = f.executable([&](int, Access) {
    return Plan{{{f.kernel({field(Kind::counter, "", 0), field(Kind::tensor_map, "q", 64)}, 1)}}};
  });
  const auto tensors = executable->bind(Fixture::tensors()).value();
  const int allocations = f.driver->allocations;
  std::vector<std::uint64_t> counters;
  for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(&f), static_cast<void*>(nullptr)}) {
    LaunchSite site;
    site.stream = stream;
    REQUIRE(executable->launch(tensors, site).ok());
    counters.push_back(read_at<std::uint64_t>(f.driver->blocks.back(), 0));
  }
  CHECK(counters[0] != counters[1]);
  CHECK(counters[0] == counters[2]);
  CHECK(f.driver->allocations == allocations);
}

TEST_CASE("no rows are no launch") {
  Fixture f;
  const auto executable =
      f.executable([&](int, Access) { return Plan{{{f.kernel({field(Kind::size, "", 0)})}}}; });
  DeviceTensors tensors = Fixture::tensors();
  for (const char* name : {"q", "o", "lse"}) {
    tensors[name].layout.shape[2] = 0;
    tensors[name].address = 0;
  }
  CHECK(executable->launch(executable->bind(tensors).value()).ok());
  CHECK(f.driver->launches.empty());
}

TEST_CASE("tensors that do not fit are refused by name, and nothing is launched") {
  Fixture f;
  const auto executable =
      f.executable([&](int, Access) { return Plan{{{f.kernel({field(Kind::size, "", 0)})}}}; });
  const auto refused = [&](const char* name, const std::function<void(BoundTensor&)>& change) {
    auto tensors = executable->bind(Fixture::tensors()).value();
    const auto& names = executable->tensor_names();
    change(tensors[std::size_t(std::ranges::find(names, name) - names.begin())]);
    const auto status = executable->launch(tensors);
    CHECK(executable->supports(tensors).ok() == status.ok());
    return status.ok() ? "" : render(status.errors());
  };
  CHECK(refused("o", [](BoundTensor& t) { t.strides[0] = 0; }) ==
        "error[output.stride]: tensor 'o' has strides [0, 48, 16, 1]: 0 at dimension 0 writes elements over "
        "each other\n  fix: give it memory of its own");
  CHECK(refused("lse", [](BoundTensor& t) { t.shape[2] = 4; }) ==
        "error[output.shape]: tensor 'lse' has shape [2, 4, 4]: sq is 4 here, but 3 according to tensor 'q'\n"
        "  fix: give it the shape [batch, heads, sq]");
  CHECK(refused("lse", [](BoundTensor& t) { t.dtype = DType::f16; }).find("[output.dtype]") !=
        std::string::npos);
  CHECK(refused("v", [](BoundTensor& t) { t.address = 0; }) ==
        "error[input.address]: tensor 'v' is at address 0\n  fix: give its device address");
  CHECK(refused("slope", [](BoundTensor& t) { t.address += 2; }) ==
        "error[input.address]: tensor 'slope' is at 0x4002, which is no multiple of its 4 bytes an element\n"
        "  fix: copy the tensor to an aligned address");
  CHECK(refused("k", [](BoundTensor& t) { t.strides[3] = 2; }).find("[input.stride]") != std::string::npos);
  CHECK(refused("k", [](BoundTensor& t) { t.rank = 3; }).find("[input.shape]") != std::string::npos);
  CHECK(f.driver->launches.empty());
  DeviceTensors missing = Fixture::tensors();
  missing.erase("o");
  missing.erase("slope");
  CHECK(render(executable->bind(missing).errors()) ==
        "error[input.missing]: program 'small' needs the tensor 'slope'\n"
        "  fix: supply 'slope' with dtype f32 and shape [heads]\n"
        "error[output.missing]: program 'small' writes the tensor 'o'\n"
        "  fix: supply 'o' with dtype f16 and shape [batch, heads, sq, v_head_dim]");
}

TEST_CASE("what is accepted at once is what the full check accepts") {
  Fixture f;
  const Graph graph = Fixture::graph();
  const auto executable =
      f.executable([&](int, Access) { return Plan{{{f.kernel({field(Kind::size, "", 0)})}}}; });
  const auto right = executable->bind(Fixture::tensors()).value();
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  const std::int64_t odd[] = {0, 1, 2, 3, 8, -1, 4096, std::int64_t(1) << 31, std::int64_t(1) << 62};
  int accepted = 0;
  for (int n = 0; n < 3000; ++n) {
    auto tensors = right;
    for (std::uint64_t changes = random() % 3; changes > 0; --changes) {
      BoundTensor& t = tensors[random() % tensors.size()];
      (random() % 2 == 0 ? t.shape : t.strides)[random() % 4] = odd[random() % std::size(odd)];
    }
    std::map<std::string, TensorLayout> layouts;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      const BoundTensor& t = tensors[k];
      layouts[executable->tensor_names()[k]] = {t.dtype,
                                                {t.shape.begin(), t.shape.begin() + t.rank},
                                                {t.strides.begin(), t.strides.begin() + t.rank}};
    }
    const bool is_right = check_call(graph, layouts).ok();
    REQUIRE(executable->supports(tensors).ok() == is_right);
    accepted += is_right;
  }
  CHECK(accepted > 100);
  CHECK(accepted < 2900);
}
