// Random programs: every block of the catalog, with its choices, and expressions of every kind, in any
// combination that the language takes.
#pragma once

#include <string>

#include "conformance/random.h"

namespace attnfuse::conformance {

struct RandomProgram {
  std::string text;
  bool is_softmax = true;  // large scores are ordinary
  // The output shows an infinite value as it is or, of weights with signs, as NaN. An expression of it may
  // make something finite of infinity that it does not make of NaN.
  bool shows_infinity = true;
};
RandomProgram random_program(Random& random);

}  // namespace attnfuse::conformance
