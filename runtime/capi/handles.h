// What stands behind the handles of the C interface, and how failures leave it.
#pragma once

#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "runtime/attnfuse.h"
#include "runtime/executable.h"
#include "runtime/merge.h"

struct attnfuse_device {
  attnfuse::Machine machine;
  std::string name;
  std::mutex mutex;                                                         // of the buffers
  std::map<std::uint64_t, std::shared_ptr<attnfuse::Buffer>> buffers = {};  // by address
};

struct attnfuse_program {
  std::shared_ptr<attnfuse::Executable> executable;
  std::mutex mutex = {};  // of what follows
  std::shared_ptr<attnfuse::Merge> merge = {};
};

namespace attnfuse::capi {

// These keep the words for attnfuse_last_error.
attnfuse_status fail(attnfuse_status status, const std::string& message);
attnfuse_status fail(const Diagnostics& diagnostics, std::string_view source = {});
attnfuse_status bad_argument(const std::string& message);  // "attnfuse_launch: ..."

// Nothing is thrown out of the library.
template <class Body>
attnfuse_status guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ATTNFUSE_OUT_OF_MEMORY, "no host memory left");
  } catch (const std::exception& error) {
    return fail(ATTNFUSE_INTERNAL, std::string("internal error: ") + error.what());
  }
}

// A struct of the caller in this library's size: what the caller's lacks is zero, what it has more must be.
// `least`: its first version's size. False: not such a struct.
template <class Struct>
bool read_struct(const Struct* from, std::size_t least, Struct& to) {
  const std::size_t size = from->struct_size;
  if (size < least || size > 4096) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t n = sizeof(Struct); n < size; ++n)
    if (bytes[n] != 0) return false;
  to = {};
  std::memcpy(&to, from, std::min(size, sizeof(Struct)));
  return true;
}

// As much of `from` as the caller's struct holds; its size stays.
template <class Struct>
bool write_struct(Struct from, std::size_t least, Struct* to) {
  const std::size_t size = to->struct_size;
  if (size < least) return false;
  from.struct_size = size;
  std::memcpy(static_cast<void*>(to), &from, std::min(size, sizeof(Struct)));
  return true;
}

}  // namespace attnfuse::capi
