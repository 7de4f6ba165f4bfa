// document(ids, query_ids): keys of the query's own document; ids tells every position's, in any order. The
// query at i stands at position i + skv - sq, unless query_ids tells its document (packed training batches;
// pictures of interleaved text). Joined with causal where needed.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr TensorAxis kKeys[] = {{"batch", Size::batch}, {"skv", Size::skv}};
constexpr TensorAxis kQueries[] = {{"batch", Size::batch}, {"sq", Size::sq}};
constexpr Parameter kParameters[] = {
    {.name = "ids",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "document of every key",
     .axes = kKeys,
     .type = ValueType::i32},
    {.name = "query_ids",
     .kind = ParameterKind::tensor,
     .presence = Presence::optional,
     .about = "document of every query",
     .fallback_about = "ids[b, i + skv - sq]",
     .axes = kQueries,
     .type = ValueType::i32},
};

Value expand(const BlockInput& input) {
  const Value b = input.index(Axis::b);
  const Value own = input.arguments.has("query_ids") ? input.element("query_ids", {b, input.index(Axis::i)})
                                                     : input.element("ids", {b, input.query_position()});
  const Value other = input.element("ids", {b, input.index(Axis::j)});
  return own == other;
}

}  // namespace

constinit const Block kDocument{
    .name = "document",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys of the query's own document, by number.",
    .math = "ids[b, p] == ids[b, j], p = i + skv - sq",
    .latex = "\\mathrm{doc}_p = \\mathrm{doc}_j",
    .source = "packed training batches; attention-gym's document mask",
    .expand = expand,
};

}  // namespace attnfuse
