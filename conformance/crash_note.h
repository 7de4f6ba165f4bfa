// If the process dies on a signal, the last note goes to stderr first: the case that killed it and the counts
// so far.
#pragma once

#include <string_view>

namespace attnfuse::conformance {

// Handlers for the signals of a crash are installed by the first note. At most 8 KiB of text are kept.
void leave_crash_note(std::string_view text);

}  // namespace attnfuse::conformance
