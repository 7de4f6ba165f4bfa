#include "runtime/cache.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "runtime/process.h"
#include "runtime/test_environment.h"

using namespace attnfuse;
using namespace attnfuse::testing;
namespace fs = std::filesystem;

namespace {

Binary kernel(std::size_t size, int seed = 0) {
  Binary binary{"fake:one", "cubin", "kernel", {}, {40, 0, 1024}, "the log"};
  for (std::size_t n = 0; n < size; ++n)
    binary.bytes.push_back(std::byte((n * 7 + std::size_t(seed)) & 0xff));
  return binary;
}

bool same(const Binary& a, const Binary& b) {
  return a.target == b.target && a.format == b.format && a.entry == b.entry && a.bytes == b.bytes &&
         a.log == b.log && a.resources.registers == b.resources.registers &&
         a.resources.shared_bytes == b.resources.shared_bytes;
}

struct Fixture {
  TemporaryDirectory directory = TemporaryDirectory::create().value();
  fs::path path = directory.path() / "cache";
};

}  // namespace

TEST_CASE("what one process stores, another finds") {
  Fixture f;
  CHECK(KernelCache(f.path).store("key", kernel(1000)).empty());
  KernelCache other(f.path);
  const auto found = other.find("key");
  REQUIRE(found.has_value());
  CHECK(same(*found, kernel(1000)));
  CHECK(!other.find("another key").has_value());
}

TEST_CASE("an entry whose name collides with another key's is not taken for it") {
  Fixture f;
  KernelCache cache(f.path);
  cache.store("key", kernel(10));
  fs::copy_file(cache.entry_path("key"), cache.entry_path("other"));
  CHECK(!KernelCache(f.path).find("other").has_value());
}

TEST_CASE("a truncated or damaged entry is as if it were not there, and is replaced") {
  Fixture f;
  KernelCache(f.path).store("key", kernel(50));
  const fs::path entry = KernelCache(f.path).entry_path("key");
  const std::string good = read_file(entry).value();
  for (std::size_t size = 0; size < good.size(); ++size) {
    REQUIRE(write_file(entry, good.substr(0, size)).ok());
    CHECK(!KernelCache(f.path).find("key").has_value());
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = char(damaged[at] ^ 0x10);
    REQUIRE(write_file(entry, damaged).ok());
    CHECK(!KernelCache(f.path).find("key").has_value());
  }
  REQUIRE(write_file(entry, good + "x").ok());
  CHECK(!KernelCache(f.path).find("key").has_value());
  KernelCache(f.path).store("key", kernel(50));
  CHECK(KernelCache(f.path).find("key").has_value());
}

TEST_CASE("a directory that cannot be made leaves a cache in memory and a note that says what to do") {
  Fixture f;
  REQUIRE(write_file(f.path, "a file is in the way").ok());
  KernelCache cache(f.path);
  const Diagnostics notes = cache.store("key", kernel(10));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].code == "cache.unwritable");
  CHECK(notes[0].fix.find("ATTNFUSE_CACHE") != std::string::npos);
  CHECK(cache.find("key").has_value());
}

TEST_CASE("a full disk leaves a cache in memory, and no partial entry") {
  Fixture f;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit{4096, old_limit.rlim_max};  // writing past it fails as on a full disk
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  KernelCache cache(f.path);
  const Diagnostics notes = cache.store("key", kernel(100'000));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].code == "cache.unwritable");
  CHECK(cache.find("key").has_value());
  CHECK(fs::is_empty(f.path));
}

TEST_CASE("writers and readers of one directory never see half an entry") {
  Fixture f;
  int wrong[4] = {};
  std::vector<std::thread> threads;
  for (int& mine : wrong)
    threads.emplace_back([&f, &mine] {
      for (int round = 0; round < 50; ++round) {
        KernelCache cache(f.path);
        const auto found = cache.find("key");
        if (found && !same(*found, kernel(20'000))) ++mine;
        if (!cache.store("key", kernel(20'000)).empty()) ++mine;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int count : wrong) CHECK(count == 0);
  CHECK(std::distance(fs::directory_iterator(f.path), fs::directory_iterator()) == 1);
}

TEST_CASE("the variables that name the cache's place are obeyed in order") {
  const Environment own("ATTNFUSE_CACHE", "/own"), base("XDG_CACHE_HOME", "/base"), home("HOME", "/home/u");
  CHECK(default_cache_directory() == "/own");
  {
    const Environment off("ATTNFUSE_CACHE", "off");
    CHECK(default_cache_directory().empty());
  }
  const Environment unset("ATTNFUSE_CACHE", nullptr);
  CHECK(default_cache_directory() == "/base/attnfuse");
  const Environment no_base("XDG_CACHE_HOME", nullptr);
  CHECK(default_cache_directory() == "/home/u/.cache/attnfuse");
}

TEST_CASE("without a directory the cache is in memory only") {
  KernelCache cache("");
  CHECK(cache.store("key", kernel(10)).empty());
  CHECK(cache.find("key").has_value());
  CHECK(!KernelCache("").find("key").has_value());
}
