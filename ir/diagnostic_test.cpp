#include "ir/diagnostic.h"

#include <doctest/doctest.h>

namespace attnfuse {
namespace {

TEST_CASE("a diagnostic shows the place, the line, a caret and the fix") {
  const Diagnostic diagnostic{
      "syntax.unexpected-token", "expected a number, found 'x'", {"a.attn", 2, 7, 3}, "write a number"};
  CHECK(render(diagnostic, "first\nheads xyz;\nlast") ==
        "a.attn:2:7: error[syntax.unexpected-token]: expected a number, found 'x'\n"
        "  heads xyz;\n"
        "        ^~~\n"
        "  fix: write a number");
  CHECK(render(diagnostic) ==
        "a.attn:2:7: error[syntax.unexpected-token]: expected a number, found 'x'\n"
        "  fix: write a number");
}

TEST_CASE("unknown places are left out") {
  CHECK(render(Diagnostic{"device.none", "no device", {}, ""}) == "error[device.none]: no device");
  CHECK(render(Diagnostic{"file", "cannot read", {"a.attn", 0, 0, 1}, ""}) ==
        "a.attn: error[file]: cannot read");
  CHECK(render(Diagnostic{"builder", "odd", {"main.cpp", 12, 0, 0}, ""}, "x") ==
        "main.cpp:12: error[builder]: odd");
}

TEST_CASE("the caret stays inside the line, whatever the place claims") {
  const auto shown = [](int line, int column, int length, std::string_view source) {
    return render(Diagnostic{"c", "m", {"f", line, column, length}, ""}, source);
  };
  CHECK(shown(1, 1, 99, "abc") == "f:1:1: error[c]: m\n  abc\n  ^~~");
  CHECK(shown(1, 99, 5, "abc") == "f:1:99: error[c]: m\n  abc\n     ^");
  CHECK(shown(9, 1, 1, "abc") == "f:9:1: error[c]: m");
  CHECK(shown(1, 1, -3, "abc\r\n") == "f:1:1: error[c]: m\n  abc\n  ^");
  CHECK(shown(1, 2, 1, "\tabc") == "f:1:2: error[c]: m\n  \tabc\n  \t^");
  CHECK(shown(1, 4, 1, "\xCE\xB1 x") == "f:1:4: error[c]: m\n  \xCE\xB1 x\n    ^");
}

TEST_CASE("several diagnostics are shown one after the other") {
  CHECK(render(Diagnostics{{"a", "x", {}, ""}, {"b", "y", {}, ""}}) == "error[a]: x\nerror[b]: y");
}

TEST_CASE("a result holds a value or the reasons why not") {
  const Result<int> good = 7;
  CHECK(good.ok());
  CHECK(*good == 7);
  const Result<int> bad = Diagnostic{"a", "x", {}, ""};
  CHECK_FALSE(bad);
  CHECK(bad.errors().size() == 1);
  CHECK_THROWS_AS((void)bad.value(), InternalError);
}

}  // namespace
}  // namespace attnfuse
