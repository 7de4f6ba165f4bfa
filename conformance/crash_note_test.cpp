#include "conformance/crash_note.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <doctest/doctest.h>

namespace attnfuse::conformance {

TEST_CASE("a process that dies on a signal leaves its note and still dies of it") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    leave_crash_note("first\n");
    leave_crash_note("crashed in case 7\n");
    std::raise(SIGSEGV);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, std::size_t(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(text == "crashed in case 7\n");
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

}  // namespace attnfuse::conformance
