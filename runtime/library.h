// A shared library opened at run time: drivers and assemblers that a machine may lack. Never closed, as
// drivers keep threads of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnfuse {

class Library {
 public:
  // The first of `names` that opens: as the dynamic linker finds it, then in each of `directories`.
  static Library open(const std::vector<std::string>& names,
                      const std::vector<std::string>& directories = {});

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& error() const { return error_; }  // the dynamic linker's words when nothing opened

  // Binds a function pointer; a missing symbol is remembered in missing().
  template <class Function>
  void bind(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
    if (!function) missing_.emplace_back(symbol);
  }
  // Leaves the pointer null where the symbol is missing.
  template <class Function>
  void bind_optional(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void* find(const char* symbol) const;

  void* handle_ = nullptr;
  std::string name_, error_;
  std::vector<std::string> missing_;
};

}  // namespace attnfuse
