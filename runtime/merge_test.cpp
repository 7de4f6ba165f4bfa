// Parts of the keys, merged: on the CPU against the reference over all keys, on devices against the CPU.
#include "runtime/merge.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/parser.h"
#include "runtime/execute.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

namespace attnfuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Graph parsed(const std::string& body, const std::string& header = "head_dim 16 dtype f32") {
  const auto graph = parse_one("attention t { heads 4 kv_heads 2 " + header + " " + body + " }");
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : render(graph.errors())));
  return *graph;
}

// Calls visit(index) for every index of a shape.
template <class Visit>
void for_each_index(const std::vector<std::int64_t>& shape, Visit visit) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  std::vector<std::int64_t> at(shape.size());
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) at[axis] = rest % shape[axis];
    visit(at);
  }
}

HostTensor sliced(const HostTensor& tensor, std::size_t axis, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> shape = tensor.layout.shape;
  shape[axis] = end - begin;
  HostTensor part = HostTensor::zeros(TensorLayout::contiguous(tensor.layout.dtype, shape));
  for_each_index(shape, [&](const std::vector<std::int64_t>& at) {
    std::vector<std::int64_t> from = at;
    from[axis] += begin;
    part.set(at, tensor.get(from));
  });
  return part;
}

// The tensors as one, along a new axis, in that order.
HostTensor joined(const std::vector<HostTensor>& tensors, std::size_t axis) {
  std::vector<std::int64_t> shape = tensors[0].layout.shape;
  shape.insert(shape.begin() + std::ptrdiff_t(axis), std::int64_t(tensors.size()));
  HostTensor all = HostTensor::zeros(TensorLayout::contiguous(tensors[0].layout.dtype, shape));
  for_each_index(shape, [&](const std::vector<std::int64_t>& at) {
    std::vector<std::int64_t> from = at;
    from.erase(from.begin() + std::ptrdiff_t(axis));
    all.set(at, tensors[std::size_t(at[axis])].get(from));
  });
  return all;
}

// What a merge reads, from what calls leave: "o" and "lse".
HostTensors parts_of(const std::vector<HostTensors>& calls, std::size_t axis = 1) {
  std::vector<HostTensor> o, lse;
  for (const HostTensors& call : calls) {
    o.push_back(call.at("o"));
    lse.push_back(call.at("lse"));
  }
  HostTensors parts;
  parts.emplace("o_parts", joined(o, axis));
  parts.emplace("lse_parts", joined(lse, axis));
  return parts;
}

HostTensors merged(const Graph& graph, const std::vector<HostTensors>& calls) {
  auto result = reference_merge(graph, parts_of(calls));
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : render(result.errors())));
  return *result;
}

HostTensors computed(const Graph& graph, const HostTensors& inputs) {
  const auto outputs = reference(graph, inputs);
  REQUIRE_MESSAGE(outputs.ok(), (outputs.ok() ? "" : render(outputs.errors())));
  const ProgramInfo& info = graph.info();
  const auto tensor = [&](DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values) {
    HostTensor result = HostTensor::zeros(TensorLayout::contiguous(dtype, shape));
    std::size_t n = 0;
    for_each_index(shape, [&](const std::vector<std::int64_t>& at) { result.set(at, values[n++]); });
    return result;
  };
  const Sizes& sizes = outputs->sizes;
  HostTensors result;
  result.emplace("o", tensor(info.dtype, {sizes.batch, info.heads, sizes.sq, info.v_head_dim}, outputs->o));
  result.emplace("lse", tensor(DType::f32, {sizes.batch, info.heads, sizes.sq}, outputs->lse));
  return result;
}

// Equal where not finite; else near.
void check_same(const HostTensor& got, const HostTensor& wanted, double tolerance) {
  REQUIRE(got.layout.shape == wanted.layout.shape);
  int different = 0;
  for_each_index(wanted.layout.shape, [&](const std::vector<std::int64_t>& at) {
    const double a = got.get(at), b = wanted.get(at);
    const bool same = std::isnan(b)   ? std::isnan(a)
                      : std::isinf(b) ? a == b
                                      : std::abs(a - b) <= tolerance * (1 + std::abs(b));
    if (!same && different++ == 0) MESSAGE("got " << a << ", wanted " << b);
  });
  CHECK(different == 0);
}
void check_same(const HostTensors& got, const HostTensors& wanted, double tolerance = 2e-6) {
  check_same(got.at("o"), wanted.at("o"), tolerance);
  check_same(got.at("lse"), wanted.at("lse"), tolerance);
}

// A program whose mask leaves row 1 without keys, and row 2 without any of the first eight.
struct Masked {
  Graph graph = parsed(
      "param seen : bool[batch, sq, skv] param sink : f32[heads] score scale(0.5) mask seen[b, i, j] "
      "normalize softmax(sink = sink)");
  HostTensors inputs = testing::inputs_for(graph.info(), {2, 5, 23});

  Masked() {
    HostTensor seen = HostTensor::zeros(TensorLayout::contiguous(DType::boolean, {2, 5, 23}));
    for_each_index({2, 5, 23}, [&](const std::vector<std::int64_t>& at) {
      seen.set(at, at[1] != 1 && (at[1] != 2 || at[2] >= 8));
    });
    inputs.emplace("seen", std::move(seen));
    set_sink(-kInfinity);
  }
  void set_sink(double value) {
    HostTensor sink = HostTensor::zeros(TensorLayout::contiguous(DType::f32, {4}));
    for (std::int64_t h = 0; h < 4; ++h) sink.set(std::vector{h}, value);
    inputs.insert_or_assign("sink", std::move(sink));
  }
  HostTensors over(std::int64_t begin, std::int64_t end) const {
    HostTensors part = inputs;
    for (const char* name : {"k", "v", "seen"}) part.at(name) = sliced(inputs.at(name), 2, begin, end);
    return computed(graph, part);
  }
};

}  // namespace

TEST_CASE("parts of the keys merge to softmax over all of them, rows and parts without keys included") {
  const Masked call;
  const HostTensors all = call.over(0, 23);
  CHECK(all.at("lse").get(std::vector<std::int64_t>{0, 0, 1}) == -kInfinity);
  check_same(merged(call.graph, {call.over(0, 8), call.over(8, 8), call.over(8, 21), call.over(21, 23)}),
             all);
  check_same(merged(call.graph, {all}), all, 0);
}

TEST_CASE("a sink that one part has counts once") {
  Masked call;
  const HostTensors without = call.over(8, 23);
  call.set_sink(0.75);
  check_same(merged(call.graph, {call.over(0, 8), without}), call.over(0, 23));
}

TEST_CASE("how parts are grouped and ordered does not matter, and a part without keys changes nothing") {
  const Masked call;
  const HostTensors a = call.over(0, 8), b = call.over(8, 9), c = call.over(9, 23);
  const HostTensors all = merged(call.graph, {a, b, c});
  check_same(merged(call.graph, {merged(call.graph, {a, b}), c}), all);
  check_same(merged(call.graph, {a, merged(call.graph, {b, c})}), all);
  check_same(merged(call.graph, {c, a, b}), all);
  HostTensors nothing = a;
  for_each_index(a.at("o").layout.shape,
                 [&](const std::vector<std::int64_t>& at) { nothing.at("o").set(at, kNaN); });
  for_each_index(a.at("lse").layout.shape,
                 [&](const std::vector<std::int64_t>& at) { nothing.at("lse").set(at, -kInfinity); });
  check_same(merged(call.graph, {a, nothing}), merged(call.graph, {a}), 0);
  check_same(merged(call.graph, {nothing, a, nothing}), merged(call.graph, {a}), 0);
}

TEST_CASE("what is not finite shows where it is seen") {
  const Graph graph = parsed("", "head_dim 8 dtype f32");
  HostTensors parts;
  parts.emplace("o_parts", HostTensor::zeros(TensorLayout::contiguous(DType::f32, {1, 2, 4, 1, 8})));
  parts.emplace("lse_parts", HostTensor::zeros(TensorLayout::contiguous(DType::f32, {1, 2, 4, 1})));
  const auto set_lse = [&](std::int64_t part, std::int64_t h, double value) {
    parts.at("lse_parts").set(std::vector<std::int64_t>{0, part, h, 0}, value);
  };
  set_lse(1, 0, kNaN);
  set_lse(1, 1, kInfinity);
  set_lse(0, 2, -kInfinity);
  parts.at("o_parts").set(std::vector<std::int64_t>{0, 0, 2, 0, 5}, kNaN);       // never seen
  parts.at("o_parts").set(std::vector<std::int64_t>{0, 1, 3, 0, 5}, kInfinity);  // seen
  set_lse(1, 3, -500);
  const auto result = reference_merge(graph, parts);
  REQUIRE(result.ok());
  const auto o = [&](std::int64_t h, std::int64_t d) {
    return result->at("o").get(std::vector<std::int64_t>{0, h, 0, d});
  };
  const auto lse = [&](std::int64_t h) { return result->at("lse").get(std::vector<std::int64_t>{0, h, 0}); };
  for (std::int64_t h : {0, 1}) {
    CHECK(std::isnan(lse(h)));
    CHECK(std::isnan(o(h, 3)));
  }
  CHECK(lse(2) == 0);
  CHECK(o(2, 5) == 0);
  CHECK(lse(3) == 0);
  CHECK_FALSE(std::isfinite(o(3, 5)));
  CHECK(o(3, 4) == 0);
}

TEST_CASE("programs whose parts say nothing of the whole are refused, and tensors that do not fit") {
  const auto refusal = [](const char* body) {
    const Diagnostics found = check_merge(parsed(body));
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == "merge.program");
    return found[0].message;
  };
  CHECK(refusal("normalize sigmoid") ==
        "outputs of program 't' over parts of the keys cannot be merged: its weights are no softmax, whose "
        "logsumexps say how much of the whole a part is");
  CHECK(refusal("output norm") ==
        "outputs of program 't' over parts of the keys cannot be merged: its output lines act on the result "
        "over all keys, of which a part knows nothing");
  CHECK(refusal("output differential(0.5)").find("its output lines") != std::string::npos);
  CHECK(refusal("normalize softmax_plus_one") ==
        "outputs of program 't' over parts of the keys cannot be merged: its sink is a part of the program, "
        "and would count once for each part");
  CHECK(check_merge(parsed("output max_logit output x * 1")).empty());
  CHECK(check_merge(parsed("storage ragged, paged(16) weights dropout(0.1, 3)")).empty());

  const Graph graph = parsed("");
  HostTensors parts;
  const auto refused = [&] {
    const auto result = reference_merge(graph, parts);
    REQUIRE_FALSE(result.ok());
    return result.errors()[0];
  };
  CHECK(refused().message == "program 't' needs the tensor 'o_parts'");
  const auto give = [&](const char* name, DType dtype, std::vector<std::int64_t> shape) {
    parts.insert_or_assign(name, HostTensor::zeros(TensorLayout::contiguous(dtype, std::move(shape))));
  };
  give("o_parts", DType::f32, {2, 3, 4, 5, 16});
  give("lse_parts", DType::f32, {2, 2, 4, 5});
  CHECK(refused().code == "input.shape");
  CHECK(refused().message ==
        "tensor 'lse_parts' has shape [2, 2, 4, 5]: 3 is 2 here, but 3 according to the "
        "program");
  give("lse_parts", DType::f16, {2, 3, 4, 5});
  CHECK(refused().code == "input.dtype");
  give("o_parts", DType::f32, {2, 0, 4, 5, 16});
  give("lse_parts", DType::f32, {2, 0, 4, 5});
  CHECK(refused().message == "there are no parts to merge");
}

// ---- on devices ---------------------------------------------------------------------------------

namespace {

// How the axes of parts lie in memory, outermost first, and what strides the rows have.
struct Lie {
  const char* name;
  std::vector<std::size_t> order;  // of [b, parts, h, s], or of [parts, h, s]
  std::int64_t row;                // elements from row to row of o
};

// The same values in that order.
HostTensor laid(const HostTensor& tensor, const Lie& lie) {
  const std::vector<std::int64_t>& shape = tensor.layout.shape;
  TensorLayout layout{tensor.layout.dtype, shape, std::vector<std::int64_t>(shape.size(), 1)};
  std::int64_t stride = shape.size() > lie.order.size() ? lie.row : 1;
  for (std::size_t n = lie.order.size(); n-- > 0;) {
    layout.strides[lie.order[n]] = stride;
    stride *= shape[lie.order[n]];
  }
  HostTensor result = HostTensor::zeros(layout);
  for_each_index(shape, [&](const std::vector<std::int64_t>& at) { result.set(at, tensor.get(at)); });
  return result;
}

struct DeviceCall {
  explicit DeviceCall(Machine opened) : machine(std::move(opened)) {}
  void add(const HostTensor& tensor) {
    auto buffer = machine.device->allocate(std::max<std::size_t>(tensor.bytes.size(), 1));
    REQUIRE(buffer.ok());
    REQUIRE(machine.device->upload(**buffer, 0, tensor.bytes).ok());
    tensors.push_back(bound({tensor.layout, (*buffer)->address()}));
    layouts.push_back(tensor.layout);
    buffers.push_back(*buffer);
  }
  HostTensor read(std::size_t n) const {
    HostTensor tensor = HostTensor::zeros(layouts[n]);
    REQUIRE(machine.device->download(*buffers[n], 0, tensor.bytes).ok());
    return tensor;
  }
  Machine machine;
  std::vector<BoundTensor> tensors;
  std::vector<TensorLayout> layouts;
  std::vector<std::shared_ptr<Buffer>> buffers;
};

std::vector<Machine> machines() {
  std::vector<Machine> found;
  for (const char* target : {"hip-cpu:gfx942", "hip-cpu:gfx1100", "spirv"}) {
    auto machine = open_machine(target);
    if (machine)
      found.push_back(std::move(machine).value());
    else
      MESSAGE("SKIPPED: " << render(machine.errors()));
  }
  return found;
}

// Numbers of every kind, the same in every run.
HostTensors some_parts(const ProgramInfo& info, std::vector<std::int64_t> shape) {
  HostTensor lse = HostTensor::zeros(TensorLayout::contiguous(DType::f32, shape));
  int n = 0;
  for_each_index(shape, [&](const std::vector<std::int64_t>& at) {
    lse.set(at, n % 5 == 0 ? -kInfinity : n % 41 == 3 ? kNaN : n % 43 == 3 ? kInfinity : 4 * std::sin(n));
    ++n;
  });
  shape.push_back(info.v_head_dim);
  HostTensor o = HostTensor::zeros(TensorLayout::contiguous(info.dtype, shape));
  n = 0;
  for_each_index(shape, [&](const std::vector<std::int64_t>& at) {
    o.set(at, ++n % 1013 == 0 ? kNaN : std::sin(0.7 * n));
  });
  HostTensors parts;
  parts.emplace("o_parts", std::move(o));
  parts.emplace("lse_parts", std::move(lse));
  return parts;
}

void check_on(const Machine& machine, const Graph& graph, const HostTensors& parts, const Lie& lie) {
  const auto wanted = reference_merge(graph, parts);
  REQUIRE(wanted.ok());
  DeviceCall call(machine);
  for (const char* name : {"o_parts", "lse_parts"}) call.add(laid(parts.at(name), lie));
  for (const char* name : {"o", "lse"}) {
    HostTensor output = wanted->at(name);
    for_each_index(output.layout.shape, [&](const std::vector<std::int64_t>& at) { output.set(at, 77); });
    call.add(output);
  }
  auto merge = Merge::prepare(graph, machine);
  if (!merge && merge.errors()[0].code == "toolkit.missing") return;
  REQUIRE_MESSAGE(merge.ok(), (merge.ok() ? "" : render(merge.errors())));
  const Status launched = (*merge)->launch(call.tensors);
  REQUIRE_MESSAGE(launched.ok(), (launched.ok() ? "" : render(launched.errors())));
  REQUIRE(machine.device->synchronize().ok());
  const double tolerance = graph.info().dtype == DType::f32    ? 4e-6
                           : graph.info().dtype == DType::bf16 ? 1.0 / 128
                                                               : 1.0 / 1024;
  check_same(call.read(2), wanted->at("o"), tolerance);
  check_same(call.read(3), wanted->at("lse"), 4e-6);
}

}  // namespace

TEST_CASE("devices merge as the reference does, wherever parts lie") {
  const Lie lies[] = {{"parts of an entry together", {0, 1, 2, 3}, 24},
                      {"parts outermost", {1, 0, 2, 3}, 24},
                      {"rows outermost, odd strides", {3, 0, 1, 2}, 25}};
  for (const Machine& machine : machines())
    for (const char* dtype : {"f16", "bf16", "f32"})
      for (const Lie& lie : lies) {
        CAPTURE(machine.target.name);
        CAPTURE(dtype);
        CAPTURE(lie.name);
        const Graph graph = parsed("", fmt::format("head_dim 16 v_head_dim 24 dtype {}", dtype));
        check_on(machine, graph, some_parts(graph.info(), {2, 3, 4, 5}), lie);
      }
}

TEST_CASE("rows of ragged sequences are merged as one batch entry") {
  for (const Machine& machine : machines()) {
    CAPTURE(machine.target.name);
    const Graph graph = parsed("storage ragged");
    check_on(machine, graph, some_parts(graph.info(), {3, 4, 19}), {"", {0, 1, 2}, 16});
    check_on(machine, graph, some_parts(graph.info(), {2, 4, 7}), {"", {2, 0, 1}, 16});
  }
}

TEST_CASE("merges without rows do nothing, and bad tensors are refused before anything runs") {
  for (const Machine& machine : machines()) {
    const Graph graph = parsed("");
    auto merge = Merge::prepare(graph, machine);
    if (!merge && merge.errors()[0].code == "toolkit.missing") continue;
    REQUIRE(merge.ok());
    const auto launched = [&](std::vector<std::int64_t> rows, std::int64_t parts, auto change) {
      DeviceCall call(machine);
      std::vector<std::int64_t> by_part = rows;
      by_part.insert(by_part.begin() + 1, parts);
      for (const std::vector<std::int64_t>& shape : {by_part, rows}) {
        std::vector<std::int64_t> with_dim = shape;
        with_dim.push_back(16);
        call.add(HostTensor::zeros(TensorLayout::contiguous(DType::f32, with_dim)));
        call.add(HostTensor::zeros(TensorLayout::contiguous(DType::f32, shape)));
      }
      change(call.tensors);
      const Status status = (*merge)->launch(call.tensors);
      return status ? std::string() : status.errors()[0].code;
    };
    const auto nothing = [](std::vector<BoundTensor>&) {};
    CHECK(launched({2, 4, 0}, 3, nothing).empty());
    CHECK(launched({0, 4, 5}, 3, nothing).empty());
    CHECK(launched({2, 4, 5}, 0, nothing) == "input.shape");
    CHECK(launched({2, 4, 5}, 3, [](auto& tensors) { tensors[3].shape[2] = 6; }) == "output.shape");
    CHECK(launched({2, 4, 5}, 3, [](auto& tensors) { tensors[0].address = 0; }) == "input.address");
    CHECK(launched({2, 4, 5}, 3, [](auto& tensors) { tensors[2].strides[3] = 2; }) == "output.stride");
  }
}

}  // namespace attnfuse
