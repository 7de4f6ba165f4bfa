// The page, read by a small reader of its own: is it well formed, and do its numbers add up.
#include "conformance/html.h"

#include <cmath>
#include <limits>
#include <regex>

#include <doctest/doctest.h>

namespace attnfuse::conformance {
namespace {

// What is wrong with the markup: elements that are not closed in order, text or attributes with bare reserved
// characters. Empty if nothing is.
std::string mistakes(const std::string& page) {
  std::vector<std::string> open;
  const std::regex attributes(R"re((\s+[A-Za-z0-9:-]+="[^"<>]*")*)re"), entity("&(amp|lt|gt|quot|#10);");
  for (std::size_t at = 0; at < page.size();) {
    if (page[at] != '<') {
      const std::size_t end = std::min(page.find('<', at), page.size());
      const std::string text = page.substr(at, end - at);
      const bool is_style = !open.empty() && open.back() == "style";
      if (!is_style && std::regex_replace(text, entity, "").find_first_of("&>") != std::string::npos)
        return "bare character in: " + text;
      at = end;
      continue;
    }
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag == "!DOCTYPE html") continue;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closes " + tag;
      open.pop_back();
      continue;
    }
    const bool is_closed = tag.back() == '/';
    if (is_closed) tag.pop_back();
    const std::string name = tag.substr(0, tag.find(' '));
    if (!std::regex_match(tag.substr(name.size()), attributes)) return "attributes of " + tag;
    if (!is_closed) open.push_back(name);
  }
  return open.empty() ? "" : "open: " + open.back();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Outcome outcome(const char* family, const char* dtype, Verdict verdict) {
  Case c;
  c.family = family;
  c.program = std::string("attention t { heads 2 head_dim 16 dtype ") + dtype + " mask i < j && j > 0 }";
  return {.tested = c, .verdict = verdict, .message = "a < b & \"c\" <script>", .worst_ratio = 0.5};
}

Report report() {
  Report made{"a <device>", "spirv:fma", {}, {}};
  for (int n = 0; n < 3; ++n) made.outcomes.push_back(outcome("rope", "f16", Verdict::passed));
  made.outcomes.push_back(outcome("rope", "bf16", Verdict::failed));
  made.outcomes.push_back(outcome("masks", "f32", Verdict::skipped));
  made.outcomes.push_back(outcome("masks", "f32", Verdict::passed));
  made.outcomes[3].worst_ratio = 7;
  made.outcomes[3].maps = {{"o[0,1]: rows x columns", 2, 3, 2, 3, {0, 0.5, 1, 20, 1e9, HUGE_VAL}}};
  MutationOutcome mutation;
  mutation.mutation = &mutations().front();
  mutation.state = MutationOutcome::State::missed;
  mutation.message = "every case <passes>";
  made.mutations = {mutation};
  return made;
}

}  // namespace

TEST_CASE("the page is well formed, whatever programs and messages hold, and needs nothing from elsewhere") {
  const std::string page = html(report());
  CHECK(mistakes(page) == "");
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("mask i &lt; j &amp;&amp; j &gt; 0") != std::string::npos);
  // The namespace of SVG is a name, not an address to fetch.
  const std::string rest = std::regex_replace(page, std::regex("xmlns=\"http://www.w3.org/2000/svg\""), "");
  CHECK(rest.find("http") == std::string::npos);
  CHECK(rest.find("url(") == std::string::npos);
  CHECK(mistakes(html({"device", "target", {}, {}})) == "");
}

TEST_CASE("the counts of the page add up") {
  const std::string page = html(report());
  CHECK(page.find("4 passed, 1 failed, 1 skipped; worst error 7.00 of its budget") != std::string::npos);
  // rope: f16 3, bf16 1 failed, all 3 and 1 failed. masks: f32 and all, 1 and 1 refused.
  CHECK(page.find("<td>rope</td><td class=\"n good\">3</td><td class=\"n bad\">0, 1 failed</td><td "
                  "class=\"n\"></td><td class=\"n bad\">3, 1 failed</td>") != std::string::npos);
  CHECK(count(page, "1, 1 refused") == 2);
  CHECK(count(page, "class=\"failure\"") == 1);
  CHECK(page.find("attnfuse conform --target spirv:fma --case 'rope b=1") != std::string::npos);
  CHECK(page.find("0 of 1 caught") != std::string::npos);
}

TEST_CASE("an error map has a cell for every block, coloured by how far it is from its budget") {
  Report made = report();
  const std::string page = html(made);
  const std::size_t begin = page.find("<figure>"), end = page.find("</figure>");
  const std::string figure = page.substr(begin, end - begin);
  CHECK(count(figure, "<rect") == 6);
  CHECK(count(figure, "#7030a0") == 1);
  CHECK(figure.find("o[0,1]: rows x columns (2 x 3)") != std::string::npos);
}

}  // namespace attnfuse::conformance
