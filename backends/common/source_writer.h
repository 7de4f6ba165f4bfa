// SourceWriter: one statement per line, indentation by scope. Generated code is read by people.
#pragma once

#include <string>
#include <string_view>

namespace attnfuse {

class SourceWriter {
 public:
  void line(std::string_view text) {
    text_.append(std::size_t(depth_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void blank() { text_ += '\n'; }
  void comment(std::string_view text) { line("// " + std::string(text)); }
  void raw(std::string_view text) { text_ += text; }  // whole lines of a prelude
  void open(std::string_view text) {
    line(text.empty() ? "{" : std::string(text) + " {");
    ++depth_;
  }
  void close(std::string_view suffix = "") {
    --depth_;
    line("}" + std::string(suffix));
  }
  // A name that no other temporary of this kernel has.
  std::string temporary() { return "t" + std::to_string(temporaries_++); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
  int temporaries_ = 0;
};

}  // namespace attnfuse
