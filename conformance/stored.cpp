#include "conformance/stored.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "conformance/random.h"
#include "ir/storage.h"

namespace attnfuse::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Rows that ragged tensors have before the first sequence and after the last one.
struct Margins {
  std::int64_t before, after;
};
Margins margins(const Case& c) { return {std::int64_t(c.seed % 3), std::int64_t(c.seed / 3 % 2 * 5)}; }

// Where each sequence starts, and where the last one ends.
std::vector<std::int64_t> ends(const Case& c, std::int64_t Lengths::* side) {
  std::vector<std::int64_t> at{margins(c).before};
  for (const Lengths& own : lengths_of(c)) at.push_back(at.back() + own.*side);
  return at;
}
std::int64_t total(const Case& c, std::int64_t Lengths::* side) {
  return ends(c, side).back() + margins(c).after;
}

// The elements of a row, whose last axis is contiguous; the indices lack that one.
void copy_row(const HostTensor& from, std::vector<std::int64_t> at, HostTensor& to,
              std::vector<std::int64_t> index) {
  at.push_back(0);
  index.push_back(0);
  const std::int64_t size = size_in_bytes(from.layout.dtype);
  std::copy_n(from.bytes.begin() + from.layout.offset(at) * size, from.layout.shape.back() * size,
              to.bytes.begin() + to.layout.offset(index) * size);
}

class Storer {
 public:
  Storer(const Graph& graph, const Case& c, Inputs inputs)
      : storage_(graph.info().storage), case_(c), inputs_(std::move(inputs)), lengths_(lengths_of(c)) {}

  Stored run() {
    Stored stored;
    stored.sizes = {case_.batch, case_.sq, case_.skv};
    if (storage_.page_size) to_pages();
    if (storage_.ragged) {
      stored.sizes.total_q = total(case_, &Lengths::q);
      pack(kQueryTensors, &Lengths::q);
      add_table(kQueryEnds, ends(case_, &Lengths::q));
    }
    if (storage_.ragged && !storage_.page_size) {
      stored.sizes.total_k = total(case_, &Lengths::kv);
      pack(kKeyAndValueTensors, &Lengths::kv);
      add_table(kKeyEnds, ends(case_, &Lengths::kv));
    }
    stored.inputs = std::move(inputs_);
    return stored;
  }

 private:
  void replace(const std::string& name, HostTensor tensor, std::int64_t offset) {
    inputs_.tensors[name] = std::move(tensor);
    inputs_.offsets[name] = offset;
  }

  void add_table(std::string_view name, const std::vector<std::int64_t>& values) {
    HostTensor table = HostTensor::zeros(TensorLayout::contiguous(DType::i32, {std::int64_t(values.size())}));
    for (std::int64_t n = 0; n < std::int64_t(values.size()); ++n)
      table.set(std::array{n}, double(values[std::size_t(n)]));
    replace(std::string(name), std::move(table), 0);
  }

  void pack(std::span<const char* const> names, std::int64_t Lengths::* side) {
    for (const char* name : names)
      if (inputs_.tensors.count(name) != 0) pack(std::string(name), side);
  }

  void pack(const std::string& name, std::int64_t Lengths::* side) {
    const HostTensor& from = inputs_.tensors.at(name);
    const std::int64_t heads = from.layout.shape[1];
    const Placement placed =
        place(case_.layout, name, from.layout.dtype, {heads, total(case_, side), from.layout.shape[3]});
    HostTensor to = poisoned_tensor(placed.layout);
    const std::vector<std::int64_t> first = ends(case_, side);
    for (std::int64_t b = 0; b < case_.batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t s = 0; s < lengths_[std::size_t(b)].*side; ++s)
          copy_row(from, {b, h, s}, to, {h, first[std::size_t(b)] + s});
    replace(name, std::move(to), placed.offset);
  }

  // ---- pages --------------------------------------------------------------------------------

  std::int64_t pages_of(std::int64_t b) const {
    const std::int64_t rows = lengths_[std::size_t(b)].kv;
    return (rows + *storage_.page_size - 1) / *storage_.page_size;
  }
  // Its first page is that of the first sequence.
  bool shares(std::int64_t b) const {
    const auto fills = [&](std::int64_t n) { return lengths_[std::size_t(n)].kv >= *storage_.page_size; };
    return case_.pages == Pages::shared && b > 0 && fills(0) && fills(b);
  }

  void to_pages() {
    constexpr std::int64_t kUnused = 2, kUnusedColumns = 1;  // pages; of the table
    std::int64_t count = kUnused, widest = 0;
    for (std::int64_t b = 0; b < case_.batch; ++b) {
      count += pages_of(b);
      widest = std::max(widest, pages_of(b));
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    if (case_.pages != Pages::ordered) {
      Random random(hash_of("pages", case_.seed));
      for (std::size_t n = order.size(); n > 1; --n)
        std::swap(order[n - 1], order[std::size_t(random.below(std::int64_t(n)))]);
    }
    HostTensor table =
        poisoned_tensor(TensorLayout::contiguous(DType::i32, {case_.batch, widest + kUnusedColumns}));
    std::size_t next = 0;
    for (std::int64_t b = 0; b < case_.batch; ++b)
      for (std::int64_t n = 0; n < pages_of(b); ++n) {
        const double page =
            n == 0 && shares(b) ? table.get(std::array<std::int64_t, 2>{0, 0}) : double(order[next++]);
        table.set(std::array{b, n}, page);
      }
    std::vector<std::int64_t> used;
    for (const Lengths& own : lengths_) used.push_back(own.kv);
    for (const char* name : kKeyAndValueTensors)
      if (inputs_.tensors.count(name) != 0) fill_pages(name, count, table);
    replace(std::string(kPageTable), std::move(table), 0);
    add_table(kKeysUsed, used);
  }

  void fill_pages(const std::string& name, std::int64_t count, const HostTensor& table) {
    const HostTensor& from = inputs_.tensors.at(name);
    const std::int64_t heads = from.layout.shape[1], rows = *storage_.page_size;
    const Placement placed =
        place(case_.layout, name, from.layout.dtype, {count, heads, rows, from.layout.shape[3]});
    HostTensor to = poisoned_tensor(placed.layout);
    for (std::int64_t b = 0; b < case_.batch; ++b)
      for (std::int64_t j = shares(b) ? rows : 0; j < lengths_[std::size_t(b)].kv; ++j) {
        const auto page = std::int64_t(table.get(std::array{b, j / rows}));
        for (std::int64_t g = 0; g < heads; ++g) copy_row(from, {b, g, j}, to, {page, g, j % rows});
      }
    replace(name, std::move(to), placed.offset);
  }

  Storage storage_;
  const Case& case_;
  Inputs inputs_;
  std::vector<Lengths> lengths_;
};

// ---- the oracle -----------------------------------------------------------------------------

// The tensors as if all sequences were as long as this one.
HostTensors cut(const Graph& graph, const HostTensors& tensors, const Lengths& own) {
  HostTensors result = tensors;
  for (const TensorInfo& tensor : graph.tensors()) {
    if (tensor.role == TensorRole::constant) continue;
    std::vector<std::int64_t>& shape = result.at(tensor.name).layout.shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (tensor.shape[axis] == Extent{Size::sq}) shape[axis] = own.q;
      if (tensor.shape[axis] == Extent{Size::skv}) shape[axis] = own.kv;
    }
  }
  return result;
}

// Shared pages hold the rows of the first sequence.
HostTensors with_shared_rows(const Graph& graph, const Case& c, HostTensors tensors) {
  const Storage& storage = graph.info().storage;
  if (c.pages != Pages::shared || !storage.page_size) return tensors;
  const std::vector<Lengths> lengths = lengths_of(c);
  for (const char* name : kKeyAndValueTensors) {
    if (tensors.count(name) == 0) continue;
    HostTensor& tensor = tensors.at(name);
    const std::vector<std::int64_t> shape = tensor.layout.shape;
    for (std::int64_t b = 1; b < c.batch; ++b) {
      if (std::min(lengths[0].kv, lengths[std::size_t(b)].kv) < *storage.page_size) continue;
      for (std::int64_t g = 0; g < shape[1]; ++g)
        for (std::int64_t j = 0; j < *storage.page_size; ++j)
          for (std::int64_t d = 0; d < shape[3]; ++d)
            tensor.set(std::array{b, g, j, d}, tensor.get(std::array{std::int64_t(0), g, j, d}));
    }
  }
  return tensors;
}

// `dim` numbers for each row of sequence b, to where they belong among those of all.
void collect(const OutputRows& rows, const ProgramInfo& info, std::int64_t b, std::int64_t length,
             std::int64_t dim, const std::vector<double>& from, std::vector<double>& to) {
  if (from.empty()) return;
  for (std::int64_t h = 0; h < info.heads; ++h)
    for (std::int64_t i = 0; i < length; ++i)
      std::copy_n(from.begin() + ((b * info.heads + h) * length + i) * dim, dim,
                  to.begin() + rows.at(b, h, i) * dim);
}

}  // namespace

OutputRows::OutputRows(const ProgramInfo& info, const Case& c)
    : heads_(info.heads), batch_(c.batch), rows_(c.sq) {
  if (!info.storage.ragged) return;
  first_ = ends(c, &Lengths::q);
  rows_ = total(c, &Lengths::q);
}
std::int64_t OutputRows::at(std::int64_t b, std::int64_t h, std::int64_t i) const {
  return first_.empty() ? (b * heads_ + h) * rows_ + i : h * rows_ + first_[std::size_t(b)] + i;
}
std::int64_t OutputRows::count() const { return heads_ * rows_ * (first_.empty() ? batch_ : 1); }

std::optional<std::string> wrong_lengths(const Graph& graph, const Case& c) {
  const Storage& storage = graph.info().storage;
  if (storage.is_plain())
    return c.lengths.empty() ? std::nullopt
                             : std::optional<std::string>("plain storage has one length for all");
  if (storage.ragged) return std::nullopt;
  for (const Lengths& own : lengths_of(c))
    if (own.q != c.sq) return fmt::format("{} queries where all sequences have {}", own.q, c.sq);
  return std::nullopt;
}

Stored store(const Graph& graph, const Case& c, const Inputs& inputs) {
  if (graph.info().storage.is_plain()) return {inputs, {c.batch, c.sq, c.skv}};
  return Storer(graph, c, inputs).run();
}

Result<Expectation> expect_sequences(const Graph& graph, const Case& c, const Inputs& inputs) {
  const ProgramInfo& info = graph.info();
  const Graph plain = graph.with_storage({});
  const HostTensors tensors = with_shared_rows(graph, c, inputs.tensors);
  const OutputRows rows(info, c);
  const std::vector<Lengths> lengths = lengths_of(c);
  ReferenceOutputs exact{{c.batch, c.sq, c.skv}, {}, {}, {}, {}};
  if (info.storage.ragged) exact.sizes.total_q = total(c, &Lengths::q);
  exact.o.assign(std::size_t(rows.count() * info.v_head_dim), kNan);
  exact.lse.assign(std::size_t(rows.count()), kNan);
  if (plain.output("max_logit").valid()) exact.max_logit = exact.lse;
  if (plain.output("lse2").valid()) exact.lse2 = exact.lse;
  ReferenceOutputs naive = exact;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const HostTensors own = cut(plain, tensors, lengths[std::size_t(b)]);
    for (const auto& [rounding, all] :
         {std::pair{Rounding::none, &exact}, std::pair{Rounding::naive, &naive}}) {
      const auto outputs = reference(plain, own, rounding);
      if (!outputs) return outputs.errors();
      const std::int64_t length = lengths[std::size_t(b)].q;
      collect(rows, info, b, length, info.v_head_dim, outputs->o, all->o);
      collect(rows, info, b, length, 1, outputs->lse, all->lse);
      collect(rows, info, b, length, 1, outputs->max_logit, all->max_logit);
      collect(rows, info, b, length, 1, outputs->lse2, all->lse2);
    }
  }
  return calibrated(graph, std::move(exact), std::move(naive), inputs.value_scale);
}

}  // namespace attnfuse::conformance
