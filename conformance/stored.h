// Cases in other storage forms: the tensors of a case, which have a batch axis and padding, as sequences
// packed together or in pages, and what the reference says of such sequences, one by one. Shares nothing with
// lowering.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conformance/oracle.h"

namespace attnfuse::conformance {

// Why the case's lengths do not suit the program; none: they do.
std::optional<std::string> wrong_lengths(const Graph& graph, const Case& c);

struct Stored {
  Inputs inputs;
  Sizes sizes;
};
// `inputs` are those of make_inputs. Rows that belong to no sequence, the rest of each last page, pages that
// nobody uses, and entries of the table past the last page hold NaN and -1. Plain storage: as they are.
Stored store(const Graph& graph, const Case& c, const Inputs& inputs);

// The number of a sequence's row among those of an output, heads included.
class OutputRows {
 public:
  OutputRows(const ProgramInfo& info, const Case& c);
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i) const;
  std::int64_t count() const;

 private:
  std::int64_t heads_, batch_, rows_;  // rows: of one head, of a batch entry or of all sequences
  std::vector<std::int64_t> first_;    // of each sequence, where they are ragged
};

// What the program gives for each sequence alone, in the order of stored outputs; rows of no sequence are
// NaN, as they were before the launch.
Result<Expectation> expect_sequences(const Graph& graph, const Case& c, const Inputs& inputs);

}  // namespace attnfuse::conformance
