#include "runtime/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace attnfuse {
namespace {

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {
    {"F16", DType::f16}, {"BF16", DType::bf16},    {"F32", DType::f32},
    {"I32", DType::i32}, {"BOOL", DType::boolean},
};

// What the header says of one tensor, before any check.
struct RawEntry {
  std::string name, dtype;
  std::vector<std::uint64_t> shape, offsets;
  bool has_shape = false;
};

// Accepts exactly { name: { "dtype": string, "shape": [integers], "data_offsets": [integers] }, ... } and a
// "__metadata__" of strings. Nothing is built for anything else, however deep.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawEntry> entries;
  std::string problem, duplicate;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return refuse("the number " + text); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!numbers_) return refuse(fmt::format("the number {}", value));
    numbers_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || field_ != "dtype") return refuse("a string");
    entries.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 1 || (depth_ == 1 && numbers_)) return refuse("an object");
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || numbers_) return refuse("an array");
    if (field_ == "shape")
      numbers_ = &entries.back().shape;
    else if (field_ == "data_offsets")
      numbers_ = &entries.back().offsets;
    else
      return refuse("an array");
    entries.back().has_shape = entries.back().has_shape || field_ == "shape";
    return true;
  }
  bool end_array() override { return numbers_ = nullptr, true; }
  bool key(string_t& value) override {
    if (depth_ == 2) return take_field(value);
    if (!names_.insert(value).second) return duplicate = value, false;
    in_metadata_ = value == "__metadata__";
    fields_.clear();
    if (!in_metadata_) entries.push_back({value, {}, {}, {}, false});
    where_ = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    problem = fmt::format("no valid JSON at byte {}", position);
    return false;
  }

 private:
  bool take_field(const std::string& value) {
    if (!fields_.insert(value).second) return duplicate = where_ + "/" + value, false;
    field_ = value;
    if (in_metadata_ || value == "dtype" || value == "shape" || value == "data_offsets") return true;
    problem = fmt::format("tensor '{}' has an unknown field '{}'", where_, value);
    return false;
  }
  bool refuse(const std::string& what) {
    problem = where_.empty() ? fmt::format("{} where an object of tensors belongs", what)
                             : fmt::format("{} where none belongs, at tensor '{}'", what, where_);
    return false;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string where_, field_;
  std::set<std::string> names_, fields_;
  std::vector<std::uint64_t>* numbers_ = nullptr;
};

class EntryCheck {
 public:
  EntryCheck(const std::string& file, Diagnostics& errors) : file_(file), errors_(errors) {}

  std::optional<SafetensorsEntry> operator()(const RawEntry& raw) {
    if (raw.dtype.empty() || !raw.has_shape || raw.offsets.size() != 2)
      return fail("header", raw, "needs a dtype, a shape and two data_offsets");
    const auto* const row = std::ranges::find_if(
        kDTypes, [&](const DTypeName& candidate) { return candidate.name == raw.dtype; });
    if (row == std::end(kDTypes))
      return fail("dtype", raw, fmt::format("has dtype {}", raw.dtype),
                  "convert it to F16, BF16, F32, I32 or BOOL");
    const std::uint64_t begin = raw.offsets[0], end = raw.offsets[1];
    if (end < begin)
      return fail("offsets", raw, fmt::format("begins at {} and ends before, at {}", begin, end));
    // Zero extents count as one, so that the strides of an empty tensor cannot overflow either.
    std::int64_t bytes = size_in_bytes(row->dtype);
    bool empty = false;
    for (std::uint64_t extent : raw.shape) {
      empty = empty || extent == 0;
      if (__builtin_mul_overflow(bytes, std::max<std::uint64_t>(extent, 1), &bytes))
        return fail("size", raw,
                    fmt::format("has shape [{}], which no memory can hold", fmt::join(raw.shape, ", ")));
    }
    if (empty) bytes = 0;
    if (end - begin != std::uint64_t(bytes))
      return fail("size", raw,
                  fmt::format("has {} bytes of data, but {} of shape [{}] are {}", end - begin, raw.dtype,
                              fmt::join(raw.shape, ", "), bytes));
    return SafetensorsEntry{
        raw.name, TensorLayout::contiguous(row->dtype, {raw.shape.begin(), raw.shape.end()}), begin, end};
  }

  std::nullopt_t fail(const char* code, const RawEntry& raw, const std::string& what, std::string fix = {}) {
    errors_.push_back({std::string("safetensors.") + code,
                       fmt::format("{}: tensor '{}' {}", file_, raw.name, what),
                       {},
                       std::move(fix)});
    return std::nullopt;
  }

 private:
  const std::string& file_;
  Diagnostics& errors_;
};

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(const std::string& json,
                                                               const std::string& file) {
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json, &reader)) {
    if (!reader.duplicate.empty())
      return Diagnostic{
          "safetensors.duplicate", fmt::format("{}: '{}' is there twice", file, reader.duplicate), {}, ""};
    return Diagnostic{
        "safetensors.header", fmt::format("{}: the header holds {}", file, reader.problem), {}, ""};
  }
  Diagnostics errors;
  EntryCheck check(file, errors);
  std::vector<SafetensorsEntry> entries;
  for (const RawEntry& raw : reader.entries)
    if (auto entry = check(raw)) entries.push_back(std::move(*entry));
  if (!errors.empty()) return errors;
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected)
      return Diagnostic{
          "safetensors.offsets",
          fmt::format(
              "{}: the data of tensor '{}' begins at byte {}, {} byte {}", file, entry.name, entry.begin,
              entry.begin < expected ? "inside another tensor's, which ends at" : "leaving a hole from",
              expected),
          {},
          ""};
    expected = entry.end;
  }
  return entries;
}

}  // namespace attnfuse
