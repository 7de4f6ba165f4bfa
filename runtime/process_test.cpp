#include "runtime/process.h"

#include <doctest/doctest.h>

using namespace attnfuse;
namespace fs = std::filesystem;

TEST_CASE("a program's output and exit code are captured, and arguments are passed as they are") {
  const auto result =
      run_process({"/bin/sh", "-c", "echo \"$1\"; echo error >&2; exit 3", "sh", "a b; $HOME"});
  REQUIRE(result.ok());
  CHECK(result->exit_code == 3);
  CHECK(result->output == "a b; $HOME\nerror\n");
}

TEST_CASE("a program killed by a signal and a program that does not exist are told apart") {
  const auto killed = run_process({"/bin/sh", "-c", "kill -9 $$"});
  REQUIRE(killed.ok());
  CHECK(killed->exit_code == 128 + 9);
  const auto missing = run_process({"/nonexistent/assembler"});
  REQUIRE(!missing.ok());
  CHECK(missing.errors()[0].code == "process.failed");
}

TEST_CASE("a temporary directory disappears with its contents") {
  fs::path path;
  {
    const auto directory = TemporaryDirectory::create();
    REQUIRE(directory.ok());
    path = directory->path();
    REQUIRE(write_file(path / "file", "contents").ok());
    CHECK(read_file(path / "file").value() == "contents");
    CHECK(fs::exists(path));
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("a file that cannot be written leaves nothing behind and keeps what was there") {
  const auto directory = TemporaryDirectory::create();
  REQUIRE(directory.ok());
  const auto status = write_file(directory->path() / "absent" / "file", "contents");
  REQUIRE(!status.ok());
  CHECK(status.errors()[0].code == "file.write");
  fs::create_directory(directory->path() / "taken");
  CHECK(!write_file(directory->path() / "taken", "contents").ok());  // a directory is in the way
  CHECK(std::distance(fs::directory_iterator(directory->path()), fs::directory_iterator()) == 1);
  CHECK(read_file(directory->path() / "none").errors()[0].code == "file.read");
}

TEST_CASE("programs are found in PATH and in the directories named") {
  CHECK(find_program({"sh"}).has_value());
  CHECK(!find_program({"no-such-program"}).has_value());
  CHECK(find_program({"no-such-program", "sh"}, {"/bin"}).has_value());
}
