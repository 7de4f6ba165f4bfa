#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

std::vector<Case> with_data(Data data, const char* body, const std::vector<Shape>& shapes,
                            int head_dim = 64) {
  std::vector<Case> cases;
  for (DType dtype : kDtypes)
    for (const Shape& shape : shapes) {
      Case c = make_case(program("numbers", {.head_dim = head_dim, .dtype = dtype}, body), shape);
      c.data = data;
      cases.push_back(c);
    }
  return cases;
}

void append(std::vector<Case>& to, const std::vector<Case>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Case> shift_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* shift : {"- 100000", "+ 100000", "- 1e30"})
    append(cases,
           with_data(Data::normal, fmt::format("score x {} mask causal", shift).c_str(), {{1, 20, 40}}, 32));
  if (set == CaseSet::full)
    append(cases, with_data(Data::normal, "score x - 49993 mask window(100)", {{2, 300, 300}}, 128));
  return cases;
}

std::vector<Case> large_logit_cases(CaseSet set) {
  std::vector<Case> cases = with_data(Data::large_logit, "mask causal", {{1, 33, 70}});
  append(cases, with_data(Data::large_logit, "score scale(1) mask causal", {{1, 20, 40}}));
  if (set == CaseSet::full) append(cases, with_data(Data::large_logit, "mask causal", {{2, 500, 500}}, 128));
  return cases;
}

std::vector<Case> real_cases(CaseSet set) {
  std::vector<Case> cases = with_data(Data::real, "score scale(0.125) mask causal", {{1, 50, 80}});
  append(cases, with_data(Data::real, "query rope(theta = 10000) key rope(theta = 10000) score scale(0.125)",
                          {{1, 50, 80}}));
  if (set == CaseSet::full)
    append(cases, with_data(Data::real, "score scale(0.0884) mask causal", {{2, 500, 500}}, 128));
  return cases;
}

std::vector<Case> range_cases(CaseSet set) {
  std::vector<Case> cases = with_data(Data::big_value, "", {{1, 9, 300}}, 32);
  append(cases, with_data(Data::uniform, "mask causal", {{1, 40, 200}}, 32));
  if (set == CaseSet::full) append(cases, with_data(Data::big_value, "", {{1, 3, 8192}}));
  return cases;
}

std::vector<Case> repeat_cases(CaseSet set) {
  std::vector<Case> cases;
  const std::vector<Shape> shapes = set == CaseSet::full ? std::vector<Shape>{{2, 130, 260}, {2, 1000, 1000}}
                                                         : std::vector<Shape>{{2, 70, 130}};
  for (Case& c :
       with_data(Data::normal, "query rope(theta = 10000) key rope(theta = 10000) mask causal", shapes)) {
    c.check = Check::repeat;
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace attnfuse::conformance
