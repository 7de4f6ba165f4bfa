#include "runtime/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/process.h"
#include "runtime/safetensors_header.h"

namespace attnfuse {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library allows
constexpr std::size_t kChunk = std::size_t(16) << 20;

// Appends `count` bytes to `to`, growing it no faster than data arrives.
template <class Container>
bool read_bytes(std::istream& stream, std::uint64_t count, Container& to) {
  while (count > 0) {
    const std::size_t step = std::size_t(std::min<std::uint64_t>(count, kChunk)), at = to.size();
    to.resize(at + step);
    stream.read(reinterpret_cast<char*>(to.data()) + at, std::streamsize(step));
    if (std::size_t(stream.gcount()) != step) return false;
    count -= step;
  }
  return true;
}

std::uint64_t little_endian(const std::string& bytes) {
  std::uint64_t value = 0;
  for (std::size_t n = 8; n-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[n]);
  return value;
}

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f32:
      return "F32";
    case DType::i32:
      return "I32";
    case DType::boolean:
      return "BOOL";
  }
  return "";
}

// Elements in row-major order, whatever the strides.
void append_dense(const HostTensor& tensor, std::string& to) {
  const TensorLayout& layout = tensor.layout;
  const auto size = std::size_t(size_in_bytes(layout.dtype));
  std::vector<std::int64_t> index(layout.shape.size(), 0);
  for (std::int64_t n = layout.element_count(); n > 0; --n) {
    to.append(reinterpret_cast<const char*>(tensor.bytes.data()) + std::size_t(layout.offset(index)) * size,
              size);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < layout.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace

Result<HostTensors> read_safetensors(std::istream& stream, const std::string& name) {
  const auto truncated = [&](const std::string& where) {
    return Diagnostic{"safetensors.truncated", fmt::format("{} ends inside {}", name, where), {}, ""};
  };
  std::string prefix, json;
  if (!read_bytes(stream, 8, prefix)) return truncated("the eight bytes that give the header's length");
  const std::uint64_t header_bytes = little_endian(prefix);
  if (header_bytes > kMaxHeaderBytes)
    return Diagnostic{
        "safetensors.header",
        fmt::format("{}: a header of {} bytes, more than {}", name, header_bytes, kMaxHeaderBytes),
        {},
        "is this a safetensors file?"};
  if (!read_bytes(stream, header_bytes, json))
    return truncated(fmt::format("its header of {} bytes", header_bytes));
  const auto entries = parse_safetensors_header(json, name);
  if (!entries) return entries.errors();
  HostTensors tensors;
  for (const SafetensorsEntry& entry : *entries) {
    HostTensor tensor{entry.layout, {}};
    if (!read_bytes(stream, entry.end - entry.begin, tensor.bytes))
      return truncated(
          fmt::format("tensor '{}', whose data is bytes {} to {}", entry.name, entry.begin, entry.end));
    if (entry.layout.dtype == DType::boolean)  // kernels rely on 0 and 1
      for (std::byte& byte : tensor.bytes) byte = std::byte(byte != std::byte{0});
    tensors.emplace(entry.name, std::move(tensor));
  }
  if (stream.peek() != std::istream::traits_type::eof())
    return Diagnostic{"safetensors.offsets",
                      fmt::format("{} holds data after byte {} that belongs to no tensor", name,
                                  entries->empty() ? 0 : entries->back().end),
                      {},
                      ""};
  return tensors;
}

Result<HostTensors> read_safetensors(const std::string& path) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return Diagnostic{"file.read", fmt::format("{} cannot be read: {}", path, std::strerror(errno)), {}, ""};
  return read_safetensors(stream, path);
}

std::string safetensors_bytes(const HostTensors& tensors) {
  // Widest elements first: every tensor is then aligned to its element.
  std::vector<const HostTensors::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::ranges::sort(order, [](const auto* a, const auto* b) {
    const int a_size = size_in_bytes(a->second.layout.dtype), b_size = size_in_bytes(b->second.layout.dtype);
    return std::tie(b_size, a->first) < std::tie(a_size, b->first);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const auto* item : order) {
    const std::size_t begin = data.size();
    append_dense(item->second, data);
    header[item->first] = {{"dtype", safetensors_name(item->second.layout.dtype)},
                           {"shape", item->second.layout.shape},
                           {"data_offsets", {begin, data.size()}}};
  }
  std::string json = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += char(json.size() >> shift & 0xff);
  return bytes + json + data;
}

Status write_safetensors(const std::string& path, const HostTensors& tensors) {
  return write_file(path, safetensors_bytes(tensors));
}

}  // namespace attnfuse
