#include "runtime/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace attnfuse {
namespace {

std::string reason() { return std::strerror(errno); }

// A file descriptor that closes itself.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int close() {
    const int descriptor = std::exchange(value, -1);
    return descriptor < 0 ? 0 : ::close(descriptor);
  }
};

ssize_t read_some(int descriptor, char* to, std::size_t size) {
  ssize_t count = 0;
  do count = ::read(descriptor, to, size);
  while (count < 0 && errno == EINTR);
  return count;
}

bool write_all(int descriptor, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t count = ::write(descriptor, contents.data(), contents.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    contents.remove_prefix(std::size_t(count));
  }
  return true;
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::create() {
  std::error_code error;
  std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string name = (base / "attnfuse-XXXXXX").string();
  if (!mkdtemp(name.data()))
    return Diagnostic{"file.write",
                      fmt::format("no temporary directory in {}: {}", base.string(), reason()),
                      {},
                      "free some space there, or point TMPDIR elsewhere"};
  return TemporaryDirectory(name);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<ProcessResult> run_process(const std::vector<std::string>& arguments) {
  const auto failed = [&](const std::string& why) {
    return Diagnostic{"process.failed", fmt::format("{} did not start: {}", arguments.front(), why), {}, ""};
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(reason());
  Descriptor reading(ends[0]), writing(ends[1]);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writing.value, 1);
  posix_spawn_file_actions_adddup2(&actions, writing.value, 2);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failed(std::strerror(error));
  writing.close();

  ProcessResult result;
  char chunk[4096];
  for (ssize_t count = 0; (count = read_some(reading.value, chunk, sizeof chunk)) > 0;)
    result.output.append(chunk, std::size_t(count));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::optional<std::string> find_program(const std::vector<std::string>& names,
                                        const std::vector<std::string>& directories) {
  std::vector<std::string> places;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) places.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  places.insert(places.end(), directories.begin(), directories.end());
  for (const std::string& name : names)
    for (const std::string& place : places)
      if (std::string file = place + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return {};
}

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto failed = [&] {
    return Diagnostic{"file.read", fmt::format("{} cannot be read: {}", path.string(), reason()), {}, ""};
  };
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value < 0) return failed();
  std::string contents;
  char chunk[65536];
  ssize_t count = 0;
  while ((count = read_some(file.value, chunk, sizeof chunk)) > 0) contents.append(chunk, std::size_t(count));
  if (count < 0) return failed();
  return contents;
}

Status write_file(const std::filesystem::path& path, std::string_view contents) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path.string(), getpid(), serial++);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  bool written = file.value >= 0;
  const bool created = written;
  written = written && write_all(file.value, contents);
  written = written && file.close() == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return Unit{};
  const std::string why = reason();
  if (created) ::unlink(temporary.c_str());
  return Diagnostic{"file.write",
                    fmt::format("{} cannot be written: {}", path.string(), why),
                    {},
                    "free some space, or choose a place that can be written"};
}

}  // namespace attnfuse
