#include "conformance/case.h"

#include <doctest/doctest.h>

namespace attnfuse::conformance {
namespace {

const Case kCase{.family = "window",
                 .batch = 2,
                 .sq = 33,
                 .skv = 65,
                 .layout = Layout::odd,
                 .data = Data::poison_masked,
                 .check = Check::same_bits,
                 .seed = 18446744073709551615ULL,
                 .program = "attention t { heads 4 mask i >= j || b == 0 }"};

std::string code_of(std::string_view line) {
  const auto parsed = parse_line(line);
  REQUIRE_FALSE(parsed.ok());
  return parsed.errors().front().code;
}

}  // namespace

TEST_CASE("a case reads back from its line") {
  const auto parsed = parse_line(to_line(kCase));
  REQUIRE(parsed.ok());
  CHECK(*parsed == kCase);
  CHECK(to_line(kCase) ==
        "window b=2 sq=33 skv=65 layout=odd data=poison_masked check=same_bits seed=18446744073709551615 :: "
        "attention t { heads 4 mask i >= j || b == 0 }");
}

TEST_CASE("a forced rotation is in the line, an automatic one is not") {
  for (const RotationInfo& row : rotations()) {
    Case c = kCase;
    c.rotation = row.rotation;
    const auto parsed = parse_line(to_line(c));
    REQUIRE(parsed.ok());
    CHECK(*parsed == c);
    CHECK((to_line(c).find("rotation=") == std::string::npos) == (row.rotation == Rotation::automatic));
  }
}

TEST_CASE("lengths of sequences and the order of pages are in the line where they are given") {
  Case c = kCase;
  set_lengths(c, {{5, 7}, {0, 33}, {12, 0}});
  CHECK(c.batch == 3);
  CHECK(c.sq == 12);
  CHECK(c.skv == 33);
  for (const auto& pages : page_kinds()) {
    c.pages = pages.kind;
    const auto parsed = parse_line(to_line(c));
    REQUIRE(parsed.ok());
    CHECK(*parsed == c);
  }
  CHECK(to_line(c).find(" lengths=5/7,0/33,12/0 ") != std::string::npos);
  CHECK(to_line(kCase).find("lengths") == std::string::npos);
}

TEST_CASE("every layout, data kind and check reads back") {
  for (const auto& layout : layouts())
    for (const auto& data : data_kinds())
      for (const auto& check : checks()) {
        Case c = kCase;
        c.layout = layout.kind;
        c.data = data.kind;
        c.check = check.kind;
        const auto parsed = parse_line(to_line(c));
        REQUIRE(parsed.ok());
        CHECK(*parsed == c);
      }
}

TEST_CASE("fields of a case line may be left out") {
  const auto parsed = parse_line("mine sq=7 :: attention t { }");
  REQUIRE(parsed.ok());
  CHECK(parsed->sq == 7);
  CHECK(parsed->batch == 1);
  CHECK(parsed->layout == Layout::bhsd);
}

TEST_CASE("a broken case line is refused with the word that is wrong") {
  CHECK(code_of("") == "case.syntax");
  CHECK(code_of("window b=2") == "case.syntax");
  CHECK(code_of("window :: ") == "case.syntax");
  CHECK(code_of(" :: attention t { }") == "case.syntax");
  CHECK(code_of("window extra :: attention t { }") == "case.syntax");
  CHECK(code_of("window color=2 :: attention t { }") == "case.syntax");
  CHECK(code_of("window sq=-1 :: attention t { }") == "case.syntax");
  CHECK(code_of("window sq=1x :: attention t { }") == "case.syntax");
  CHECK(code_of("window sq= :: attention t { }") == "case.syntax");
  CHECK(code_of("window sq=99999999999999999999 :: attention t { }") == "case.syntax");
  CHECK(code_of("window layout=diagonal :: attention t { }") == "case.unknown-word");
  CHECK(code_of("window data=none :: attention t { }") == "case.unknown-word");
  CHECK(code_of("window check=hope :: attention t { }") == "case.unknown-word");
  CHECK(code_of("window lengths=5 :: attention t { }") == "case.syntax");
  CHECK(code_of("window lengths=5/7,x/3 :: attention t { }") == "case.syntax");
  CHECK(code_of("window pages=lost :: attention t { }") == "case.unknown-word");
  CHECK(code_of("window rotation=left :: attention t { }") == "case.unknown-word");
}

TEST_CASE("a program in one line has neither line ends nor comments") {
  CHECK(one_line("attention t {  # name\n  heads 2\r\n\theads 3 # last") == "attention t { heads 2 heads 3");
}

}  // namespace attnfuse::conformance
