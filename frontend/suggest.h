// "did you mean": the known word closest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attnfuse {

// "did you mean 'rope'?", or `otherwise` when nothing is close.
std::string suggest(std::string_view word, std::span<const std::string_view> known,
                    std::string otherwise = {});

}  // namespace attnfuse
