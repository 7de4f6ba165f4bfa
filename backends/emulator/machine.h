// Machine: what a kind of GPU adds to lanes - who meets whom and what an operation does. One per launch. All
// functions may fail().
#pragma once

#include <memory>
#include <string>

#include "ir/diagnostic.h"

namespace attnfuse::emulator {

class Machine {
 public:
  virtual ~Machine() = default;
  virtual void begin() = 0;              // a workgroup starts; no lane has run
  virtual void stopped(int /*lane*/) {}  // it ran up to a call or its end, which follows
  virtual void call(int lane) = 0;       // it waits at a call: do it, wake whom this lets go on
  virtual void ended(int lane) = 0;
  virtual bool stuck() { return false; }  // no lane can run; true: something was done that may change this
  virtual void end() {}                   // every lane has ended
  virtual std::string place(int lane) const = 0;  // of a waiting lane: "waits at the workgroup's barrier"
};

// Ends the launch. Machines run beside the lanes' stacks: the launch catches it.
struct Failure {
  Diagnostic diagnostic;
};
[[noreturn]] inline void fail(const char* code, std::string message, std::string fix = "") {
  throw Failure{{code, std::move(message), {}, std::move(fix)}};
}

}  // namespace attnfuse::emulator
