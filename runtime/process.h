// Running an assembler as a program: no shell, output captured, temporary files removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.h"

namespace attnfuse {

// A fresh directory, removed with its contents on destruction.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> create();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

struct ProcessResult {
  int exit_code = -1;  // 128 + signal when killed by one
  std::string output;  // standard output and error together
};
// Diagnostic "process.failed" when the program cannot be started.
Result<ProcessResult> run_process(const std::vector<std::string>& arguments);

// The first of `names` in PATH, then in `directories`.
std::optional<std::string> find_program(const std::vector<std::string>& names,
                                        const std::vector<std::string>& directories = {});

// Diagnostic "file.read" or "file.write" with the system's reason.
Result<std::string> read_file(const std::filesystem::path& path);
// The file is complete or absent: written under another name in the same directory, then renamed.
Status write_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace attnfuse
