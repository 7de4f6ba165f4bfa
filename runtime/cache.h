// Assembled kernels by what they were made from, in memory and on disk. The cache only ever saves time: a
// missing, damaged or foreign entry is assembled anew, and a disk that cannot be written is a note, not an
// error. Any number of threads and processes may use one directory.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "ir/diagnostic.h"
#include "runtime/device.h"

namespace attnfuse {

class KernelCache {
 public:
  explicit KernelCache(std::filesystem::path directory)
      : directory_(std::move(directory)) {}  // empty: memory only

  // The one of this process, in ATTNFUSE_CACHE, or $XDG_CACHE_HOME/attnfuse, or ~/.cache/attnfuse.
  // ATTNFUSE_CACHE=off keeps it in memory.
  static KernelCache& standard();

  // `key` is all that the binary depends on: source text, target, assembler. It is compared whole.
  std::optional<Binary> find(const std::string& key);
  // The binary can be found from here on, whatever happens; "cache.unwritable" when that holds for this
  // process only.
  Diagnostics store(const std::string& key, const Binary& binary);

  std::filesystem::path entry_path(const std::string& key) const;

 private:
  std::filesystem::path directory_;
  std::mutex mutex_;
  std::map<std::string, Binary> memory_;
};

std::filesystem::path default_cache_directory();

}  // namespace attnfuse
