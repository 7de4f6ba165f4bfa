// What the files that generate cases share: programs as one line of text, and one function per family.
#pragma once

#include <string>
#include <vector>

#include "conformance/cases.h"
#include "ir/types.h"

namespace attnfuse::conformance {

struct Dims {
  int heads = 2, kv_heads = 1;
  int head_dim = 32, v_head_dim = 0;  // 0: as head_dim
  DType dtype = DType::f16;
};

// "attention name { heads ... dtype f16 <body> }"
std::string program(const std::string& name, const Dims& dims, const std::string& body);

struct Shape {
  std::int64_t batch, sq, skv;
};
Case make_case(std::string program_text, const Shape& shape);  // the family's name is filled in by all_cases

// One building block as it stands in a program. Blocks of different slots combine freely.
struct BlockText {
  const char* name;
  const char* slot;
  const char* text;
};
std::span<const BlockText> block_texts();

inline constexpr const char* kRope = "query rope(theta = 10000) key rope(theta = 10000) ";

// cases_blocks.cpp
std::vector<Case> example_cases(CaseSet set);
std::vector<Case> gym_cases(CaseSet set);
std::vector<Case> block_cases(CaseSet set);
std::vector<Case> pair_cases(CaseSet set);
std::vector<Case> rope_cases(CaseSet set);
std::vector<Case> softcap_cases(CaseSet set);
std::vector<Case> sink_cases(CaseSet set);
std::vector<Case> captured_cases(CaseSet set);
// cases_language.cpp
std::vector<Case> language_cases(CaseSet set);
std::vector<Case> named_mask_cases(CaseSet set);
// cases_transforms.cpp
std::vector<Case> scaling_cases(CaseSet set);
std::vector<Case> norm_cases(CaseSet set);
std::vector<Case> bias_cases(CaseSet set);
std::vector<Case> normalizer_cases(CaseSet set);
// cases_after.cpp
std::vector<Case> after_cases(CaseSet set);
// cases_differential.cpp
std::vector<Case> differential_cases(CaseSet set);
// cases_shares.cpp
std::vector<Case> share_cases(CaseSet set);
// cases_rotation.cpp
std::vector<Case> rotation_cases(CaseSet set);
// cases_sizes.cpp
std::vector<Case> shape_cases(CaseSet set);
std::vector<Case> group_cases(CaseSet set);
std::vector<Case> head_dim_cases(CaseSet set);
std::vector<Case> value_dim_cases(CaseSet set);
std::vector<Case> layout_cases(CaseSet set);
std::vector<Case> big_stride_cases(CaseSet set);
// cases_masks.cpp
std::vector<Case> align_cases(CaseSet set);
std::vector<Case> window_cases(CaseSet set);
std::vector<Case> empty_row_cases(CaseSet set);
std::vector<Case> first_tile_cases(CaseSet set);
std::vector<Case> mask_cases(CaseSet set);
std::vector<Case> data_bound_cases(CaseSet set);
std::vector<Case> poison_cases(CaseSet set);
std::vector<Case> decode_cases(CaseSet set);
// cases_storage.cpp
std::vector<Case> ragged_cases(CaseSet set);
std::vector<Case> paged_cases(CaseSet set);
// cases_numbers.cpp
std::vector<Case> shift_cases(CaseSet set);
std::vector<Case> large_logit_cases(CaseSet set);
std::vector<Case> real_cases(CaseSet set);
std::vector<Case> range_cases(CaseSet set);
std::vector<Case> repeat_cases(CaseSet set);
// cases_metamorphic.cpp
std::vector<Case> metamorphic_cases(CaseSet set);

}  // namespace attnfuse::conformance
