#include <doctest/doctest.h>

#include "conformance/run.h"

namespace attnfuse::conformance {
namespace {

Outcome outcome(Verdict verdict, std::string message) {
  Case c;
  c.family = "rope";
  c.program = "attention t { mask i < j && j > 0 }";
  return {c, verdict, std::move(message), 0.5, 0.25};
}

}  // namespace

TEST_CASE("the report counts outcomes by family and escapes what XML reserves") {
  const std::string text =
      junit({outcome(Verdict::passed, ""), outcome(Verdict::failed, "a < b & \"c\"\n\x01"),
             outcome(Verdict::skipped, "no room")},
            "spirv:fma");
  CHECK(text.find("<testsuite name=\"spirv:fma.rope\" tests=\"3\" failures=\"1\" skipped=\"1\">") !=
        std::string::npos);
  CHECK(text.find("<failure message=\"a &lt; b &amp; &quot;c&quot;&#10;?\"/>") != std::string::npos);
  CHECK(text.find("mask i &lt; j &amp;&amp; j &gt; 0") != std::string::npos);
  CHECK(text.find("<skipped message=\"no room\"/>") != std::string::npos);
}

TEST_CASE("the summary counts verdicts and keeps the worst ratio") {
  const Summary summary =
      summarize({outcome(Verdict::passed, ""), outcome(Verdict::failed, "x"), outcome(Verdict::failed, "y")});
  CHECK(to_string(summary) == "1 passed, 2 failed, 0 skipped; worst error 0.50 of its budget");
}

}  // namespace attnfuse::conformance
