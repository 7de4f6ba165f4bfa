#include "frontend/expand.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "frontend/catalog.h"
#include "frontend/functions.h"
#include "frontend/reader.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

constexpr std::string_view kReserved[] = {
    "x",         "b",     "h",     "i",    "j",       "d",      "q",       "k",     "v",    "o",    "lse",
    "attention", "param", "dtype", "grad", "query",   "key",    "value",   "score", "mask", "true", "false",
    "normalize", "g",     "sum",   "in",   "weights", "output", "storage", "q2",    "k2",   "lse2",
};

struct Inputs {
  TensorId query, key, value;
};

Inputs add_tensors(Graph& graph, const Spec& spec) {
  using enum Size;
  const DType dtype = spec.info.dtype;
  const auto input = [&](std::string name, TensorRole role, std::vector<Extent> shape) {
    return graph.add_tensor({std::move(name), dtype, role, std::move(shape), false, {}, spec.info.where});
  };
  Inputs inputs;
  inputs.query = input("q", TensorRole::query, {{batch}, {heads}, {sq}, {head_dim}});
  inputs.key = input("k", TensorRole::key, {{batch}, {kv_heads}, {skv}, {head_dim}});
  inputs.value = input("v", TensorRole::value, {{batch}, {kv_heads}, {skv}, {v_head_dim}});
  if (graph.info().score_heads == 2) {
    input("q2", TensorRole::query, {{batch}, {heads}, {sq}, {head_dim}});
    input("k2", TensorRole::key, {{batch}, {kv_heads}, {skv}, {head_dim}});
  }
  for (const Param& param : spec.params)
    graph.add_tensor(
        {param.name, param.dtype, TensorRole::captured, param.shape, param.grad, {}, param.where});
  return inputs;
}

int score_heads(const Spec& spec) {
  int heads = 1;
  for (const Line& line : spec.lines)
    if (const Block* block = find_block(line.expression.text); block && line.stage == Stage::output)
      heads = std::max(heads, block->score_heads);
  return heads;
}

// Forms that check_storage() complains about do not matter here.
ProgramInfo described(const Spec& spec) {
  ProgramInfo info = spec.info;
  info.score_heads = score_heads(spec);
  for (const StorageForm& form : spec.storage)
    if (form.page_size)
      info.storage.page_size = int(std::clamp<std::int64_t>(*form.page_size, 0, INT32_MAX));
    else
      info.storage.ragged = true;
  return info;
}

class Expansion {
 public:
  explicit Expansion(const Spec& spec)
      : spec_(spec), graph_(described(spec)), inputs_(add_tensors(graph_, spec)) {}

  Result<Graph> run() {
    check_storage();
    check_params();
    check_header();
    if (!errors_.empty()) return std::move(errors_);
    const NodeId query = transformed(Stage::query, inputs_.query);
    const NodeId key = transformed(Stage::key, inputs_.key);
    const NodeId scores = graph_.add(Scores{}, {query, key}, spec_.info.where);
    const Value score = applied(Stage::score, Value(emitter_, scores));
    const Value normal = normalized(score, masked());
    const Value weights = applied(Stage::weights, normal);
    const NodeId value = transformed(Stage::value, inputs_.value);
    if (!errors_.empty()) return std::move(errors_);
    const NodeId attend = graph_.add(Attend{}, {weights.node(emitter_), value}, spec_.info.where);
    const Value output = applied(Stage::output, Value(emitter_, attend));
    if (!errors_.empty()) return std::move(errors_);
    const NodeId lse = graph_.add(LogSumExp{}, {normal.node(emitter_)}, spec_.info.where);
    graph_.add(Output{"o"}, {output.node(emitter_)}, spec_.info.where);
    graph_.add(Output{"lse"}, {lse}, spec_.info.where);
    errors_ = placed(verify(graph_));
    if (!errors_.empty()) return std::move(errors_);
    return std::move(graph_);
  }

 private:
  void check_params() {
    std::set<std::string_view> names;
    for (const Param& param : spec_.params) {
      if (is_reserved_name(param.name))
        errors_.push_back({"param.name",
                           fmt::format("'{}' already has a meaning and cannot name a tensor", param.name),
                           param.where, "choose another name"});
      else if (!names.insert(param.name).second)
        errors_.push_back({"param.name", fmt::format("tensor '{}' is declared twice", param.name),
                           param.where, "choose another name"});
    }
    if (spec_.params.size() > kMaxParams)
      errors_.push_back(
          {"param.count",
           fmt::format("{} tensors are captured; the limit is {}", spec_.params.size(), kMaxParams),
           spec_.info.where, "put several into one tensor with one more dimension"});
    if (spec_.lines.size() > kMaxLines)
      errors_.push_back(
          {"program.too-large",
           fmt::format("the program has {} lines; the limit is {}", spec_.lines.size(), kMaxLines),
           spec_.info.where, "join expressions"});
  }

  void check_storage() {
    const StorageForm* before[2] = {};
    for (const StorageForm& form : spec_.storage) {
      const StorageForm*& same = before[form.page_size ? 1 : 0];
      if (same != nullptr)
        errors_.push_back({"storage.twice",
                           fmt::format("storage is {} twice", form.page_size ? "paged" : "ragged"),
                           form.where, "name each form once"});
      same = &form;
      if (form.page_size && (*form.page_size < 1 || *form.page_size > INT32_MAX))
        errors_.push_back(
            {"storage.page-size",
             fmt::format("page_size is {}; it must lie between 1 and {}", *form.page_size, INT32_MAX),
             form.where, "give the rows of a page of keys, such as 16"});
    }
  }

  // Blocks compute with the sizes, which must be legal before they do: verify() judges them in a program
  // without blocks.
  void check_header() {
    if (!errors_.empty()) return;
    ProgramInfo info = graph_.info();
    info.score_heads = 1;
    Graph bare(info);
    const Inputs inputs = add_tensors(bare, spec_);
    const NodeId scores = bare.add(Scores{}, {bare.add(Input{inputs.query}), bare.add(Input{inputs.key})});
    const NodeId weights =
        bare.add(Normalize{NormalizeKind::softmax}, {scores, bare.constant(1, ValueType::boolean)});
    bare.add(Output{"o"}, {bare.add(Attend{}, {weights, bare.add(Input{inputs.value})})});
    errors_ = placed(verify(bare));
  }

  // verify() knows the program's place; the spec knows that of each header field.
  Diagnostics placed(Diagnostics errors) const {
    for (Diagnostic& error : errors) {
      HeaderField field{};
      if (error.code == "program.heads")
        field = HeaderField::heads;
      else if (error.code == "program.kv-heads")
        field = HeaderField::kv_heads;
      else if (error.code == "program.head-dim")
        field = error.message.starts_with("v_") ? HeaderField::v_head_dim : HeaderField::head_dim;
      else if (error.code == "program.dtype")
        field = HeaderField::dtype;
      else
        continue;
      const Where& place = spec_.places[std::size_t(field)];
      if (place.line > 0) error.where = place;
    }
    return errors;
  }

  // The lines of a stage, each applied to what the one before made. A line with mistakes changes nothing.
  Value applied(Stage stage, Value x) {
    for (const Line& line : spec_.lines) {
      if (line.stage != stage) continue;
      if (const auto next = Reader(emitter_, errors_, stage, x).line(line.expression)) x = *next;
    }
    return x;
  }

  NodeId transformed(Stage stage, TensorId tensor) {
    const Value x(emitter_, graph_.add(Input{tensor}, {}, spec_.info.where));
    return applied(stage, x).node(emitter_);
  }

  // All mask lines hold.
  Value masked() {
    Value mask = Value::constant(1, ValueType::boolean);
    for (const Line& line : spec_.lines) {
      if (line.stage != Stage::mask) continue;
      const auto predicate = Reader(emitter_, errors_, Stage::mask, {}).line(line.expression);
      if (!predicate) continue;
      emitter_.where = line.expression.where;
      mask = mask.is_constant() && mask.constant() != 0 ? *predicate : logical_and(mask, *predicate);
    }
    return mask;
  }

  Value normalized(const Value& score, const Value& mask) {
    static const Expression softmax = make_name("softmax");
    const Line* chosen = nullptr;
    for (const Line& line : spec_.lines) {
      if (line.stage != Stage::normalize) continue;
      if (chosen)
        errors_.push_back({"normalize.twice", "a program normalizes once", line.expression.where,
                           "remove one of the lines"});
      chosen = &line;
    }
    const auto weights =
        Reader(emitter_, errors_, Stage::normalize, score).line(chosen ? chosen->expression : softmax, mask);
    return weights.value_or(score);
  }

  const Spec& spec_;
  Graph graph_;
  Inputs inputs_;
  Emitter emitter_{graph_, {}};
  Diagnostics errors_;
};

}  // namespace

bool is_reserved_name(std::string_view name) {
  if (std::ranges::find(kReserved, name) != std::end(kReserved)) return true;
  for (Size size : kAllSizes)
    if (name == attnfuse::name(size)) return true;
  return find_function(name) != nullptr || find_block(name) != nullptr;
}

Result<Graph> expand(const Spec& spec) { return Expansion(spec).run(); }

}  // namespace attnfuse
