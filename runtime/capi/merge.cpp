#include "runtime/merge.h"

#include "runtime/capi/call.h"
#include "runtime/capi/handles.h"

using namespace attnfuse;
using namespace attnfuse::capi;

namespace {

const std::vector<std::string>& merge_names() {
  static const std::vector<std::string> names = {"o_parts", "lse_parts", "o", "lse"};
  return names;
}

// The program's merge, made when it is first asked for.
Result<std::shared_ptr<Merge>> merge_of(attnfuse_program& program) {
  const std::lock_guard lock(program.mutex);
  if (program.merge) return program.merge;
  auto made = Merge::prepare(program.executable->graph(), program.executable->machine());
  if (made) program.merge = *made;
  return made;
}

}  // namespace

attnfuse_status attnfuse_merge(attnfuse_program* program, const attnfuse_call* call) {
  return guarded([&] {
    if (!program) return bad_argument("attnfuse_merge: program is null");
    const auto merge = merge_of(*program);
    if (!merge) return fail(merge.errors());
    Call given;
    const auto complain = [&](const TensorLayouts& layouts) {
      return check_merge_call((*merge)->info(), layouts);
    };
    if (const auto status = given.read("attnfuse_merge", call, merge_names(), complain);
        status != ATTNFUSE_OK)
      return status;
    const auto status = (*merge)->launch(given.tensors(), given.site().stream);
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}
