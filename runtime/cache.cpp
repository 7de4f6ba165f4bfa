#include "runtime/cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/process.h"

namespace attnfuse {
namespace {

// An entry: magic, resources, the six fields each as a length and its bytes, checksum of all before it.
// The number in the magic changes with the layout and with the options that assemblers are called with.
constexpr std::string_view kMagic = "attnfuse-kernel-1\n";

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_field(std::string& to, std::string_view field) {
  append(to, std::uint64_t(field.size()));
  to += field;
}

template <class T>
bool take(std::string_view& from, T& value) {
  if (from.size() < sizeof value) return false;
  from.copy(reinterpret_cast<char*>(&value), sizeof value);
  from.remove_prefix(sizeof value);
  return true;
}

bool take_field(std::string_view& from, std::string& field) {
  std::uint64_t size = 0;
  if (!take(from, size) || size > from.size()) return false;
  field = from.substr(0, std::size_t(size));
  from.remove_prefix(std::size_t(size));
  return true;
}

std::string encode(const std::string& key, const Binary& binary) {
  std::string text(kMagic);
  for (int number : {binary.resources.registers, binary.resources.spill_bytes, binary.resources.shared_bytes})
    append(text, std::int32_t(number));
  for (std::string_view field :
       {std::string_view(key), std::string_view(binary.target), std::string_view(binary.format),
        std::string_view(binary.entry), std::string_view(binary.log),
        std::string_view(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size())})
    append_field(text, field);
  append(text, fnv1a(text));
  return text;
}

std::optional<Binary> decode(std::string_view text, const std::string& key) {
  std::uint64_t checksum = 0;
  if (text.size() < kMagic.size() + sizeof checksum || text.substr(0, kMagic.size()) != kMagic) return {};
  std::memcpy(&checksum, text.data() + text.size() - sizeof checksum, sizeof checksum);
  text.remove_suffix(sizeof checksum);
  if (fnv1a(text) != checksum) return {};
  text.remove_prefix(kMagic.size());
  Binary binary;
  std::int32_t numbers[3];
  std::string stored_key, bytes;
  for (std::int32_t& number : numbers)
    if (!take(text, number)) return {};
  for (std::string* field : {&stored_key, &binary.target, &binary.format, &binary.entry, &binary.log, &bytes})
    if (!take_field(text, *field)) return {};
  if (!text.empty() || stored_key != key) return {};
  binary.resources = {numbers[0], numbers[1], numbers[2]};
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  binary.bytes.assign(data, data + bytes.size());
  return binary;
}

}  // namespace

std::filesystem::path default_cache_directory() {
  const auto set = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value ? value : "";
  };
  if (const std::string own = set("ATTNFUSE_CACHE"); !own.empty()) return own == "off" ? "" : own;
  if (const std::string base = set("XDG_CACHE_HOME"); !base.empty())
    return std::filesystem::path(base) / "attnfuse";
  if (const std::string home = set("HOME"); !home.empty())
    return std::filesystem::path(home) / ".cache" / "attnfuse";
  return {};
}

KernelCache& KernelCache::standard() {
  static KernelCache instance(default_cache_directory());
  return instance;
}

std::filesystem::path KernelCache::entry_path(const std::string& key) const {
  return directory_ / fmt::format("{:016x}.kernel", fnv1a(key));
}

std::optional<Binary> KernelCache::find(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = memory_.find(key); found != memory_.end()) return found->second;
  }
  if (directory_.empty()) return {};
  const auto text = read_file(entry_path(key));
  if (!text) return {};
  std::optional<Binary> binary = decode(*text, key);
  const std::lock_guard lock(mutex_);
  if (binary) memory_.emplace(key, *binary);
  return binary;
}

Diagnostics KernelCache::store(const std::string& key, const Binary& binary) {
  {
    const std::lock_guard lock(mutex_);
    memory_.insert_or_assign(key, binary);
  }
  if (directory_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(directory_, error);  // where it fails, writing says why
  const auto status = write_file(entry_path(key), encode(key, binary));
  if (status) return {};
  return {{"cache.unwritable",
           "the kernel is not kept for the next run: " + status.errors().front().message,
           {},
           "free some space, or set ATTNFUSE_CACHE to a directory that can be written, or to off"}};
}

}  // namespace attnfuse
