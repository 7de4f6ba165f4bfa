#include "frontend/cli/command.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "conformance/examples.h"
#include "frontend/parser.h"

namespace attnfuse::cli {

namespace {

std::vector<std::pair<std::string, ScheduleKind>> schedule_names() {
  return {{"automatic", ScheduleKind::automatic},
          {"portable", ScheduleKind::portable},
          {"hopper", ScheduleKind::pipelined}};
}

}  // namespace

std::string schedule_arguments(ScheduleKind kind) {
  if (kind == ScheduleKind::automatic) return "";
  for (const auto& [name, value] : schedule_names())
    if (value == kind) return " --schedule " + name;
  return "";
}

Option schedule_option(ScheduleKind& kind) {
  return {"--schedule", choice(kind, schedule_names()),
          "hopper has roles and a copy engine; a program that a schedule does not take is an error"};
}

Option alignment_option(int& bytes) {
  return {.name = "--alignment",
          .value = &bytes,
          .about = "Bytes that pointers and strides are multiples of",
          .one_of = {2, 4, 8, 16}};
}
namespace {

constexpr std::size_t kMostSpecBytes = 1 << 20;

std::string example_names() {
  std::string names;
  for (const auto& example : conformance::examples())
    names += (names.empty() ? "" : ", ") + std::string(example.name);
  return names;
}

// At most one byte more than a spec may have.
std::string read_some(std::istream& stream) {
  std::string text(kMostSpecBytes + 1, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  text.resize(std::size_t(stream.gcount()));
  return text;
}

Result<std::string> read_spec(const std::string& spec) {
  std::string text;
  if (spec == "-") {
    text = read_some(std::cin);
  } else if (std::ifstream file(spec, std::ios::binary);
             file && file.peek() != std::ifstream::traits_type::eof()) {
    text = read_some(file);
  } else if (const auto* example = conformance::find_example(spec)) {
    text = example->text;
  } else {
    const char* reason = file ? "is empty or not a file" : std::strerror(errno);
    return Diagnostic{"file.read",
                      fmt::format("cannot read '{}': {}", spec, reason),
                      {},
                      "give a file, - for standard input, or an example: " + example_names()};
  }
  if (text.size() > kMostSpecBytes)
    return Diagnostic{"file.too-large",
                      fmt::format("'{}' has more than {} bytes", spec, kMostSpecBytes),
                      {},
                      "a spec is a short text; is this another file?"};
  return text;
}

}  // namespace

std::optional<Spec> load_spec(const std::string& spec) {
  auto text = read_spec(spec);
  if (!text) {
    fail(text.errors());
    return std::nullopt;
  }
  auto graph = parse_one(*text, spec == "-" ? "<stdin>" : spec);
  if (!graph) {
    fail(graph.errors(), *text);
    return std::nullopt;
  }
  return Spec{*text, std::move(graph).value()};
}

Result<Sizes> parse_shape(std::string_view text) {
  constexpr std::int64_t kLimit = std::int64_t(1) << 24;
  const auto wrong = [&](std::string message) {
    return Diagnostic{"shape.syntax", std::move(message), {}, "write for example b=2,sq=1024,skv=1024"};
  };
  Sizes sizes{1, -1, -1};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view field = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) return wrong(fmt::format("'{}' is not name=number", field));
    const std::string_view key = field.substr(0, equals), digits = field.substr(equals + 1);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || stop != digits.data() + digits.size() || value < 0 || value > kLimit)
      return wrong(fmt::format("{} = '{}' is not a number from 0 to {}", key, digits, kLimit));
    if (key == "b")
      sizes.batch = value;
    else if (key == "sq")
      sizes.sq = value;
    else if (key == "skv")
      sizes.skv = value;
    else
      return wrong(fmt::format("'{}' is not b, sq or skv", key));
  }
  if (sizes.sq < 0 && sizes.skv < 0) return wrong("neither sq nor skv is given");
  if (sizes.sq < 0) sizes.sq = sizes.skv;
  if (sizes.skv < 0) sizes.skv = sizes.sq;
  return sizes;
}

int fail(const Diagnostics& diagnostics, std::string_view source) {
  fmt::print(stderr, "{}\n", render(diagnostics, source));
  return kFailed;
}

Status write_file(const std::string& path, std::string_view bytes) {
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  errno = 0;
  std::ofstream file(beside, std::ios::binary);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(beside.c_str());
    return Diagnostic{"file.write",
                      fmt::format("cannot write '{}': {}", path, reason),
                      {},
                      "give a writable place with room"};
  }
  return Unit{};
}

bool print_text(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

}  // namespace attnfuse::cli
