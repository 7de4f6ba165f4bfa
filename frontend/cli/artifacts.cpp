#include "frontend/cli/artifacts.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ir/storage.h"

namespace attnfuse::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FieldType {
  const char* json;
  const char* c;
};
FieldType type_of(const ParamField& field) {
  switch (field.kind) {
    case ParamField::Kind::pointer:
      return {"u64", "uint64_t"};
    case ParamField::Kind::stride:
      return {"i64", "int64_t"};
    case ParamField::Kind::size:
    case ParamField::Kind::shares:
      return {"i32", "int32_t"};
    case ParamField::Kind::tensor_map:
      return {"tensor_map", "attnfuse_tensor_map"};
    case ParamField::Kind::counter:
      return {"u64", "uint64_t"};
  }
  return {};
}

std::string meaning(const ParamField& field) {
  switch (field.kind) {
    case ParamField::Kind::pointer:
      return fmt::format("device address of {}", field.tensor);
    case ParamField::Kind::stride:
      return fmt::format("stride of dimension {} of {}, in elements", field.dim, field.tensor);
    case ParamField::Kind::size:
      return std::string(name(field.size));
    case ParamField::Kind::tensor_map:
      return fmt::format("CUtensorMap of {}: dimensions d, s, h, b, boxes of {} x {}, 128-byte swizzle",
                         field.tensor, field.box_columns, field.box_rows);
    case ParamField::Kind::shares:
      return "shares of the keys, each with outputs of its own";
    case ParamField::Kind::counter:
      return "device address of 8 bytes, zero before and after every launch";
  }
  return {};
}

Json shape_json(const std::vector<Extent>& extents) {
  Json shape = Json::array();
  for (const Extent& extent : extents)
    std::visit(overloaded{[&](Size size) { shape.push_back(name(size)); },
                          [&](std::int64_t number) { shape.push_back(number); }},
               extent.value);
  return shape;
}

// As it lies in memory.
std::vector<Extent> shape_of(const TileProgram& program, const TensorInfo& tensor) {
  const Storage& storage = program.info.storage;
  switch (tensor.role) {
    case TensorRole::query:
      return stored_shape(storage, RowSide::query, tensor.shape);
    case TensorRole::key:
    case TensorRole::value:
      return stored_shape(storage, RowSide::key, tensor.shape);
    case TensorRole::captured:
    case TensorRole::constant:
    case TensorRole::saved:
    case TensorRole::upstream:
      break;
  }
  return tensor.shape;
}

// What the workgroups of a launch divide: rows of this size, and heads.
std::string_view rows_name(const TileProgram& program) {
  if (program.info.storage.ragged) return name(Size::total_q);
  return name(program.rows ? program.rows->size : Size::sq);
}

bool takes(const TileProgram& program, const std::string& tensor) {
  return std::ranges::any_of(program.params, [&](const ParamField& field) { return field.tensor == tensor; });
}

// Of an output: a pre-pass writes what its source is.
Json output_shape(const TileProgram& program, const OutputInfo& output) {
  for (const Statement& statement : program.body)
    if (const auto* map = std::get_if<MapRows>(&statement.kind))
      return shape_json(program.expressions.tensor(map->source).shape);
  std::vector<Extent> shape{{Size::batch}, {Size::heads}, {Size::sq}};
  if (output.has_dim) shape.push_back({Size::v_head_dim});
  return shape_json(stored_shape(program.info.storage, RowSide::query, std::move(shape)));
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

}  // namespace

std::string launch_json(const TileProgram& program, const Binary* binary) {
  Json json;
  json["kernel"] = program.name;
  json["program"] = program.info.name;
  json["target"] = program.target.name;
  json["threads"] = program.threads();
  json["shared_bytes"] = program.footprint.shared_bytes;
  json["grid"] = {
      {"workgroups",
       program.info.storage.ragged
           ? "n = heads * (floor(total_q / block_q) + batch); nothing to launch when total_q or batch is 0"
           : fmt::format("n = batch * heads * ceil({} / block_q); nothing to launch when n = 0",
                         rows_name(program))},
      {"x", "min(n, max_grid_x)"},
      {"y", "ceil(n / max_grid_x)"},
      {"heads", program.head_groups()},
      {"block_q", program.schedule.block_q},
      {"max_grid_x", program.target.max_grid_x}};
  json["schedule"] = {{"name", program.schedule.name},           {"source", program.schedule.source},
                      {"block_q", program.schedule.block_q},     {"block_k", program.schedule.block_k},
                      {"warps", program.schedule.warps},         {"alignment", program.schedule.vector_bytes},
                      {"value_columns", program.value_columns()}};
  json["params"]["bytes"] = program.param_bytes;
  for (const ParamField& field : program.params)
    json["params"]["fields"].push_back({{"name", field.name},
                                        {"type", type_of(field).json},
                                        {"offset", field.offset},
                                        {"meaning", meaning(field)}});
  for (const TensorInfo& tensor : program.expressions.tensors())
    if (tensor.role != TensorRole::constant && takes(program, tensor.name))
      json["inputs"].push_back({{"name", tensor.name},
                                {"dtype", name(tensor.dtype)},
                                {"shape", shape_json(shape_of(program, tensor))}});
  for (const OutputInfo& output : program.outputs)
    json["outputs"].push_back(
        {{"name", output.name}, {"dtype", name(output.dtype)}, {"shape", output_shape(program, output)}});
  if (binary)
    json["binary"] = {{"format", binary->format},
                      {"registers", binary->resources.registers},
                      {"spill_bytes", binary->resources.spill_bytes},
                      {"shared_bytes", binary->resources.shared_bytes}};
  return json.dump(2) + "\n";
}

std::string c_header(const TileProgram& program) {
  const std::string& kernel = program.name;
  const std::string prefix = upper(kernel);
  std::string text = fmt::format(
      "/* {}: arguments and launch of the kernel for {}. */\n#pragma once\n\n"
      "#include <stddef.h>\n#include <stdint.h>\n\n",
      kernel, program.target.name);
  const auto constant = [&](const char* what, int value) {
    text += fmt::format("#define {}_{} {}\n", prefix, what, value);
  };
  constant("THREADS", program.threads());
  constant("SHARED_BYTES", program.footprint.shared_bytes);
  constant("HEADS", program.head_groups());
  constant("BLOCK_Q", program.schedule.block_q);
  constant("MAX_GRID_X", program.target.max_grid_x);
  constant("ALIGNMENT", program.schedule.vector_bytes);

  text += fmt::format("\nstruct {}_params {{\n", kernel);
  for (const ParamField& field : program.params)
    text += fmt::format("  {:<8} {};  /* {} */\n", type_of(field).c, field.name, meaning(field));
  text +=
      "};\n\n#ifdef __cplusplus\n#define ATTNFUSE_ASSERT static_assert\n#else\n#define ATTNFUSE_ASSERT "
      "_Static_assert\n#endif\n";
  for (const ParamField& field : program.params)
    text += fmt::format("ATTNFUSE_ASSERT(offsetof(struct {}_params, {}) == {}, \"layout\");\n", kernel,
                        field.name, field.offset);
  text += "#undef ATTNFUSE_ASSERT\n\n";
  text += fmt::format(
      "/* Workgroups of one call: grid x = min(n, {0}_MAX_GRID_X), y = ceil(n / {0}_MAX_GRID_X). */\n"
      "static inline int64_t {1}_workgroups(int64_t batch, int64_t {2}) {{\n",
      prefix, kernel, rows_name(program));
  text += fmt::format(
      fmt::runtime(program.info.storage.ragged ? "  return batch == 0 || {1} == 0 ? 0 : {0}_HEADS * ({1} / "
                                                 "{0}_BLOCK_Q + batch);\n}}\n"
                                               : "  return batch * {0}_HEADS * (({1} + {0}_BLOCK_Q - 1) / "
                                                 "{0}_BLOCK_Q);\n}}\n"),
      prefix, rows_name(program));
  return text;
}

}  // namespace attnfuse::cli
